//! Arguments of `weft serve`.

use clap::Args;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;
use weftwork::egress::AllowedHost;
use weftwork_cli_base::args::parse;
use weftwork_server::HeaderName;

const HELP: &str = "\
Clients of LangGraph connect to the printed URL: langgraph-sdk for Python and JavaScript, RemoteGraph
and useStream. Each agent is an assistant of its name.

Requests need a token, as `authorization: Bearer TOKEN` or `x-api-key: TOKEN`: that of --token,
--token-file or WEFT_SERVE_TOKEN, those of --keys, or a new one that is printed once. Other users of
the machine can read a token on the command line. Requests that name another host than localhost or
--allow-host, or that come from a page of another origin, are refused.

SIGTERM and Ctrl-C stop it: it takes no more runs, lets the active ones finish their superstep, and
exits with status 0. Runs that have not ended go on with the next server or worker of the store.

Examples: weft serve --listen 127.0.0.1:8123 --store sqlite:agents.db
          weft serve --keys keys.txt";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Serve {
    /// Address and port; port 0 selects a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8123")]
    pub(crate) listen: SocketAddr,
    /// Token of requests with all rights, at least 16 characters; without any, a new one is printed
    #[arg(long, value_name = "TOKEN", conflicts_with = "no_auth")]
    pub(crate) token: Option<String>,
    /// File with the token, in place of --token
    #[arg(long, value_name = "FILE", conflicts_with_all = ["token", "no_auth"])]
    pub(crate) token_file: Option<PathBuf>,
    /// File of access keys: tokens with rights, made by `weft keys add`; read again when it changes
    #[arg(long, value_name = "FILE", conflicts_with = "no_auth")]
    pub(crate) keys: Option<PathBuf>,
    /// Accept requests without a token; for loopback addresses only
    #[arg(long)]
    pub(crate) no_auth: bool,
    /// Name of this server in requests, besides localhost; may be repeated
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Header that scripts of other origins may send, besides those of known clients; may be repeated
    #[arg(long, value_name = "HEADER", value_parser = header_name)]
    pub(crate) allow_header: Vec<HeaderName>,
    /// Model that chats may select in place of the usual one; may be repeated
    #[arg(long, value_name = "MODEL")]
    pub(crate) offer_model: Vec<String>,
    /// Address of this server in the cards of agents that are exposed by A2A, if clients reach it by
    /// another one than they name
    #[arg(long, value_name = "URL", value_parser = web_address)]
    pub(crate) a2a_url: Option<String>,
    /// Private key that signs these cards: of Ed25519 or P-256, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) a2a_key: Option<PathBuf>,
    /// Host, or HOST:PORT, that push notifications of A2A may reach although its address is private;
    /// may be repeated
    #[arg(long, value_name = "HOST")]
    pub(crate) a2a_webhook_host: Vec<AllowedHost>,
    /// Maximum number of runs that are executed at a time; further ones wait in the store
    #[arg(long, value_name = "N")]
    pub(crate) concurrency: Option<NonZeroUsize>,
    /// Maximum time for active runs to finish their superstep when the server is stopped
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse::duration)]
    pub(crate) grace: Duration,
}

/// Parses the address of a server.
fn web_address(text: &str) -> Result<String, String> {
    match text.starts_with("https://") || text.starts_with("http://") {
        true => Ok(text.to_owned()),
        false => Err("expected an address such as https://agents.example".to_owned()),
    }
}

/// Parses the name of a header.
fn header_name(text: &str) -> Result<HeaderName, String> {
    let bad = |_| "expected the name of a header, such as x-trace-id".to_owned();
    HeaderName::from_bytes(text.as_bytes()).map_err(bad)
}
