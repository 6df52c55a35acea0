//! The prompt of a run, as its nodes and tools take it.

use super::bus::PromptEventSource;
use super::context::PromptContext;
use super::hosted::HostedPrompt;
use super::record::Record;
use super::resources::EvaluatorResources;
use super::{PromptEventKind, ToolInvoked};
use crate::bound::BoundModel;
use crate::prompt::{OPENED, PromptError, PromptId, Rendered};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use weftwork_graph::{Ctx, Deps, FromTask, List, NodeError, NodeResult, Reads, TaskInput};
use weftwork_tools::{Dispatched, ToolRunner};
use weftwork_types::ThreadId;
use weftwork_types::message::ToolCall;
use weftwork_types::port::CallContext;
use weftwork_types::session::{SESSION_CHANNEL, SessionEvent};
use weftwork_types::tool::ToolOutcome;
use weftwork_types::usage::Usage;

/// The prompt that a run evaluates: a run-scoped dependency of the graph
/// ([`Graph::with_run_scoped`](weftwork_graph::Graph::with_run_scoped)).
#[derive(Debug)]
pub struct PromptRun {
    pub(crate) resources: Arc<EvaluatorResources>,
    pub(crate) evaluation: String,
    pub(crate) session: ThreadId,
    pub(crate) rendered: Rendered,
    pub(crate) bound: BoundModel,
    /// Runners of the tools by the summarized sections that were opened.
    runners: Mutex<BTreeMap<BTreeSet<String>, Arc<ToolRunner>>>,
    /// Tool calls of the evaluations that its tools made.
    nested: Mutex<Usage>,
}

impl PromptRun {
    pub(crate) fn new(
        resources: &Arc<EvaluatorResources>,
        record: &Record,
        rendered: Rendered,
        bound: BoundModel,
    ) -> Result<Self, PromptError> {
        let run = Self {
            resources: Arc::clone(resources),
            evaluation: record.id.clone(),
            session: record.session.clone(),
            rendered,
            bound,
            runners: Mutex::default(),
            nested: Mutex::default(),
        };
        // Tools of closed sections are checked too: their problems show before the first call.
        let summarized = run.rendered.sections().iter().filter(|s| s.full_text.is_some());
        run.runner(&summarized.map(|section| section.path.clone()).collect())?;
        let checked = run.rendered.check_policy(&run.resources.base);
        checked.map_err(|source| PromptError::Tools { prompt: run.prompt().clone(), source })?;
        run.runner(&BTreeSet::new())?;
        Ok(run)
    }

    /// Identity of the prompt.
    #[must_use]
    pub fn prompt(&self) -> &PromptId {
        self.rendered.id()
    }

    /// The rendered prompt.
    #[must_use]
    pub fn rendered(&self) -> &Rendered {
        &self.rendered
    }

    /// Adds the usage of an evaluation that a tool made. Its model calls are in the log of the run.
    pub(super) fn add_nested(&self, used: Usage) {
        let calls = Usage { tool_calls: used.tool_calls, ..Usage::default() };
        *self.nested.lock().unwrap_or_else(PoisonError::into_inner) += calls;
    }

    /// Usage of the evaluations that its tools made, as far as it is not in the log of the run.
    pub(super) fn nested(&self) -> Usage {
        *self.nested.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the runner of the tools that are offered after these sections were opened.
    fn runner(&self, opened: &BTreeSet<String>) -> Result<Arc<ToolRunner>, PromptError> {
        let mut runners = self.runners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runner) = runners.get(opened) {
            return Ok(Arc::clone(runner));
        }
        let (tools, policy) = self.rendered.tool_box(&self.resources.base, opened);
        // Rules for tools of closed sections wait until the sections are opened.
        let policy = policy.for_tools(&tools);
        let runner = ToolRunner::new(tools.provide_run_scoped::<PromptContext>(), policy);
        let prompt = || self.prompt().clone();
        let runner = runner.map_err(|source| PromptError::Tools { prompt: prompt(), source })?;
        let runner = Arc::new(runner);
        runners.insert(opened.clone(), Arc::clone(&runner));
        Ok(runner)
    }
}

/// The prompt of a task, with the session at the start of its superstep. Without a prompt it changes
/// nothing.
#[derive(Debug, Clone)]
pub(crate) struct PromptScope(Option<InRun>);

#[derive(Debug, Clone)]
pub(crate) struct InRun {
    pub(crate) run: Arc<PromptRun>,
    /// Events of the session; `None` if the graph does not store sessions.
    pub(crate) events: Option<List<SessionEvent>>,
    /// Name of the graph.
    pub(crate) graph: String,
    /// `true` if the graph is that of a hosted prompt, not of an evaluation.
    pub(crate) is_hosted: bool,
}

impl FromTask for PromptScope {
    fn from_task(input: &TaskInput<'_>) -> Result<Self, NodeError> {
        let is_hosted = input.declares::<HostedPrompt>();
        // An agent within a graph that evaluates a prompt has its own model and tools.
        if !is_hosted && !input.declares::<PromptRun>() {
            return Ok(Self::none());
        }
        let ctx = Ctx::from_task(input)?;
        let calls = ctx.calls();
        let run = match is_hosted {
            true => Deps::<HostedPrompt>::from_task(input)?.run(input, ctx.thread())?,
            false => match calls.dependencies.get::<PromptRun>() {
                Some(run) => run,
                None => return Ok(Self::none()),
            },
        };
        let events = input.channel::<List<SessionEvent>>(SESSION_CHANNEL).cloned();
        let graph = calls.origin.run().map(|caller| caller.graph.clone()).unwrap_or_default();
        Ok(Self(Some(InRun { run, events, graph, is_hosted })))
    }

    fn reads() -> Reads {
        Reads::Nothing
    }
}

impl PromptScope {
    /// The scope of a task without a prompt.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// The prompt, if there is one.
    pub(crate) fn run(&self) -> Option<&Arc<PromptRun>> {
        self.0.as_ref().map(|in_run| &in_run.run)
    }

    /// The hosted prompt, if the graph is that of one.
    pub(crate) fn hosted(&self) -> Option<&Arc<PromptRun>> {
        self.0.as_ref().filter(|in_run| in_run.is_hosted).map(|in_run| &in_run.run)
    }

    /// The model of the prompt.
    pub(crate) fn model(&self) -> Option<&BoundModel> {
        self.run().map(|run| &run.bound)
    }

    /// Returns the runner of the tools that the prompt offers now.
    pub(crate) fn runner(&self) -> NodeResult<Option<Arc<ToolRunner>>> {
        let Some(in_run) = &self.0 else { return Ok(None) };
        let opened = in_run.opened();
        Ok(Some(in_run.run.runner(&opened).map_err(|error| error.fault())?))
    }

    /// Begins a tool call.
    pub(crate) fn call(&self, ctx: &Ctx, call: &ToolCall) -> Option<PromptCall> {
        let in_run = self.0.clone()?;
        let dispatched = Arc::new(Dispatched::new());
        let plain = ctx.calls().clone();
        let context = PromptContext::new(in_run, plain.clone(), call, Arc::clone(&dispatched));
        let context = Arc::new(context);
        let dependencies = plain
            .dependencies
            .clone()
            .with_shared(Arc::clone(&context))
            .with_shared(Arc::clone(&dispatched));
        let calls = CallContext { dependencies, ..plain };
        Some(PromptCall { context, dispatched, calls })
    }
}

impl InRun {
    /// The sections that the evaluation opened.
    fn opened(&self) -> BTreeSet<String> {
        let own = |event: &&SessionEvent| {
            event.slice == OPENED && event.event["evaluation"] == self.run.evaluation.as_str()
        };
        let events = self.events.iter().flat_map(List::iter);
        let paths = events.filter(own).filter_map(|event| event.event["path"].as_str());
        paths.map(str::to_owned).collect()
    }
}

/// A tool call of a prompt.
#[derive(Debug)]
pub(crate) struct PromptCall {
    context: Arc<PromptContext>,
    dispatched: Arc<Dispatched>,
    calls: CallContext,
}

impl PromptCall {
    /// The context that the call takes from its run.
    pub(crate) fn calls(&self) -> &CallContext {
        &self.calls
    }

    /// Adds the events of a call that succeeded to the writes of the task.
    pub(crate) fn write_events(&self, ctx: &Ctx, outcome: &ToolOutcome) {
        let events = self.dispatched.events();
        if matches!(outcome, ToolOutcome::Ok { .. }) && !events.is_empty() {
            ctx.write_also(SESSION_CHANNEL, serde_json::json!(events));
        }
    }

    /// Adds the events of a call that succeeded to the writes of the task, and publishes the call.
    pub(crate) fn ended(&self, ctx: &Ctx, call: &ToolCall, outcome: &ToolOutcome) {
        self.write_events(ctx, outcome);
        let run = self.context.run();
        let source = PromptEventSource {
            evaluation: Some(run.evaluation.clone()),
            prompt: run.prompt().clone(),
            session: run.session.clone(),
        };
        let invoked = ToolInvoked {
            call: call.clone(),
            result: outcome.clone(),
            usage: Usage::tool_call() + self.context.nested_usage(),
        };
        let kind = PromptEventKind::ToolInvoked(Box::new(invoked));
        run.resources.publish(&*self.calls.clock, &source, kind);
    }
}
