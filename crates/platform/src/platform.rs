//! The agents of a program as servers and commands reach them.

mod port;
mod response;

use self::response::{failure, failure_of, ids_of};
use crate::action::{self, Action, ActionError, Forms, RecordAction};
use crate::agent::chain_name;
use crate::mode::{self, OrchestrationAction, RequestError};
use crate::records::{
    NewConversation, RecordCache, RecordError, RecordId, RecordKind, RecordRef, Records,
    TITLE_CHARS_MAX, find_thread, open_conversation,
};
use crate::source::{AGENTS, Agents};
use futures_util::TryStreamExt;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_runtime::{Runtime, StartedRun};
use weftwork_store::{StoreError, open_questions};
use weftwork_types::canonical;
use weftwork_types::code::Fault;
use weftwork_types::event::RunEvent;
use weftwork_types::message::Message;
use weftwork_types::port::TaskCaller;
use weftwork_types::run::RunOptions;
use weftwork_types::task::{Mode, Payload, TaskRequest, TaskResponse};
use weftwork_types::{CallChain, Principal, ThreadId};

/// Function that sees the events of a run.
pub type Watch<'w> = dyn FnMut(&RunEvent) + Send + 'w;

/// The agents of a runtime, as a [`Platform`](weftwork_types::port::Platform).
#[derive(Debug, Clone)]
pub struct HostedAgents {
    runtime: Runtime,
    agents: Agents,
    records: Arc<RecordCache>,
}

/// A request that was checked.
pub(crate) struct Checked {
    /// Slug.
    pub(crate) agent: String,
    pub(crate) mode: Mode,
    pub(crate) action: Action,
    pub(crate) conversation: String,
    pub(crate) thread: ThreadId,
}

/// A request for records.
struct RecordRequest<'a> {
    mode: Mode,
    kind: RecordKind,
    action: RecordAction,
    conversation: &'a str,
    thread: &'a ThreadId,
    /// Agent that is asked; `None` for a request to no agent.
    agent: Option<&'a str>,
    payload: &'a Payload,
    /// Idempotency key.
    key: Option<&'a str>,
}

impl HostedAgents {
    /// Creates the platform of a runtime whose graph source is these agents.
    #[must_use]
    pub fn new(runtime: Runtime, agents: Agents) -> Self {
        Self { runtime, agents, records: Arc::default() }
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(crate) fn agents(&self) -> &Agents {
        &self.agents
    }

    pub(crate) fn records<'a>(&'a self, who: &'a Principal) -> Records<'a> {
        let now = self.runtime.clock().now();
        Records::new(&**self.runtime.store(), who, now).cached(&self.records)
    }

    /// Finds the agent of a request, its mode, and the records that it names.
    pub(crate) async fn check(
        &self,
        who: &Principal,
        key: Option<&str>,
        request: &TaskRequest,
    ) -> Result<Checked, Fault> {
        let slug = request.agent.strip_prefix(AGENTS).unwrap_or(&request.agent);
        let Some(folder) = self.agents.definition(who, slug) else {
            let known = self.agents.definitions(who);
            let nearest = crate::definition::nearest(slug, known.iter().map(|of| of.slug.as_str()));
            let nearest = nearest.map(str::to_owned);
            return Err(RequestError::Agent { agent: slug.to_owned(), nearest }.fault());
        };
        let definition = &folder.definition;
        let mode = mode::of_definition(slug, definition, request.mode.as_deref());
        let mode = mode.map_err(|error| error.fault())?;
        let orchestration = OrchestrationAction::of(&request.payload);
        let orchestration = orchestration.map_err(|error| error.fault())?;
        // Every agent may wait for an approval.
        if !matches!(orchestration, None | Some(OrchestrationAction::HumanResponse)) {
            mode::check_steps(slug, definition).map_err(|error| error.fault())?;
        }
        let action = match orchestration {
            None | Some(OrchestrationAction::Execute) => Action::of(mode, &request.payload),
            Some(action) => Ok(Action::Orchestration(action)),
        };
        let action = action.map_err(|error| error.fault())?;
        if action == Action::Run && orchestration.is_none() && asks_nothing(request) {
            let missing = RequestError::Member {
                member: "userMessage",
                found: "empty".to_owned(),
                expected: "a text, or an `input` or a `payload` that the agent can work with"
                    .to_owned(),
            };
            return Err(missing.fault());
        }
        let title = request.payload.title.as_deref().unwrap_or_default();
        if title.chars().count() > TITLE_CHARS_MAX {
            let long = RequestError::Member {
                member: "payload.title",
                found: format!("{} characters", title.chars().count()),
                expected: format!("at most {TITLE_CHARS_MAX}"),
            };
            return Err(long.fault());
        }
        let begins = matches!(action, Action::Run | Action::Record(_, RecordAction::Create));
        if request.conversation_id.is_none() && !begins {
            let missing = RequestError::Member {
                member: "conversationId",
                found: "missing".to_owned(),
                expected: "the conversation of the record".to_owned(),
            };
            return Err(missing.fault());
        }
        let conversation = match &request.conversation_id {
            Some(id) => id.clone(),
            None => self.new_conversation(who, key, &folder.slug),
        };
        let thread = self.thread_of(who, &conversation).await?;
        self.check_named(who, &thread, action, mode, &request.payload).await?;
        Ok(Checked { agent: folder.slug.clone(), mode, action, conversation, thread })
    }

    /// Checks that the records which a run is to follow or to continue exist, and that it continues the
    /// current version.
    async fn check_named(
        &self,
        who: &Principal,
        thread: &ThreadId,
        action: Action,
        mode: Mode,
        payload: &Payload,
    ) -> Result<(), Fault> {
        let again = match action {
            Action::Run => None,
            Action::Again(kind) => Some(kind),
            Action::Record(..) | Action::Orchestration(_) => return Ok(()),
        };
        for kind in [RecordKind::Plan, RecordKind::Deliverable] {
            let is_named = match kind {
                RecordKind::Plan => payload.plan_id.is_some(),
                RecordKind::Deliverable => payload.deliverable_id.is_some(),
            };
            if !is_named && again != Some(kind) {
                continue;
            }
            let id = action::id_of(kind, payload).map_err(|error| error.fault())?;
            let at = RecordRef { kind, thread: thread.clone(), id };
            let found = self.records(who).read(&at).await.map_err(|error| error.fault())?;
            let version = payload.version.filter(|_| action::kind_of(mode) == Some(kind));
            if let Some(version) = version.filter(|version| *version != found.current) {
                let late = RequestError::Member {
                    member: "payload.version",
                    found: version.to_string(),
                    expected: format!("the current version, {}", found.current),
                };
                return Err(late.fault());
            }
        }
        Ok(())
    }

    pub(crate) async fn thread_of(
        &self,
        who: &Principal,
        conversation: &str,
    ) -> Result<ThreadId, Fault> {
        if conversation.is_empty() {
            let empty = RequestError::Member {
                member: "conversationId",
                found: "empty".to_owned(),
                expected: "a text, or none for a new conversation".to_owned(),
            };
            return Err(empty.fault());
        }
        let found = find_thread(&**self.runtime.store(), who, conversation).await;
        found.map_err(|error| error.fault())
    }

    /// Id of a new conversation: for a request with an idempotency key always the same one, so that the
    /// request finds its answer when it is repeated.
    pub(crate) fn new_conversation(
        &self,
        who: &Principal,
        key: Option<&str>,
        agent: &str,
    ) -> String {
        let Some(key) = key else {
            return uuid::Uuid::from_u128(self.runtime.clock().unique()).to_string();
        };
        let hash = canonical::hash(&json!(["weft:request", who.org, who.subject, agent, key])).0;
        let bytes = std::array::from_fn(|at| hash[at]);
        uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
    }

    /// Runs the agent for a request, and returns its answer.
    async fn run(
        &self,
        by: &TaskCaller,
        request: TaskRequest,
        checked: &Checked,
        watch: Option<&mut Watch<'_>>,
    ) -> Result<TaskResponse, Fault> {
        let streams = request.payload.stream == Some(true);
        let mut started = self.start_run(by, request, checked, Map::new()).await?;
        if streams {
            let run = started.run().clone();
            let mut metadata = ids_of(&checked.conversation, &run);
            let path = format!("/threads/{}/runs/{}/stream", run.thread, run.run);
            metadata.insert("stream".to_owned(), path.into());
            return Ok(TaskResponse::success(checked.mode, Value::Null, metadata));
        }
        if let Some(watch) = watch {
            // An error of the stream ends what is shown, and not the run.
            while let Ok(Some(output)) = started.try_next().await {
                output.event().into_iter().for_each(&mut *watch);
            }
        }
        let ended = started.await;
        Ok(self.response(&by.principal, checked, &ended).await)
    }

    /// Begins the run of a request that was checked.
    pub(crate) async fn start_run(
        &self,
        by: &TaskCaller,
        request: TaskRequest,
        checked: &Checked,
        run_metadata: Map<String, Value>,
    ) -> Result<StartedRun, Fault> {
        let who = &by.principal;
        let TaskRequest { agent, user_message, payload, input: given, .. } = request;
        let slug = agent.strip_prefix(AGENTS).unwrap_or(&agent);
        let Checked { mode, conversation, thread, .. } = checked;
        let message = match &by.idempotency_key {
            Some(key) => Message::user_of_request(user_message.clone(), key),
            None => Message::user(user_message.clone()),
        };
        let messages = if user_message.is_empty() { Vec::new() } else { vec![message] };
        let mut input = json!({"messages": messages, "mode": mode, "payload": payload});
        self.add_chain(by, slug, &mut input)?;
        // Only chats go without the declared input.
        let is_declared = || {
            let definition = self.agents.definition(who, slug);
            definition.is_some_and(|folder| folder.definition.input_schema.is_some())
        };
        match given {
            Some(given) => input["input"] = given,
            None if *mode != Mode::Converse && is_declared() => input["input"] = json!({}),
            None => {}
        }
        let runs = self.runtime.thread_for(who, &format!("{AGENTS}{slug}"), thread.as_str());
        let runs = runs.map_err(fault)?;
        self.check_first(who, slug, thread, &input).await?;
        let opened = NewConversation {
            id: conversation.clone(),
            title: payload.title.clone().or_else(|| title_of(&user_message)),
            agent: Some(slug.to_owned()),
            graph: None,
        };
        self.open(who, opened).await?;
        self.check_waiting(who, thread, by.idempotency_key.as_deref()).await?;
        // A conversation may be continued by another agent: all have the same state.
        let options = RunOptions {
            other_graph: true,
            idempotency_key: by.idempotency_key.clone(),
            parent_span: by.parent_span.clone(),
            metadata: run_metadata,
            ..RunOptions::default()
        };
        let run = runs.with_options(options).start(input);
        run.caller(by.caller.clone()).begin().await.map_err(fault)
    }

    /// Adds the agents that asked one another before a request to the input of its run.
    ///
    /// # Errors
    /// W1039 if the agent is one of them and its definition does not allow that.
    pub(crate) fn add_chain(
        &self,
        by: &TaskCaller,
        slug: &str,
        input: &mut Value,
    ) -> Result<(), Fault> {
        if by.chain == CallChain::default() {
            return Ok(());
        }
        let folder = self.agents.definition(&by.principal, slug);
        let repeats = folder.is_some_and(|folder| {
            let own = folder.definition.orchestration.as_ref();
            let is_allowed = own.and_then(|of| of.allow_repeats).unwrap_or_default();
            !is_allowed && by.chain.agents.contains(&chain_name(slug, &folder.version()))
        });
        if repeats {
            return Err(RequestError::Repeated { agent: slug.to_owned() }.fault());
        }
        input["depth"] = by.chain.depth.into();
        input["ancestors"] = json!(by.chain.agents);
        Ok(())
    }

    /// Checks the input of the first request of a conversation, so that a refused one leaves none. That
    /// of a later one is checked by the version with which the conversation goes on.
    pub(crate) async fn check_first(
        &self,
        who: &Principal,
        slug: &str,
        thread: &ThreadId,
        input: &Value,
    ) -> Result<(), Fault> {
        match self.runtime.store().thread(who, thread).await {
            Err(StoreError::NotFound { .. }) => {}
            found => return found.map(drop).map_err(|error| error.fault()),
        }
        let Some(folder) = self.agents.definition(who, slug) else { return Ok(()) };
        let graph = self.agents.compile(&folder).map_err(|problem| problem.fault())?;
        graph.check_input(input)
    }

    /// Refuses a request in a conversation that waits for an answer, unless it repeats the one of its
    /// key.
    pub(crate) async fn check_waiting(
        &self,
        who: &Principal,
        thread: &ThreadId,
        key: Option<&str>,
    ) -> Result<(), Fault> {
        let store = self.runtime.store();
        let questions = store.interrupts(who, thread).await.map_err(|error| error.fault())?;
        let open = open_questions(questions);
        let Some(first) = open.first() else { return Ok(()) };
        if key.is_some() {
            let runs = store.runs(who, thread).await.map_err(|error| error.fault())?;
            if runs.iter().any(|row| row.new.options.idempotency_key.as_deref() == key) {
                return Ok(());
            }
        }
        Err(RequestError::Waiting { question: first.ask.to_string() }.fault())
    }

    pub(crate) async fn open(&self, who: &Principal, new: NewConversation) -> Result<(), Fault> {
        let now = self.runtime.clock().now();
        let opened = open_conversation(&**self.runtime.store(), who, new, now).await;
        opened.map(drop).map_err(|error| error.fault())
    }

    /// Fulfils a request as [`Platform::task`](weftwork_types::port::Platform::task) does, and shows the events of its run as they come.
    ///
    /// # Cancel safety
    /// The run of the request continues.
    pub async fn task_watched(
        &self,
        by: TaskCaller,
        request: TaskRequest,
        watch: &mut Watch<'_>,
    ) -> TaskResponse {
        self.fulfil(by, request, Some(watch)).await
    }

    async fn fulfil(
        &self,
        by: TaskCaller,
        request: TaskRequest,
        watch: Option<&mut Watch<'_>>,
    ) -> TaskResponse {
        let asked = request.mode.clone().unwrap_or_default();
        let key = by.idempotency_key.as_deref();
        let checked = match self.check(&by.principal, key, &request).await {
            Ok(checked) => checked,
            Err(fault) => return failure_of(asked, &fault, Map::new()),
        };
        let mode = checked.mode;
        let done = match checked.action {
            Action::Run => self.run(&by, request, &checked, watch).await,
            Action::Again(_) => self.run(&by, repeated(request), &checked, watch).await,
            Action::Orchestration(action) => {
                let done = self.act_on_orchestration(&by, &request, &checked, action).await;
                return done.unwrap_or_else(|error| error.response(mode));
            }
            Action::Record(kind, action) => {
                let slug = request.agent.strip_prefix(AGENTS).unwrap_or(&request.agent);
                let act = RecordRequest {
                    mode,
                    kind,
                    action,
                    conversation: &checked.conversation,
                    thread: &checked.thread,
                    agent: Some(slug),
                    payload: &request.payload,
                    key: by.idempotency_key.as_deref(),
                };
                return self.act(&by.principal, act).await;
            }
        };
        done.unwrap_or_else(|fault| failure(mode, &fault, Map::new()))
    }

    /// Reads or changes records. A conversation is opened for its first record.
    async fn act(&self, who: &Principal, request: RecordRequest<'_>) -> TaskResponse {
        let RecordRequest { mode, kind, action, conversation, thread, .. } = request;
        let RecordRequest { agent, payload, key, .. } = request;
        let records = self.records(who).under_key(key);
        let forms = Forms { agent, of: &|agent| self.agents.form(who, agent, kind) };
        let new_id = match key {
            Some(key) => RecordId::derived(&["weft:request", key]),
            None => RecordId::derived(&[&format!("{:032x}", self.runtime.clock().unique())]),
        };
        if action == RecordAction::Create {
            // A refused record leaves no conversation.
            if let Err(error) = action::check_create(kind, thread, payload, &new_id, forms) {
                return failure(mode, &error.fault(), Map::new());
            }
            let new = NewConversation {
                id: conversation.to_owned(),
                title: payload.title.clone(),
                agent: agent.map(str::to_owned),
                graph: None,
            };
            if let Err(fault) = self.open(who, new).await {
                return failure(mode, &fault, Map::new());
            }
        }
        match action::act(&records, kind, action, thread, payload, new_id, forms).await {
            Ok(content) => {
                let mut metadata = Map::new();
                metadata.insert("conversationId".to_owned(), conversation.into());
                TaskResponse::success(mode, content, metadata)
            }
            Err(error) => {
                let mut metadata = Map::new();
                match &error {
                    ActionError::Record(RecordError::Changed(changed)) => {
                        metadata.insert("conflict".to_owned(), json!(changed));
                    }
                    ActionError::Record(RecordError::Conflicts(conflicts)) => {
                        metadata.insert("conflicts".to_owned(), json!(conflicts));
                    }
                    _ => {}
                }
                failure(mode, &error.fault(), metadata)
            }
        }
    }
}

/// A request for a further version, with a message if it has none.
pub(crate) fn repeated(request: TaskRequest) -> TaskRequest {
    let user_message = match request.user_message.as_str() {
        "" => "Make it again.".to_owned(),
        message => message.to_owned(),
    };
    TaskRequest { user_message, ..request }
}

/// Returns `true` for a request without anything that an agent could work with.
fn asks_nothing(request: &TaskRequest) -> bool {
    let Payload { tool, tools, plan_id, deliverable_id, .. } = &request.payload;
    let names =
        tool.is_some() || !tools.is_empty() || plan_id.is_some() || deliverable_id.is_some();
    request.user_message.trim().is_empty() && request.input.is_none() && !names
}

/// The first line of a message, as the title of its conversation.
pub(crate) fn title_of(message: &str) -> Option<String> {
    let line = message.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(80).collect())
}

pub(crate) fn fault(error: RuntimeError) -> Fault {
    error.fault()
}
