//! Arguments of `weft mcp`.

use clap::{Args, Subcommand};
use serde_json::{Map, Value};
use weftwork_cli_base::args::parse;
use weftwork_cli_serve::McpServe;

const ALLOW_EXAMPLES: &str = "\
Examples:
  weft mcp allow files/read_file files/list_directory --effect read-only --shown .
  weft mcp allow files/write_file --effect external-side-effect
  weft mcp allow web/search --effect read-only --shown 'hits[].url' --shown total
  weft mcp allow bank/log_in --effect state-change --secret pin";

#[derive(Debug, Subcommand)]
pub(crate) enum Mcp {
    #[command(flatten)]
    Tools(McpTools),
    /// Serve the agents as tools to a host of MCP that starts this command
    Serve(McpServe),
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpTools {
    /// List the servers, and start each to see if it can be used
    Servers {
        /// Print each server as a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Log in at a server with OAuth, in a browser or by a code
    Login(McpLogin),
    /// End the login at a server, and revoke its tokens
    Logout {
        /// Server
        server: String,
    },
    /// List the tools that servers offer, with what is decided about them
    Tools {
        /// Only of this server
        server: Option<String>,
        /// Print each tool as a line of JSON, with its description and schemas
        #[arg(long)]
        json: bool,
    },
    /// Allow tools as they are now, and record that in the lock file
    #[command(after_help = ALLOW_EXAMPLES)]
    Allow {
        /// Tools, as SERVER/TOOL
        #[arg(required = true)]
        tools: Vec<String>,
        /// Effect of a call; the word of the server is not trusted
        #[arg(long, value_name = "EFFECT")]
        effect: EffectName,
        /// A repeated call has no further effect, so that it may be repeated after a crash
        #[arg(long)]
        idempotent: bool,
        /// Check results against the declared schema, or pass them on as they are; by default they
        /// are checked if there is a schema
        #[arg(long, value_name = "KIND")]
        output: Option<OutputName>,
        /// Member of results that may be shown to users, such as `hits[].url`, or `.` for all; may
        /// be repeated. Models read the whole result
        #[arg(long, value_name = "MEMBER")]
        shown: Vec<String>,
        /// Argument that is secret, such as `password`, `auth.token` or `cards[].cvc`, or `.` for
        /// all; may be repeated. Models and the server have it; events, questions and logs do not
        #[arg(long, value_name = "NAME")]
        secret: Vec<String>,
    },
    /// Remove tools from the lock file
    Deny {
        /// Tools, as SERVER/TOOL
        #[arg(required = true)]
        tools: Vec<String>,
    },
    /// Show what servers have changed about allowed tools
    Diff {
        /// Only these tools, as SERVER/TOOL
        tools: Vec<String>,
    },
    /// Call an allowed tool
    Call {
        /// Tool, as SERVER/TOOL; `-` reads calls from the standard input, one a line as JSON
        tool: String,
        /// Arguments as a JSON object
        #[arg(value_name = "JSON", default_value = "{}", value_parser = parse::object)]
        args: Map<String, Value>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct McpLogin {
    /// Server
    pub(crate) server: String,
    /// Type a code on any device, instead of a browser on this machine
    #[arg(long)]
    pub(crate) device: bool,
    /// Scopes to ask for, separated by spaces, instead of those that the server names
    #[arg(long = "scope", value_name = "SCOPES")]
    pub(crate) scopes: Option<String>,
    /// Print the address only
    #[arg(long)]
    pub(crate) no_open: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum EffectName {
    /// It only reads
    ReadOnly,
    /// It changes state that belongs to this program
    StateChange,
    /// It changes something else
    ExternalSideEffect,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum OutputName {
    /// Results satisfy the declared schema
    Schema,
    /// Results are passed on as they are
    Opaque,
}
