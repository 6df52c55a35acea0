//! The library of an evaluator: its prompts, and what the runs of its evaluations take from it.

use super::record::Record;
use super::{Config, EventBus, PromptRun};
use crate::bound::{BoundModel, ModelConfig};
use crate::prompt::{AnyPrompt, PromptError, PromptId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use weftwork_models::{ChatModel, ModelCaller};
use weftwork_runtime::{DependencyError, WeakRuntime};
use weftwork_store::NewRun;
use weftwork_tools::ToolBox;
use weftwork_types::port::{Budget, BudgetError, BudgetScope, Budgets, Dependencies};
use weftwork_types::usage::Usage;
use weftwork_types::{BoxFuture, ThreadId};

/// The prompts of an evaluator by their namespaces and keys, with the model and the tools of all.
pub(crate) struct Library {
    pub(crate) name: String,
    pub(crate) model: Arc<dyn ChatModel>,
    pub(crate) caller: ModelCaller,
    pub(crate) config: ModelConfig,
    /// Tools of all prompts, and the values provided for tools.
    pub(crate) base: ToolBox,
    pub(crate) bus: EventBus,
    pub(crate) budgets: Arc<dyn Budgets>,
    pub(crate) prompts: Mutex<BTreeMap<(String, String), Arc<dyn AnyPrompt>>>,
    live: Mutex<BTreeMap<ThreadId, Live>>,
    /// The runtime of the evaluator, and its settings.
    pub(super) runtime: OnceLock<(WeakRuntime, Weak<Config>)>,
}

/// Data of an evaluation that is executed from this process.
#[derive(Clone, Default)]
pub(crate) struct Live {
    /// Prompt that it evaluates.
    pub(crate) prompt: Option<Arc<dyn AnyPrompt>>,
    /// Budget that it shares with others.
    pub(crate) budget: Option<Arc<dyn Budget>>,
    /// Usage of the evaluations that its tools made.
    pub(crate) nested: Arc<Mutex<Usage>>,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("name", &self.name).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Library {
    pub(crate) fn new(name: String, model: Arc<dyn ChatModel>) -> Self {
        Self {
            name,
            model,
            caller: ModelCaller::default(),
            config: ModelConfig::default(),
            base: ToolBox::new(),
            bus: EventBus::new(),
            budgets: Arc::new(weftwork_types::port::Unlimited),
            prompts: Mutex::default(),
            live: Mutex::default(),
            runtime: OnceLock::new(),
        }
    }

    /// Registers a prompt, in place of an earlier one with the same key.
    pub(crate) fn register(&self, id: &PromptId, prompt: Arc<dyn AnyPrompt>) {
        lock(&self.prompts).insert(key(id), prompt);
    }

    fn find(&self, id: &PromptId) -> Result<Arc<dyn AnyPrompt>, PromptError> {
        let found = lock(&self.prompts).get(&key(id)).cloned();
        found.ok_or_else(|| PromptError::Unknown { prompt: id.clone() })
    }

    /// Renders the prompt of an evaluation, with the tools that it needs.
    pub(crate) fn prompt_run(
        self: &Arc<Self>,
        record: &Record,
        prompt: &dyn AnyPrompt,
    ) -> Result<PromptRun, PromptError> {
        let rendered = prompt.render(&record.params, &record.overrides)?;
        if rendered.hash() != record.hash {
            return Err(PromptError::Changed {
                prompt: record.prompt.clone(),
                began: Box::new(record.hash),
                found: Box::new(rendered.hash()),
            });
        }
        let bound = BoundModel {
            model: Arc::clone(&self.model),
            caller: self.caller.clone(),
            config: self.config.clone(),
            output: prompt.output().cloned(),
            parallel_by_default: true,
        };
        PromptRun::new(self, record, rendered, bound)
    }

    /// Makes the dependencies of a run.
    pub(crate) fn dependencies(
        self: &Arc<Self>,
        run: &NewRun,
    ) -> Result<Dependencies, DependencyError> {
        let record = Record::of(&run.options).ok_or_else(|| {
            DependencyError::from(
                "the run evaluates no prompt; begin it with `Evaluator::evaluate`",
            )
        })??;
        // Another evaluation may have registered another prompt with this key since.
        let prompt = match self.live(&run.at.thread).and_then(|live| live.prompt) {
            Some(prompt) => Ok(prompt),
            None => self.find(&record.prompt),
        };
        let run = prompt.and_then(|prompt| self.prompt_run(&record, &*prompt));
        let run = run.map_err(|error| error.fault())?;
        Ok(Dependencies::new().with(run))
    }

    pub(crate) fn begin(&self, thread: &ThreadId, live: Live) {
        lock(&self.live).insert(thread.clone(), live);
    }

    pub(crate) fn end(&self, thread: &ThreadId) {
        lock(&self.live).remove(thread);
    }

    pub(crate) fn live(&self, thread: &ThreadId) -> Option<Live> {
        lock(&self.live).get(thread).cloned()
    }
}

impl Live {
    pub(crate) fn add(&self, used: Usage) {
        *lock(&self.nested) += used;
    }

    pub(crate) fn nested(&self) -> Usage {
        *lock(&self.nested)
    }
}

/// Budgets of the runs of evaluations: the shared one of the evaluation, or else that of the runtime.
#[derive(Debug)]
pub(crate) struct SharedBudgets(pub(crate) Arc<Library>);

impl Budgets for SharedBudgets {
    fn open<'a>(
        &'a self,
        scope: &'a BudgetScope,
    ) -> BoxFuture<'a, Result<Arc<dyn Budget>, BudgetError>> {
        match self.0.live(&scope.thread).and_then(|live| live.budget) {
            Some(budget) => Box::pin(std::future::ready(Ok(budget))),
            None => self.0.budgets.open(scope),
        }
    }
}

fn key(id: &PromptId) -> (String, String) {
    (id.namespace.clone(), id.key.clone())
}
