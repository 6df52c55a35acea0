//! The messages of a call: its progress, its questions, and its result.

use crate::call::Calling;
use crate::call_runs::CallRuns;
use crate::error::{McpError, Result};
use crate::follow::{Follower, Step};
use crate::message::{failure, response};
use crate::method::complete;
use crate::open_calls::{CallKey, OpenCall, OpenCallEntry};
use crate::peer::Era;
use crate::progress::Progress;
use crate::question::elicitation;
use crate::seal::{Of, Sealed, question_id};
use crate::source::Source;
use crate::task::created;
use futures_util::future::{Either, pending, select};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::port::TurnRun;
use weftwork_types::{BoxFuture, BoxStream, Principal};

/// Time after which a client that knows tasks gets one in place of the result.
const TASK_AFTER: Duration = Duration::from_secs(10);

/// The subject of the messages of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// The call itself.
    Call,
    /// The result of a task.
    Task,
}

/// The messages of a call, until its response.
pub(crate) struct CallStream {
    calling: Calling,
    about: About,
    follower: Follower,
    progress: Option<Progress>,
    /// Time to hand out a task.
    hand_out: BoxFuture<'static, ()>,
    cancelled: Arc<Notify>,
    /// Stops the run of a client that leaves.
    on_leave: Option<CancelOnLeave>,
    _open: Option<OpenCallEntry>,
}

/// The next event of a stream.
enum Next {
    Step(Step),
    HandOut,
    /// The client has cancelled the request, and gets no response.
    Cancelled,
}

impl CallStream {
    pub(crate) fn new(calling: Calling, about: About, call: CallRuns, done: usize) -> Self {
        let source = calling.source.clone();
        let who = calling.who().clone();
        let clock = &source.turns.clock;
        let progress = calling.params.progress.clone();
        let progress = progress.map(Progress::new);
        let hand_out: BoxFuture<'static, ()> = match calling.peer.takes_tasks {
            true => clock.sleep(TASK_AFTER),
            false => Box::pin(pending()),
        };
        let cancelled = Arc::new(Notify::new());
        let run = call.first().at.run.clone();
        let is_call = about == About::Call;
        let open = calling.peer.session.as_ref().filter(|_| is_call).map(|session| {
            let key = CallKey::new(&who, session, &calling.id);
            source.open.add(key, OpenCall { run, cancelled: Arc::clone(&cancelled) })
        });
        let leaves = is_call && calling.peer.era == Era::Modern;
        let on_leave = leaves.then(|| CancelOnLeave::new(&source, &who, &call));
        let follower = Follower::new(&source, who, call, done);
        Self { calling, about, follower, progress, hand_out, cancelled, on_leave, _open: open }
    }

    /// Returns the messages; the last one is the response. There is none if the client has cancelled the
    /// request, or if this process stops.
    pub(crate) fn into_messages(self) -> BoxStream<'static, Value> {
        Box::pin(stream::unfold(Some(self), async |state| {
            let mut state = state?;
            loop {
                let next = state.next().await;
                match state.message(next) {
                    Some(Message::More(message)) => return Some((message, Some(state))),
                    Some(Message::Last(message)) => {
                        state.disarm();
                        return Some((message, None));
                    }
                    Some(Message::End) => {
                        state.disarm();
                        return None;
                    }
                    None => {}
                }
            }
        }))
    }

    fn disarm(&mut self) {
        if let Some(guard) = self.on_leave.take() {
            guard.disarm();
        }
    }

    async fn next(&mut self) -> Result<Next> {
        let cancelled = Arc::clone(&self.cancelled);
        let cancelled = std::pin::pin!(cancelled.notified());
        let step = std::pin::pin!(self.follower.next());
        let ends = select(cancelled, &mut self.hand_out);
        // A call that is cancelled ends by that, and not by the end of its run.
        match select(ends, step).await {
            Either::Left((Either::Left(_), _)) => Ok(Next::Cancelled),
            Either::Left((Either::Right(_), _)) => Ok(Next::HandOut),
            Either::Right((step, _)) => Ok(Next::Step(step?)),
        }
    }

    /// Returns the message of what came next.
    fn message(&mut self, next: Result<Next>) -> Option<Message> {
        let progress = self.progress.as_mut();
        let step = match next {
            Ok(Next::Step(step)) => step,
            Ok(Next::HandOut) => {
                return Some(self.last(&created(&self.follower.call(), &self.calling.peer)));
            }
            Ok(Next::Cancelled) => return Some(Message::End),
            Err(error) => return Some(Message::Last(failure(&self.calling.id, &error))),
        };
        match step {
            Step::Event(event) => {
                progress.and_then(|progress| progress.of_event(&event)).map(Message::More)
            }
            Step::Quiet(time) => {
                progress.and_then(|progress| progress.of_quiet(time)).map(Message::More)
            }
            // The result of a task comes after its end, whoever answers.
            Step::Asks { .. } if self.about == About::Task && !self.calling.peer.elicits => None,
            Step::Asks { run, questions } => Some(self.ask(&run, &questions)),
            Step::Ended(outcome) => {
                let call = self.follower.call();
                let result = self.calling.shown(&call).outcome(&outcome, &self.follower.begun);
                Some(self.last(&result))
            }
            Step::Stopped => Some(Message::End),
        }
    }

    /// Returns the message that asks a client: an older one by a request within the stream, which it
    /// answers by a message of its own.
    fn ask(&self, run: &TurnRun, questions: &[Interrupt]) -> Message {
        let calling = &self.calling;
        let call = &self.follower.call();
        let first = questions.first().filter(|_| calling.peer.era == Era::Legacy);
        let Some(question) = first.filter(|_| calling.peer.elicits) else {
            return self.last(&calling.ask(call, run, questions));
        };
        // One at a time: the run that an answer begins asks the others again.
        let of = Of::Question(question.id);
        let sealed = Sealed { who: calling.who(), run: &run.at.run, of }.sign(&call.seal());
        let mut params = elicitation(question);
        if self.about == About::Task {
            params["_meta"] = related(call);
        }
        let id = question_id(&sealed, question.id);
        Message::More(json!({
            "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params,
        }))
    }

    fn last(&self, result: &Value) -> Message {
        let mut result = result.clone();
        if self.about == About::Task {
            let related = related(&self.follower.call());
            for (key, value) in related.as_object().into_iter().flatten() {
                result["_meta"][key] = value.clone();
            }
        }
        let result = complete(result, self.calling.peer.era);
        Message::Last(response(&self.calling.id, &result))
    }
}

/// A message for the client.
enum Message {
    More(Value),
    /// The response.
    Last(Value),
    /// There is no response.
    End,
}

fn related(call: &CallRuns) -> Value {
    json!({"io.modelcontextprotocol/related-task": {"taskId": call.id()}})
}

/// Returns the response at the end of messages, for a client that takes no stream.
///
/// # Errors
/// Status 503 if this process stops before.
pub(crate) async fn last_of(mut messages: BoxStream<'static, Value>) -> Result<Value> {
    let mut last = None;
    while let Some(message) = messages.next().await {
        last = message.get("method").is_none().then_some(message);
    }
    last.ok_or_else(McpError::stopping)
}

/// Cancels a call when it is dropped, because its client has left.
struct CancelOnLeave(Option<(Source, Principal, CallRuns)>);

impl CancelOnLeave {
    fn new(source: &Source, who: &Principal, call: &CallRuns) -> Self {
        Self(Some((source.clone(), who.clone(), call.clone())))
    }

    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnLeave {
    fn drop(&mut self) {
        let Some((source, who, call)) = self.0.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = stop(&source, &who, &call).await {
                tracing::debug!(?error, run = %call.id(), "a call whose client left is not cancelled");
            }
        });
    }
}

async fn stop(source: &Source, who: &Principal, call: &CallRuns) -> Result<()> {
    let call = call.reload(source, who).await?;
    // A call that waits for an answer has nothing to stop.
    if call.last().status.is_final() {
        return Ok(());
    }
    call.cancel(source, who).await
}
