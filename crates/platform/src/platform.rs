//! The agents of a program as servers and commands reach them.

use crate::action::{self, Action, ActionError, Forms, RecordAction};
use crate::agent::chain_name;
use crate::definition::DefinitionFolder;
use crate::exposure::NewExposure;
use crate::mode::{self, OrchestrationAction, RequestError};
use crate::orchestration::PAUSE_KEY;
use crate::records::{
    Conversation, ConversationQuery, NewConversation, RecordCache, RecordError, RecordId,
    RecordKind, RecordRef, Records, TITLE_CHARS_MAX, agent_of_thread, conversations,
    erase_conversation, export_conversation, find_thread, open_conversation, read_conversation,
};
use crate::rows::{NewRow, RowError, RowWriter};
use crate::source::{AGENTS, Agents};
use crate::sub_agent::{FailedRequest, fault_in, led_to};
use crate::task_list;
use futures_util::TryStreamExt;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_runtime::{EndedRun, Runtime, StartedRun};
use weftwork_store::{StoreError, open_questions};
use weftwork_types::canonical;
use weftwork_types::code::Fault;
use weftwork_types::event::RunEvent;
use weftwork_types::exposure::ExposureChange;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::message::Message;
use weftwork_types::peer::PeerCounts;
use weftwork_types::port::{AgentSummary, DefinitionRefusal, NewDefinition, Platform, TaskCaller};
use weftwork_types::run::{RunOptions, RunOutcome, RunRef};
use weftwork_types::task::{Mode, Payload, TaskRequest, TaskResponse};
use weftwork_types::{BoxFuture, CallChain, Principal, ThreadId};

/// Maximum number of conversations in a list.
const CONVERSATIONS_MAX: usize = 1_000;

/// Function that sees the events of a run.
pub type Watch<'w> = dyn FnMut(&RunEvent) + Send + 'w;

/// The agents of a runtime, as a [`Platform`].
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

    /// The answer to a request whose run has ended.
    pub(crate) async fn response(
        &self,
        who: &Principal,
        checked: &Checked,
        ended: &EndedRun,
    ) -> TaskResponse {
        let run = ended.run();
        let mut metadata = ids_of(&checked.conversation, run);
        if let Ok(used) = self.runtime.used(who, run).await {
            metadata.insert("usage".to_owned(), json!(used));
        }
        match ended.outcome() {
            RunOutcome::Completed { output } => {
                let answer = output.get("answer").cloned().unwrap_or_default();
                if let Some(known) = answer.get("metadata").and_then(Value::as_object) {
                    metadata.extend(known.clone());
                }
                if let Some(fault) = fault_in(&answer) {
                    return failed(checked, run, &fault, metadata);
                }
                self.add_version(who, run, &mut metadata).await;
                let content = answer.get("content").cloned().unwrap_or_default();
                TaskResponse::success(checked.mode, content, metadata)
            }
            RunOutcome::Interrupted { .. } => {
                let questions: Vec<_> =
                    ended.questions().iter().map(|asked| json!(asked)).collect();
                let text = ended.questions().first().map(|asked| asked.ask.to_string());
                let approval = ended.questions().iter().find(|asked| asked.approval().is_some());
                if let Some(approval) = approval {
                    metadata.insert("approvalId".to_owned(), json!(approval.id));
                }
                let is_paused = |asked: &Interrupt| asked.key.as_deref() == Some(PAUSE_KEY);
                let status = match ended.questions().iter().any(is_paused) {
                    true => "paused",
                    false => "input_required",
                };
                metadata.insert("status".to_owned(), status.into());
                let report = self.report_waiting(who, &checked.agent, &run.thread).await;
                metadata.extend(report.unwrap_or_default());
                metadata.insert("questions".to_owned(), questions.into());
                TaskResponse::success(checked.mode, text.unwrap_or_default().into(), metadata)
            }
            RunOutcome::Failed { fault } => failed(checked, run, fault, metadata),
            other => {
                let error = format!("the run ended with the status {}", json!(other.status()));
                let response = TaskResponse::failure(checked.mode.name(), error);
                TaskResponse { metadata, ..response }
            }
        }
    }

    /// Adds the numbers of the versions that a run made, and warnings about those that it passed over.
    async fn add_version(&self, who: &Principal, run: &RunRef, metadata: &mut Map<String, Value>) {
        let given = metadata.get("warnings").and_then(Value::as_array).cloned();
        let mut warnings: Vec<Value> = given.unwrap_or_default();
        warnings.extend(self.other_version(who, metadata).map(Value::from));
        for kind in [RecordKind::Plan, RecordKind::Deliverable] {
            let Some(Value::Object(known)) = metadata.get_mut(kind.name()) else { continue };
            let id = known.get("id").cloned().unwrap_or_default();
            let Ok(named) = RecordId::new(id.as_str().unwrap_or_default()) else { continue };
            let at = RecordRef { kind, thread: run.thread.clone(), id: named };
            let record = match self.records(who).read(&at).await {
                Ok(record) => Some(record),
                Err(RecordError::Store(StoreError::NotFound { .. })) => None,
                Err(_) => continue,
            };
            let version = record.as_ref().and_then(|record| {
                let is_of_run =
                    |version: &&crate::records::Version| version.run.as_ref() == Some(&run.run);
                record.versions.iter().rev().find(is_of_run)
            });
            if let Some(version) = version {
                known.insert("version".to_owned(), version.number.into());
            }
            if record.is_none() {
                let id = id.as_str().unwrap_or_default();
                let kind = kind.name();
                let text = format!("{kind} `{id}` was deleted while the run made a version of it");
                warnings.push(Value::from(text));
            }
            // A person edited the record while the run made its version.
            let unmerged = record.as_ref().map(crate::records::Record::unmerged);
            let unmerged = unmerged.unwrap_or_default();
            for number in unmerged {
                warnings.push(Value::from(format!(
                    "version {number} of {} `{}` is not part of the current one; merge the two, or make it current",
                    kind.name(),
                    id.as_str().unwrap_or_default()
                )));
            }
        }
        if !warnings.is_empty() {
            metadata.insert("warnings".to_owned(), json!(warnings));
        }
    }

    /// Says that a conversation goes on with another version than the current one.
    fn other_version(&self, who: &Principal, metadata: &Map<String, Value>) -> Option<String> {
        let text = |name: &str| metadata.get(name).and_then(Value::as_str);
        let agent = text("agent")?;
        let version = text("version")?;
        let current = self.agents.definition(who, agent)?.version();
        (current != version).then(|| {
            format!(
                "the conversation goes on with version {version} of agent {agent}; new conversations get version {current}"
            )
        })
    }

    /// Fulfils a request as [`Platform::task`] does, and shows the events of its run as they come.
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

impl Platform for HostedAgents {
    fn agents(&self, who: &Principal) -> Vec<AgentSummary> {
        let summary = |folder: &Arc<DefinitionFolder>| AgentSummary {
            peer: self.agents.peer_state(folder, &**self.runtime.clock()),
            ..self.agents.summary(folder)
        };
        self.agents.definitions(who).iter().map(summary).collect()
    }

    fn peers(&self) -> PeerCounts {
        self.agents.peers(&**self.runtime.clock())
    }

    fn task(&self, by: TaskCaller, request: TaskRequest) -> BoxFuture<'_, TaskResponse> {
        Box::pin(self.fulfil(by, request, None))
    }

    fn record<'a>(
        &'a self,
        who: &'a Principal,
        mode: Mode,
        conversation: &'a str,
        payload: &'a Payload,
    ) -> BoxFuture<'a, TaskResponse> {
        Box::pin(async move {
            let refused = |fault: Fault| failure(mode, &fault, Map::new());
            let (kind, action) = match Action::of(mode, payload) {
                Ok(Action::Record(kind, action)) => (kind, action),
                Ok(Action::Run | Action::Again(_) | Action::Orchestration(_)) => {
                    let run = RequestError::Member {
                        member: "action",
                        found: "that of a run".to_owned(),
                        expected: "an action on records; ask the agent for others".to_owned(),
                    };
                    return refused(run.fault());
                }
                Err(error) => return refused(error.fault()),
            };
            let thread = match self.thread_of(who, conversation).await {
                Ok(thread) => thread,
                Err(fault) => return refused(fault),
            };
            // A new record has the form that the agent of the conversation gives it.
            let agent = match action == RecordAction::Create {
                true => agent_of_thread(&**self.runtime.store(), who, &thread).await,
                false => Ok(None),
            };
            let agent = match agent {
                Ok(agent) => agent,
                Err(error) => return refused(error.fault()),
            };
            let request = RecordRequest {
                mode,
                kind,
                action,
                conversation,
                thread: &thread,
                agent: agent.as_deref(),
                payload,
                key: None,
            };
            self.act(who, request).await
        })
    }

    fn conversations<'a>(
        &'a self,
        who: &'a Principal,
        agent: Option<&'a str>,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move {
            let after = after.map(str::parse).transpose().map_err(|_| {
                RequestError::Member {
                    member: "after",
                    found: "another text".to_owned(),
                    expected: "the `next` of an earlier list".to_owned(),
                }
                .fault()
            })?;
            let agent = agent.map(str::to_owned);
            let query =
                ConversationQuery { agent, after, limit: limit.clamp(1, CONVERSATIONS_MAX) };
            let page = conversations(&**self.runtime.store(), who, query).await;
            let page = page.map_err(|error| error.fault())?;
            let listed: Vec<_> = page.conversations.iter().map(shown).collect();
            let next = page.next.map(|next| next.to_string());
            Ok(json!({"conversations": listed, "next": next}))
        })
    }

    fn conversation<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a str,
        whole: bool,
    ) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move {
            let records = self.records(who);
            let found = read_conversation(&records, id).await.map_err(|error| error.fault())?;
            let thread = &found.conversation.thread;
            let mut value = match whole {
                true => export_conversation(&records, id).await.map_err(|error| error.fault())?,
                false => json!({"plans": found.plans, "deliverables": found.deliverables}),
            };
            value["conversation"] = shown(&found.conversation);
            value["tasks"] = task_list::tasks(&self.runtime, who, thread).await?.into();
            if whole {
                let state = self.runtime.state(who, thread).await;
                value["messages"] =
                    state.map(|state| state.values["messages"].clone()).unwrap_or_default();
            }
            Ok(value)
        })
    }

    fn orchestrations<'a>(
        &'a self,
        who: &'a Principal,
        agent: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move {
            self.list_orchestrations(who, agent).await.map_err(|error| error.fault())
        })
    }

    fn orchestration<'a>(
        &'a self,
        who: &'a Principal,
        conversation: &'a str,
    ) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move {
            self.show_orchestration(who, conversation).await.map_err(|error| error.fault())
        })
    }

    fn erase<'a>(&'a self, who: &'a Principal, id: &'a str) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            erase_conversation(&self.records(who), id).await.map_err(|error| error.fault())
        })
    }

    fn put_definition<'a>(
        &'a self,
        who: &'a Principal,
        new: NewDefinition,
    ) -> BoxFuture<'a, Result<AgentSummary, DefinitionRefusal>> {
        Box::pin(async move {
            let NewDefinition { slug, organization, files, condition } = new;
            let by = RowWriter::Client(who.clone());
            let row = NewRow { slug, organization, files, condition, by };
            let now = self.runtime.clock().now();
            let written = self.agents.put_row(&**self.runtime.store(), &row, now).await;
            Ok(self.agents.summary(&*written.map_err(refusal)?))
        })
    }

    fn remove_definition<'a>(
        &'a self,
        who: &'a Principal,
        organization: Option<&'a str>,
        slug: &'a str,
    ) -> BoxFuture<'a, Result<(), DefinitionRefusal>> {
        Box::pin(async move {
            let now = self.runtime.clock().now();
            let by = RowWriter::Client(who.clone());
            let store = &**self.runtime.store();
            let removed = self.agents.remove_row(store, &by, organization, slug, now).await;
            removed.map_err(refusal)
        })
    }

    fn expose<'a>(
        &'a self,
        who: &'a Principal,
        slug: &'a str,
        change: ExposureChange,
    ) -> BoxFuture<'a, Result<AgentSummary, DefinitionRefusal>> {
        Box::pin(async move {
            let missing = || StoreError::NotFound { kind: "agent", id: slug.to_owned() };
            let found = self.agents.definition(who, slug);
            let found = found.ok_or_else(|| DefinitionRefusal::Store(missing().fault()))?;
            let organization = found.definition.organization.clone();
            let by = RowWriter::Client(who.clone());
            let new = NewExposure { organization, slug: slug.to_owned(), change, by };
            let now = self.runtime.clock().now();
            let exposed = self.agents.expose(&**self.runtime.store(), new, now).await;
            exposed.map_err(refusal)?;
            Ok(self.agents.summary(&found))
        })
    }
}

fn refusal(error: RowError) -> DefinitionRefusal {
    let text = error.to_string();
    match error {
        RowError::Problems { problems } => DefinitionRefusal::Problems {
            text,
            problems: problems.iter().map(|problem| json!(problem)).collect(),
        },
        RowError::Taken { problem } => DefinitionRefusal::Taken { text, problem: json!(problem) },
        RowError::Forbidden { .. } => DefinitionRefusal::Forbidden { text },
        RowError::Store(error) => DefinitionRefusal::Store(error.fault()),
    }
}

fn shown(conversation: &Conversation) -> Value {
    json!({
        "id": conversation.id,
        "title": conversation.title,
        "agent": conversation.agent,
        "thread": conversation.thread,
        "createdAt": conversation.created_at,
        "updatedAt": conversation.updated_at,
    })
}

/// The first line of a message, as the title of its conversation.
pub(crate) fn title_of(message: &str) -> Option<String> {
    let line = message.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(80).collect())
}

fn ids_of(conversation: &str, run: &weftwork_types::run::RunRef) -> Map<String, Value> {
    Map::from_iter([
        ("conversationId".to_owned(), conversation.into()),
        ("thread".to_owned(), json!(run.thread)),
        ("run".to_owned(), json!(run.run)),
    ])
}

pub(crate) fn fault(error: RuntimeError) -> Fault {
    error.fault()
}

/// The answer to a request whose run failed. The last failure in it is that of the agent itself.
fn failed(
    checked: &Checked,
    run: &RunRef,
    fault: &Fault,
    mut metadata: Map<String, Value>,
) -> TaskResponse {
    let attempt = fault.details.as_ref().and_then(|details| details.attempt).unwrap_or(1);
    let Checked { agent, mode, .. } = checked;
    let request = FailedRequest { agent, step: mode.name(), attempt };
    let known = metadata.get("failures").and_then(Value::as_array).cloned();
    let led = || led_to(fault).iter().map(|failure| json!(failure)).collect();
    let mut failures = known.unwrap_or_else(led);
    failures.push(json!(request.failure(fault, Some(&run.run))));
    metadata.insert("failures".to_owned(), failures.into());
    failure(*mode, fault, metadata)
}

fn failure(mode: Mode, fault: &Fault, metadata: Map<String, Value>) -> TaskResponse {
    failure_of(mode.name().to_owned(), fault, metadata)
}

/// The answer to a request that failed, with the code of the failure.
fn failure_of(mode: String, fault: &Fault, mut metadata: Map<String, Value>) -> TaskResponse {
    metadata.insert("code".to_owned(), fault.code.clone().into());
    metadata.insert("retriable".to_owned(), fault.retriable.into());
    TaskResponse { metadata, ..TaskResponse::failure(mode, fault.message.clone()) }
}
