//! The commands, one file per command.

mod agents;
mod chat;
mod completions;
mod conversations;
mod definitions;
mod demo;
mod doctor;
mod explain;
mod graph;
mod mcp;
mod models;
mod orchestrations;
mod run;
mod schema;

use crate::args::{Command, Mcp};
use weftwork::graph::RuntimeError;
use weftwork::store::StoreError;
use weftwork::types::ThreadId;
use weftwork::types::task::Mode;
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::shell;
use weftwork_cli_base::states::with_orphans;
use weftwork_cli_base::terminal::Terminal;

/// The result of [`without_settings`].
pub(crate) enum Next {
    /// The command was executed.
    Done(Exit),
    /// The command needs the configuration.
    NeedsSettings(Box<Command>),
}

/// Executes a command if it needs no configuration.
pub(crate) fn without_settings(
    command: Command,
    store: Option<&str>,
    terminal: &Terminal,
) -> Result<Next, CliError> {
    match command {
        Command::Explain(args) => explain::explain(&args, terminal).map(Next::Done),
        Command::Completions(args) => completions::completions(&args, terminal).map(Next::Done),
        Command::Schema(command) => schema::schema(&command, terminal).map(Next::Done),
        Command::Keys(command) => weftwork_cli_serve::keys(&command, terminal).map(Next::Done),
        Command::Conformance(args) => weftwork_cli_store::conformance(&args, store).map(Next::Done),
        other => Ok(Next::NeedsSettings(Box::new(other))),
    }
}

/// Executes a command. If a run of a dead process is in its way, prints how to continue that run.
pub(crate) async fn run(command: Command, context: &CommandContext) -> Result<Exit, CliError> {
    let done = execute(command, context).await;
    if let Err(CliError::App(error)) = &done
        && let Some(StoreError::Busy { thread, run }) = store_error(error)
        && let Ok(thread) = ThreadId::new(thread)
        && let Ok(store) = context.store_there()
        && with_orphans(store.as_ref()).await.is_ok_and(|left| left.contains(&thread))
    {
        let weft = &context.terminal.weft;
        let thread = shell::quote_thread(&thread);
        context.terminal.note(format_args!(
            "no process executes run {run}; continue it with: {weft} threads resume {thread}"
        ));
    }
    done
}

fn store_error(error: &weftwork::Error) -> Option<&StoreError> {
    match error {
        weftwork::Error::Store(error) | weftwork::Error::Runtime(RuntimeError::Store(error)) => {
            Some(error)
        }
        _ => None,
    }
}

async fn execute(command: Command, context: &CommandContext) -> Result<Exit, CliError> {
    match command {
        Command::Chat(args) => Box::pin(chat::chat(&args, context)).await,
        Command::Run(args) => Box::pin(run::run(&args, context)).await,
        Command::Threads(command) => Box::pin(weftwork_cli_store::threads(command, context)).await,
        Command::Runs(command) => Box::pin(weftwork_cli_store::runs(command, context)).await,
        Command::Instances(command) => {
            Box::pin(weftwork_cli_store::instances(command, context)).await
        }
        Command::Serve(args) => Box::pin(weftwork_cli_serve::serve(&args, context)).await,
        Command::Dev(args) => Box::pin(weftwork_cli_serve::dev(&args, context)).await,
        Command::Approvals(command) => {
            Box::pin(weftwork_cli_store::approvals(command, context)).await
        }
        Command::Usage(args) => Box::pin(weftwork_cli_store::usage(args, context)).await,
        Command::Artifacts(command) => {
            Box::pin(weftwork_cli_store::artifacts(command, context)).await
        }
        Command::Mcp(Mcp::Serve(args)) => {
            Box::pin(weftwork_cli_serve::mcp_serve(&args, context)).await
        }
        Command::Mcp(Mcp::Tools(command)) => Box::pin(mcp::mcp(command, context)).await,
        Command::Worker(args) => Box::pin(weftwork_cli_serve::worker(&args, context)).await,
        Command::Store(command) => Box::pin(weftwork_cli_store::store(&command, context)).await,
        Command::Models(command) => Box::pin(models::models(command, context)).await,
        Command::Doctor(args) => Box::pin(doctor::doctor(&args, context)).await,
        Command::Agents(command) => Box::pin(agents::agents(&command, context)).await,
        Command::Conversations(command) => {
            Box::pin(conversations::conversations(command, context)).await
        }
        Command::Orchestrations(command) => {
            Box::pin(orchestrations::orchestrations(command, context)).await
        }
        Command::Tasks { conversation } => {
            Box::pin(conversations::tasks(&conversation, context)).await
        }
        Command::Plans(command) => {
            Box::pin(conversations::records(Mode::Plan, command, context)).await
        }
        Command::Deliverables(command) => {
            Box::pin(conversations::records(Mode::Build, command, context)).await
        }
        Command::Graph(command) => Box::pin(graph::graph(&command, context)).await,
        Command::Demo(args) => Box::pin(demo::demo(&args, context)).await,
        Command::Explain(args) => explain::explain(&args, &context.terminal),
        Command::Completions(args) => completions::completions(&args, &context.terminal),
        Command::Schema(command) => schema::schema(&command, &context.terminal),
        Command::Keys(command) => weftwork_cli_serve::keys(&command, &context.terminal),
        Command::Conformance(args) => weftwork_cli_store::conformance(&args, None),
    }
}
