//! `weft demo`: runs the demo non-interactively.

use super::{chat, models};
use crate::args::{Chat, Demo, ServerFlags};
use crate::demo::Story;
use std::path::PathBuf;
use weftwork::config::StorePlace;
use weftwork::graph::SystemClock;
use weftwork::local::{cpu, weights};
use weftwork::types::port::Clock;
use weftwork_cli_base::CliError;
use weftwork_cli_base::args::{Busy, Keeping, LimitFlags};
use weftwork_cli_base::context::{CommandContext, default_model};
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::input::one_line;
use weftwork_cli_base::terminal::{Style, to_plain};

pub(crate) async fn demo(args: &Demo, context: &CommandContext) -> Result<Exit, CliError> {
    let terminal = &context.terminal;
    let clock = SystemClock::new();
    let name = format!("{:08x}", clock.unique() & 0xffff_ffff);
    let folder = match &args.dir {
        Some(folder) => std::fs::create_dir_all(folder).map(|()| folder.clone()),
        None => new_folder(std::env::temp_dir().join(format!("weft-demo-{name}"))),
    };
    let folder = folder.map_err(CliError::Output)?;
    let model = choose_model(context).await?;
    let here = context.moved(StorePlace::Sqlite(folder.join("weft.db")), args.dir.is_some());
    let mark = match model.split(':').next() {
        Some("scripted") => "[scripted model] ",
        Some("replay") => "[replay] ",
        _ => "",
    };
    let story = Story {
        mark: mark.to_owned(),
        context: &here,
        folder: folder.clone(),
        thread: format!("demo-{name}"),
        model,
        pauses: terminal.typed && terminal.read && !args.fast,
        clock: &clock,
    };
    let played = Box::pin(story.play()).await;
    let talked = match &played {
        Ok(()) if terminal.typed && terminal.read => Box::pin(invite_to_chat(&story, &here)).await,
        _ => Ok(()),
    };
    if args.dir.is_none() {
        remove_folder(folder)?;
    }
    played.and(talked).map(|()| Exit::Done)
}

/// Chooses the configured model, else the embedded one, else, if its weights cannot be installed,
/// the scripted model, which marks each line of output.
async fn choose_model(context: &CommandContext) -> Result<String, CliError> {
    if let Some(setting) = &context.config.model {
        return Ok(setting.value.clone());
    }
    let known = weights::find(weights::DEFAULT)?;
    let weights = context.config.weights();
    let there = weights.named().is_some() || weights.file(known).is_ok_and(|file| file.is_file());
    let got = match cpu::check() {
        Ok(()) if there => Ok(()),
        Ok(()) => models::pull_weights(known, context).await.map(drop),
        Err(error) => Err(error.into()),
    };
    let Err(error) = got else { return Ok(default_model().to_owned()) };
    let fault = error.fault();
    context.terminal.note(format_args!("{}: {}", fault.code, to_plain(&fault.message)));
    context
        .terminal
        .note("The embedded model is not available; the scripted model is used instead.");
    Ok("scripted".to_owned())
}

/// Offers a chat on the thread of the demo.
async fn invite_to_chat(story: &Story<'_>, context: &CommandContext) -> Result<(), CliError> {
    let terminal = &context.terminal;
    let ask = terminal.paint(Style::Ask, "Chat with the desk now? [Y/n]");
    terminal.piece(format_args!("\n{ask} "))?;
    let line = one_line()?;
    // At the end of input the line is empty; an empty line of a user has a line break.
    if !line.is_empty() && !line.trim().to_lowercase().starts_with('n') {
        let args = Chat {
            agent: None,
            thread: Some(story.thread.clone()),
            server: ServerFlags::default(),
            keeping: Keeping::default(),
            busy: Busy::default(),
            limits: LimitFlags::default(),
        };
        Box::pin(chat::chat(&args, context)).await?;
    }
    Ok(())
}

/// Creates a folder that must not exist, accessible by its owner only.
fn new_folder(folder: PathBuf) -> std::io::Result<PathBuf> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&folder)?;
    Ok(folder)
}

fn remove_folder(folder: PathBuf) -> Result<(), CliError> {
    std::fs::remove_dir_all(folder).map_err(CliError::Output)
}
