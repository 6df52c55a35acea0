//! A call of a tool by hand.

use crate::CliError;
use crate::exit::Exit;
use crate::terminal::Terminal;
use serde_json::{Map, Value};
use std::sync::Arc;
use weftwork::graph::SystemClock;
use weftwork::mcp::{McpError, McpServers};
use weftwork::tools::{Executed, Policy, Prepared, ToolBox, ToolRunner};
use weftwork::types::caller::{Caller, GraphCaller};
use weftwork::types::message::{ToolCall, content_text};
use weftwork::types::port::{
    CallContext, Clock, Dependencies, NoJournal, NoLedger, Silent, Unlimited,
};
use weftwork::types::tool::ToolOutcome;
use weftwork::types::{Principal, RunId, ThreadId, ToolCallId};

/// Maximum size of a result, in bytes. A message of a server is smaller.
const RESULT_BYTES_MAX: usize = 64 << 20;

/// Calls an allowed tool through the same runner as agents do, and prints the whole result.
pub(super) async fn call(
    servers: &McpServers,
    tool: &str,
    args: Map<String, Value>,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let Some(allowed) = servers.lock().get(tool) else {
        return Err(McpError::NotAllowed { tool: crate::terminal::plain(tool) }.into());
    };
    let bad = |reason: String| CliError::BadInput { reason };
    let policy = Policy::new().allow(tool).map_err(|error| bad(error.to_string()))?;
    let tools = ToolBox::new().with_all(servers.tools());
    let runner = ToolRunner::new(tools, policy).map_err(|error| bad(error.to_string()))?;
    // Only a model needs a shorter result.
    let runner = runner.result_bytes_max(RESULT_BYTES_MAX);
    let call = ToolCall {
        id: ToolCallId::new("call")?,
        name: allowed.wire_name.clone(),
        args: Value::Object(args),
        shown: None,
    };
    let ready = match runner.prepare(&call, &context()?) {
        Prepared::Ready(ready) => ready,
        // The policy asks for no approval, and a server's tool is not `ask_human`.
        _ => return Err(bad("the call needs a person".to_owned())),
    };
    let executed = runner.execute(ready).await;
    match executed.map_err(|error| bad(error.to_string()))? {
        Executed::Done(ToolOutcome::Ok { value, .. }) => {
            match value {
                Value::String(text) => terminal.line(crate::terminal::plain(&text))?,
                value => match content_text(&value, "not shown") {
                    Some(text) => terminal.line(crate::terminal::plain(&text))?,
                    None => terminal.line(format_args!("{value:#}"))?,
                },
            }
            Ok(Exit::Done)
        }
        Executed::Done(ToolOutcome::Failed(failure)) => {
            // The operator reads what the model would.
            let failure = failure.into_model_form();
            let message = crate::terminal::plain(&failure.safe_message);
            let code = failure.code.unwrap_or_default();
            terminal.note(format_args!("error[{code}]: {message}"));
            Ok(Exit::Failed)
        }
        Executed::Asks(_) => {
            terminal.note("the tool asks a person; only agents can put its question and go on");
            Ok(Exit::Failed)
        }
        Executed::OutcomeUnknown(unknown) => {
            let asked = unknown.question();
            let reason = crate::terminal::plain(&asked.reason);
            terminal.note(format_args!(
                "the outcome is unknown: {reason}; look at what `{}` should have changed before you \
                 call it again",
                asked.tool
            ));
            Ok(Exit::Failed)
        }
    }
}

/// The context of a call outside of runs.
fn context() -> Result<CallContext, CliError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    Ok(CallContext {
        principal: Principal::local(),
        caller: Arc::new(GraphCaller {
            caller: Caller::local("mcp-call")?,
            run: RunId::new("mcp-call")?,
            graph: "cli:mcp-call".to_owned(),
            graph_version: env!("CARGO_PKG_VERSION").to_owned(),
        }),
        thread: ThreadId::new("mcp-call")?,
        journal: Arc::new(NoJournal),
        budget: Arc::new(Unlimited),
        ledger: Arc::new(NoLedger),
        clock,
        emit: Arc::new(Silent),
        deadline: None,
        configurable: Arc::default(),
        dependencies: Dependencies::default(),
        hidden: Arc::default(),
    })
}
