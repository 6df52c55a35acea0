//! Resources that the evaluations of an evaluator share: its prompts, model, tools and bus.

use super::bus::PromptEventSource;
use super::record::Record;
use super::{Config, EventBus, PromptEvent, PromptEventKind, PromptRun};
use crate::bound::BoundModel;
use crate::prompt::{AnyPrompt, PromptError, PromptId, Rendered};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use weftwork_models::ChatModel;
use weftwork_runtime::{DependencyError, WeakRuntime};
use weftwork_store::NewRun;
use weftwork_tools::ToolBox;
use weftwork_types::port::{Budget, BudgetError, BudgetScope, Budgets, Clock, Dependencies};
use weftwork_types::usage::Usage;
use weftwork_types::{BoxFuture, OrgId, Principal, ThreadId};

/// The prompts of an evaluator by their namespaces and keys, with the model and the tools of all.
pub(crate) struct EvaluatorResources {
    pub(crate) name: String,
    pub(crate) bound: BoundModel,
    /// Tools of all prompts, and the values provided for tools.
    pub(crate) base: ToolBox,
    pub(crate) bus: EventBus,
    prompts: Mutex<BTreeMap<(String, String), Arc<dyn AnyPrompt>>>,
    /// Evaluations that are executed from this process, in the order of their requests.
    active: Mutex<BTreeMap<ActiveKey, Vec<Arc<ActiveEvaluation>>>>,
    /// Threads of evaluations within tool calls, by the thread of the call. They are deleted with
    /// it. Empty over a checkpointer.
    nested: Mutex<BTreeMap<(OrgId, ThreadId), BTreeSet<ThreadId>>>,
    /// The runtime of the evaluator, and its settings.
    pub(super) runtime: OnceLock<(WeakRuntime, Weak<Config>)>,
}

/// Organisation, thread and id of an evaluation. Copies of a thread have equal ids.
type ActiveKey = (OrgId, ThreadId, String);

/// Data of an evaluation that is executed from this process.
#[derive(Debug)]
pub(crate) struct ActiveEvaluation {
    key: ActiveKey,
    /// Prompt that it evaluates.
    run: Arc<PromptRun>,
    /// Budget that it shares with others.
    budget: Option<Arc<dyn Budget>>,
}

impl ActiveEvaluation {
    /// Usage of the evaluations that tools of this one made.
    pub(super) fn nested_usage(&self) -> Usage {
        self.run.nested()
    }
}

impl fmt::Debug for EvaluatorResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvaluatorResources").field("name", &self.name).finish_non_exhaustive()
    }
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EvaluatorResources {
    pub(crate) fn new(name: String, model: Arc<dyn ChatModel>) -> Self {
        Self {
            name,
            bound: BoundModel { parallel_by_default: true, ..BoundModel::new(model) },
            base: ToolBox::new(),
            bus: EventBus::new(),
            prompts: Mutex::default(),
            active: Mutex::default(),
            nested: Mutex::default(),
            runtime: OnceLock::new(),
        }
    }

    /// Publishes an event of an evaluation.
    pub(crate) fn publish(&self, clock: &dyn Clock, of: &PromptEventSource, kind: PromptEventKind) {
        let PromptEventSource { evaluation, prompt, session } = of.clone();
        self.bus.publish(PromptEvent {
            id: uuid::Uuid::from_u128(clock.unique()),
            at: clock.now(),
            evaluation,
            prompt,
            adapter: self.name.clone(),
            session,
            kind,
        });
    }

    /// Registers a prompt, in place of an earlier one with the same key.
    pub(crate) fn register(&self, id: &PromptId, prompt: Arc<dyn AnyPrompt>) {
        lock_mutex(&self.prompts).insert(prompt_key(id), prompt);
    }

    fn find_prompt(&self, id: &PromptId) -> Result<Arc<dyn AnyPrompt>, PromptError> {
        let found = lock_mutex(&self.prompts).get(&prompt_key(id)).cloned();
        found.ok_or_else(|| PromptError::Unknown { prompt: id.clone() })
    }

    /// Prepares the rendered prompt of an evaluation, with the tools that it needs.
    pub(crate) fn prompt_run(
        self: &Arc<Self>,
        record: &Record,
        prompt: &dyn AnyPrompt,
        rendered: Rendered,
    ) -> Result<PromptRun, PromptError> {
        if rendered.hash() != record.hash {
            return Err(PromptError::Changed {
                prompt: record.prompt.clone(),
                began: Box::new(record.hash),
                found: Box::new(rendered.hash()),
            });
        }
        let bound = BoundModel { output: prompt.output().cloned(), ..self.bound.clone() };
        PromptRun::new(self, record, rendered, bound)
    }

    /// Makes the dependencies of a run.
    pub(crate) fn dependencies(
        self: &Arc<Self>,
        who: &Principal,
        run: &NewRun,
    ) -> Result<Dependencies, DependencyError> {
        let record = Record::of(&run.options).ok_or_else(|| {
            DependencyError::from(
                "the run evaluates no prompt; begin it with `Evaluator::evaluate`",
            )
        })??;
        // Another evaluation may have registered another prompt with this key since.
        if let Some(active) =
            self.active(&(who.org.clone(), run.at.thread.clone(), record.id.clone()))
        {
            return Ok(Dependencies::new().with_shared(Arc::clone(&active.run)));
        }
        let prompt = self.find_prompt(&record.prompt);
        let run = prompt.and_then(|prompt| {
            let rendered = prompt.render(&record.params, &record.overrides)?;
            self.prompt_run(&record, &*prompt, rendered)
        });
        Ok(Dependencies::new().with(run.map_err(|error| error.fault())?))
    }

    /// Adds an evaluation to those that are executed from this process.
    pub(crate) fn begin(
        &self,
        who: &Principal,
        thread: &ThreadId,
        run: Arc<PromptRun>,
        budget: Option<Arc<dyn Budget>>,
    ) -> Arc<ActiveEvaluation> {
        let key = (who.org.clone(), thread.clone(), run.evaluation.clone());
        let active = Arc::new(ActiveEvaluation { key: key.clone(), run, budget });
        lock_mutex(&self.active).entry(key).or_default().push(Arc::clone(&active));
        active
    }

    /// Removes an evaluation. Another request for the same one stays.
    pub(crate) fn end(&self, ended: &Arc<ActiveEvaluation>) {
        let mut active = lock_mutex(&self.active);
        if let Some(same) = active.get_mut(&ended.key) {
            same.retain(|other| !Arc::ptr_eq(other, ended));
            if same.is_empty() {
                active.remove(&ended.key);
            }
        }
    }

    /// Returns the first request for an evaluation: later ones are refused while its run is active.
    fn active(&self, key: &ActiveKey) -> Option<Arc<ActiveEvaluation>> {
        lock_mutex(&self.active).get(key)?.first().cloned()
    }

    /// Records the thread of an evaluation within a call, to delete it with the thread of the call.
    pub(crate) fn add_nested(&self, who: &Principal, thread: &ThreadId, nested: &ThreadId) {
        let key = (who.org.clone(), thread.clone());
        lock_mutex(&self.nested).entry(key).or_default().insert(nested.clone());
    }

    /// Removes and returns the threads of the evaluations within calls of a thread.
    pub(crate) fn take_nested(&self, who: &Principal, thread: &ThreadId) -> BTreeSet<ThreadId> {
        lock_mutex(&self.nested).remove(&(who.org.clone(), thread.clone())).unwrap_or_default()
    }
}

/// Budgets of the runs of evaluations: the shared one of the evaluation, or else that of a source.
#[derive(Debug)]
pub(crate) struct SharedBudgets {
    pub(crate) resources: Arc<EvaluatorResources>,
    pub(crate) otherwise: Arc<dyn Budgets>,
}

impl Budgets for SharedBudgets {
    fn open<'a>(
        &'a self,
        scope: &'a BudgetScope,
    ) -> BoxFuture<'a, Result<Arc<dyn Budget>, BudgetError>> {
        let record = Record::of_settings(&scope.configurable).and_then(Result::ok);
        let key =
            record.map(|record| (scope.principal.org.clone(), scope.thread.clone(), record.id));
        let active = key.and_then(|key| self.resources.active(&key));
        match active.and_then(|active| active.budget.clone()) {
            Some(budget) => Box::pin(std::future::ready(Ok(budget))),
            None => self.otherwise.open(scope),
        }
    }
}

fn prompt_key(id: &PromptId) -> (String, String) {
    (id.namespace.clone(), id.key.clone())
}
