//! Lists of servers and of their tools.

use serde_json::json;
use weftwork::mcp::{McpError, McpServers, OfferedTool, Reached};
use weftwork::types::tool::Effect;
use weftwork_cli_base::CliError;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::{Table, Terminal};

/// The state of a server: its protocol, number of tools and login, or its error.
pub(crate) async fn check_server(servers: &McpServers, server: &str) -> Result<String, McpError> {
    let offer = servers.offer(server).await?;
    let (protocol, _) = servers.facts(server).await?;
    let own = format!("{server}/");
    let allowed = servers.lock().tools().filter(|(name, _)| name.starts_with(&own)).count();
    let refused = match offer.refused.len() {
        0 => String::new(),
        refused => format!(", {refused} refused"),
    };
    let incomplete = if offer.incomplete.is_some() { ", a page of the list failed" } else { "" };
    let login = servers
        .login_state(server)?
        .map(|login| format!(", {}", super::login::describe_login(&login)));
    let login = login.unwrap_or_default();
    let tools = offer.tools.len();
    Ok(format!("protocol {protocol}, {tools} tools{refused}{incomplete}, {allowed} allowed{login}"))
}

pub(super) async fn list_servers(
    servers: &McpServers,
    as_json: bool,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let mut table = Table::new(&["SERVER", "KIND", "REACHED BY", "STATE"]);
    let mut exit = Exit::Done;
    for (name, config) in &servers.file().servers {
        let kind = match &config.reached {
            Reached::Process { .. } => "process",
            Reached::Http { .. } => "http",
        };
        let reached = config.to_string();
        let state = check_server(servers, name).await;
        if state.is_err() {
            exit = Exit::Failed;
        }
        if as_json {
            let mut line = json!({"server": name, "kind": kind, "reached_by": reached});
            match state {
                Ok(state) => line["state"] = json!(state),
                Err(error) => line["error"] = json!(error.fault()),
            }
            terminal.line(line)?;
        } else {
            let state = state.unwrap_or_else(|error| format!("[{}] {error}", error.code()));
            table.row([name.clone(), kind.to_owned(), reached, state]);
        }
    }
    if !as_json {
        table.write(terminal)?;
    }
    Ok(exit)
}

pub(super) async fn list_tools(
    servers: &McpServers,
    only: Option<String>,
    as_json: bool,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let names: Vec<String> = match only {
        Some(server) => vec![server],
        None => servers.file().servers.keys().cloned().collect(),
    };
    let mut table = Table::new(&["TOOL", "STATE", "SERVER SAYS", "DESCRIPTION"]);
    let mut exit = Exit::Done;
    for server in names {
        let offer = match servers.offer(&server).await {
            Ok(offer) => offer,
            Err(error) => {
                exit = Exit::Failed;
                terminal.note(format_args!("[{}] {error}", error.code()));
                continue;
            }
        };
        if let Some(error) = &offer.incomplete {
            exit = Exit::Failed;
            terminal.note(format_args!(
                "[{}] the list of `{server}` is incomplete: {error}",
                error.code()
            ));
        }
        for tool in &offer.tools {
            let state = tool_state(servers, tool);
            if as_json {
                terminal.line(tool_to_json(tool, &state))?;
            } else {
                let about = weftwork_cli_base::terminal::shorten(&tool.description, 60);
                table.row([tool.name.clone(), state, describe_hints(tool).to_owned(), about]);
            }
        }
        for refused in &offer.refused {
            if as_json {
                terminal.line(json!({"tool": refused.name, "refused": refused.reason.fault()}))?;
            } else {
                let reason = match &refused.reason {
                    // The row has the name.
                    McpError::Tool { problem, .. } => problem.clone(),
                    other => other.to_string(),
                };
                table.row([refused.name.clone(), "refused".to_owned(), String::new(), reason]);
            }
        }
    }
    if !as_json {
        table.write(terminal)?;
    }
    Ok(exit)
}

fn tool_to_json(tool: &OfferedTool, state: &str) -> serde_json::Value {
    json!({
        "tool": tool.name, "state": state, "description": tool.description,
        "input_schema": tool.input_schema, "output_schema": tool.output_schema,
        "server_says": {
            "read_only": tool.hints.read_only, "idempotent": tool.hints.idempotent,
        },
    })
}

fn tool_state(servers: &McpServers, tool: &OfferedTool) -> String {
    match servers.lock().get(&tool.name) {
        None => "not allowed".to_owned(),
        Some(allowed) if !allowed.differences(tool).is_empty() => "changed".to_owned(),
        Some(allowed) => {
            let effect = match allowed.effect {
                Effect::ReadOnly => "read_only",
                Effect::StateChange => "state_change",
                Effect::ExternalSideEffect => "external_side_effect",
            };
            format!("allowed, {effect}")
        }
    }
}

fn describe_hints(tool: &OfferedTool) -> &'static str {
    match (tool.hints.read_only, tool.hints.idempotent) {
        (Some(true), _) => "it only reads",
        (_, Some(true)) => "it is idempotent",
        (Some(false), _) => "it changes something",
        _ => "nothing",
    }
}
