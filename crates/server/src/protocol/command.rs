//! Commands on a thread.

mod run;
mod state;

use super::{number, reply};
use crate::error::{ApiError, Result};
use crate::service::Service;
use crate::wording;
use axum::http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use weftwork_types::{Right, RunId, ThreadId};

/// A command of a client.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    pub(crate) id: Value,
    pub(crate) method: String,
    pub(crate) params: Value,
}

/// A refused command, or a failure that is no matter of the command.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// The command does not fit: a code of the protocol, and the reason.
    Refused(&'static str, String),
    Failed(ApiError),
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) result: Value,
    /// The run that the command started.
    pub(crate) run: Option<RunId>,
}

impl Done {
    /// The result of a command that starts no run.
    pub(crate) fn read(result: Value) -> Self {
        Self { result, run: None }
    }
}

pub(crate) type Outcome<T = Done> = std::result::Result<T, CommandError>;

/// The command has a value that does not fit.
pub(crate) fn invalid_argument(message: impl Into<String>) -> CommandError {
    CommandError::Refused("invalid_argument", message.into())
}

impl From<ApiError> for CommandError {
    fn from(error: ApiError) -> Self {
        let status = error.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Self::Failed(error);
        }
        let code = match status {
            StatusCode::FORBIDDEN => "permission_denied",
            _ => "invalid_argument",
        };
        Self::Refused(code, error.detail().to_owned())
    }
}

impl CommandError {
    /// Replaces the code of a refusal.
    pub(crate) fn with_code(self, code: &'static str) -> Self {
        match self {
            Self::Refused(_, message) => Self::Refused(code, message),
            failed @ Self::Failed(_) => failed,
        }
    }
}

impl Command {
    /// Reads a command.
    ///
    /// # Errors
    /// The answer to a command that cannot be read.
    pub(crate) fn read(command: Value) -> Result<Self, Value> {
        let refuse = || {
            let message = "Protocol commands must include an integer id and string method.";
            reply::error(Value::Null, "invalid_argument", message)
        };
        let Value::Object(mut members) = command else { return Err(refuse()) };
        let id = members.shift_remove("id").filter(Value::is_u64).ok_or_else(refuse)?;
        let Some(Value::String(method)) = members.shift_remove("method") else {
            return Err(refuse());
        };
        let params = members.shift_remove("params").filter(|params| !params.is_null());
        Ok(Self { id, method, params: params.unwrap_or_else(|| json!({})) })
    }

    /// Reads the parameters.
    pub(crate) fn params<T: DeserializeOwned>(&self) -> Outcome<T> {
        if !self.params.is_object() {
            return Err(invalid_argument(format!("`params` of {} is not an object", self.method)));
        }
        wording::read_value(self.params.clone())
            .map_err(|problem| invalid_argument(format!("`params` of {}: {problem}", self.method)))
    }
}

/// Carries out a command and returns its answer.
///
/// # Errors
/// A failure that is no matter of the command, such as a store that is out of reach.
pub(crate) async fn carry_out(
    service: &Service,
    thread: &ThreadId,
    command: Command,
) -> Result<Value> {
    match dispatch_command(service, thread, &command).await {
        Ok(Done { result, run }) => {
            let applied = number_before_run(service, thread, run.as_ref()).await?;
            Ok(reply::success(&command.id, result, applied))
        }
        Err(CommandError::Refused(code, message)) => Ok(reply::error(command.id, code, &message)),
        Err(CommandError::Failed(error)) => Err(error),
    }
}

/// Returns the number before the first event of the run that a command started, or of the newest
/// run: the events up to there are part of what the command found.
async fn number_before_run(
    service: &Service,
    thread: &ThreadId,
    run: Option<&RunId>,
) -> Result<Option<u64>> {
    let runs = service.all_runs(thread).await?;
    let index = match run {
        Some(run) => runs.iter().position(|row| row.new.at.run == *run),
        None => Some(runs.len().saturating_sub(1)),
    };
    Ok(index.and_then(|index| number::of_run(index as u64)))
}

async fn dispatch_command(service: &Service, thread: &ThreadId, command: &Command) -> Outcome {
    if let Some(right) = right_of(&command.method) {
        service.require(right)?;
    }
    match command.method.as_str() {
        "run.start" => run::start(service, thread, command.params()?).await,
        "input.respond" => run::respond(service, thread, command.params()?).await,
        "input.inject" => run::inject(service, thread, command.params()?).await,
        "state.get" => state::get(service, thread, command.params()?).await,
        "state.listCheckpoints" => state::list(service, thread, command.params()?).await,
        "state.fork" => state::fork(service, thread, command.params()?).await,
        "agent.getTree" => get_tree(service, thread, command).await,
        "subscription.subscribe" | "subscription.unsubscribe" | "subscription.reconnect" => {
            let message = format!(
                "{} needs a WebSocket; a stream of events by HTTP is a subscription by itself",
                command.method
            );
            Err(CommandError::Refused("not_supported", message))
        }
        other => {
            let message = format!("Unknown protocol command: {other}");
            Err(CommandError::Refused("unknown_command", message))
        }
    }
}

/// Returns the right that a command needs; `None` for a command that is refused anyway. A command that
/// starts a run needs further rights if its input is an answer.
fn right_of(method: &str) -> Option<Right> {
    match method {
        "run.start" | "input.inject" | "state.fork" => Some(Right::Run),
        "input.respond" => Some(Right::Approve),
        "state.get" | "state.listCheckpoints" | "agent.getTree" => Some(Right::Read),
        _ => None,
    }
}

#[derive(Debug, serde::Deserialize)]
struct TreeParams {
    #[serde(default)]
    run_id: Option<String>,
}

async fn get_tree(service: &Service, thread: &ThreadId, command: &Command) -> Outcome {
    let TreeParams { run_id } = command.params()?;
    let run = run_id.as_deref().map(crate::translate::ids::parse_run).transpose()?;
    let row = service.active_run(thread, run.as_ref()).await?;
    let row = row.ok_or_else(|| no_such_run("No active run is bound to this thread."))?;
    Ok(Done::read(json!({"tree": service.tree(&row).await?.to_json()})))
}

pub(crate) fn no_such_run(message: &str) -> CommandError {
    CommandError::Refused("no_such_run", message.to_owned())
}

/// Returns the JSON object with the members that have a value.
pub(crate) fn object_of<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let members = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(members.collect::<Map<_, _>>())
}
