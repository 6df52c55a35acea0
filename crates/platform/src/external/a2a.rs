//! Agents that are asked by A2A: messages, and the tasks that they begin.

use super::ask::{Asked, Numbered, PeerLocation};
use super::binding::Operation;
use super::card::Interface;
use super::error::{FailedAttempt, PeerError, shorten};
use super::peer::{Opened, Peer, Reading, Repetition, within};
use super::question::{PeerQuestion, answers_of};
use super::stream::{EventStream, is_stream};
use super::task_view::{First, Seen, TaskAt, TaskView, content_of_parts, text_of};
use crate::mode::RequestError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use weftwork_a2a_wire::{Message, Part, PartContent, Role, Task, TaskState, TaskStatus};
use weftwork_graph::{Ctx, NodeError, NodeResult, Once};
use weftwork_types::message::{Media, Message as OwnMessage, Part as OwnPart};
use weftwork_types::port::Clock;
use weftwork_types::{BoxFuture, CallChain, MessageId};

/// Most bytes of text that are streamed to clients.
const SHOWN_BYTES_MAX: usize = 4 << 20;
/// Most events of statuses that are emitted.
const STATUSES_MAX: u32 = 1_000;
/// Longest time for which a task is followed.
const TASK_TIME_MAX: Duration = Duration::from_secs(60 * 60);
/// First delay between two looks at a task; each further one is twice as long.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_MAX: Duration = Duration::from_secs(10);
/// Time limit for the cancellation of a task.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(30);
/// Name of a task in errors.
const A_TASK: &str = "a task";
/// Member of the record of an answer that was not sent: the task that went on before it.
const GONE_ON: &str = "goneOn";

/// A task that waits or has ended, as it is recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settled {
    at: TaskAt,
    status: TaskStatus,
    content: Value,
    /// Name of the agent, as its card has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

/// The answer to a message, with the stream that it came by.
struct Sent {
    first: First,
    stream: Option<EventStream>,
    /// `true` if the task went on before the message, which was not sent.
    is_late: bool,
}

/// A question of a task, and the message that answers it.
struct Reply<'a> {
    message: &'a Message,
    /// Status with the question; `None` for the first message of a request.
    question: Option<&'a TaskStatus>,
}

impl Peer {
    pub(super) async fn ask_a2a(
        self: &Arc<Self>,
        asked: Asked<'_>,
        location: &mut PeerLocation,
        ctx: &Ctx,
    ) -> NodeResult<Value> {
        let mut message = first_message(&asked)?;
        let mut answered = None;
        let mut number = 0;
        loop {
            number += 1;
            let reply = Reply { message: &message, question: answered.as_ref() };
            let Sent { first, stream, is_late } = self.send_message(reply, number, ctx).await?;
            location.is_late |= is_late;
            let view = match first {
                First::Message(message) => {
                    location.set_context(message.context_id);
                    return Ok(content_of_parts(&message.parts));
                }
                First::Task(view) => view,
            };
            location.set_context(view.at.context.clone());
            location.task = Some(view.at.id.clone());
            // A question that has no answer yet counts again.
            let answered_before = answered.take().filter(|_| !is_late);
            let following = Following { view, stream, answered: answered_before };
            let shown = Shown::new(&self.slug, asked.answer, ctx);
            let Settled { at, status, content, name } =
                self.follow(following, shown, number).await?;
            location.set_context(at.context.clone());
            match status.state {
                TaskState::Completed => return Ok(content),
                state if state.asks() => {
                    let questions = questions_of(&status);
                    let answers = self.ask_all(&questions, name.as_deref(), ctx)?;
                    message = message_to(&at, answers_of(&questions, answers), &asked.chain);
                    answered = Some(status);
                }
                _ => return Err(self.failure(&status).fault().into()),
            }
        }
    }

    /// Sends a message once. Its answer is on record when this returns; the stream is not, and is opened
    /// again by a process that continues the run.
    async fn send_message(&self, reply: Reply<'_>, number: u32, ctx: &Ctx) -> NodeResult<Sent> {
        let live = Mutex::new(None);
        let Reply { message, question } = reply;
        let of = Numbered { number, content: json!(message) };
        let work = |key: String| {
            let message = Message { message_id: key, ..message.clone() };
            let live = &live;
            let sent = async move {
                let reply = Reply { message: &message, question };
                let (first, stream) = self.send_once(reply, &**ctx.clock()).await?;
                *live.lock().unwrap_or_else(PoisonError::into_inner) = stream;
                Ok(first)
            };
            Box::pin(sent) as BoxFuture<'_, _>
        };
        let mut value = self.once(of, ctx, &work).await?;
        let stream = live.lock().unwrap_or_else(PoisonError::into_inner).take();
        let late = value.get_mut(GONE_ON).map(Value::take);
        let is_late = late.is_some();
        let value = late.map_or(value, |task| json!({"task": task}));
        let first = match self.read_first(value, &task_of(message)) {
            Ok(first) => first,
            Err(error) => return Err(error.fault().into()),
        };
        Ok(Sent { first, stream, is_late })
    }

    /// Sends a message, and returns the first answer to it, with the stream that has more. An answer is not
    /// sent to a task that has gone on without it: then the task is returned.
    async fn send_once(
        &self,
        reply: Reply<'_>,
        clock: &dyn Clock,
    ) -> Result<(Value, Option<EventStream>), FailedAttempt> {
        // Nothing is sent to the agent before its card is known.
        let interface = self.interface(clock).await.map_err(|failed| failed.error.for_good())?;
        let late = |task: Value| (json!({GONE_ON: task}), None);
        if let Some(task) = self.gone_on(&interface, &reply, clock).await? {
            return Ok(late(task));
        }
        let sent = self.send_to(&interface, reply.message, clock).await;
        match sent {
            // It may have gone on since.
            Err(failed) if !failed.may_have_acted => {
                match self.gone_on(&interface, &reply, clock).await {
                    Ok(Some(task)) => Ok(late(task)),
                    Ok(None) | Err(_) => Err(failed),
                }
            }
            sent => sent,
        }
    }

    /// Returns the task of a reply if it does not ask the question any more.
    async fn gone_on(
        &self,
        interface: &Interface,
        reply: &Reply<'_>,
        clock: &dyn Clock,
    ) -> Result<Option<Value>, FailedAttempt> {
        let Some(question) = reply.question else { return Ok(None) };
        let task = &reply.message.task_id;
        let found = self.task_value(interface, task, clock).await;
        let value = found.map_err(|failed| failed.error.for_good())?;
        let status = self.view_of(&value, task)?.status;
        let is_same = status.state.asks() && questions_of(&status) == questions_of(question);
        Ok((!is_same).then_some(value))
    }

    async fn send_to(
        &self,
        interface: &Interface,
        message: &Message,
        clock: &dyn Clock,
    ) -> Result<(Value, Option<EventStream>), FailedAttempt> {
        let at = task_of(message);
        let streams = interface.streams;
        let repetition = match self.is_recognised() {
            true => Repetition::Harmless,
            false => Repetition::IfUndone,
        };
        let request = interface.request(Operation::Send { message, streams }, repetition);
        let opened = self.send(&request, clock).await?;
        let first = self.first_answer(opened, interface, &at, clock).await;
        first.map_err(|failed| match failed.error {
            // It refused the message, unless the code says otherwise.
            PeerError::Failed { .. } => failed,
            // The agent has the message, whatever its answer is.
            _ => failed.of_taken(),
        })
    }

    async fn first_answer(
        &self,
        opened: Opened,
        interface: &Interface,
        at: &TaskAt,
        clock: &dyn Clock,
    ) -> Result<(Value, Option<EventStream>), FailedAttempt> {
        if !is_stream(&opened) {
            let answered = self.read(opened, Reading::WHOLE, clock).await?;
            let value = answered.json();
            let value = value.map_err(|reason| self.invalid("an answer", reason))?;
            let first = interface.result(self, value)?;
            First::read(self, &first, at)?;
            return Ok((first, None));
        }
        let mut events = EventStream::new(opened);
        let first = events.next(self, interface).await?;
        let ended = || self.invalid("a stream", "it ended before its first event");
        let first = first.ok_or_else(ended)?;
        First::read(self, &first, at)?;
        Ok((first, Some(events)))
    }

    /// Reads the recorded answer to a message. A person may have answered in place of the agent, with any
    /// value.
    fn read_first(&self, value: Value, of: &TaskAt) -> Result<First, PeerError> {
        const MEMBERS: [&str; 4] = ["task", "message", "statusUpdate", "artifactUpdate"];
        if MEMBERS.iter().any(|member| value.get(member).is_some()) {
            return First::read(self, &value, of);
        }
        let part = match value {
            Value::String(text) => Part::text(text),
            other => Part::data(other),
        };
        Ok(First::Message(message_of(vec![part], TaskAt::default(), &CallChain::default())))
    }

    /// Follows a task until it asks or has ended.
    async fn follow(
        self: &Arc<Self>,
        following: Following,
        shown: Shown<'_>,
        number: u32,
    ) -> NodeResult<Settled> {
        let ctx = shown.ctx;
        let what = json!({"task": following.view.at});
        let once = Once::new(format!("external:{}/task", self.slug)).with(what);
        let once = once.id(number.to_string()).reads();
        ctx.once(once, async |_| {
            let settled = self.watch(following, shown).await;
            settled.map_err(|failed| NodeError::from(failed.error.fault()))
        })
        .await
    }

    async fn watch(
        self: &Arc<Self>,
        following: Following,
        mut shown: Shown<'_>,
    ) -> Result<Settled, FailedAttempt> {
        let Following { mut view, mut stream, answered } = following;
        let ctx = shown.ctx;
        let clock = &**ctx.clock();
        let mut pace = Pace::new(clock);
        shown.show(view.first_seen());
        let interface = loop {
            match self.interface(clock).await {
                Ok(interface) => break interface,
                Err(failed) => pace.wait_out(failed, ctx).await?,
            }
        };
        let cancel = CancelOnDrop {
            peer: self,
            interface: Arc::clone(&interface),
            ctx,
            task: view.at.id.clone(),
            armed: true,
        };
        let mut streams = interface.streams;
        while !is_settled(&view.status, answered.as_ref()) {
            if clock.elapsed() >= pace.until {
                let minutes = TASK_TIME_MAX.as_secs() / 60;
                let failed = self.failed(format!("has not ended after {minutes} minutes"), "");
                return Err(failed.into());
            }
            if stream.is_none() && streams {
                let request = interface
                    .request(Operation::Subscribe { task: &view.at.id }, Repetition::Harmless);
                match self.send(&request, clock).await {
                    Ok(opened) if is_stream(&opened) => stream = Some(EventStream::new(opened)),
                    // It has ended, or the agent cannot stream it. Its state is read below.
                    Ok(_) | Err(FailedAttempt { error: PeerError::Failed { .. }, .. }) => {
                        streams = false;
                    }
                    Err(failed) => {
                        pace.wait_out(failed, ctx).await?;
                        continue;
                    }
                }
            }
            if let Some(mut events) = stream.take() {
                while let Some(event) = events.next(self, &interface).await? {
                    shown.show(view.read_event(self, &event)?);
                    if is_settled(&view.status, answered.as_ref()) {
                        break;
                    }
                }
            }
            if is_settled(&view.status, answered.as_ref()) {
                break;
            }
            match self.read_task(&interface, &view.at.id, clock).await {
                Ok(next) => shown.show(view.replace(next)),
                Err(failed) => {
                    pace.wait_out(failed, ctx).await?;
                    continue;
                }
            }
            if !is_settled(&view.status, answered.as_ref()) {
                pace.wait(ctx).await;
            }
        }
        cancel.disarm();
        if view.status.state == TaskState::Completed && !view.is_whole {
            // The stream began behind what the task had before the question.
            let whole = loop {
                match self.read_task(&interface, &view.at.id, clock).await {
                    Ok(whole) => break whole,
                    Err(failed) => pace.wait_out(failed, ctx).await?,
                }
            };
            shown.show(view.replace(whole));
        }
        // A secret may have come in several pieces.
        let content = self.without_secrets(view.content(), clock).await;
        Ok(Settled { at: view.at, status: view.status, content, name: interface.name.clone() })
    }

    /// Reads a task as it is now.
    async fn read_task(
        &self,
        interface: &Interface,
        task: &str,
        clock: &dyn Clock,
    ) -> Result<TaskView, FailedAttempt> {
        let value = self.task_value(interface, task, clock).await?;
        Ok(self.view_of(&value, task)?)
    }

    async fn task_value(
        &self,
        interface: &Interface,
        task: &str,
        clock: &dyn Clock,
    ) -> Result<Value, FailedAttempt> {
        let request = interface.request(Operation::Get { task }, Repetition::Harmless);
        let found = self.fetch(&request, clock).await?;
        let value = found.json().map_err(|reason| self.invalid(A_TASK, reason))?;
        interface.result(self, value)
    }

    fn view_of(&self, value: &Value, task: &str) -> Result<TaskView, PeerError> {
        let read = Task::deserialize(value);
        let read = read.map_err(|error| self.invalid(A_TASK, shorten(&error.to_string())))?;
        let view = TaskView::new(self, read)?;
        match view.at.id == task {
            true => Ok(view),
            false => Err(self.invalid(A_TASK, "it is another one")),
        }
    }

    /// The failure of a task that ended without a result.
    fn failure(&self, status: &TaskStatus) -> PeerError {
        let what = match status.state {
            TaskState::Rejected => "rejected the request",
            TaskState::Canceled => "cancelled the task",
            _ => "failed",
        };
        let text = status.message.as_ref().map(|of| text_of(&of.parts)).unwrap_or_default();
        self.failed(what, &text)
    }
}

/// A task that is followed.
struct Following {
    view: TaskView,
    stream: Option<EventStream>,
    /// Status with the question that was answered last, which does not count again.
    answered: Option<TaskStatus>,
}

/// The delays between looks at a task, and the time after which there are no more.
struct Pace {
    until: Duration,
    delay: Duration,
}

impl Pace {
    fn new(clock: &dyn Clock) -> Self {
        Self { until: clock.elapsed().saturating_add(TASK_TIME_MAX), delay: LOOK }
    }

    async fn wait(&mut self, ctx: &Ctx) {
        ctx.heartbeat();
        ctx.clock().sleep(self.delay).await;
        self.delay = (self.delay * 2).min(LOOK_MAX);
    }

    /// Waits after a failed look.
    ///
    /// # Errors
    /// The failure, if it does not pass or the time is over.
    async fn wait_out(&mut self, failed: FailedAttempt, ctx: &Ctx) -> Result<(), FailedAttempt> {
        if !failed.error.is_retriable() || ctx.clock().elapsed() >= self.until {
            return Err(failed);
        }
        self.wait(ctx).await;
        Ok(())
    }
}

fn is_settled(status: &TaskStatus, answered: Option<&TaskStatus>) -> bool {
    status.state.is_terminal() || (status.state.asks() && Some(status) != answered)
}

/// Shows the progress of a task to those who watch the run.
struct Shown<'a> {
    slug: &'a str,
    /// Id of the message with the answer.
    answer: &'a MessageId,
    ctx: &'a Ctx,
    bytes: usize,
    statuses: u32,
    /// `true` if text that was shown is void: what follows it is shown at the end.
    is_void: bool,
}

impl<'a> Shown<'a> {
    fn new(slug: &'a str, answer: &'a MessageId, ctx: &'a Ctx) -> Self {
        Self { slug, answer, ctx, bytes: 0, statuses: 0, is_void: false }
    }

    fn show(&mut self, seen: Seen) {
        let Seen { delta, status, is_replaced } = seen;
        self.ctx.heartbeat();
        self.is_void |= is_replaced;
        self.bytes = self.bytes.saturating_add(delta.len());
        if !delta.is_empty() && !self.is_void && self.bytes <= SHOWN_BYTES_MAX {
            self.ctx.emit_remote_text("", self.answer, &delta);
        }
        if let Some((state, text)) = status
            && self.statuses < STATUSES_MAX
        {
            self.statuses += 1;
            self.ctx.emit(json!({"agent": self.slug, "state": state, "text": text}));
        }
    }
}

/// Cancels the task when it is dropped and the run is cancelled.
struct CancelOnDrop<'a> {
    peer: &'a Arc<Peer>,
    interface: Arc<Interface>,
    ctx: &'a Ctx,
    task: String,
    armed: bool,
}

impl CancelOnDrop<'_> {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if !self.armed || !self.ctx.is_cancelled() {
            return;
        }
        // Without a runtime the process ends, and the task there goes on.
        let Ok(handle) = Handle::try_current() else { return };
        let peer = Arc::clone(self.peer);
        let interface = Arc::clone(&self.interface);
        let clock = Arc::clone(self.ctx.clock());
        let task = std::mem::take(&mut self.task);
        handle.spawn(async move {
            let request = interface.request(Operation::Cancel { task: &task }, Repetition::Harmless);
            let cancelled = within(CANCEL_TIMEOUT, peer.fetch(&request, &*clock), &*clock).await;
            if let Some(Err(failed)) = cancelled {
                tracing::warn!(agent = peer.slug, error = %failed.error, "a task was not cancelled");
            }
        });
    }
}

/// Returns the task that a message continues; an empty one for the first message.
fn task_of(message: &Message) -> TaskAt {
    TaskAt { id: message.task_id.clone(), context: message.context_id.clone() }
}

/// Returns the first message of a request.
fn first_message(asked: &Asked<'_>) -> Result<Message, NodeError> {
    let mut parts: Vec<Part> = asked.message.map(parts_of).unwrap_or_default();
    let arguments = asked.payload.arguments.clone().map(Value::Object);
    parts.extend(asked.input.cloned().or(arguments).map(Part::data));
    if parts.is_empty() {
        let missing = RequestError::Member {
            member: "userMessage",
            found: "empty".to_owned(),
            expected: "a text, or an `input`".to_owned(),
        };
        return Err(missing.fault().into());
    }
    let at = TaskAt { id: String::new(), context: asked.context.clone().unwrap_or_default() };
    Ok(message_of(parts, at, &asked.chain))
}

/// Returns the message with the answers to the questions of a task.
fn message_to(at: &TaskAt, answers: Value, chain: &CallChain) -> Message {
    let part = match answers {
        Value::String(text) => Part::text(text),
        other => Part::data(other),
    };
    message_of(vec![part], at.clone(), chain)
}

fn message_of(parts: Vec<Part>, at: TaskAt, chain: &CallChain) -> Message {
    let TaskAt { id: task_id, context: context_id } = at;
    let metadata = Map::from_iter([(CallChain::METADATA.to_owned(), json!(chain))]);
    Message {
        // The key of the request takes its place.
        message_id: String::new(),
        context_id,
        task_id,
        role: Role::User,
        parts,
        metadata,
        extensions: Vec::new(),
        reference_task_ids: Vec::new(),
    }
}

/// Returns the parts of a message of the user: its texts and files.
fn parts_of(message: &OwnMessage) -> Vec<Part> {
    let mut parts = Vec::new();
    let text = message.joined_text();
    if !text.is_empty() {
        parts.push(Part::text(text));
    }
    for part in &message.parts {
        let OwnPart::Media(Media { media_type, url }) = part else { continue };
        let inline = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        let content = match inline {
            Some((_, raw)) => PartContent::Raw(raw.to_owned()),
            None => PartContent::Url(url.clone()),
        };
        parts.push(Part { media_type: media_type.clone(), ..Part::of(content) });
    }
    parts
}

/// Returns the questions of a task that waits.
fn questions_of(status: &TaskStatus) -> Vec<PeerQuestion> {
    let parts = status.message.as_ref().map(|of| of.parts.as_slice()).unwrap_or_default();
    let listed = parts.iter().find_map(|part| match &part.content {
        PartContent::Data(data) => PeerQuestion::read_all(data.get("questions")?),
        _ => None,
    });
    listed.unwrap_or_else(|| vec![PeerQuestion::of_text(text_of(parts))])
}
