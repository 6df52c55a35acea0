//! A server with graphs for tests of clients:
//! `cargo run --release --example reference_server -- --listen 127.0.0.1:0 --store memory`.
//! `--graphs sdk-suite` hosts those of the integration suite of LangGraph's Python SDK instead of
//! ours, `before` and `now` those of two builds of one program. `--remote http://127.0.0.1:PORT` adds graphs with nodes that run graphs of another server.
//!
//! It has no authentication: it is for tests on one machine.

#![expect(clippy::print_stdout, reason = "the address is for the program that started the server")]

mod agent;
mod changed;
mod clock;
mod desk;
mod fan;
mod graphs;
mod remote;
mod sdk_suite;
mod speech;
mod team;

use mimalloc::MiMalloc;
use std::error::Error;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use weftwork::prelude::*;
use weftwork::runtime::{Recovery, RuntimeBuilder};
use weftwork_server::Server;

/// The allocator of `weft`, so that figures of this server are those of `weft serve`.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Time for active runs to finish their superstep.
const GRACE: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut listen = "127.0.0.1:0".to_owned();
    let mut place = "memory".to_owned();
    let mut names = "clients".to_owned();
    let mut other = None;
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--listen" => listen = value,
            "--store" => place = value,
            "--graphs" => names = value,
            "--remote" => other = Some(value),
            unknown => {
                let known = "--listen, --store, --graphs, --remote";
                return Err(format!("`{unknown}` is not known: {known}").into());
            }
        }
    }
    let mut builder = host(store(&place)?, &names)?;
    if let Some(url) = &other {
        builder = remote::host(builder, url)?;
    }
    let runtime = builder.recovery(Recovery::Automatic).open().await?;
    let listener = TcpListener::bind(&listen).await?;
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() {
        return Err(format!("{address} is not a loopback address").into());
    }
    println!("no authentication: for tests only");
    println!("listening on http://{address}");
    let draining = runtime.clone();
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            stopped = tokio::signal::ctrl_c() => drop(stopped),
        }
        if let Err(error) = draining.shutdown(GRACE).await {
            println!("cannot stop in order: {error}");
        }
    };
    Server::new(runtime).serve(listener, stop).await?;
    Ok(())
}

/// Adds the graphs of a set to a runtime.
fn host(builder: RuntimeBuilder, names: &str) -> Result<RuntimeBuilder, Box<dyn Error>> {
    match names {
        "clients" => {
            let builder = graphs::host(builder)?.graph("agent", agent::agent()?);
            let builder = builder.graph("desk", desk::desk()?).graph("fan", fan::fan()?);
            let builder = builder.graph("pair", team::pair()?).graph("stutter", team::stutter()?);
            Ok(builder.graph("slow_desk", desk::slow_desk()?).graph("clock", clock::clock()?))
        }
        "sdk-suite" => sdk_suite::host(builder),
        "before" => Ok(changed::before(graphs::host(builder)?)?.graph("desk", desk::desk()?)),
        "now" => Ok(changed::now(graphs::host(builder)?)?.graph("desk", desk::desk()?)),
        other => Err(format!("graphs `{other}`: clients, sdk-suite, before or now").into()),
    }
}

fn store(place: &str) -> Result<RuntimeBuilder, Box<dyn Error>> {
    match place.split_once(':') {
        None if place == "memory" => Ok(Runtime::in_memory()),
        Some(("sqlite", file)) => Ok(Runtime::sqlite(file)?),
        Some(("postgres", rest)) if !rest.starts_with("//") => Ok(Runtime::postgres(rest)?),
        Some(("postgres" | "postgresql", _)) => Ok(Runtime::postgres(place)?),
        _ => Err(format!("store `{place}`: memory, sqlite:FILE or postgres:URL").into()),
    }
}
