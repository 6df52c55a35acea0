//! `weft dev`: the agents as a service for development, which restarts when its files change.

mod changes;
mod definitions;
mod download;
mod log;

use super::serve::{A2aOptions, Hosting, Prepared, ServiceEnd, host_server, page_address};
use crate::args::Dev;
use changes::Changes;
use download::WeightsDownload;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use weftwork::Config;
use weftwork::local::weights::{self, Known};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::{CommandContext, default_model};
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::signals::Signals;
use weftwork_cli_base::terminal::Style;

/// Number of arguments that a restart adds.
const RESTART_ARGS: usize = 3;

pub async fn dev(args: &Dev, context: &CommandContext) -> Result<Exit, CliError> {
    if !args.listen.ip().is_loopback() {
        let reason = format!(
            "weft dev serves the programs of this machine, and {} is not a loopback address; use \
             weft serve",
            args.listen
        );
        return Err(CliError::BadInput { reason });
    }
    // The path is that of the program as it was started: a program that is built again replaces it.
    let program = std::env::current_exe().map_err(|error| CliError::Input(error.to_string()))?;
    let missing = missing_weights(context)?;
    let mut watched = watched_files(args, context);
    watched.extend(missing.as_ref().and_then(|missing| missing.file.clone()));
    let mut changes = Changes::of(&program, watched);
    let terminal = &context.terminal;
    let mut listens = args.listen;
    let hosting = Hosting {
        listen: args.listen,
        usual_model: if missing.is_some() { "scripted" } else { default_model() },
        runs_max: args.concurrency,
        grace: args.grace,
        a2a: A2aOptions { is_open: true, ..A2aOptions::default() },
    };
    let ended = host_server(
        hosting,
        context,
        |Prepared { server, app, address }| {
            listens = address;
            let config = context.config.clone();
            tokio::spawn(definitions::follow_definitions(app.clone(), config, terminal.clone()));
            let mut server = server.log({
                let terminal = terminal.clone();
                move |entry| log::print_entry(&terminal, entry)
            });
            server = server.models([app.model().id()]);
            if let Some(MissingWeights { known, file: Some(_) }) = missing {
                let config = context.config.clone();
                let download = WeightsDownload::new(known, config, terminal.clone());
                server = server.model_download(Arc::new(download));
            }
            if let Some(token) = &args.token {
                let added = server.token(token, app.principal().clone());
                server = added
                    .map_err(|error| CliError::BadInput { reason: format!("--token: {error}") })?;
            }
            if !args.no_open && !args.restarted {
                weftwork_cli_base::browser::open_page(&page_address(&server, address), terminal);
            }
            Ok(server)
        },
        valid_change(&mut changes, context),
    )
    .await;
    let changed = match ended {
        Ok(ServiceEnd::Signalled) => return Ok(Exit::Done),
        Ok(ServiceEnd::Stopped(changed)) => changed,
        // The program that was built is wrong, and the next one may be right.
        Err(error) if args.restarted => {
            terminal.note(format_args!("{}: {error}", terminal.paint_error(Style::Bad, "error")));
            terminal.note("waiting for a change");
            let mut signals = Signals::listen();
            tokio::select! {
                biased;
                _ = signals.next() => return Ok(Exit::Done),
                changed = valid_change(&mut changes, context) => changed,
            }
        }
        Err(error) => return Err(error),
    };
    terminal.note(format_args!("{} changed: restarting", changed.display()));
    if let Some(mcp) = &context.config.mcp {
        mcp.shutdown().await;
    }
    Err(restart_program(&program, args, listens))
}

/// The weights of the embedded model, which are not installed.
#[derive(Debug, Clone)]
struct MissingWeights {
    known: &'static Known,
    /// Path that they get; `None` without a folder for them.
    file: Option<PathBuf>,
}

/// Returns the weights of the embedded model if no model is configured and they are not installed. The
/// agents then answer with the scripted model, which no other command but the demo chooses by itself,
/// and the server restarts when the weights are there.
fn missing_weights(context: &CommandContext) -> Result<Option<MissingWeights>, CliError> {
    let known = weights::find(weights::DEFAULT)?;
    let weights = context.config.weights();
    let file = weights.file(known).ok();
    let installed = file.as_ref().is_some_and(|file| file.is_file());
    if context.config.model.is_some() || weights.named().is_some() || installed {
        return Ok(None);
    }
    context.terminal.note(
        "no model is configured, and the weights of the embedded one are not installed: the agents \
         answer with the scripted model, which follows fixed rules; set --model or WEFT_MODEL, or \
         install the weights in the page or with weft models pull",
    );
    Ok(Some(MissingWeights { known, file }))
}

/// The files that the command reads, or would read if they existed.
fn watched_files(args: &Dev, context: &CommandContext) -> Vec<PathBuf> {
    let config = &context.config;
    let mut files = args.watch.clone();
    files.extend(config.file.clone());
    let local = PathBuf::from(weftwork::config::LOCAL_FILE);
    if !config.file.as_ref().is_some_and(|file| file.ends_with(&local)) {
        files.push(local);
    }
    files.extend(config.rules.iter().map(|rules| rules.file.value.clone()));
    if let Some(mcp) = &config.mcp {
        files.push(mcp.file.value.clone());
        files.push(mcp.file.value.with_extension("lock"));
    }
    files
}

/// Waits for a change after which the configuration is valid, and reports invalid ones.
async fn valid_change(changes: &mut Changes, context: &CommandContext) -> PathBuf {
    loop {
        let changed = changes.next().await;
        match Config::with_flags(&context.flags) {
            Ok(_) => return changed,
            Err(error) => context.terminal.note(format_args!(
                "{} changed, and the server stays as it is: {error}",
                changed.display()
            )),
        }
    }
}

/// Replaces this process by a new one of the program, which listens on the same address. Returns only
/// with an error.
fn restart_program(program: &Path, args: &Dev, listens: SocketAddr) -> CliError {
    let mut before: Vec<OsString> = std::env::args_os().skip(1).collect();
    if args.restarted {
        before.truncate(before.len().saturating_sub(RESTART_ARGS));
    }
    let mut command = Command::new(program);
    command.args(before).arg("--restarted").arg("--listen").arg(listens.to_string());
    #[cfg(unix)]
    let error = std::os::unix::process::CommandExt::exec(&mut command);
    #[cfg(not(unix))]
    let error = std::io::Error::from(std::io::ErrorKind::Unsupported);
    CliError::BadInput { reason: format!("cannot start {}: {error}", program.display()) }
}
