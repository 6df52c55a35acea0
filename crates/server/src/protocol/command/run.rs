//! Commands that start runs.

use super::{CommandError, Done, Outcome, invalid_argument, no_such_run, object_of};
use crate::body::{self, RunBody};
use crate::service::Service;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use weftwork_store::InterruptRow;
use weftwork_types::{InterruptId, RunId, ThreadId};

/// Maximum number of answers of a command.
const RESPONSES_MAX: usize = 1_000;

#[derive(Debug, Deserialize)]
pub(super) struct StartParams {
    #[serde(default)]
    assistant_id: Option<String>,
    #[serde(default)]
    input: Value,
    #[serde(default)]
    config: Option<Map<String, Value>>,
    #[serde(default)]
    metadata: Option<Value>,
    /// The spelling of the protocol and that of clients.
    #[serde(default)]
    multitask_strategy: Option<Value>,
    #[serde(default, rename = "multitaskStrategy")]
    multitask_of_client: Option<Value>,
}

/// Starts a run. On a thread with open questions, the input is the answer to its only one.
pub(super) async fn start(service: &Service, thread: &ThreadId, params: StartParams) -> Outcome {
    let StartParams { assistant_id, input, config, metadata, .. } = params;
    let assistant = assistant_id.filter(|id| !id.is_empty());
    let assistant =
        assistant.ok_or_else(|| invalid_argument("run.start requires an assistant_id."))?;
    let checkpoint = checkpoint_of(config.as_ref());
    let waits = service.questions(thread).await?.iter().any(InterruptRow::is_open);
    let answers = waits && !input.is_null() && checkpoint.is_none();
    let (input, command) = match answers {
        true => (None, Some(json!({"resume": input}))),
        false => (Some(input), None),
    };
    let body = object_of([
        ("assistant_id", Some(json!(assistant))),
        ("input", input),
        ("command", command),
        ("config", config.map(Value::Object)),
        ("metadata", metadata),
        ("checkpoint_id", checkpoint),
        ("multitask_strategy", params.multitask_strategy.or(params.multitask_of_client)),
    ]);
    let run = request_run(service, thread, body).await?;
    Ok(Done { result: json!({"run_id": run}), run: Some(run) })
}

/// Returns the checkpoint from which a configuration begins.
fn checkpoint_of(config: Option<&Map<String, Value>>) -> Option<Value> {
    let configurable = config?.get("configurable")?;
    configurable.get("checkpoint_id").filter(|id| id.is_string()).cloned()
}

/// Requests a run. The thread need not exist.
pub(super) async fn request_run(
    service: &Service,
    thread: &ThreadId,
    mut body: Value,
) -> Outcome<RunId> {
    body["if_not_exists"] = json!("create");
    let body: RunBody = body::from_value(body)?;
    Ok(service.start(Some(thread.as_str()), &body).await?.handle.run.run)
}

#[derive(Debug, Deserialize)]
pub(super) struct RespondParams {
    #[serde(default)]
    interrupt_id: Option<String>,
    #[serde(default)]
    response: Value,
    #[serde(default)]
    responses: Option<Vec<Response>>,
    #[serde(default)]
    update: Option<Value>,
    #[serde(default)]
    goto: Option<Value>,
    #[serde(default)]
    config: Option<Value>,
    #[serde(default)]
    metadata: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Response {
    interrupt_id: String,
    #[serde(default)]
    response: Value,
}

impl RespondParams {
    /// Takes the answers out.
    fn answers(&mut self) -> Outcome<Vec<Response>> {
        match (self.responses.take(), self.interrupt_id.take()) {
            (Some(all), _) if all.is_empty() => {
                Err(invalid_argument("input.respond requires at least one response."))
            }
            (Some(all), _) if all.len() > RESPONSES_MAX => Err(invalid_argument(format!(
                "input.respond has at most {RESPONSES_MAX} responses"
            ))),
            (Some(all), _) => Ok(all),
            (None, Some(interrupt_id)) => {
                Ok(vec![Response { interrupt_id, response: self.response.take() }])
            }
            (None, None) => Err(invalid_argument("input.respond requires an interrupt_id.")),
        }
    }
}

/// Answers open questions, all in one run.
pub(super) async fn respond(
    service: &Service,
    thread: &ThreadId,
    mut params: RespondParams,
) -> Outcome {
    let answers = params.answers()?;
    let assistant = assistant_of(service, thread, "No interrupted run is bound to this thread.");
    let assistant = assistant.await?;
    let questions = service.questions(thread).await?;
    let mut resume = Map::new();
    for Response { interrupt_id, response } in answers {
        check_open(&questions, &interrupt_id)?;
        if resume.insert(interrupt_id.clone(), response).is_some() {
            return Err(invalid_argument(format!("interrupt {interrupt_id} has two responses")));
        }
    }
    let command = object_of([
        ("resume", Some(resume.into())),
        ("update", params.update),
        ("goto", params.goto),
    ]);
    let body = object_of([
        ("assistant_id", Some(assistant)),
        ("command", Some(command)),
        ("config", params.config),
        ("metadata", params.metadata),
    ]);
    let run = request_run(service, thread, body).await?;
    Ok(Done { result: json!({}), run: Some(run) })
}

/// Checks that a question waits for an answer.
fn check_open(questions: &[InterruptRow], id: &str) -> Outcome<()> {
    let parsed = id.parse::<InterruptId>().ok();
    let found = questions.iter().find(|row| Some(row.interrupt.id) == parsed);
    let problem = match found {
        Some(row) if row.is_open() => return Ok(()),
        Some(row) if row.answer.is_some() => "was answered before; the first answer counts",
        Some(_) => "is closed, because its superstep was left without an answer",
        None => "is no question of this thread",
    };
    Err(CommandError::Refused("no_such_interrupt", format!("interrupt {id} {problem}")))
}

/// Returns the assistant of the last run of a thread.
pub(super) async fn assistant_of(
    service: &Service,
    thread: &ThreadId,
    missing: &str,
) -> Outcome<Value> {
    let runs = service.all_runs(thread).await?;
    let last = runs.last().ok_or_else(|| no_such_run(missing))?;
    let named = last.new.options.metadata.get("assistant_id").filter(|id| id.is_string());
    Ok(named.cloned().unwrap_or_else(|| json!(service.name_of(&last.new.graph))))
}

#[derive(Debug, Deserialize)]
pub(super) struct InjectParams {
    #[serde(default)]
    namespace: Vec<String>,
    message: InputMessage,
}

#[derive(Debug, Deserialize)]
struct InputMessage {
    role: Value,
    content: Value,
}

/// Adds a message to the thread, in a run after its unfinished runs.
pub(super) async fn inject(service: &Service, thread: &ThreadId, params: InjectParams) -> Outcome {
    let InjectParams { namespace, message: InputMessage { role, content } } = params;
    if !namespace.is_empty() {
        let message = "input.inject reaches the outermost graph only; expected an empty namespace";
        return Err(CommandError::Refused("no_such_namespace", message.to_owned()));
    }
    if !matches!(role.as_str(), Some("user" | "system")) {
        return Err(invalid_argument(format!("`role` is {role}; expected user or system")));
    }
    if !content.is_string() {
        return Err(invalid_argument("`content` of the message is not a text"));
    }
    let missing = "input.inject needs a thread on which a run was started";
    let assistant = assistant_of(service, thread, missing).await?;
    if !service.takes_messages(assistant.as_str().unwrap_or_default()).await? {
        let message = "the graph of the thread has no channel `messages` for messages";
        return Err(CommandError::Refused("not_supported", message.to_owned()));
    }
    let body = object_of([
        ("assistant_id", Some(assistant)),
        ("input", Some(json!({"messages": [{"role": role, "content": content}]}))),
        ("multitask_strategy", Some(json!("enqueue"))),
    ]);
    let run = request_run(service, thread, body).await?;
    Ok(Done { result: json!({}), run: Some(run) })
}
