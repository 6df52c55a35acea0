//! `weft serve`: the agents as a service for clients of LangGraph.

use super::staying::{Search, drain};
use crate::CliError;
use crate::args::Serve;
use crate::context::CommandContext;
use crate::exit::Exit;
use crate::input::Interrupts;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use weftwork::AgentDef;
use weftwork_server::Server;

/// Time limit for open connections after the runs were drained.
const CONNECTIONS: Duration = Duration::from_secs(1);

pub(crate) async fn serve(args: &Serve, context: &CommandContext) -> Result<Exit, CliError> {
    if args.no_auth && !args.listen.ip().is_loopback() {
        let reason = format!(
            "without authentication the server listens on loopback addresses only, and {} is not \
             one; leave out --no-auth",
            args.listen
        );
        return Err(CliError::BadInput { reason });
    }
    let mut signals = Interrupts::listen_with_terminate()?;
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener.and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (address, listener) = listener.map_err(|error| CliError::BadInput {
        reason: format!("cannot listen on {}: {error}; choose another port", args.listen),
    })?;
    let app = context.open_all(args.concurrency).await?;
    let terminal = &context.terminal;
    let agents: Vec<_> = app.agents().iter().map(AgentDef::name).collect();
    terminal.note(format_args!(
        "threads in {}; model {}; assistants: {}",
        context.config.store.value,
        app.model().id(),
        agents.join(", ")
    ));
    if !context.lasting {
        terminal.note("threads are lost when the server stops; keep them with --store FILE");
    }
    let mut server = Server::new(app.runtime().clone());
    for host in &args.allow_host {
        server = server.allow_host(host);
    }
    if !args.no_auth {
        let token = args.token.clone().unwrap_or_else(weftwork_server::new_token);
        server = server
            .token(&token, app.principal().clone())
            .map_err(|error| CliError::BadInput { reason: format!("--token: {error}") })?;
        if args.token.is_none() {
            terminal.line(format_args!("token {token}"))?;
        }
    }
    terminal.line(format_args!("listening on http://{address}"))?;
    #[cfg(feature = "ui")]
    note_page(&server, address, terminal);
    let (stop, stopped) = oneshot::channel::<()>();
    let server = server.serve(listener, async {
        // The sender is dropped only when the command ends.
        stopped.await.unwrap_or_default();
    });
    let mut server = tokio::spawn(server);
    let mut search = Search::new(&app, terminal);
    loop {
        tokio::select! {
            biased;
            () = signals.next() => break,
            ended = &mut server => {
                let reason = match ended {
                    Ok(Err(error)) => error.to_string(),
                    Ok(Ok(())) | Err(_) => "it ended".to_owned(),
                };
                return Err(CliError::BadInput { reason: format!("the server failed: {reason}") });
            }
            // The runs are executed whether or not their handles exist.
            () = search.due() => drop(search.look().await),
        }
    }
    terminal.note("draining: active runs finish their superstep; signal again to exit at once");
    drain(&app, args.grace, &mut signals, terminal).await?;
    drop(stop);
    // Streams of runs that go on elsewhere are cut; clients connect again.
    drop(tokio::time::timeout(CONNECTIONS, server).await);
    terminal.note("stopped");
    Ok(Exit::Done)
}

/// Prints the address of the page, with a ticket that opens it once in place of the token.
#[cfg(feature = "ui")]
fn note_page(server: &Server, address: std::net::SocketAddr, terminal: &crate::terminal::Terminal) {
    let ticket = server.ticket().map(|ticket| format!("#ticket={ticket}")).unwrap_or_default();
    terminal.note(format_args!("page: http://{address}/ui/{ticket}"));
}
