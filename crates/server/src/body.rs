//! Bodies of requests.

use crate::error::{ApiError, Result};
use crate::input::{self, Ignored, NewIds};
use crate::translate::assistant::Assistant;
use crate::translate::ids;
use crate::translate::stream::Requested;
use crate::wording;
use axum::body::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;
use weftwork_graph::CompiledGraph;
pub(crate) use weftwork_store::thread::contains;
use weftwork_types::json::{self, JsonError};
use weftwork_types::run::{
    Answers, Durability, Multitask, RunCommand, RunInput, RunOptions, Stops, Target, Within,
};
use weftwork_types::{CheckpointId, InterruptId, Timestamp};

/// Longest delay of a run: 30 days.
const AFTER_SECONDS_MAX: f64 = 2_592_000.0;

/// Reads a JSON body. No body is an object without members.
pub(crate) fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T> {
    let body: &[u8] = if body.is_empty() { b"{}" } else { body };
    from_value(read_json(body)?)
}

/// Reads a value.
///
/// # Errors
/// Status 422 for a value that does not fit.
pub(crate) fn from_value<T: DeserializeOwned>(value: Value) -> Result<T> {
    wording::read_value(value).map_err(ApiError::invalid)
}

/// Reads a JSON text.
///
/// # Errors
/// Status 422 for a text that is not JSON, or that has an integer of more than 64 bits.
pub(crate) fn read_json(text: &[u8]) -> Result<Value> {
    let value = json::read(text).or_else(|error| match read_cut_texts(text, &error) {
        Some(repaired) => json::read(repaired.as_bytes()),
        None => Err(error),
    });
    value.map_err(|error| match error {
        JsonError::Syntax(_) => ApiError::invalid("Invalid JSON in request body"),
        JsonError::WideInteger { .. } => ApiError::invalid(error.to_string()),
    })
}

/// Returns a JSON text without halves of surrogate pairs, which clients send that cut a text within a
/// character; `None` if the error is another one.
fn read_cut_texts(text: &[u8], error: &JsonError) -> Option<String> {
    let JsonError::Syntax(error) = error else { return None };
    let error = error.to_string();
    let is_cut = error.contains("surrogate") || error.contains("end of hex escape");
    is_cut.then(|| json::repaired(text)).flatten()
}

/// Removes the members of a result that were not selected.
pub(crate) fn select_members(result: &mut Value, select: &[String]) {
    if let Some(members) = result.as_object_mut() {
        members.retain(|name, _| select.contains(name));
    }
}

/// Reads a flag of a query.
pub(crate) fn parse_flag(text: Option<&str>) -> Result<bool> {
    match text.map(str::to_ascii_lowercase).as_deref() {
        None | Some("" | "0" | "false") => Ok(false),
        Some("1" | "true") => Ok(true),
        Some(other) => Err(ApiError::invalid(format!("`{other}` is not true or false"))),
    }
}

/// The result of the creation of a thing that exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IfExistsBody {
    #[default]
    Raise,
    DoNothing,
}

impl IfExistsBody {
    pub(crate) fn accepts_existing(self) -> bool {
        self == Self::DoNothing
    }
}

/// A value, or a list of values.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "expected a text, or a list of texts")]
pub(crate) enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    pub(crate) fn into_vec(self) -> Vec<T> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

/// A request for a run. Members that are not listed are ignored.
#[derive(Debug, Default, Clone, Deserialize)]
pub(crate) struct RunBody {
    pub(crate) assistant_id: String,
    #[serde(default)]
    input: Value,
    #[serde(default)]
    command: Option<CommandBody>,
    #[serde(default)]
    checkpoint: Option<CheckpointBody>,
    #[serde(default)]
    checkpoint_id: Option<String>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    config: Option<ConfigBody>,
    #[serde(default)]
    context: Option<Value>,
    #[serde(default)]
    webhook: Option<String>,
    #[serde(default)]
    interrupt_before: Option<OneOrMany<String>>,
    #[serde(default)]
    interrupt_after: Option<OneOrMany<String>>,
    #[serde(default)]
    stream_mode: Option<OneOrMany<String>>,
    #[serde(default)]
    pub(crate) stream_subgraphs: bool,
    #[serde(default)]
    multitask_strategy: Option<Multitask>,
    #[serde(default)]
    pub(crate) if_not_exists: IfNotExists,
    #[serde(default)]
    after_seconds: Option<f64>,
    #[serde(default)]
    durability: Option<Durability>,
    #[serde(default)]
    checkpoint_during: Option<bool>,
    #[serde(default)]
    pub(crate) on_disconnect: OnDisconnect,
    #[serde(default)]
    pub(crate) on_completion: OnCompletion,
    /// The header `Idempotency-Key`: a repeated request has the run of the first one.
    #[serde(skip)]
    pub(crate) idempotency_key: Option<String>,
}

/// The treatment of a thread that does not exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IfNotExists {
    Create,
    #[default]
    Reject,
}

/// The effect of a client that leaves its stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnDisconnect {
    Cancel,
    #[default]
    Continue,
}

/// The treatment of the thread of a stateless run after its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnCompletion {
    #[default]
    Delete,
    Keep,
}

#[derive(Debug, Clone, Deserialize)]
struct CommandBody {
    #[serde(default, deserialize_with = "present")]
    resume: Option<Value>,
    #[serde(default)]
    update: Option<Value>,
    #[serde(default, deserialize_with = "read_goto")]
    goto: Option<OneOrMany<GotoBody>>,
}

fn read_goto<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<OneOrMany<GotoBody>>, D::Error> {
    serde_json::from_value(Value::deserialize(from)?).map_err(|_| {
        serde::de::Error::custom(
            "expected the name of a node, an object with `node` and `input`, or a list of them",
        )
    })
}

/// Reads a member that may be null: only a missing one is `None`.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum GotoBody {
    Node(String),
    Send {
        node: String,
        #[serde(default)]
        input: Value,
    },
}

/// A place in a thread.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct CheckpointBody {
    #[serde(default)]
    pub(crate) checkpoint_id: Option<String>,
    #[serde(default)]
    pub(crate) checkpoint_ns: Option<String>,
    #[serde(default)]
    pub(crate) checkpoint_map: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct ConfigBody {
    #[serde(default)]
    recursion_limit: Option<NonZeroU32>,
    #[serde(default)]
    max_concurrency: Option<NonZeroU32>,
    #[serde(default)]
    configurable: Option<Map<String, Value>>,
    #[serde(default)]
    tags: Option<Vec<String>>,
}

impl RunBody {
    /// Returns `true` if the request answers a question, which needs a thread.
    pub(crate) fn resumes(&self) -> bool {
        self.command.as_ref().is_some_and(|command| command.resume.is_some())
    }

    /// Returns the stream modes; `values` if there are none.
    pub(crate) fn modes(&self) -> Result<Requested> {
        parse_modes(self.stream_modes().iter().map(String::as_str))
    }

    fn stream_modes(&self) -> Vec<String> {
        self.stream_mode.clone().map_or_else(Vec::new, OneOrMany::into_vec)
    }

    /// Returns the input of the run.
    /// Members that the graph does not have are left out.
    pub(crate) fn input(
        &self,
        graph: &CompiledGraph,
        ids: &mut NewIds,
        ignored: &mut Ignored,
    ) -> Result<RunInput> {
        if let Some(command) = &self.command {
            return command.read(graph, ids, ignored).map(RunInput::Command);
        }
        if self.input.is_null() {
            return Ok(RunInput::Continue);
        }
        let plan = graph.plan();
        let is_input = |name: &str| plan.channel_idx(name).is_some_and(|at| plan.is_input(at));
        let had_members = self.input.as_object().is_some_and(|members| !members.is_empty());
        let input = input::read_writes(graph, self.input.clone(), &is_input, ids, ignored)?;
        if had_members && input.as_object().is_some_and(Map::is_empty) {
            let known: Vec<_> = plan.channel_names().filter(|name| is_input(name)).collect();
            return Err(ApiError::invalid(format!(
                "`input` has no member that graph `{}` takes: it has {}, expected {}",
                graph.name(),
                input::quote_names(ignored.names()),
                input::quote_names(&known)
            )));
        }
        Ok(RunInput::Start { input })
    }

    /// Returns the time at which the run begins, if it is later than now.
    fn not_before(&self, now: Timestamp) -> Result<Option<Timestamp>> {
        match self.after_seconds {
            None => Ok(None),
            Some(seconds) if (0.0..=AFTER_SECONDS_MAX).contains(&seconds) => {
                let wait = Duration::from_secs_f64(seconds);
                Ok((!wait.is_zero()).then(|| now.plus(wait)))
            }
            Some(seconds) => Err(ApiError::invalid(format!(
                "`after_seconds` is {seconds}; expected 0 to {AFTER_SECONDS_MAX}"
            ))),
        }
    }

    /// Returns the options of the run, with the settings of its assistant.
    pub(crate) fn options(&self, assistant: &Assistant, now: Timestamp) -> Result<RunOptions> {
        if self.webhook.is_some() {
            return Err(ApiError::invalid("`webhook` is not supported by this server"));
        }
        let config = self.config.clone().unwrap_or_default();
        let settings = assistant.current();
        let usual: ConfigBody = wording::read_value(settings.config.clone().into())
            .map_err(|problem| ApiError::invalid(format!("config of the assistant: {problem}")))?;
        let place = self.checkpoint.clone().unwrap_or_default();
        let at = place.checkpoint_id.clone().or_else(|| self.checkpoint_id.clone());
        let ns = place.checkpoint_ns.as_deref().unwrap_or_default();
        let within = match ns {
            "" => None,
            ns => Some(Within {
                namespace: ids::read_namespace(ns),
                checkpoints: place.checkpoints()?,
            }),
        };
        let durability = match (self.durability, self.checkpoint_during) {
            (Some(durability), _) => durability,
            (None, Some(false)) => Durability::Exit,
            (None, _) => Durability::Async,
        };
        self.modes()?;
        let own = config.configurable.unwrap_or_default();
        let context = merge_context(&settings.context, self.context.as_ref(), &own);
        let mut configurable = usual.configurable.unwrap_or_default();
        configurable.extend(own);
        Ok(RunOptions {
            not_before: self.not_before(now)?,
            step_limit: config.recursion_limit.or(usual.recursion_limit).map(NonZeroU32::get),
            concurrency: config.max_concurrency.or(usual.max_concurrency).map(NonZeroU32::get),
            at: at.as_deref().map(ids::parse_checkpoint).transpose()?,
            within,
            durability,
            multitask: self.multitask_strategy.unwrap_or(Multitask::Enqueue),
            interrupt_before: self.interrupt_before.clone().map(read_stops),
            interrupt_after: self.interrupt_after.clone().map(read_stops),
            context,
            configurable,
            metadata: self.metadata.clone().unwrap_or_default(),
            tags: config.tags.or(usual.tags).unwrap_or_default(),
            stream_modes: self.stream_modes(),
            other_graph: true,
            idempotency_key: self.idempotency_key.clone(),
            ..RunOptions::default()
        })
    }
}

/// Returns the context of a run: that of its assistant, with the members of its own. Named settings
/// are the context of a request that has none.
fn merge_context(usual: &Value, own: Option<&Value>, configurable: &Map<String, Value>) -> Value {
    let mut members = match own {
        Some(Value::Object(own)) => own.clone(),
        None | Some(Value::Null) => configurable.clone(),
        Some(other) => return other.clone(),
    };
    match usual {
        Value::Object(usual) => {
            for (name, value) in usual {
                members.entry(name).or_insert_with(|| value.clone());
            }
        }
        Value::Null => {}
        usual if members.is_empty() => return usual.clone(),
        _ => {}
    }
    if members.is_empty() { Value::Null } else { Value::Object(members) }
}

impl CheckpointBody {
    /// Returns the id of the checkpoint; `None` for the newest one.
    pub(crate) fn checkpoint(&self) -> Result<Option<CheckpointId>> {
        let id = self.checkpoint_id.as_deref().filter(|id| !id.is_empty());
        id.map(ids::parse_checkpoint).transpose()
    }

    /// Returns the namespace of the graph; empty for the outermost one.
    pub(crate) fn namespace(&self) -> String {
        ids::read_namespace(self.checkpoint_ns.as_deref().unwrap_or_default())
    }

    /// Returns the checkpoints of the graph and of the graphs that contain it.
    pub(crate) fn checkpoints(&self) -> Result<BTreeMap<String, CheckpointId>> {
        let map = self.checkpoint_map.iter().flatten();
        map.map(|(ns, id)| Ok((ids::read_namespace(ns), ids::parse_checkpoint(id)?))).collect()
    }
}

impl CommandBody {
    fn read(
        &self,
        graph: &CompiledGraph,
        ids: &mut NewIds,
        ignored: &mut Ignored,
    ) -> Result<RunCommand> {
        let is_known = |name: &str| graph.plan().channel_idx(name).is_some();
        let update = match self.update.clone() {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(pairs)) => {
                let mut update = Vec::new();
                for pair in pairs {
                    let (name, value): (String, Value) = serde_json::from_value(pair)
                        .map_err(|_| ApiError::invalid("`command.update` has an element that is no pair of a name and a value"))?;
                    if is_known(&name) {
                        let value = input::read_value(graph, &name, value, ids)?;
                        update.push((name, value));
                    } else {
                        ignored.add(name);
                    }
                }
                update
            }
            Some(update) => match input::read_writes(graph, update, &is_known, ids, ignored)? {
                Value::Object(members) => members.into_iter().collect(),
                _ => return Err(ApiError::invalid("`command.update` is an object or a list")),
            },
        };
        let goto = self.goto.clone().map_or_else(Vec::new, OneOrMany::into_vec);
        let goto = goto.into_iter().map(|target| match target {
            GotoBody::Node(node) => Target::Node(node),
            GotoBody::Send { node, input } => Target::Send { node, arg: input },
        });
        let answers = self.resume.clone().map(read_answers);
        Ok(RunCommand { answers, update, goto: goto.collect() })
    }
}

/// Reads answers: by the ids of their questions if all members are such ids.
fn read_answers(resume: Value) -> Answers {
    let by_id = |members: &Map<String, Value>| {
        let answers = members
            .iter()
            .map(|(id, value)| Some((id.parse::<InterruptId>().ok()?, value.clone())));
        answers.collect::<Option<BTreeMap<_, _>>>()
    };
    match resume.as_object().filter(|members| !members.is_empty()).and_then(by_id) {
        Some(answers) => Answers::ById(answers),
        None => Answers::One(resume),
    }
}

fn read_stops(nodes: OneOrMany<String>) -> Stops {
    match nodes {
        OneOrMany::One(all) if all == "*" => Stops::All,
        nodes => Stops::Nodes(nodes.into_vec()),
    }
}

/// Reads the names of stream modes; `values` if there are none.
pub(crate) fn parse_modes<'a>(names: impl Iterator<Item = &'a str>) -> Result<Requested> {
    let mut requested = Requested::default();
    let mut none = true;
    for name in names {
        none = false;
        if !requested.add(name) {
            let known = "values, updates, messages, messages-tuple, tasks, checkpoints, debug, \
                         custom, events";
            let detail = format!("stream mode `{name}` is not known; expected one of {known}");
            return Err(ApiError::invalid(detail));
        }
    }
    if none {
        requested.add("values");
    }
    Ok(requested)
}
