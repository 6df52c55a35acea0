//! Calls of tools by hand.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::io::BufRead;
use std::sync::Arc;
use weftwork::graph::SystemClock;
use weftwork::mcp::{McpError, McpServers};
use weftwork::tools::{Executed, Policy, Prepared, ToolBox, ToolRunner};
use weftwork::types::ToolCallId;
use weftwork::types::caller::Caller;
use weftwork::types::message::{ToolCall, content_text};
use weftwork::types::port::CallContext;
use weftwork::types::tool::ToolOutcome;
use weftwork_cli_base::CliError;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::Terminal;

/// Maximum size of a result, in bytes. A message of a server is smaller.
const RESULT_BYTES_MAX: usize = 64 << 20;

/// Calls an allowed tool through the same runner as agents do, and prints the whole result.
pub(super) async fn call(
    servers: &McpServers,
    tool: &str,
    args: Map<String, Value>,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let runner = runner_of(servers, &[tool])?;
    match outcome(servers, &runner, tool, args).await? {
        Outcome::Value(value) => {
            match value {
                Value::String(text) => {
                    terminal.line(weftwork_cli_base::terminal::to_plain(&text))?
                }
                value => match content_text(&value, "not shown") {
                    Some(text) => terminal.line(weftwork_cli_base::terminal::to_plain(&text))?,
                    None => terminal.line(format_args!("{value:#}"))?,
                },
            }
            Ok(Exit::Done)
        }
        Outcome::Failed { code, message } => {
            terminal.note(format_args!("error[{code}]: {message}"));
            Ok(Exit::Failed)
        }
        Outcome::Unfinished { message } => {
            terminal.note(message);
            Ok(Exit::Failed)
        }
    }
}

/// The form of a line of the standard input.
const EXPECTED: &str = r#"{"tool": "SERVER/TOOL", "args": {}}"#;

/// A line of the standard input of `weft mcp call -`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    tool: String,
    #[serde(default)]
    args: Map<String, Value>,
}

/// Makes the calls that the standard input has, one a line as JSON, one after the other in one session
/// a server. Prints a line of JSON for each; one that fails does not end the others.
pub(super) async fn call_each(servers: &McpServers, terminal: &Terminal) -> Result<Exit, CliError> {
    let allowed: Vec<&str> = servers.lock().tools().map(|(tool, _)| tool).collect();
    let runner = runner_of(servers, &allowed)?;
    let mut exit = Exit::Done;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| CliError::Input(error.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        let (tool, outcome) = match serde_json::from_str::<Line>(&line) {
            Ok(Line { tool, args }) => {
                let outcome = outcome(servers, &runner, &tool, args).await;
                (Some(tool), outcome)
            }
            Err(error) => (None, Err(bad_input(format_args!("expected {EXPECTED}: {error}")))),
        };
        let mut made = match outcome {
            Ok(Outcome::Value(value)) => json!({"value": value}),
            Ok(Outcome::Failed { code, message }) => {
                json!({"error": {"code": code, "message": message}})
            }
            Ok(Outcome::Unfinished { message }) => json!({"error": {"message": message}}),
            Err(error) => json!({"error": error.fault()}),
        };
        made["tool"] = json!(tool);
        if made.get("error").is_some() {
            exit = Exit::Failed;
        }
        terminal.line(made)?;
    }
    Ok(exit)
}

/// The end of a call.
enum Outcome {
    Value(Value),
    /// A failure, as the model would read it.
    Failed {
        code: String,
        message: String,
    },
    /// A call that asks a person, or whose outcome is unknown.
    Unfinished {
        message: String,
    },
}

/// A runner for the allowed ones among the tools of the servers.
fn runner_of(servers: &McpServers, tools: &[&str]) -> Result<ToolRunner, CliError> {
    let mut policy = Policy::new();
    for tool in tools {
        if servers.lock().get(tool).is_some() {
            policy = policy.allow(tool).map_err(bad_input)?;
        }
    }
    let tools = ToolBox::new().with_all(servers.tools());
    // Only a model needs a shorter result.
    Ok(ToolRunner::new(tools, policy).map_err(bad_input)?.result_bytes_max(RESULT_BYTES_MAX))
}

fn bad_input(error: impl std::fmt::Display) -> CliError {
    CliError::BadInput { reason: error.to_string() }
}

/// Makes a call.
///
/// # Errors
/// If the tool is not allowed, or the call needs a person before it is made.
async fn outcome(
    servers: &McpServers,
    runner: &ToolRunner,
    tool: &str,
    args: Map<String, Value>,
) -> Result<Outcome, CliError> {
    let Some(allowed) = servers.lock().get(tool) else {
        return Err(
            McpError::NotAllowed { tool: weftwork_cli_base::terminal::to_plain(tool) }.into()
        );
    };
    let call = ToolCall {
        id: ToolCallId::new("call")?,
        name: allowed.wire_name.clone(),
        args: Value::Object(args),
        shown: None,
    };
    let ready = match runner.prepare(&call, &call_context()?) {
        Prepared::Ready(ready) => ready,
        // The policy asks for no approval, and a server's tool is not `ask_human`.
        _ => return Err(bad_input("the call needs a person")),
    };
    Ok(match runner.execute(ready).await.map_err(bad_input)? {
        Executed::Done(ToolOutcome::Ok { value, .. }) => Outcome::Value(value),
        Executed::Done(ToolOutcome::Failed(failure)) => {
            // The operator reads what the model would.
            let failure = failure.into_model_form();
            Outcome::Failed {
                code: failure.code.unwrap_or_default().to_string(),
                message: weftwork_cli_base::terminal::to_plain(&failure.safe_message),
            }
        }
        Executed::Asks(_) => Outcome::Unfinished {
            message: "the tool asks a person; only agents can put its question and go on"
                .to_owned(),
        },
        Executed::OutcomeUnknown(unknown) => {
            let asked = unknown.question();
            let reason = weftwork_cli_base::terminal::to_plain(&asked.reason);
            Outcome::Unfinished {
                message: format!(
                    "the outcome is unknown: {reason}; look at what `{}` should have changed before \
                     you call it again",
                    asked.tool
                ),
            }
        }
    })
}

/// The context of a call outside of runs.
fn call_context() -> Result<CallContext, CliError> {
    Ok(CallContext::of_program(Caller::local("mcp-call")?, Arc::new(SystemClock::new())))
}
