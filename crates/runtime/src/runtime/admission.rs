//! Admission of runs: from a request to a run in the store.
//!
//! A request becomes a [`RequestedRun`], whose checks read the thread through one snapshot. The store
//! checks again whatever may change meanwhile, in the transaction that creates the run.

mod answers;
mod keys;
mod requested;

pub(super) use keys::check_depth;
pub use keys::check_key;

use super::core::Runtime;
use super::execution::{ClaimAttempt, UnclaimedRun};
use super::refusals::GivenAnswers;
use crate::graph_source::SourcedGraph;
use crate::hosted::{AcceptedRun, ModeReceiver, Requester};
use crate::thread_snapshot::ThreadSnapshot;
use answers::AnsweredCheckpoint;
use requested::RequestedRun;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::check_open;
use weftwork_store::mailbox::{is_living_instance, is_terminated};
use weftwork_store::{NewRun, RunRow, StoreError, invariants, mailbox, open_questions};
use weftwork_types::port::{Clock, RunHandle};
use weftwork_types::run::{RunInput, RunRef, RunRequest, RunStatus};
use weftwork_types::{InterruptId, RunId, Timestamp};

/// The way in which a request is admitted.
#[derive(Debug, Clone)]
pub(crate) enum Admit {
    /// As a run, which is begun here if it can be. Its events are reported to the receiver while it
    /// is executed here.
    Run(Option<ModeReceiver>),
    /// As an activity, which is only stored: another process may host its graph.
    Activity,
}

/// A run that was accepted, and the place of its execution.
pub(crate) enum AdmittedRun {
    /// This process executes it.
    Here(RunHandle),
    /// Another worker executes it, an earlier request created it, or it waits.
    Elsewhere(RunHandle),
}

impl AdmittedRun {
    pub(crate) fn into_handle(self) -> RunHandle {
        match self {
            Self::Here(handle) | Self::Elsewhere(handle) => handle,
        }
    }
}

impl Runtime {
    /// Admits a request that has passed the executors of the program.
    pub(super) async fn admit(
        &self,
        mut request: RunRequest,
        admit: Admit,
    ) -> Result<AdmittedRun, RuntimeError> {
        let receiver = match admit {
            Admit::Run(receiver) => receiver,
            Admit::Activity => return self.store_activity(request).await,
        };
        let found = self.resolve_on(&request.principal, &request.graph, &request.thread).await?;
        let SourcedGraph { id, graph, .. } = found;
        request.graph = id;
        if self.0.context.shutdown.drains() {
            return Err(RuntimeError::Stopping);
        }
        check_depth(&request.input)?;
        // The model that a run selects may take what the usual one does not.
        if let (RunInput::Start { input }, None) = (&request.input, &request.options.run_model) {
            graph.check_input(input).map_err(RuntimeError::Node)?;
        }
        let who = request.principal.clone();
        let mut requested = RequestedRun::new(self, request, graph);
        requested.check_thread().await?;
        let of_thread = requested.thread.row().await?.map(|thread| &thread.metadata);
        // A request with a key may be a repetition, which the store finds.
        let is_new = requested.request.options.idempotency_key.is_none();
        if is_new && of_thread.is_some_and(is_terminated) {
            return Err(mailbox::closed(&requested.request.thread).into());
        }
        let instance = of_thread.is_some_and(is_living_instance);
        if instance && requested.request.input == RunInput::Continue {
            requested.check_continuation().await?;
        }
        let answered = requested.resolve_answers().await?;
        self.continue_options(&mut requested.request, &requested.thread).await?;
        let given = GivenAnswers::of(&requested.request);
        let thread = requested.request.thread.clone();
        let started = self.create(requested, receiver, answered).await;
        // The activities that wait behind a question follow its answer. A question whose answer is
        // refused may be one to set aside that a process has left there.
        if instance {
            self.attend(&who, &thread);
        }
        let error = match started {
            Ok(started) => return Ok(started),
            Err(error) => error,
        };
        // Refused answers about calls are on record too, so that the record shows every attempt.
        let Some(given) = given else { return Err(error) };
        // The questions as they are after the refusal: another answer may be the reason for it.
        let thread = ThreadSnapshot::new(self.store(), &who, &thread);
        let error = match answered {
            AnsweredCheckpoint::Newest => self.reason_of_refusal(&thread, &given, error).await,
            AnsweredCheckpoint::Older => error,
        };
        self.record_refusals(&given, &thread, &error).await;
        Err(error)
    }

    /// Stores the run of a request whose answers have ids, and begins it.
    async fn create(
        &self,
        requested: RequestedRun<'_>,
        receiver: Option<ModeReceiver>,
        answered: AnsweredCheckpoint,
    ) -> Result<AdmittedRun, RuntimeError> {
        let context = &self.0.context;
        let now = context.clock.now();
        let answers = match answered {
            AnsweredCheckpoint::Newest => requested.checked_answers(now).await?,
            // The input of the run has them; the questions of the newest checkpoint stay open.
            AnsweredCheckpoint::Older => Default::default(),
        };
        let RequestedRun { request, graph, .. } = requested;
        let who = request.principal.clone();
        let new = new_run(&*context.clock, request, now);
        let run = AcceptedRun {
            who: who.clone(),
            at: new.at.clone(),
            graph,
            requester: Requester::Client,
            receiver,
            made: None,
        };
        let begins_now = new.options.begins_later(now).is_none() && !new.is_sent();
        let slot = if begins_now { self.0.slots.take() } else { None };
        let attempt = match slot {
            Some(slot) => {
                // Before the store has the run: a request to cancel it that follows must find it here.
                let registration = self.register(&who.org, &new.at, slot)?;
                let this = self.clone();
                let create = async move {
                    this.store().create_claimed(&who, new, answers, this.worker()).await
                };
                registration.execute(run, create).await?
            }
            None => {
                let row = context.store.create_run(&who, new, answers).await?;
                ClaimAttempt::Unclaimed(Box::new(UnclaimedRun { run, row }))
            }
        };
        Ok(match attempt {
            ClaimAttempt::Claimed(handle) => AdmittedRun::Here(handle),
            ClaimAttempt::Unclaimed(unclaimed) => {
                let UnclaimedRun { run, row } = *unclaimed;
                AdmittedRun::Elsewhere(self.wait_or_follow(run, row))
            }
        })
    }

    /// Follows a run that was accepted without a claim: one that waits, or that of an earlier
    /// request, which has another id.
    fn wait_or_follow(&self, run: AcceptedRun, row: RunRow) -> RunHandle {
        if row.new.at.run != run.at.run {
            return self.handle_of(run.who, row.new.at, run.graph);
        }
        if row.new.is_sent() {
            self.attend(&run.who, &run.at.thread);
            return self.handle_of(run.who, run.at, run.graph);
        }
        let is_queued = row.status == RunStatus::Queued;
        if is_queued && row.new.options.multitask.cancels() {
            self.cancel_others(&run.who, &run.at);
        }
        if let Some(begins) = row.new.options.begins_later(self.0.context.clock.now()) {
            return self.wait_for_time(run, row.status, begins);
        }
        if is_queued { self.wait_for_turn(run) } else { self.wait_for_slot(run) }
    }

    /// Returns the error of a refused request with answers. An answer to no open question is refused
    /// with the open ones. While the run of the first answer is active, the thread is busy; a second
    /// answer is refused because of that answer instead.
    async fn reason_of_refusal(
        &self,
        thread: &ThreadSnapshot,
        given: &GivenAnswers,
        error: RuntimeError,
    ) -> RuntimeError {
        let RuntimeError::Store(error) = error else { return error };
        let is_unknown = matches!(error, StoreError::NotFound { kind: "interrupt", .. });
        if !(is_unknown || matches!(error, StoreError::Busy { .. })) || given.answers.is_empty() {
            return error.into();
        }
        let rows = match thread.questions().await {
            Ok(rows) => rows,
            Err(unread) => return unread.into(),
        };
        if is_unknown {
            let open = open_questions(rows.to_vec());
            let open: Vec<_> = open.iter().collect();
            return check_open(given.answers.keys(), &open).err().unwrap_or(error.into());
        }
        let row_of = |id: &InterruptId| rows.iter().find(|row| row.interrupt.id == *id);
        let check = |id: &InterruptId| invariants::check_answerable(*id, row_of(id)).err();
        let mut refusals = given.answers.keys().filter_map(check);
        let is_answered = |refusal: &StoreError| matches!(refusal, StoreError::Answered { .. });
        refusals.find(is_answered).unwrap_or(error).into()
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
