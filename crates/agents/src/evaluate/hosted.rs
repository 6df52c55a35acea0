//! Prompts that are hosted like agents: the input of a run has their parameters.

use super::record::Record;
use super::resources::EvaluatorResources;
use super::scope::PromptRun;
use crate::agent::{Agent, AgentKind, AsksModel, CallsTools, Compile};
use crate::bound::BoundModel;
use crate::error::AgentError;
use crate::prompt::{AnyPrompt, Overrides, Prompt, PromptError, PromptId};
use crate::react::{ReactAgent, check_new_media, react_graph};
use crate::session::Session;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use weftwork_graph::channel::LastValue;
use weftwork_graph::{ChannelDef, CompiledGraph, InvalidGraph, NodeResult, OUTPUT, TaskInput};
use weftwork_models::{ChatModel, IntoModel};
use weftwork_schema::{Checker, Quotes};
use weftwork_tools::input_schema;
use weftwork_types::ThreadId;
use weftwork_types::canonical::{Hash, hash};
use weftwork_types::code::Fault;
use weftwork_types::session::SESSION_CHANNEL;

/// Maximum number of rendered prompts in memory.
const RENDERED_MAX: usize = 64;

/// Names of channels that a hosted prompt has besides its parameters.
const TAKEN: [&str; 3] = [super::MESSAGES, OUTPUT, SESSION_CHANNEL];

/// A prompt with a model, as an agent: an app, a runtime and a server host it, and teams have it as a
/// member. [`Prompt::with_model`] makes it.
///
/// The members of the parameters are channels: the input of a run sets them, and later runs of the
/// thread may change them. The prompt is rendered from them before each call of the model, as the
/// system message of a conversation that a user has begun, otherwise as the first message of the
/// user. Its tools, policies and output type are those of the prompt; `tools` adds to them, and gives
/// them values. The name of the agent is the key of the prompt.
pub type PromptAgent<P> = Agent<kind::Prompt<P>>;

/// Kinds of agents.
pub(crate) mod kind {
    use super::{AnyPrompt, Arc, ChatModel, PhantomData, PromptError, PromptId, Value};

    /// The kind of [`PromptAgent`](crate::PromptAgent), with its parameters.
    pub struct Prompt<P> {
        pub(super) id: PromptId,
        pub(super) prompt: Arc<dyn AnyPrompt>,
        pub(super) model: Arc<dyn ChatModel>,
        /// Parameters of all runs.
        pub(super) fixed: Option<Result<Value, PromptError>>,
        pub(super) schema: Value,
        pub(super) params: PhantomData<fn() -> P>,
    }
}

impl<P> fmt::Debug for kind::Prompt<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Types of parameters.
pub trait Params: Serialize + DeserializeOwned + JsonSchema + 'static {}
impl<P: Serialize + DeserializeOwned + JsonSchema + 'static> Params for P {}

impl<P: Params> AgentKind for kind::Prompt<P> {}
impl<P: Params> AsksModel for kind::Prompt<P> {}
impl<P: Params> CallsTools for kind::Prompt<P> {}

impl<P: Params, T> Prompt<P, T> {
    /// Returns the prompt with a model, as an agent to host or to put into a team.
    ///
    /// ```
    /// use schemars::JsonSchema;
    /// use serde::{Deserialize, Serialize};
    /// use serde_json::json;
    /// use weftwork_agents::{Prompt, Section};
    /// use weftwork_models::scripted::{ScriptedModel, Step};
    /// use weftwork_runtime::Runtime;
    ///
    /// #[derive(Serialize, Deserialize, JsonSchema)]
    /// struct Trip {
    ///     city: String,
    ///     days: u32,
    /// }
    ///
    /// # #[tokio::main(flavor = "multi_thread", worker_threads = 1)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let prompt = Prompt::<Trip>::builder("travel", "trip", "Plan a trip")
    ///     .section(Section::new("task", "Task", "Plan ${days} days in ${city}."))
    ///     .build()?;
    /// let model = ScriptedModel::from_steps([Step::text("Walk to the river.")]);
    /// let runtime = Runtime::in_memory().graph("trip", prompt.with_model(model)).open().await?;
    /// let thread = runtime.thread("trip", "t-1")?;
    /// let ended = thread.start(json!({"city": "Bern", "days": 3})).await?;
    /// assert_eq!(ended.text(), "Walk to the river.");
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_model(&self, model: impl IntoModel) -> PromptAgent<P> {
        let kind = kind::Prompt {
            id: self.id().clone(),
            prompt: self.erased(),
            model: model.into_model(),
            fixed: None,
            schema: input_schema::<P>(),
            params: PhantomData,
        };
        let mut agent = Agent::of_kind(self.id().key.as_str(), kind);
        agent.options.output = self.typed_output();
        agent
    }
}

impl<P: Params> PromptAgent<P> {
    /// Sets the name of the agent, in place of the key of the prompt.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.options.name = name.into();
        self
    }

    /// Sets the parameters of all runs, which are no channels then. As a member of a team or as a
    /// tool, whose input is a conversation, a prompt with required parameters needs them.
    pub fn params(mut self, params: &P) -> Self {
        let fixed = serde_json::to_value(params).map_err(|error| PromptError::Parameters {
            prompt: self.kind.id.clone(),
            reason: format!("the parameters cannot be written as JSON: {error}"),
        });
        self.kind.fixed = Some(fixed);
        self
    }
}

impl<P: Params> Compile for kind::Prompt<P> {
    fn compile(agent: Agent<Self>) -> Result<CompiledGraph, AgentError> {
        let Agent { mut options, kind } = agent;
        let fixed = kind.fixed.transpose().map_err(InvalidGraph::from)?;
        let channels = match &fixed {
            Some(_) => Map::new(),
            None => param_channels::<P>(&options.name, &kind.schema)?,
        };
        let mut resources = EvaluatorResources::new(options.name.clone(), Arc::clone(&kind.model));
        resources.base = std::mem::take(&mut options.tools);
        let bound = BoundModel { parallel_by_default: true, ..options.bind(&kind.model) };
        let hosted = HostedPrompt {
            id: kind.id,
            prompt: kind.prompt,
            resources: Arc::new(resources),
            bound,
            names: channels.keys().cloned().collect(),
            fixed,
            read: read_params::<P>,
            rendered: Mutex::default(),
        };
        if let Some(params) = &hosted.fixed {
            // Its problems show before the first run.
            let nobody = ThreadId::from_uuid(uuid::Uuid::nil());
            hosted.render(params, &nobody).map_err(InvalidGraph::from)?;
        }
        let checker = checker_of(&kind.schema, &channels);
        let model = Arc::clone(&kind.model);
        let id = hosted.id.clone();
        let agent = ReactAgent::from_options(options, kind.model);
        let mut graph = react_graph(agent)?.channel(Session::channel()).with(hosted).check_input(
            move |input| {
                check_new_media(&*model, input)?;
                check_params(&id, checker.as_ref(), input)
            },
        );
        for (name, schema) in channels {
            let channel = ChannelDef::new(name, LastValue::<Value>::new()).with_schema(schema);
            graph = graph.channel(channel);
        }
        Ok(graph.build()?)
    }
}

/// Returns the channels of the parameters by their names, with their schemas.
fn param_channels<P: Params>(
    agent: &str,
    schema: &Value,
) -> Result<Map<String, Value>, AgentError> {
    let refuse = |problem: String| AgentError::Option { agent: agent.to_owned(), problem };
    let properties = schema.get("properties").and_then(Value::as_object);
    let Some(properties) = properties else {
        return match P::deserialize(&Value::Null)
            .or_else(|_| P::deserialize(Value::Object(Map::new())))
        {
            Ok(_) => Ok(Map::new()),
            Err(_) => Err(refuse(format!(
                "the parameters of a hosted prompt are members of the input of its runs, and `{}` has no members; make it a struct, or set it with `params`",
                std::any::type_name::<P>()
            ))),
        };
    };
    if let Some(name) = TAKEN.into_iter().find(|name| properties.contains_key(*name)) {
        return Err(refuse(format!(
            "a parameter of the prompt is called `{name}`, which is a channel of hosted prompts; rename the member, or set the parameters with `params`"
        )));
    }
    Ok(properties.clone())
}

/// Reads parameters, and writes them with the defaults of their type.
fn read_params<P: Params>(given: &Value) -> Result<Value, String> {
    let read = P::deserialize(given).map_err(|error| error.to_string())?;
    serde_json::to_value(&read).map_err(|error| error.to_string())
}

/// Returns the checker of the parameters of an input, each of which may be missing: it may be set
/// already.
fn checker_of(schema: &Value, channels: &Map<String, Value>) -> Option<Checker> {
    let mut schema = schema.clone();
    schema.as_object_mut()?.remove("required");
    if channels.is_empty() {
        return None;
    }
    // Without a checker, parameters are checked when they are read.
    Checker::compile(&schema).ok()
}

fn check_params(id: &PromptId, checker: Option<&Checker>, input: &Value) -> Result<(), Fault> {
    let Some(checker) = checker else { return Ok(()) };
    let Some(members) = input.as_object() else { return Ok(()) };
    let mut given = members.clone();
    for name in TAKEN {
        given.remove(name);
    }
    checker.check(&Value::Object(given), Quotes::Values).map_err(|problem| {
        let reason = format!("the parameters do not fit: {problem}");
        PromptError::Parameters { prompt: id.clone(), reason }.fault()
    })
}

/// A hosted prompt, as a dependency of its graph.
pub(crate) struct HostedPrompt {
    id: PromptId,
    prompt: Arc<dyn AnyPrompt>,
    resources: Arc<EvaluatorResources>,
    bound: BoundModel,
    /// Names of the parameters, which are channels.
    names: Vec<String>,
    fixed: Option<Value>,
    read: fn(&Value) -> Result<Value, String>,
    /// Rendered prompts by thread and parameters.
    rendered: Mutex<BTreeMap<Hash, Arc<PromptRun>>>,
}

impl fmt::Debug for HostedPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostedPrompt").field("id", &self.id).finish_non_exhaustive()
    }
}

impl HostedPrompt {
    /// Returns the problem of a run whose input has no parameters.
    pub(crate) fn problem_without_params(&self) -> Option<String> {
        if self.fixed.is_some() {
            return None;
        }
        let problem = self.params_of(Map::new()).err()?;
        let names = self.names.join("`, `");
        Some(format!(
            "it is hosted with a conversation alone, and prompt `{}` has the parameters `{names}`: {problem}; set them with `params`",
            self.id
        ))
    }

    /// Returns the prompt of a task, rendered with the parameters in the state.
    pub(crate) fn run(
        &self,
        input: &TaskInput<'_>,
        thread: &ThreadId,
    ) -> NodeResult<Arc<PromptRun>> {
        let params = match &self.fixed {
            Some(fixed) => fixed.clone(),
            None => {
                let value =
                    |name: &String| Some((name.clone(), input.channel::<Value>(name)?.clone()));
                let given = self.names.iter().filter_map(value).collect();
                self.params_of(given).map_err(|problem| self.missing(&problem).fault())?
            }
        };
        Ok(self.render(&params, thread).map_err(|error| error.fault())?)
    }

    fn params_of(&self, given: Map<String, Value>) -> Result<Value, String> {
        if self.names.is_empty() {
            let none = (self.read)(&Value::Null);
            return none.or_else(|_| (self.read)(&Value::Object(Map::new())));
        }
        (self.read)(&Value::Object(given))
    }

    fn missing(&self, problem: &str) -> PromptError {
        let names = self.names.join("`, `");
        let reason = format!(
            "the parameters in the state of the thread do not fit: {problem}; give them as members of the input of a run: `{names}`"
        );
        PromptError::Parameters { prompt: self.id.clone(), reason }
    }

    fn render(&self, params: &Value, thread: &ThreadId) -> Result<Arc<PromptRun>, PromptError> {
        let key = hash(&serde_json::json!([thread, params]));
        let cached = || self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = cached().get(&key) {
            return Ok(Arc::clone(run));
        }
        let rendered = self.prompt.render(params, &Overrides::new())?;
        let evaluation = format!("{}@{thread}", self.id);
        let record = Record::new(evaluation, self.id.clone(), rendered.hash(), thread.clone());
        let run = PromptRun::new(&self.resources, &record, rendered, self.bound.clone())?;
        let run = Arc::new(run);
        let mut cached = cached();
        if cached.len() >= RENDERED_MAX {
            cached.clear();
        }
        cached.insert(key, Arc::clone(&run));
        Ok(run)
    }
}
