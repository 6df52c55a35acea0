//! Requests for runs, and the reasons to refuse them.

use super::core::{Admitted, Goes, Runtime};
use super::execution::{Begun, Requested};
use super::refusals::Answered;
use crate::context::begins_from;
use crate::hosted::Live;
use futures_util::FutureExt;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use weftwork_engine::EngineError;
use weftwork_graph::run_loop::{Unanswered, answers_by_id, check_answer, check_open, out_of_node};
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_store::mailbox::{RESERVED, is_living_instance};
use weftwork_store::{
    CheckpointNamespace, InterruptRow, NewRun, RunRow, StoreError, ThreadRow, invariants,
    open_questions,
};
use weftwork_types::canonical::can_be_read_back;
use weftwork_types::interrupt::Answer;
use weftwork_types::port::{Clock, ExecuteError, GraphExecutor, RunHandle};
use weftwork_types::run::{Answers, RunCommand, RunInput, RunRef, RunRequest, RunStatus, Within};
use weftwork_types::{BoxFuture, InterruptId, Principal, RunId, ThreadId, Timestamp};

impl Runtime {
    /// Accepts a run, and reports its events to a receiver while it is executed here.
    pub(crate) async fn accepted(
        &self,
        request: RunRequest,
        live: Option<Live>,
    ) -> Result<RunHandle, RuntimeError> {
        self.accept(request, live).await.map(Goes::handle)
    }

    pub(super) async fn accept(
        &self,
        mut request: RunRequest,
        live: Option<Live>,
    ) -> Result<Goes, RuntimeError> {
        let graph = self.graph(&request.graph)?;
        if self.0.context.shutdown.drains() {
            return Err(RuntimeError::Stopping);
        }
        check_depth(&request.input)?;
        // The model that a run selects may take what the usual one does not.
        if let (RunInput::Start { input }, None) = (&request.input, &request.options.run_model) {
            graph.check_input(input).map_err(RuntimeError::Node)?;
        }
        let thread = self.check_thread(&request, &graph).await?;
        let asked = self.resolve_answers(&mut request, &graph).await?;
        self.continue_options(&mut request).await?;
        let given = Answered::by(&request);
        let mailbox = thread.filter(|thread| is_living_instance(&thread.metadata));
        let who = request.principal.clone();
        let accepted = self.create(request, graph, live, asked).await;
        // The activities that wait behind a question follow its answer. A question whose answer is
        // refused may be one to set aside that a process has left there.
        if let Some(instance) = mailbox {
            self.attend(&who, &instance.id);
        }
        let error = match accepted {
            Ok(goes) => return Ok(goes),
            Err(error) => error,
        };
        if let Some(given) = given {
            self.record_refusals(given, &error).await;
        }
        Err(error)
    }

    /// Stores the run of a request whose answers have ids, and begins it.
    async fn create(
        &self,
        request: RunRequest,
        graph: CompiledGraph,
        live: Option<Live>,
        asked: AskedAt,
    ) -> Result<Goes, RuntimeError> {
        let context = &self.0.context;
        let now = context.clock.now();
        let answers = match asked {
            AskedAt::Newest => {
                self.check_answers(&request, &graph).await?;
                answers(&request, now)
            }
            // The input of the run has them; the questions of the newest checkpoint stay open.
            AskedAt::Older => BTreeMap::new(),
        };
        let given: Vec<_> = answers.keys().copied().collect();
        let who = request.principal.clone();
        let new = new_run(&*context.clock, request, now);
        let at_once = new.options.begins_later(now).is_none() && !new.is_sent();
        let slot = if at_once { self.0.slots.take() } else { None };
        let here = slot.map(|slot| self.register(&who.org, &new.at, slot)).transpose()?;
        let created = match here {
            Some(here) => {
                let (this, by, new) = (self.clone(), who.clone(), new.clone());
                let create = async move {
                    this.store().create_claimed(&by, new, answers, this.worker()).await
                };
                let (who, graph) = (who.clone(), graph.clone());
                here.execute(Requested { who, graph, asked: true, live }, create).await
            }
            None => {
                let created = context.store.create_run(&who, new.clone(), answers).await;
                let created = created.map(|row| Begun::Unclaimed(Box::new(row), live));
                created.map_err(RuntimeError::from)
            }
        };
        match created {
            Ok(Begun::Here(handle)) => Ok(Goes::Here(handle)),
            Ok(Begun::Unclaimed(row, live)) => {
                Ok(Goes::Elsewhere(self.wait_or_follow(who, &new.at.run, *row, graph, live)))
            }
            Err(error) => Err(self.why_refused(&who, &new.at.thread, &given, error).await),
        }
    }

    /// Follows a run that was accepted without a claim: one that waits, or that of an earlier
    /// request.
    fn wait_or_follow(
        &self,
        who: Principal,
        asked: &RunId,
        row: RunRow,
        graph: CompiledGraph,
        live: Option<Live>,
    ) -> RunHandle {
        if row.new.at.run != *asked {
            return self.follow(who, row.new.at, graph);
        }
        if row.new.is_sent() {
            self.attend(&who, &row.new.at.thread);
            return self.follow(who, row.new.at, graph);
        }
        let queued = row.status == RunStatus::Queued;
        if queued && row.new.options.multitask.cancels() {
            self.cancel_others(&who, &row.new.at);
        }
        let begins = row.new.options.begins_later(self.0.context.clock.now());
        let admitted = Admitted { who, row, graph, asked: true, live };
        if let Some(begins) = begins {
            return self.wait_for_time(admitted, begins);
        }
        if queued { self.wait_for_turn(admitted) } else { self.wait_for_slot(admitted) }
    }

    /// Returns the error of a refused request. An answer to no open question is refused with the open
    /// ones. While the run of the first answer is active, the
    /// thread is busy; a second answer is refused because of that answer instead.
    async fn why_refused(
        &self,
        who: &Principal,
        thread: &ThreadId,
        given: &[InterruptId],
        error: RuntimeError,
    ) -> RuntimeError {
        let RuntimeError::Store(error) = error else { return error };
        let unknown = matches!(error, StoreError::NotFound { kind: "interrupt", .. });
        if !(unknown || matches!(error, StoreError::Busy { .. })) || given.is_empty() {
            return error.into();
        }
        let rows = match self.store().interrupts(who, thread).await {
            Ok(rows) => rows,
            Err(unread) => return unread.into(),
        };
        if unknown {
            let open = open_questions(rows);
            let open: Vec<_> = open.iter().collect();
            return check_open(given, &open).err().unwrap_or(error.into());
        }
        let asked = |id: &InterruptId| rows.iter().find(|row| row.interrupt.id == *id);
        let mut refusals =
            given.iter().filter_map(|id| invariants::check_answerable(*id, asked(id)).err());
        let answered = |refusal: &StoreError| matches!(refusal, StoreError::Answered { .. });
        refusals.find(answered).unwrap_or(error).into()
    }

    /// Checks that this graph can read the thread, and that it has the checkpoint from which to
    /// continue. Returns the thread if it exists.
    async fn check_thread(
        &self,
        request: &RunRequest,
        graph: &CompiledGraph,
    ) -> Result<Option<ThreadRow>, RuntimeError> {
        let missing = || missing(request);
        // A request with a key may be a repetition.
        let repeats = request.options.idempotency_key.is_some();
        if request.options.at.is_some() && !repeats {
            self.check_loads(request, graph).await?;
        }
        let found = self.store().thread(&request.principal, &request.thread).await;
        if let Ok(thread) = &found {
            self.check_other_graph(request, thread).await?;
        }
        match found {
            Ok(thread) if is_at_rest(&thread) && is_of_other(&thread, request) => {
                let missing = thread.head.is_none() && request.input == RunInput::Continue;
                let read = self.check_loads(request, graph).await;
                read.map_err(|error| as_of_other(error, &thread, &request.graph))?;
                if missing { Err(self::missing(request)) } else { Ok(Some(thread)) }
            }
            Ok(thread)
                if thread.head.is_none()
                    && thread.status.is_none_or(RunStatus::is_final)
                    && request.input == RunInput::Continue
                    && !repeats =>
            {
                let runs =
                    self.store().unfinished_runs(&request.principal, &request.thread).await?;
                // One that waits for its turn may have begun by then.
                if runs.is_empty() { Err(missing()) } else { Ok(Some(thread)) }
            }
            Ok(thread) => Ok(Some(thread)),
            Err(StoreError::NotFound { .. }) => match request.input {
                RunInput::Start { .. } | RunInput::Update { .. } => Ok(None),
                RunInput::Command(ref command) if !command.only_answers() => Ok(None),
                _ => Err(missing()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Refuses a run on the thread of another graph, unless the request allows it and no question is
    /// open there: a superstep of this graph would replace that of the question.
    async fn check_other_graph(
        &self,
        request: &RunRequest,
        thread: &ThreadRow,
    ) -> Result<(), RuntimeError> {
        if !is_of_other(thread, request) {
            return Ok(());
        }
        if !request.options.other_graph {
            let reason = "a thread is continued by the graph that ran on it last";
            return Err(other_graph(thread, &request.graph, reason.to_owned()));
        }
        let rows = self.store().interrupts(&request.principal, &thread.id).await?;
        let Some(open) = rows.iter().find(|row| row.is_open()) else { return Ok(()) };
        let id = open.interrupt.id;
        let reason = format!("it waits for interrupt `{id}`, which the run would replace");
        Err(other_graph(thread, &request.graph, reason))
    }

    /// Replaces answers that name no ids by answers by id. With the semantics of LangGraph, a single
    /// answer is offered to whichever question is asked next, and stays as it is.
    async fn resolve_answers(
        &self,
        request: &mut RunRequest,
        graph: &CompiledGraph,
    ) -> Result<AskedAt, RuntimeError> {
        let RunInput::Command(RunCommand { answers: Some(given), .. }) = &request.input else {
            return Ok(AskedAt::Newest);
        };
        let reruns = graph.semantics().unanswered == Unanswered::Rerun;
        if reruns && matches!(given, Answers::One(_)) {
            return Ok(AskedAt::Newest);
        }
        if self.is_past(request, graph).await? {
            let by_id = self.answers_to_past(request, graph, given.clone()).await?;
            if let RunInput::Command(command) = &mut request.input {
                command.answers = Some(Answers::ById(by_id));
            }
            return Ok(AskedAt::Older);
        }
        let RunInput::Command(RunCommand { answers: Some(answers), .. }) = &mut request.input
        else {
            return Ok(AskedAt::Newest);
        };
        let rows = match self.store().interrupts(&request.principal, &request.thread).await {
            // Such a request is refused because of its thread.
            Err(StoreError::NotFound { .. }) if matches!(answers, Answers::ById(_)) => {
                return Ok(AskedAt::Newest);
            }
            rows => rows?,
        };
        if let (Answers::ById(given), true) = (&mut *answers, reruns) {
            // In the reference answers to other questions have no effect.
            let asked = |id: &InterruptId| rows.iter().find(|row| row.interrupt.id == *id);
            given.retain(|id, _| asked(id).is_some_and(|row| !row.closed || row.answer.is_some()));
            return Ok(AskedAt::Newest);
        }
        let open = open_questions(rows);
        let open: Vec<_> = open.iter().collect();
        let now = self.0.context.clock.now();
        *answers = Answers::ById(answers_by_id(&open, answers.clone(), now)?);
        Ok(AskedAt::Newest)
    }

    /// Returns `true` if a request names a checkpoint that is not the newest of its thread.
    async fn is_past(
        &self,
        request: &RunRequest,
        graph: &CompiledGraph,
    ) -> Result<bool, RuntimeError> {
        if let Some(within) = &request.options.within {
            if graph.semantics().unanswered == Unanswered::Wait {
                self.check_newest_within(request, within).await?;
            }
            return Ok(false);
        }
        let Some(at) = request.options.at else { return Ok(false) };
        match self.store().thread(&request.principal, &request.thread).await {
            Ok(thread) => Ok(thread.head.is_some_and(|head| head != at)),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Refuses answers at checkpoints of a subgraph, and of the graphs around it, that are not the
    /// newest ones: a branch begins at a checkpoint of the outermost graph.
    async fn check_newest_within(
        &self,
        request: &RunRequest,
        within: &Within,
    ) -> Result<(), RuntimeError> {
        let around = within.checkpoints.iter().map(|(ns, at)| (ns, *at));
        // With those of the graphs around it, the request names that of the outermost one.
        let own = request.options.at.filter(|_| within.checkpoints.is_empty());
        let own = own.map(|at| (&within.namespace, at));
        for (ns, at) in around.chain(own) {
            let place = CheckpointNamespace { thread: request.thread.clone(), ns: ns.clone() };
            let newest = self.store().page(&request.principal, &place, None, 1).await?;
            if newest.first().is_some_and(|newest| newest.id != at) {
                let ns = within.namespace.clone();
                return Err(RuntimeError::AnsweredPastWithin { ns });
            }
        }
        Ok(())
    }

    /// Resolves answers to the questions of the checkpoint that a request names, and checks them.
    async fn answers_to_past(
        &self,
        request: &RunRequest,
        graph: &CompiledGraph,
        given: Answers,
    ) -> Result<BTreeMap<InterruptId, Json>, RuntimeError> {
        let context = self.0.context.looking(&request.principal);
        let at = begins_from(&request.thread, &request.options, request.options.at);
        let state = AssertUnwindSafe(graph.state(&context, &at, false)).catch_unwind().await;
        let state = state.unwrap_or_else(|panic| Err(out_of_node(panic.as_ref())))?;
        let asked: Vec<_> = state.interrupts.iter().collect();
        let now = self.0.context.clock.now();
        let given = answers_by_id(&asked, given, now)?;
        // In the reference answers to other questions have no effect.
        if graph.semantics().unanswered == Unanswered::Wait {
            check_open(given.keys(), &asked)?;
        }
        for question in asked {
            if let Some(answer) = given.get(&question.id) {
                check_answer(question, answer, now)?;
            }
        }
        Ok(given)
    }

    /// Refuses an answer that does not fit its question before it counts as the first one, and an
    /// answer to a thread that this build cannot continue.
    async fn check_answers(
        &self,
        request: &RunRequest,
        graph: &CompiledGraph,
    ) -> Result<(), RuntimeError> {
        let Some(answers) = request.input.answers_by_id() else { return Ok(()) };
        let rows = self.store().interrupts(&request.principal, &request.thread).await?;
        let given = |row: &InterruptRow| answers.contains_key(&row.interrupt.id);
        if rows.iter().any(|row| given(row) && row.is_open()) {
            self.check_loads(request, graph).await?;
        }
        let now = self.0.context.clock.now();
        for row in rows.iter().filter(|row| given(row)) {
            let asked = &row.interrupt;
            // An answer that was given before is refused as the second one.
            if let Some(answer) = answers.get(&asked.id).filter(|_| row.answer.is_none()) {
                check_answer(asked, answer, now)?;
            }
        }
        Ok(())
    }

    /// Reads the thread as a run would. This decodes types of users, which may panic.
    async fn check_loads(
        &self,
        request: &RunRequest,
        graph: &CompiledGraph,
    ) -> Result<(), RuntimeError> {
        let context = self.0.context.looking(&request.principal);
        let at = begins_from(&request.thread, &request.options, request.options.at);
        let read = AssertUnwindSafe(graph.state(&context, &at, true)).catch_unwind().await;
        read.unwrap_or_else(|panic| Err(out_of_node(panic.as_ref()))).map(drop)
    }
}

impl GraphExecutor for Runtime {
    fn execute(&self, request: RunRequest) -> BoxFuture<'_, Result<RunHandle, ExecuteError>> {
        Box::pin(async move {
            let accepted = self.accept(request, None).await.map(Goes::handle);
            accepted.map_err(|e| ExecuteError { fault: e.fault() })
        })
    }

    fn cancel<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunRef,
    ) -> BoxFuture<'a, Result<(), ExecuteError>> {
        Box::pin(async move {
            let asked = self.request_cancel(who, run).await;
            asked.map_err(|e| ExecuteError { fault: e.fault() })
        })
    }
}

/// Checkpoint whose questions a request answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AskedAt {
    /// The newest of the thread. Each of its questions has one answer for good.
    Newest,
    /// An older one. Its answers are for the branch of the run alone.
    Older,
}

fn missing(request: &RunRequest) -> RuntimeError {
    RuntimeError::NothingToContinue { thread: request.thread.to_string() }
}

/// Returns `true` if the last run of a thread was of another graph. What a run that rolls back will
/// read is not known yet.
fn is_of_other(thread: &ThreadRow, request: &RunRequest) -> bool {
    thread.graph.as_ref().is_some_and(|found| *found != request.graph)
        && request.options.roll_back.is_none()
}

/// Returns `true` if no run of a thread is unfinished; otherwise what the next one reads is not known.
fn is_at_rest(thread: &ThreadRow) -> bool {
    thread.status.is_none_or(RunStatus::is_final)
}

/// Returns the error of a graph that cannot read the thread of another one: it lacks a node that is
/// due, or has a channel of the same name and another kind.
fn as_of_other(error: RuntimeError, thread: &ThreadRow, asked: &str) -> RuntimeError {
    match error {
        RuntimeError::Engine(EngineError::LostNode { .. } | EngineError::OtherBuild { .. }) => {
            other_graph(thread, asked, error.to_string())
        }
        error => error,
    }
}

fn other_graph(thread: &ThreadRow, asked: &str, reason: String) -> RuntimeError {
    RuntimeError::OtherGraph {
        thread: thread.id.to_string(),
        found: thread.graph.clone().unwrap_or_default(),
        asked: asked.to_owned(),
        reason,
    }
}

/// Creates the record of a request's run, with a new id.
pub(super) fn new_run(clock: &dyn Clock, request: RunRequest, created_at: Timestamp) -> NewRun {
    NewRun {
        at: RunRef {
            thread: request.thread,
            run: RunId::from_uuid(uuid::Uuid::from_u128(clock.unique())),
        },
        graph: request.graph,
        caller: request.caller,
        input: request.input,
        options: request.options,
        created_at,
    }
}

/// Checks an idempotency key of a client. Keys that begin with
/// [`RESERVED`](weftwork_store::mailbox::RESERVED) are those of the runtime.
///
/// # Errors
/// [`RuntimeError::InvalidKey`] if the key is empty or reserved.
pub fn check_key(key: &str) -> Result<(), RuntimeError> {
    let problem = if key.is_empty() {
        "it is empty; give it at least one character, or leave it out"
    } else if key.starts_with(RESERVED) {
        "keys that begin with `weft:` are those of the runtime; choose another one"
    } else {
        return Ok(());
    };
    Err(RuntimeError::InvalidKey { found: key.to_owned(), problem })
}

/// Refuses values that would make the thread unreadable.
pub(super) fn check_depth(input: &RunInput) -> Result<(), RuntimeError> {
    let (what, sound) = match input {
        RunInput::Start { input } => ("the input", can_be_read_back(input)),
        RunInput::Update { writes, .. } => ("the update", can_be_read_back(writes)),
        RunInput::Command(command) => ("the command", can_be_read_back(&json!(command))),
        RunInput::Continue => return Ok(()),
    };
    if sound { Ok(()) } else { Err(RuntimeError::TooDeep { what }) }
}

fn answers(request: &RunRequest, now: weftwork_types::Timestamp) -> BTreeMap<InterruptId, Answer> {
    let Some(answers) = request.input.answers_by_id() else { return BTreeMap::new() };
    let by = &request.principal.subject;
    answers
        .iter()
        .map(|(id, value)| {
            let answer = Answer { value: value.clone(), answered_by: by.clone(), answered_at: now };
            (*id, answer)
        })
        .collect()
}
