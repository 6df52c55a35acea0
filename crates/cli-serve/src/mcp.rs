//! `weft mcp serve`: the agents as tools for a host of MCP that starts this command.

use super::staying::{Search, drain_app};
use crate::args::McpServe;
use std::pin::pin;
use std::sync::Arc;
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::{CommandContext, default_model};
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::signals::Signals;
use weftwork_mcp_server::{McpServer, serve_lines};
use weftwork_server::Server;

pub async fn mcp_serve(args: &McpServe, context: &CommandContext) -> Result<Exit, CliError> {
    let mut signals = Signals::listen();
    let app = context.open_all(default_model(), args.concurrency).await?;
    let terminal = &context.terminal;
    for problem in app.defined_agents().conflicts() {
        terminal.note(problem);
    }
    let platform = Arc::new(app.platform());
    let mcp = McpServer::new(platform.clone(), Arc::clone(app.runtime().clock()));
    let mcp = if args.all { mcp.all_agents() } else { mcp };
    // Whoever has the standard streams is the local user.
    let server = Server::new(app.runtime().clone()).platform(platform).mount(mcp.routes());
    let server = server.open_to_all().embed();
    let server = server.map_err(|error| CliError::BadInput { reason: error.to_string() })?;
    let lines = serve_lines(server.router(), tokio::io::stdin(), tokio::io::stdout());
    let mut lines = pin!(lines);
    let mut search = Search::new(&app, context);
    let ended = loop {
        tokio::select! {
            biased;
            _ = signals.next() => break Ok(()),
            ended = &mut lines => break ended,
            () = search.due() => drop(search.look().await?),
        }
    };
    drain_app(&app, args.grace, &mut signals, terminal).await?;
    ended.map_err(|error| CliError::Input(error.to_string()))?;
    Ok(Exit::Done)
}
