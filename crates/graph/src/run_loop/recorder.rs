//! Recording of calls in the records of tasks.

use crate::error::RuntimeError;
use crate::run_loop::call_book::{CallBook, CallHistory, NoHistory};
use crate::run_loop::calls::CallsInFlight;
use crate::run_loop::checkpointer::{TaskDetails, TaskRecord, TaskRecords};
use crate::run_loop::context::TaskRecorder;
use std::sync::Arc;
use weftwork_types::BoxFuture;
use weftwork_types::code::Fault;
use weftwork_types::port::{CallKey, CallRecord};

impl CallBook for TaskRecorder {
    fn find(&self, key: CallKey) -> BoxFuture<'_, Result<Option<Arc<CallRecord>>, Fault>> {
        Box::pin(std::future::ready(Ok(self.task_state.calls.find(key))))
    }

    /// Includes the call in the next record of the task: at the latest that of its end, before that
    /// when the loop waits.
    fn note(&self, call: Arc<CallRecord>) {
        self.task_state.calls.put(call);
        // The loop may wait for its tasks: it stores the call then, without waiting for their end.
        self.loop_context.noted.notify_one();
    }

    fn record(&self, call: Arc<CallRecord>) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move { self.store_call(call).await.map_err(|error| error.fault()) })
    }

    fn history(&self) -> &dyn CallHistory {
        &NoHistory
    }
}

impl TaskRecorder {
    /// Stores a call, and the outcomes of its task's nested calls, at once. With durability
    /// [`Exit`](weftwork_types::run::Durability::Exit), they are stored at the end of the run.
    async fn store_call(&self, call: Arc<CallRecord>) -> Result<(), RuntimeError> {
        let loop_context = &self.loop_context;
        let of = &self.task_state.calls;
        let exit = loop_context.run.stores_last_only();
        let Some(checkpointer) = loop_context.storage.checkpointer.as_ref().filter(|_| !exit)
        else {
            // Nothing is stored before the end: if the process dies, the run is repeated with its
            // effects.
            of.put(call);
            return Ok(());
        };
        let mut taken = CallsInFlight { of, calls: of.put_and_take(call) };
        // The answers that led here are as durable as what is done because of them, and so are the
        // checkpoints that it is done upon.
        if let Some(own) = &self.own {
            own.loop_context.stored().await?;
            own.store_answers().await?;
        }
        loop_context.stored().await?;
        let mut record = self.answers().unwrap_or_default();
        record.calls.clone_from(&taken.calls);
        let tasks = TaskRecords::from_iter([(self.key.clone(), record)]);
        checkpointer
            .put_tasks(&loop_context.address, loop_context.graph.plan(), self.of, tasks)
            .await?;
        // Stored: the guard has nothing to give back.
        taken.calls = None;
        Ok(())
    }

    /// The answers that the task took, when it took any.
    fn answers(&self) -> Option<TaskRecord> {
        let answers = Some(self.task_state.answers()?);
        Some(TaskDetails { answers, ..TaskDetails::default() }.into())
    }

    async fn store_answers(&self) -> Result<(), RuntimeError> {
        let loop_context = &self.loop_context;
        if let (Some(checkpointer), Some(answers)) =
            (&loop_context.storage.checkpointer, self.answers())
        {
            let tasks = TaskRecords::from_iter([(self.key.clone(), answers)]);
            checkpointer
                .put_tasks(&loop_context.address, loop_context.graph.plan(), self.of, tasks)
                .await?;
        }
        Ok(())
    }
}
