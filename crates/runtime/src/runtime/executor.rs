//! The executor port, which every request for a run and every request to cancel one passes, also
//! those that the runtime makes itself.

use super::admission::{Admit, AdmittedRun};
use super::core::Runtime;
use super::executor_wrapper::ExecutorWrapper;
use std::sync::{Arc, Mutex, PoisonError};
use weftwork_graph::RuntimeError;
use weftwork_types::port::{ExecuteError, GraphExecutor, RunHandle};
use weftwork_types::run::{RunRef, RunRequest};
use weftwork_types::{BoxFuture, Principal, RunId};

/// The innermost executor of one request: the runtime.
#[derive(Debug)]
struct RequestExecutor {
    runtime: Runtime,
    admit: Admit,
    reply: Mutex<Reply>,
}

/// The part of the runtime's last reply that the port does not return.
#[derive(Debug, Default)]
enum Reply {
    #[default]
    Other,
    /// This process executes the run.
    Here(RunId),
    /// The request was refused.
    Refused(RuntimeError),
}

impl RequestExecutor {
    fn new(runtime: &Runtime, admit: Admit) -> Arc<Self> {
        Arc::new(Self { runtime: runtime.clone(), admit, reply: Mutex::default() })
    }

    fn set_reply(&self, reply: Reply) {
        *self.reply.lock().unwrap_or_else(PoisonError::into_inner) = reply;
    }

    fn take_reply(&self) -> Reply {
        std::mem::take(&mut *self.reply.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the error with its type if it is that of the runtime.
    fn type_error(&self, error: ExecuteError) -> RuntimeError {
        match self.take_reply() {
            Reply::Refused(own) if own.fault() == error.fault => own,
            _ => RuntimeError::Node(error.fault),
        }
    }

    fn refuse(&self, error: RuntimeError) -> ExecuteError {
        let fault = error.fault();
        self.set_reply(Reply::Refused(error));
        ExecuteError { fault }
    }
}

impl GraphExecutor for RequestExecutor {
    fn execute(&self, request: RunRequest) -> BoxFuture<'_, Result<RunHandle, ExecuteError>> {
        Box::pin(async move {
            match Box::pin(self.runtime.admit(request, self.admit.clone())).await {
                Ok(started) => {
                    self.set_reply(match &started {
                        AdmittedRun::Here(handle) => Reply::Here(handle.run.run.clone()),
                        AdmittedRun::Elsewhere(_) => Reply::Other,
                    });
                    Ok(started.into_handle())
                }
                Err(error) => Err(self.refuse(error)),
            }
        })
    }

    fn cancel<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunRef,
    ) -> BoxFuture<'a, Result<(), ExecuteError>> {
        Box::pin(async move {
            let requested = self.runtime.request_cancel(who, run).await;
            requested.map_err(|error| self.refuse(error.into()))
        })
    }
}

impl Runtime {
    /// Accepts a run. The request passes the executors of the program.
    pub(crate) async fn accept(
        &self,
        request: RunRequest,
        admit: Admit,
    ) -> Result<AdmittedRun, RuntimeError> {
        let Some(ExecutorWrapper(wrap)) = &self.0.wrap_executor else {
            // On the heap: the callers' futures would each have the size of an admission.
            return Box::pin(self.admit(request, admit)).await;
        };
        let inner = RequestExecutor::new(self, admit);
        let executor = wrap(Arc::<RequestExecutor>::clone(&inner));
        let handle = executor.execute(request).await;
        let handle = handle.map_err(|error| inner.type_error(error))?;
        Ok(match inner.take_reply() {
            Reply::Here(run) if run == handle.run.run => AdmittedRun::Here(handle),
            _ => AdmittedRun::Elsewhere(handle),
        })
    }

    /// Requests that a run stop. The request passes the executors of the program.
    pub(super) async fn cancel_by_port(
        &self,
        who: &Principal,
        run: &RunRef,
    ) -> Result<(), RuntimeError> {
        let Some(ExecutorWrapper(wrap)) = &self.0.wrap_executor else {
            return Ok(self.request_cancel(who, run).await?);
        };
        let inner = RequestExecutor::new(self, Admit::Run(None));
        let executor = wrap(Arc::<RequestExecutor>::clone(&inner));
        executor.cancel(who, run).await.map_err(|error| inner.type_error(error))
    }
}

impl GraphExecutor for Runtime {
    fn execute(&self, request: RunRequest) -> BoxFuture<'_, Result<RunHandle, ExecuteError>> {
        Box::pin(async move {
            let accepted = self.accept(request, Admit::Run(None)).await;
            accepted.map(AdmittedRun::into_handle).map_err(|e| ExecuteError { fault: e.fault() })
        })
    }

    fn cancel<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunRef,
    ) -> BoxFuture<'a, Result<(), ExecuteError>> {
        Box::pin(async move {
            let requested = self.cancel_by_port(who, run).await;
            requested.map_err(|e| ExecuteError { fault: e.fault() })
        })
    }
}
