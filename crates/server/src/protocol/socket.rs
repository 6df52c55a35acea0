//! A WebSocket for the commands and the events of a thread.
//!
//! The subscriptions of a connection share one stream of events, in order: clients take the end of a
//! run as the end of its events in all subscriptions. A subscription that begins earlier than the
//! existing ones restarts the stream there, and an event is sent if a subscription does not have it. A
//! task reads the stream; it ends with the connection. A client that does not read its events stops the
//! task, never a run.

use super::command::{self, Command};
use super::event::NumberedEvent;
use super::filter::{Filter, FilterBody};
use super::tape::{self, Selection, Since};
use super::{number, reply};
use crate::error::{ApiError, Result};
use crate::guard::{VALUES_MAX, too_many_values};
use crate::service::Service;
use crate::wording;
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use weftwork_types::ThreadId;
use weftwork_types::json::{self, JsonError, ValueCounter};

/// Maximum size of a message of a client in bytes.
pub(crate) const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Maximum number of subscriptions of a connection.
pub(crate) const SUBSCRIPTIONS_MAX: usize = 32;
/// Interval of pings.
const PING: Duration = Duration::from_secs(20);
/// Time without any message of the client, such as the answer to a ping, after which the connection
/// is closed.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Maximum time for which a client does not accept a message.
const SEND_TIME_MAX: Duration = Duration::from_secs(30);
/// Number of events of a connection that wait to be sent.
const WAITING_MAX: usize = 64;

/// An event, with the number of its stream.
struct Delivery {
    stream: u64,
    event: Result<NumberedEvent>,
}

struct Connection {
    socket: WebSocket,
    service: Service,
    thread: ThreadId,
    subscriptions: BTreeMap<String, Selection>,
    deliveries: mpsc::Sender<Delivery>,
    /// The task that reads the stream, with the number of the stream.
    reader: Option<Reader>,
    streams: u64,
    /// Number of the last event of the stream.
    last: Option<u64>,
    /// Begin of subscriptions that name no event, after `subscription.reconnect`.
    resume: Option<Since>,
}

/// A task that ends when it is dropped.
struct Reader(AbortHandle);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The reason for which a connection ends, as a code and a text; `None` if the client is gone.
type End = Option<(u16, &'static str)>;

/// The end of a connection whose token has ended, or has other rights.
const REVOKED: End = Some((close_code::POLICY, "the token was revoked or changed"));

/// Serves a connection until the client leaves or the server stops.
pub(crate) async fn serve(socket: WebSocket, service: Service, thread: ThreadId) {
    let (deliveries, receiver) = mpsc::channel(WAITING_MAX);
    let stopped = service.stopped();
    let revoked = service.revoked();
    let mut connection = Connection {
        socket,
        service,
        thread,
        subscriptions: BTreeMap::new(),
        deliveries,
        reader: None,
        streams: 0,
        last: None,
        resume: None,
    };
    if let Some((code, reason)) = connection.run(receiver, stopped, revoked).await {
        let frame = CloseFrame { code, reason: reason.into() };
        let closed = connection.socket.send(Message::Close(Some(frame)));
        if let Err(error) = timeout(SEND_TIME_MAX, closed).await.unwrap_or(Ok(())) {
            tracing::debug!(%error, "a WebSocket ended early");
        }
    }
}

impl Connection {
    async fn run(
        &mut self,
        mut receiver: mpsc::Receiver<Delivery>,
        stopped: impl Future<Output = ()>,
        revoked: impl Future<Output = ()>,
    ) -> End {
        let mut stopped = std::pin::pin!(stopped);
        let mut revoked = std::pin::pin!(revoked);
        let mut pings = interval(PING);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard = Instant::now();
        loop {
            // All of these are cancel safe.
            let ended = tokio::select! {
                () = &mut stopped => return Some((close_code::RESTART, "the server stops")),
                () = &mut revoked => return REVOKED,
                message = self.socket.recv() => {
                    heard = Instant::now();
                    match message {
                        None => return None,
                        Some(Err(error)) => return end_of_error(&error),
                        Some(Ok(message)) => self.receive_message(message).await,
                    }
                }
                delivery = receiver.recv() => match delivery {
                    None => return None,
                    Some(delivery) => self.deliver_event(delivery).await,
                },
                _ = pings.tick() => {
                    if heard.elapsed() > IDLE_MAX {
                        return Some((close_code::POLICY, "no answer to pings"));
                    }
                    self.send(Message::Ping(Default::default())).await
                }
            };
            if let Err(end) = ended {
                return end;
            }
        }
    }

    async fn send(&mut self, message: Message) -> Result<(), End> {
        match timeout(SEND_TIME_MAX, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(None),
        }
    }

    async fn send_json(&mut self, json: &Value) -> Result<(), End> {
        self.send(Message::Text(json.to_string().into())).await
    }

    async fn receive_message(&mut self, message: Message) -> Result<(), End> {
        let text = match &message {
            Message::Text(text) => text.as_bytes(),
            Message::Binary(bytes) => bytes.as_ref(),
            Message::Ping(_) | Message::Pong(_) => return Ok(()),
            Message::Close(_) => return Err(None),
        };
        if !self.service.is_authorized() {
            return Err(REVOKED);
        }
        let mut counter = ValueCounter::default();
        counter.add(text);
        if counter.values() > VALUES_MAX {
            let message = too_many_values().detail().to_owned();
            return self.send_json(&reply::error(Value::Null, "invalid_argument", &message)).await;
        }
        let command = match json::read(text) {
            Ok(command) => command,
            Err(error) => {
                let message = match error {
                    JsonError::Syntax(_) => "Protocol commands must be valid JSON.".to_owned(),
                    JsonError::WideInteger { .. } => error.to_string(),
                };
                let refused = reply::error(Value::Null, "invalid_argument", &message);
                return self.send_json(&refused).await;
            }
        };
        let command = match Command::read(command) {
            Ok(command) => command,
            Err(refused) => return self.send_json(&refused).await,
        };
        let id = command.id.clone();
        let answer = match command.method.as_str() {
            "subscription.subscribe" => return self.add_subscription(command).await,
            "subscription.unsubscribe" => self.remove_subscription(&command),
            "subscription.reconnect" => return self.resume_subscriptions(command).await,
            _ => command::carry_out(&self.service, &self.thread, command).await,
        };
        let answer = answer.unwrap_or_else(|error| failed_reply(id, &error));
        self.send_json(&answer).await
    }

    async fn add_subscription(&mut self, command: Command) -> Result<(), End> {
        match self.read_selection(&command).await {
            Ok(selection) => {
                let name = uuid::Uuid::now_v7().to_string();
                let result = json!({"subscription_id": name});
                // Clients know a subscription by its id before its first event.
                self.send_json(&reply::success(&command.id, result, None)).await?;
                self.note_received();
                self.subscriptions.insert(name, selection);
                self.restart_stream().await
            }
            Err(error) => self.send_json(&failed_reply(command.id, &error)).await,
        }
    }

    async fn read_selection(&mut self, command: &Command) -> Result<Selection> {
        if self.subscriptions.len() >= SUBSCRIPTIONS_MAX {
            return Err(ApiError::invalid(format!(
                "the connection has {SUBSCRIPTIONS_MAX} subscriptions, the maximum; end some"
            )));
        }
        let body: FilterBody = read_params(command)?;
        let since = body.since.as_ref().map(Since::read).transpose()?;
        let filter = Filter::read(body).map_err(ApiError::invalid)?;
        let since = since.as_ref().or(self.resume.as_ref());
        let begin = self.service.begin(&self.thread, since).await?;
        Ok(Selection { filter, begin })
    }

    /// Records that the subscriptions have the events of the stream up to its last one.
    fn note_received(&mut self) {
        let Some(last) = self.last.take() else { return };
        for selection in self.subscriptions.values_mut() {
            let begin = &mut selection.begin;
            begin.after = begin.after.max(Some(last));
            begin.run = number::run_of(begin.after.unwrap_or(last));
        }
    }

    /// Begins the stream again, with the earliest run of a subscription.
    async fn restart_stream(&mut self) -> Result<(), End> {
        self.reader = None;
        self.streams += 1;
        let first = self.subscriptions.values().min_by_key(|selection| selection.begin.run);
        let Some(begin) = first.map(|first| first.begin.clone()) else { return Ok(()) };
        let from = match begin.after {
            None => begin.from,
            Some(after) => {
                let since = Since::Number(after);
                match self.service.begin(&self.thread, Some(&since)).await {
                    Ok(begin) => begin.from,
                    Err(error) => return self.cut_connection(&error).await,
                }
            }
        };
        let selections: Vec<_> = self.subscriptions.values().cloned().collect();
        let mut events = tape::follow_events(self.service.clone(), &self.thread, from, &selections);
        let deliveries = self.deliveries.clone();
        let stream = self.streams;
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if deliveries.send(Delivery { stream, event }).await.is_err() {
                    return;
                }
            }
        });
        self.reader = Some(Reader(task.abort_handle()));
        Ok(())
    }

    async fn deliver_event(&mut self, Delivery { stream, event }: Delivery) -> Result<(), End> {
        // Events of an earlier stream are part of this one.
        if stream != self.streams {
            return Ok(());
        }
        match event {
            Ok(numbered) => {
                if self.subscriptions.values().any(|selection| selection.has(&numbered)) {
                    self.send_json(&numbered.event.to_json()).await?;
                }
                self.last = numbered.number.or(self.last);
                Ok(())
            }
            Err(error) => self.cut_connection(&error).await,
        }
    }

    /// Ends the connection; a client that connects again continues after its last event.
    async fn cut_connection(&mut self, error: &ApiError) -> Result<(), End> {
        self.send_json(&failed_reply(Value::Null, error)).await?;
        Err(Some((close_code::ERROR, "the events of the thread cannot be read")))
    }

    fn remove_subscription(&mut self, command: &Command) -> Result<Value> {
        #[derive(Deserialize)]
        struct UnsubscribeParams {
            subscription_id: String,
        }
        let UnsubscribeParams { subscription_id } = read_params(command)?;
        Ok(match self.subscriptions.remove(&subscription_id) {
            Some(_) => reply::success(&command.id, json!({}), None),
            None => no_such_subscription(&command.id, &subscription_id),
        })
    }

    /// Continues the current and later subscriptions of this connection after an event that the client
    /// received on an earlier connection.
    async fn resume_subscriptions(&mut self, command: Command) -> Result<(), End> {
        #[derive(Deserialize)]
        struct ReconnectParams {
            run_id: String,
            #[serde(default)]
            last_event_id: Option<Value>,
            #[serde(default)]
            subscriptions: Option<Vec<String>>,
        }
        let ReconnectParams { run_id, last_event_id, subscriptions } = match read_params(&command) {
            Ok(params) => params,
            Err(error) => return self.send_json(&failed_reply(command.id, &error)).await,
        };
        let names = subscriptions.unwrap_or_else(|| self.subscriptions.keys().cloned().collect());
        if let Some(missing) = names.iter().find(|name| !self.subscriptions.contains_key(*name)) {
            return self.send_json(&no_such_subscription(&command.id, missing)).await;
        }
        let place = self.find_place(&run_id, last_event_id.as_ref()).await;
        let (since, begin, result) = match place {
            Ok(Some(place)) => place,
            Ok(None) => {
                let message = format!("run {run_id} is not one of this thread");
                return self.send_json(&reply::error(command.id, "no_such_run", &message)).await;
            }
            Err(error) => return self.send_json(&failed_reply(command.id, &error)).await,
        };
        self.resume = since;
        self.send_json(&reply::success(&command.id, result, None)).await?;
        self.note_received();
        for name in names {
            if let Some(selection) = self.subscriptions.get_mut(&name) {
                selection.begin = begin.clone();
            }
        }
        self.restart_stream().await
    }

    /// Returns the event, the begin after it and the status of the graphs of a run; `None` if the
    /// run is not one of the thread.
    async fn find_place(
        &mut self,
        run: &str,
        last: Option<&Value>,
    ) -> Result<Option<(Option<Since>, tape::Begin, Value)>> {
        let run = crate::translate::ids::parse_run(run)?;
        let Some(row) = self.service.active_run(&self.thread, Some(&run)).await? else {
            return Ok(None);
        };
        let since = last.map(Since::read).transpose()?;
        let begin = self.service.begin(&self.thread, since.as_ref()).await?;
        let graphs = self.service.tree(&row).await?.entries();
        Ok(Some((since, begin, json!({"restored": true, "current_namespaces": graphs}))))
    }
}

fn read_params<T: serde::de::DeserializeOwned>(command: &Command) -> Result<T> {
    wording::read_value(command.params.clone())
        .map_err(|problem| ApiError::invalid(format!("`params` of {}: {problem}", command.method)))
}

fn no_such_subscription(id: &Value, name: &str) -> Value {
    reply::error(id.clone(), "no_such_subscription", &format!("Unknown subscription: {name}"))
}

fn failed_reply(id: Value, error: &ApiError) -> Value {
    let is_refusal = error.status().is_client_error();
    let code = if is_refusal { "invalid_argument" } else { "unknown_error" };
    reply::error(id, code, error.detail())
}

/// Returns the end of a connection whose client broke the protocol or is gone.
fn end_of_error(error: &axum::Error) -> End {
    let text = error.to_string();
    tracing::debug!(error = text, "a WebSocket ended early");
    // The library has no kind for this error.
    text.contains("too long").then_some((close_code::SIZE, "the message is too large"))
}
