//! Code that a node may run: other graphs, and tasks of a flow.

use crate::compiled::{CompiledGraph, NodeFn};
use crate::context::Ctx;
use crate::error::{NodeError, RuntimeError, Stop};
use crate::flow::TaskDef;
use crate::output::NodeResult;
use crate::run_loop::checkpointer::{
    TaskAnswers, TaskDetails, TaskFailure, TaskKey, TaskPause, TaskRecord, TaskRecords,
};
use crate::run_loop::context::{
    CalledTask, EventSource, LoopContext, LoopStorage, NestedLoop, Purpose, TaskContext, TaskState,
};
use crate::run_loop::event::{Modes, StreamEvent, TaskEnded, TaskStarted, Written};
use crate::run_loop::namespace::without_tasks;
use crate::run_loop::node_cache::CacheKey;
use crate::run_loop::options::{LoopInput, LoopOutcome, Options};
use crate::run_loop::supersteps::RunLoop;
use crate::run_loop::sync::{lock, yield_turn};
use crate::run_loop::task::{End, Failed, Follows, TaskOutcome, TaskRunner, call_ended};
use crate::run_loop::values::output_json;
use crate::semantics::SubgraphState;
use serde_json::{Map, Value as Json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weftwork_engine::pregel::StartInput;
use weftwork_engine::task::Arg;
use weftwork_engine::{NodeIdx, TaskOutput, Write};
use weftwork_types::MessageId;
use weftwork_types::canonical::first_128;
use weftwork_types::code::Fault;
use weftwork_types::event::{AiEvent, TaskStatus};
use weftwork_types::sequence::SequenceWrite;

impl Ctx {
    /// Runs another graph and returns its output; `null` when the graph emitted none.
    ///
    /// When the graph stops at a question, this node stops with it; when the run continues, the
    /// node runs again from its first line, and the graph continues where it stopped.
    ///
    /// # Errors
    /// The graph's failure; or a [`NodeError`] that stops the node: return it with `?`.
    pub async fn call(
        &self,
        graph: &CompiledGraph,
        keep: SubgraphState,
        input: Json,
    ) -> NodeResult<Json> {
        let nth = &self.0.graphs;
        let earlier = &self.at().task_state.graphs;
        // The numbers differ only with the semantics of the reference, where an attempt does not
        // continue graphs of the one before.
        let number = CallNumber {
            of_attempt: nth.fetch_add(1, Ordering::Relaxed),
            of_task: earlier.fetch_add(1, Ordering::Relaxed),
        };
        self.call_at(graph, number, keep, input).await
    }

    /// Runs another graph like [`call`](Self::call), under a name. A node that runs again continues
    /// the graph that it called under this name, whatever else it calls and in which order. Calls of
    /// one task have different names.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn call_named(
        &self,
        name: &str,
        graph: &CompiledGraph,
        keep: SubgraphState,
        input: Json,
    ) -> NodeResult<Json> {
        // Beyond the numbers of calls without a name.
        let number = (first_128(name) as u32) | (1 << 31);
        let number = CallNumber { of_attempt: number, of_task: number };
        self.call_at(graph, number, keep, input).await
    }

    async fn call_at(
        &self,
        graph: &CompiledGraph,
        number: CallNumber,
        keep: SubgraphState,
        input: Json,
    ) -> NodeResult<Json> {
        self.check_running()?;
        let at = self.at();
        // A closer makes nothing: the graph is closed from its records, and not run.
        if at.purpose == Purpose::Close {
            return at.close_graph(graph, number, keep).await;
        }
        let start = match input {
            Json::Null => LoopInput::Nothing,
            input => LoopInput::Input(StartInput::Json(Arc::new(input))),
        };
        match at.run_graph(graph, number, keep, start).await {
            Ok((LoopOutcome::Completed, run_loop)) => {
                let emitted = run_loop.emitted.as_ref();
                Ok(emitted.map(|slots| output_json(graph.plan(), slots)).unwrap_or_default())
            }
            Ok((LoopOutcome::Interrupted(interrupts), _)) => {
                // On the record of this task too: answers are matched from the outermost graph on.
                self.open(interrupts);
                Err(NodeError::interrupted())
            }
            Ok((LoopOutcome::LimitReached, run_loop)) => {
                let text = format!("graph `{}` reached its step limit", graph.name());
                tracing::debug!(step = run_loop.position.step(), "{text}");
                // A failure of the task, not an outcome of the run: the graph around has not
                // reached its limit.
                let fault = Fault::new(crate::error::NODE_FAILED, text);
                Err(NodeError(Stop::Failed(fault.of_kind("LimitReached"))))
            }
            Ok((LoopOutcome::Drained(drain) | LoopOutcome::TaskDrained(drain), _)) => {
                Err(NodeError(Stop::Drained(drain)))
            }
            // As if the node had returned the command: its edges fire too, as in the reference.
            Ok((LoopOutcome::Parent(output), _)) => Err(NodeError(Stop::Own(output))),
            Err(error) => {
                // Questions that are open in the called graph stay open with the task that called
                // it.
                self.open_again(at.task_state.take_left_open());
                Err(NodeError(Stop::Failed(error.fault())))
            }
        }
    }

    /// Runs a task and returns its result. A task that finished in this superstep before is not
    /// run again.
    ///
    /// # Errors
    /// The task's failure; or a [`NodeError`] that stops the node: return it with `?`.
    pub async fn task(&self, task: &TaskDef, arg: Json) -> NodeResult<Json> {
        self.check_running()?;
        let at = self.at();
        let index = at.task_state.called.fetch_add(1, Ordering::Relaxed);
        let name = Arc::clone(task.name());
        let key = TaskKey::Call { name, of: Arc::new(at.key.clone()), index };
        let call = Call { at, key, node: task.node() };
        call.emit_task_starts(&arg);
        at.loop_context.note_messages_in(&arg);
        if let Some(returned) = call.known() {
            return Ok(returned);
        }
        let key = task.cache().map(|cache| call.cache_key(&arg, cache));
        if let Some(returned) = key.as_ref().and_then(|key| call.cached(key)) {
            call.emit_update(&returned, true);
            // On record although it is cached: the cache may have dropped it when the node runs
            // again.
            let details =
                TaskDetails { returned: Some(returned.clone()), ..TaskDetails::default() };
            call.record(details, Some(TaskStatus::Cached), Vec::new()).await?;
            return Ok(returned);
        }
        // Tasks that are called together start together.
        yield_turn().await;
        let end = call.job(arg).attempts().await;
        call.settle(end, self, key).await
    }

    /// Returns the value that the flow's previous turn on this thread saved; `None` in its first.
    #[must_use]
    pub fn previous(&self) -> Option<Json> {
        let at = self.at();
        let plan = at.loop_context.graph.plan();
        plan.value_json(&at.slots, weftwork_engine::ChannelIdx(1))
    }

    /// Asks the run to stop after this superstep. It can continue later. A hosted run that stops so
    /// ends as cancelled.
    pub fn drain(&self, reason: impl Into<String>) {
        if self.check_running().is_err() {
            return;
        }
        let shared = &self.at().loop_context.run;
        lock(&shared.drain).get_or_insert_with(|| reason.into());
        shared.drains.store(true, Ordering::Relaxed);
    }

    /// Value given to the run besides its input; `null` if none was given.
    #[must_use]
    pub fn context(&self) -> &Json {
        &self.at().loop_context.run.options.context
    }

    /// Step limit given to the run; `None` if that of the graph holds.
    #[must_use]
    pub fn step_limit(&self) -> Option<u32> {
        self.at().loop_context.run.options.step_limit
    }

    /// Named settings given to the run; empty if none were given.
    #[must_use]
    pub fn configurable(&self) -> &Map<String, Json> {
        &self.at().loop_context.run.options.configurable
    }

    /// The long-term store of the host, when it has one; in hosted runs the items of the runtime's
    /// store. A node reads and writes for the organisation of its run, `ctx.calls().principal`.
    #[must_use]
    pub fn items(&self) -> Option<&Arc<dyn weftwork_types::item::ItemStore>> {
        self.at().loop_context.run.host.items()
    }

    /// Emits partial text of a message. A node that returns the message under the same id does not
    /// emit it again.
    pub fn token(&self, id: &MessageId, text: &str) {
        if self.check_running().is_err() {
            return;
        }
        let at = self.at();
        let message = Some(id.clone());
        let by = EventSource { message, ..at.event_source() };
        at.emit_event(by, AiEvent::TextDelta { delta: text.to_owned() });
        at.emit_chunk(id, text);
    }

    /// Excludes the messages that this attempt of the node returns from streams of messages.
    /// Partial text is emitted all the same.
    pub fn mute_messages(&self) {
        self.0.muted.store(true, Ordering::Relaxed);
    }
}

impl TaskContext {
    /// Runs a graph that an attempt calls.
    async fn run_graph(
        &self,
        graph: &CompiledGraph,
        number: CallNumber,
        keep: SubgraphState,
        begin: LoopInput,
    ) -> Result<(LoopOutcome, RunLoop), RuntimeError> {
        let within = self.within(graph, number, keep);
        let options = Options::within(&self.loop_context);
        // Boxed, since loops nest: the future would contain one of its own type.
        Box::pin(RunLoop::run(Arc::new(within), begin, &options)).await
    }

    /// Closes a graph that the task has begun, and returns its state.
    async fn close_graph(
        &self,
        graph: &CompiledGraph,
        number: CallNumber,
        keep: SubgraphState,
    ) -> NodeResult<Json> {
        let within = self.within(graph, number, keep);
        let options = Options::within(&self.loop_context);
        match Box::pin(RunLoop::left_open(Arc::new(within), &options)).await {
            Ok(Some(run_loop)) => Ok(output_json(graph.plan(), run_loop.machine.slots())),
            Ok(None) => Err(NodeError::interrupted()),
            Err(error) => Err(NodeError(Stop::Failed(error.fault()))),
        }
    }

    /// The loop of a graph that an attempt calls.
    fn within(
        &self,
        graph: &CompiledGraph,
        number: CallNumber,
        keep: SubgraphState,
    ) -> LoopContext {
        let loop_context = &self.loop_context;
        let mut ns = self.ns();
        if keep == SubgraphState::PerThread {
            ns = without_tasks(&ns);
        }
        // The first graph that a task calls has the namespace of the task itself.
        if number.of_task > 0 {
            ns = format!("{ns}|{}", number.of_task);
        }
        let checkpointer =
            loop_context.storage.lent.clone().filter(|_| keep != SubgraphState::Stateless);
        // A graph without checkpoints passes the checkpointer on to those within it.
        let lent = checkpointer.clone().or_else(|| loop_context.storage.lent.clone());
        let recorder = self.recorder().map(Arc::new);
        let mut enclosing = loop_context.enclosing.clone();
        enclosing.insert(loop_context.address.ns.to_string(), self.checkpoint);
        loop_context.within(NestedLoop {
            graph,
            ns: ns.into(),
            recorder,
            storage: LoopStorage { checkpointer, lent, own: keep == SubgraphState::PerThread },
            entry: self.entry,
            enclosing,
            outer: Arc::clone(&self.task_state),
            outer_path: Some(self.path_to_graph(number.of_attempt)),
            earlier: self.earlier,
        })
    }
}

/// Numbers of the graphs that a task called before, or the hash of the name of a call.
#[derive(Debug, Clone, Copy)]
struct CallNumber {
    /// In the attempt: part of the keys of recorded calls.
    of_attempt: u32,
    /// In all attempts of the task: part of the namespace.
    of_task: u32,
}

/// A task that a node's code called.
struct Call<'a> {
    at: &'a TaskContext,
    key: TaskKey,
    node: &'a NodeFn,
}

impl Call<'_> {
    fn id(&self) -> weftwork_types::TaskId {
        self.key.id(&self.at.loop_context.address.ns, self.at.checkpoint, self.at.step)
    }

    fn emit_task_starts(&self, arg: &Json) {
        if !self.at.loop_context.run.wants(Modes::TASKS | Modes::DEBUG) {
            return;
        }
        let started = TaskStarted {
            id: self.id(),
            name: self.key.name().to_string(),
            input: arg.clone(),
            triggers: vec!["__pregel_push".to_owned()],
            call: true,
        };
        self.at.loop_context.emit_task(self.at.step, StreamEvent::TaskStarted(started));
    }

    fn known(&self) -> Option<Json> {
        let calls = lock(&self.at.loop_context.calls);
        let known = calls.iter().find(|called| called.key == self.key)?;
        known.record.returned().cloned()
    }

    fn answers_before(&self) -> TaskAnswers {
        let calls = lock(&self.at.loop_context.calls);
        let known = calls.iter().find(|called| called.key == self.key);
        known.and_then(|called| called.record.answers().cloned()).unwrap_or_default()
    }

    fn cache_key(&self, arg: &Json, cache: crate::policy::Cache) -> CacheKey {
        let loop_context = &self.at.loop_context;
        CacheKey::new(loop_context.graph.name(), self.key.name(), arg, cache)
    }

    fn cached(&self, key: &CacheKey) -> Option<Json> {
        let output = self.at.loop_context.run.host.cached(key)?;
        returned_of(&output)
    }

    fn job(&self, arg: Json) -> TaskRunner {
        let loop_context = &self.at.loop_context;
        let resume = self.answers_before();
        let at = TaskContext {
            task_state: Arc::new(TaskState::new(Arc::clone(loop_context), resume, &None)),
            recorder: self.at.recorder().map(Arc::new),
            key: self.key.clone(),
            from: self.at.ns().into(),
            ..self.at.clone()
        };
        TaskRunner {
            at,
            index: NodeIdx(0),
            node: self.node.clone(),
            arg: Some(Arc::new(Arg { typed: None, json: arg })),
            failure: None,
            follows: Follows::Caller,
        }
    }

    async fn settle(&self, end: End, ctx: &Ctx, cached: Option<CacheKey>) -> NodeResult<Json> {
        let End { what, answers, records } = end;
        match what {
            TaskOutcome::Done(output, _) => {
                let returned = returned_of(&output).unwrap_or_default();
                // A result that is used again writes no record.
                if let Some(key) = cached.filter(|_| records.is_empty()) {
                    self.at.loop_context.run.host.cache(key, output);
                }
                self.emit_update(&returned, false);
                let value = Some(returned.clone());
                self.emit_task_end(value.clone(), None);
                let details = TaskDetails { returned: value, answers, ..TaskDetails::default() };
                self.record(details, Some(TaskStatus::Ok), records).await?;
                Ok(returned)
            }
            TaskOutcome::Failed(failed) => {
                let Failed { fault, open, .. } = *failed;
                ctx.open_again(open);
                self.emit_task_end(None, Some(fault.clone()));
                let failure = Some(TaskFailure::Unhandled(fault.clone()));
                let details = TaskDetails { failure, answers, ..TaskDetails::default() };
                self.record(details, Some(TaskStatus::Failed), records).await?;
                Err(NodeError(Stop::Failed(fault)))
            }
            TaskOutcome::Waiting(interrupts) => {
                let (pause, status) = match interrupts.as_slice() {
                    [] => (TaskPause::None, None),
                    _ => (TaskPause::Asked(interrupts.clone()), Some(TaskStatus::Asks)),
                };
                let details = TaskDetails { pause, answers, ..TaskDetails::default() };
                self.record(details, status, records).await?;
                ctx.open(interrupts);
                Err(NodeError::interrupted())
            }
            TaskOutcome::Parent(output) => Err(NodeError(Stop::Parent(output))),
            TaskOutcome::Drained(drain) => Err(NodeError(Stop::Drained(drain))),
        }
    }

    fn emit_update(&self, returned: &Json, cached: bool) {
        if self.at.loop_context.run.wants(Modes::UPDATES) {
            self.at.loop_context.emit(StreamEvent::Updates {
                node: self.key.name().to_string(),
                updates: Vec::new(),
                returned: Some(returned.clone()),
                cached,
            });
        }
    }

    fn emit_task_end(&self, returned: Option<Json>, error: Option<Fault>) {
        if !self.at.loop_context.run.wants(Modes::TASKS | Modes::DEBUG) {
            return;
        }
        let result = returned.map(|json| ("__return__".to_owned(), Written::Put(json)));
        let ended = TaskEnded {
            id: self.id(),
            name: self.key.name().to_string(),
            result: result.into_iter().collect(),
            error,
            interrupts: Vec::new(),
        };
        self.at.loop_context.emit_task(self.at.step, StreamEvent::TaskEnded(ended));
    }

    /// Stores the outcome of the task before the node that called it continues.
    async fn record(
        &self,
        details: TaskDetails,
        status: Option<TaskStatus>,
        records: Vec<SequenceWrite>,
    ) -> NodeResult<()> {
        let mut record = TaskRecord::from(details);
        let loop_context = &self.at.loop_context;
        let ended = |status| call_ended(self.id(), self.key.name(), status, self.at.id());
        record.ended = loop_context.run.report(|| status.map(ended)).flatten();
        {
            // In memory too: where nothing is stored yet, another attempt finds it here.
            let mut calls = lock(&loop_context.calls);
            match calls.iter_mut().find(|called| called.key == self.key) {
                Some(known) => {
                    known.record.merge(record.clone());
                    known.fresh = true;
                }
                None => calls.push(CalledTask {
                    key: self.key.clone(),
                    record: record.clone(),
                    fresh: true,
                }),
            }
            loop_context.called.store(true, Ordering::Relaxed);
        }
        let exit = loop_context.run.stores_last_only();
        if let Some(checkpointer) = loop_context.storage.checkpointer.as_ref().filter(|_| !exit) {
            // Only here: the record in memory may be stored again.
            record.records = records;
            let tasks = TaskRecords::from_iter([(self.key.clone(), record)]);
            let plan = loop_context.graph.plan();
            let of = self.at.checkpoint;
            let put = async {
                // Before the record: its checkpoint, and those of the loops around it, must not be
                // missing after a crash.
                loop_context.stored().await?;
                checkpointer.put_tasks(&loop_context.address, plan, of, tasks).await
            };
            put.await
                .map_err(|error| NodeError(Stop::Failed(RuntimeError::from(error).fault())))?;
        }
        Ok(())
    }
}

/// Returns the result of a flow's task.
fn returned_of(output: &TaskOutput) -> Option<Json> {
    output.named.iter().find_map(|(_, write)| match write {
        Write::Json(json) => Some((**json).clone()),
        _ => None,
    })
}

impl Options {
    /// Options of a nested run.
    pub(crate) fn within(loop_context: &LoopContext) -> Self {
        Self {
            thread: Arc::clone(&loop_context.address.thread),
            step_limit: loop_context.run.options.step_limit,
            ..Self::fresh()
        }
    }
}
