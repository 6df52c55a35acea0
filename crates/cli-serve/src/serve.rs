//! `weft serve`: the agents as a service for clients of LangGraph.

mod a2a;
mod files;
mod token;

pub(super) use a2a::A2aOptions;

use super::staying::{Search, drain_app};
use crate::args::Serve;
use futures_util::FutureExt;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use token::GivenToken;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use weftwork::models::Capability;
use weftwork::{AgentDef, App};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::{CommandContext, default_model};
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::signals::Signals;
use weftwork_mcp_server::McpServer;
use weftwork_server::{CONNECTIONS_MAX, KeyFile, Server};

/// Time limit for open connections after the runs were drained.
const CONNECTIONS: Duration = Duration::from_secs(1);

pub async fn serve(args: &Serve, context: &CommandContext) -> Result<Exit, CliError> {
    if args.no_auth && !args.listen.ip().is_loopback() {
        let reason = format!(
            "without authentication the server listens on loopback addresses only, and {} is not \
             one; leave out --no-auth",
            args.listen
        );
        return Err(CliError::BadInput { reason });
    }
    let given = token::given_token(args)?;
    let files = files::raise_limit();
    let hosting = Hosting {
        listen: args.listen,
        usual_model: default_model(),
        runs_max: args.concurrency,
        grace: args.grace,
        a2a: A2aOptions {
            url: args.a2a_url.clone(),
            key: args.a2a_key.as_deref().map(a2a::read_key).transpose()?,
            webhook_hosts: args.a2a_webhook_host.clone(),
            is_open: args.no_auth,
        },
    };
    let prepare = |Prepared { mut server, app, .. }: Prepared<'_>| {
        for host in &args.allow_host {
            server = server.allow_host(host);
        }
        for header in &args.allow_header {
            server = server.allow_header(header.clone());
        }
        let own = app.model().id();
        // A model that cannot be opened is reported at the start.
        let mut without_images = Vec::new();
        for id in &args.offer_model {
            app.with_model(id)?;
            if context.config.open_model(id)?.lacks().contains(&Capability::Images) {
                without_images.push(id.clone());
            }
        }
        let others = args.offer_model.iter().filter(|id| **id != own).cloned();
        server = server.models([own.clone()].into_iter().chain(others));
        server = server.models_without_images(without_images);
        if let Some(files) = files
            && let connections = files::connections_max(files)
            && connections < CONNECTIONS_MAX
        {
            context.terminal.note(format_args!(
                "{connections} connections are served at a time, because at most {files} files can be \
                 open; raise the limit with `ulimit -n`"
            ));
            server = server.connections_max(connections);
        }
        if args.no_auth {
            return Ok(server);
        }
        if let Some(keys) = &args.keys {
            let bad = |error| CliError::BadInput { reason: format!("--keys: {error}") };
            server = server.keys(KeyFile::new(keys)).map_err(bad)?;
        }
        let generated = given.is_none() && args.keys.is_none();
        let given = given.or_else(|| {
            let token = weftwork_server::new_token();
            generated.then_some(GivenToken { token, setting: "--token" })
        });
        if let Some(GivenToken { token, setting }) = given {
            let bad = |error| CliError::BadInput { reason: format!("{setting}: {error}") };
            server = server.token(&token, app.principal().clone()).map_err(bad)?;
            if generated {
                context.terminal.line(format_args!("token {token}"))?;
            }
        }
        Ok(server)
    };
    match host_server(hosting, context, prepare, std::future::pending()).await? {
        ServiceEnd::Signalled | ServiceEnd::Stopped(()) => Ok(Exit::Done),
    }
}

/// Address, model and limits of a service.
pub(super) struct Hosting {
    pub(super) listen: SocketAddr,
    /// Model of a configuration that names none.
    pub(super) usual_model: &'static str,
    /// Maximum number of runs that are executed at a time.
    pub(super) runs_max: Option<NonZeroUsize>,
    /// Maximum time for active runs to finish their superstep at the end.
    pub(super) grace: Duration,
    /// Agents that are exposed by A2A.
    pub(super) a2a: A2aOptions,
}

/// A server before it accepts requests.
pub(super) struct Prepared<'a> {
    pub(super) server: Server,
    pub(super) app: &'a App,
    /// Address on which it listens.
    pub(super) address: SocketAddr,
}

/// The reason why a service ended.
pub(super) enum ServiceEnd<T> {
    Signalled,
    /// `stop` completed.
    Stopped(T),
}

/// Serves the agents until a signal, or until `stop` completes, and then drains the runs.
pub(super) async fn host_server<T>(
    hosting: Hosting,
    context: &CommandContext,
    prepare: impl FnOnce(Prepared<'_>) -> Result<Server, CliError>,
    stop: impl Future<Output = T>,
) -> Result<ServiceEnd<T>, CliError> {
    Box::pin(host_until(hosting, context, prepare, stop)).await.map_err(CliError::of_unfinished)
}

async fn host_until<T>(
    hosting: Hosting,
    context: &CommandContext,
    prepare: impl FnOnce(Prepared<'_>) -> Result<Server, CliError>,
    stop: impl Future<Output = T>,
) -> Result<ServiceEnd<T>, CliError> {
    let mut signals = Signals::listen();
    let listener = TcpListener::bind(hosting.listen).await;
    let listener = listener.and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (address, listener) = listener.map_err(|error| CliError::BadInput {
        reason: format!("cannot listen on {}: {error}; choose another port", hosting.listen),
    })?;
    let app = context.open_all(hosting.usual_model, hosting.runs_max).await?;
    let terminal = &context.terminal;
    let agents: Vec<_> = app.agents().iter().map(AgentDef::name).collect();
    terminal.note(format_args!(
        "threads in {}; model {}; assistants: {}",
        context.config.store.value,
        app.model().id(),
        agents.join(", ")
    ));
    if !context.lasting {
        terminal.note("threads are lost when the server stops; keep them with --store sqlite:FILE");
    }
    for problem in app.defined_agents().conflicts() {
        terminal.note(problem);
    }
    let described = app.agents().iter().filter(|agent| !agent.description().is_empty());
    let server = Server::new(app.runtime().clone()).platform(Arc::new(app.platform()));
    let a2a = hosting.a2a.open(&app, context)?;
    let server = a2a.routes().into_iter().fold(server, Server::mount);
    let server = server.mount(weftwork_openai::routes());
    let server = server.mount(weftwork_agui::routes());
    let mcp = McpServer::new(Arc::new(app.platform()), Arc::clone(app.runtime().clock()));
    let server = server.mount(mcp.routes());
    let server =
        described.fold(server, |server, agent| server.describe(agent.id(), agent.description()));
    let server = prepare(Prepared { server, app: &app, address })?;
    terminal.line(format_args!("listening on http://{address}"))?;
    terminal.note(format_args!("page: {}", page_address(&server, address)));
    let (close, closed) = oneshot::channel::<()>();
    let server = server.serve(listener, async {
        // The sender is dropped only when the command ends.
        closed.await.unwrap_or_default();
    });
    let mut server = tokio::spawn(server);
    let mut deliveries = pin!(a2a.deliveries().run());
    let mut search = Search::new(&app, context);
    let mut stop = pin!(stop);
    let ended = loop {
        tokio::select! {
            biased;
            _ = signals.next() => break ServiceEnd::Signalled,
            stopped = &mut stop => break ServiceEnd::Stopped(stopped),
            ended = &mut server => {
                let reason = match ended {
                    Ok(Err(error)) => error.to_string(),
                    Ok(Ok(())) | Err(_) => "it ended".to_owned(),
                };
                return Err(CliError::BadInput { reason: format!("the server failed: {reason}") });
            }
            () = &mut deliveries => {}
            // The runs are executed whether or not their handles exist.
            () = search.due() => drop(search.look().await?),
        }
    };
    let again = if matches!(ended, ServiceEnd::Signalled) { " again" } else { "" };
    terminal.note(format_args!(
        "draining: active runs finish their superstep; signal{again} to exit at once"
    ));
    drain_app(&app, hosting.grace, &mut signals, terminal).await?;
    drop(close);
    // Streams of runs that continue in other processes are cut; clients connect again.
    drop(tokio::time::timeout(CONNECTIONS, server).await);
    terminal.note("stopped");
    match signals.next().now_or_never() {
        Some(_) => Ok(ServiceEnd::Signalled),
        None => Ok(ended),
    }
}

/// Returns the address of the page, with a ticket that opens it once in place of the token.
#[cfg(feature = "ui")]
pub(super) fn page_address(server: &Server, address: SocketAddr) -> String {
    let ticket = server.ticket().map(|ticket| format!("#ticket={ticket}")).unwrap_or_default();
    format!("http://{address}/ui/{ticket}")
}

/// Returns the address of the page with the routes.
#[cfg(not(feature = "ui"))]
pub(super) fn page_address(_: &Server, address: SocketAddr) -> String {
    format!("http://{address}/docs")
}
