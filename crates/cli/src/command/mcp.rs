//! `weft mcp`: MCP servers and their tools.

use crate::args::McpTools;
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;

#[cfg(feature = "mcp")]
mod allow;
#[cfg(feature = "mcp")]
mod call;
#[cfg(feature = "mcp")]
mod list;
#[cfg(feature = "mcp")]
mod login;

#[cfg(feature = "mcp")]
pub(crate) use list::check_server;
#[cfg(feature = "mcp")]
use weftwork::mcp::Terms;

#[cfg(not(feature = "mcp"))]
pub(crate) async fn mcp(_: McpTools, _: &CommandContext) -> Result<Exit, CliError> {
    let needed_by = "the command `weft mcp`".to_owned();
    Err(CliError::App(weftwork::Error::NotBuiltIn { needed_by, feature: "mcp" }))
}

#[cfg(feature = "mcp")]
pub(crate) async fn mcp(command: McpTools, context: &CommandContext) -> Result<Exit, CliError> {
    let Some(mcp) = &context.config.mcp else {
        return Err(CliError::BadInput {
            reason: "no file of MCP servers is set; use --mcp FILE or WEFT_MCP".to_owned(),
        });
    };
    let servers = &mcp.servers;
    let terminal = &context.terminal;
    match command {
        McpTools::Servers { json } => list::list_servers(servers, json, terminal).await,
        McpTools::Login(args) => login::log_in(servers, &args, terminal).await,
        McpTools::Logout { server } => login::log_out(servers, &server, terminal).await,
        McpTools::Tools { server, json } => list::list_tools(servers, server, json, terminal).await,
        McpTools::Allow { tools, effect, idempotent, output, shown, secret } => {
            let terms = Terms { secret, ..allow::terms_of(effect, idempotent, output, shown) };
            allow::allow(servers, &tools, &terms, terminal).await
        }
        McpTools::Deny { tools } => allow::deny(servers, &tools, terminal),
        McpTools::Diff { tools } => allow::diff(servers, &tools, terminal).await,
        McpTools::Call { tool, .. } if tool == "-" => call::call_each(servers, terminal).await,
        McpTools::Call { tool, args } => call::call(servers, &tool, args, terminal).await,
    }
}
