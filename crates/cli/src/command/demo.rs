//! `weft demo`: the whole story, without a keyboard.

use super::chat;
use crate::CliError;
use crate::args::{Chat, Demo};
use crate::demo::Story;
use crate::exit::Exit;
use crate::house::{House, usual_model};
use crate::input::Lines;
use crate::screen::Style;
use std::path::PathBuf;
use weftwork::config::{Origin, Setting, StorePlace};
use weftwork::graph::SystemClock;
use weftwork::types::port::Clock;

pub(crate) async fn demo(args: &Demo, house: &House) -> Result<Exit, CliError> {
    let screen = &house.screen;
    let clock = SystemClock::new();
    let name = format!("{:08x}", clock.unique() & 0xffff_ffff);
    let folder =
        args.dir.clone().unwrap_or_else(|| std::env::temp_dir().join(format!("weft-demo-{name}")));
    std::fs::create_dir_all(&folder).map_err(CliError::Output)?;
    let model = house.config.model.as_ref().map(|setting| setting.value.clone());
    let model = model.unwrap_or_else(|| usual_model().to_owned());
    let store =
        Setting { value: StorePlace::Sqlite(folder.join("weft.db")), origin: Origin::Program };
    let config = weftwork::Config { store, ..house.config.clone() };
    let here = House { config, agents: house.agents.clone(), screen: screen.clone() };
    let story = Story {
        house: &here,
        folder: folder.clone(),
        thread: format!("demo-{name}"),
        model,
        pauses: screen.typed && screen.read && !args.fast,
        clock: &clock,
    };
    let told = Box::pin(story.tell()).await;
    let talked = match &told {
        Ok(()) if screen.typed && screen.read => Box::pin(invite(&story, &here)).await,
        _ => Ok(()),
    };
    if args.dir.is_none() {
        remove(folder)?;
    }
    told.and(talked).map(|()| Exit::Done)
}

/// Lets the person go on with the thread of the story.
async fn invite(story: &Story<'_>, house: &House) -> Result<(), CliError> {
    let screen = &house.screen;
    let ask = screen.paint(Style::Ask, "Type to the desk yourself now? [Y/n]");
    screen.piece(format_args!("\n{ask} "))?;
    let line = Lines::of_process()?.next().await?;
    let yes = line.is_some_and(|line| !line.trim().to_lowercase().starts_with('n'));
    if yes {
        let args = Chat { agent: None, thread: Some(story.thread.clone()) };
        Box::pin(chat::chat(&args, house)).await?;
    }
    Ok(())
}

fn remove(folder: PathBuf) -> Result<(), CliError> {
    std::fs::remove_dir_all(folder).map_err(CliError::Output)
}
