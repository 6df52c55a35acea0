//! Data that the model and tool calls of an attempt need from its run.

use crate::journal::TaskJournal;
use crate::run_loop::context::{Attempt, TaskContext};
use crate::run_loop::stream::CallEvents;
use std::sync::Arc;
use weftwork_types::ThreadId;
use weftwork_types::port::{CallContext, Journal, NoJournal};

impl TaskContext {
    /// Returns what the model and tool calls of an attempt need from the run.
    pub(crate) fn call_context(&self, attempt: Attempt<'_>) -> CallContext {
        let run = &self.loop_context.run;
        let journal: Arc<dyn Journal> = match run.host.environment().book(self) {
            Some(book) => Arc::new(TaskJournal::new(book, self, attempt)),
            // Calls are stored with the records of tasks, which need a checkpointer.
            None => Arc::new(NoJournal),
        };
        let account = run.account(self);
        // Derived from the task, so that tools get the same thread when the task runs again.
        let own = || ThreadId::from_uuid(uuid::Uuid::from_u128(self.id().0));
        CallContext {
            principal: account.principal.clone(),
            origin: account.origin.clone(),
            thread: account.thread.clone().unwrap_or_else(own),
            journal,
            budget: Arc::clone(&account.budget),
            ledger: Arc::clone(&account.ledger),
            clock: Arc::clone(run.host.clock()),
            emit: Arc::new(CallEvents::new(self, attempt)),
            deadline: run.deadline,
            configurable: Arc::clone(&run.options.configurable),
            dependencies: self.dependencies().clone(),
            items: run.host.items().cloned(),
            hidden: Arc::clone(self.hidden_values()),
        }
    }
}
