//! Responses.

mod input;
mod object;

use crate::answer::{Answer, AnswerReader, Item, Step};
use crate::approval::run_of_response;
use crate::error::{ApiError, Result};
use crate::model::{self, is_exposed};
use crate::page::PageAddress;
use crate::stream::{self, Encoder};
use crate::turn::{Asking, METADATA, Said};
use axum::Json;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use input::{Input, ResponseRequest};
use object::ResponseObject;
use serde_json::{Value, json};
use weftwork_server::{MountedClient, name_ignored};
use weftwork_types::port::TurnRun;

/// The value of `api` in the metadata of the runs of responses.
const API: &str = "responses";

pub(crate) async fn create(
    client: MountedClient,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response> {
    let request = ResponseRequest::read(&bytes)?;
    let ResponseRequest { model, input, previous, conversation, options, ignored } = request;
    let model = model::find(&client, &model)?;
    options.format()?.check(&model, input::FORMAT)?;
    let page = PageAddress::of(&headers);
    let metadata = options.stored(API, previous.as_deref(), conversation.as_deref());
    let before = match &previous {
        Some(id) => Some(find(&client, id).await.map_err(|error| match error.is_missing() {
            true => error.with_param("previous_response_id"),
            false => error,
        })?),
        None => None,
    };
    let by = client.caller(&headers)?;
    let asking = Asking { client: &client, by, model: &model, page: &page };
    let handle = match input {
        Input::Messages(messages) => {
            let after = before.as_ref().map(|turn| turn.at.run.clone());
            let conversation = before.map(|turn| turn.conversation).or(conversation);
            asking.say(Said { messages, conversation, after, metadata }).await?
        }
        Input::Decisions(decisions) => {
            let is_of_other =
                |turn: &TurnRun| decisions.iter().any(|decision| decision.id.run != turn.at.run);
            if before.as_ref().is_some_and(is_of_other) {
                let message = "the approval is of another response than `previous_response_id`";
                return Err(ApiError::invalid("previous_response_id", message));
            }
            asking.decide(decisions, metadata).await?
        }
    };
    let turn = client.platform()?.turn(client.principal(), &handle.run.run).await;
    let turn = turn.map_err(ApiError::refused)?;
    let object = ResponseObject::new(&turn, model.id);
    let reader = AnswerReader::new(handle.run.clone(), page);
    let mut response = if options.stream {
        let encoder = EventEncoder { object, sequence: 0, index: 0 };
        stream::respond(&client, handle, reader, encoder)
    } else if options.background {
        Json(object.unfinished(turn.status)).into_response()
    } else {
        Json(object.whole(&stream::whole(&client, handle, reader).await?)).into_response()
    };
    let place = MountedClient::place_of(&turn.at);
    let headers = response.headers_mut();
    name_ignored(headers, ignored.iter().map(String::as_str));
    headers.extend(place.parse().map(|place| (axum::http::header::CONTENT_LOCATION, place)));
    Ok(response)
}

/// Returns the run of a response of a client that is stored for it.
///
/// # Errors
/// Status 404: there is none, it is another one's, it was deleted or not stored, or its agent is no longer
/// exposed.
async fn find(client: &MountedClient, id: &str) -> Result<TurnRun> {
    let missing = || ApiError::missing("response", id);
    let run = run_of_response(id).ok_or_else(missing)?;
    let turn = client.platform()?.turn(client.principal(), &run).await;
    let turn = turn.map_err(|fault| match ApiError::refused(fault) {
        error if error.is_missing() => missing(),
        error => error,
    })?;
    let own = turn.metadata.get(METADATA);
    let is_response = own.is_some_and(|own| own["api"] == API && own["store"] != false);
    if !is_response || !is_exposed(client, &turn.agent)? {
        return Err(missing());
    }
    Ok(turn)
}

/// Returns the object of a response as it is now.
async fn shown(client: &MountedClient, turn: TurnRun, page: PageAddress) -> Result<Value> {
    let model = object::model_of(&turn);
    let object = ResponseObject::new(&turn, model);
    if !turn.status.is_final() {
        return Ok(object.unfinished(turn.status));
    }
    let handle = client.platform()?.follow(client.principal(), &turn.at.run).await;
    let handle = handle.map_err(ApiError::refused)?;
    let reader = AnswerReader::new(turn.at.clone(), page);
    Ok(object.whole(&stream::whole(client, handle, reader).await?))
}

pub(crate) async fn read(
    client: MountedClient,
    headers: HeaderMap,
    id: &str,
    query: &str,
) -> Result<Response> {
    if query.split('&').any(|pair| pair == "stream=true") {
        let message = "a response is not streamed again; ask without `stream`, until it has ended";
        return Err(ApiError::invalid("stream", message));
    }
    let turn = find(&client, id).await?;
    Ok(Json(shown(&client, turn, PageAddress::of(&headers)).await?).into_response())
}

pub(crate) async fn delete(client: MountedClient, id: &str) -> Result<Response> {
    let turn = find(&client, id).await?;
    let hidden = client.platform()?.hide(client.principal(), &turn.at.run).await;
    hidden.map_err(ApiError::refused)?;
    Ok(Json(json!({"id": id, "object": "response", "deleted": true})).into_response())
}

pub(crate) async fn cancel(
    client: MountedClient,
    headers: HeaderMap,
    id: &str,
) -> Result<Response> {
    let turn = find(&client, id).await?;
    let who = client.principal();
    let platform = client.platform()?;
    let handle = platform.follow(who, &turn.at.run).await.map_err(ApiError::refused)?;
    platform.cancel(who, &turn.at.run).await.map_err(ApiError::refused)?;
    // It stops at its next await point.
    handle.outcome.await;
    let turn = find(&client, id).await?;
    Ok(Json(shown(&client, turn, PageAddress::of(&headers)).await?).into_response())
}

struct EventEncoder {
    object: ResponseObject,
    /// Number of the next event.
    sequence: u64,
    /// Place of the present item in the output.
    index: usize,
}

impl EventEncoder {
    fn event(&mut self, name: &str, mut data: Value) -> Event {
        data["type"] = name.into();
        data["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        Event::default().event(name).data(data.to_string())
    }

    /// An event about the present item.
    fn of_item(&mut self, name: &str, mut data: Value) -> Event {
        data["output_index"] = self.index.into();
        self.event(name, data)
    }

    /// An event about the text of the present item.
    fn of_text(&mut self, name: &str, id: &str, mut data: Value) -> Event {
        data["item_id"] = id.into();
        data["content_index"] = 0.into();
        self.of_item(name, data)
    }

    fn begin_message(&mut self, id: &str) -> Vec<Event> {
        self.object.open = Some(id.to_owned());
        let item = object::message(id, None, "in_progress");
        let part = json!({"part": object::text_part("")});
        vec![
            self.of_item("response.output_item.added", json!({"item": item})),
            self.of_text("response.content_part.added", id, part),
        ]
    }

    fn end_message(&mut self, id: &str, text: &str, status: &str) -> Vec<Event> {
        let part = json!({"part": object::text_part(text)});
        let item = object::message(id, Some(text), status);
        let done = json!({"text": text, "logprobs": []});
        let events = vec![
            self.of_text("response.output_text.done", id, done),
            self.of_text("response.content_part.done", id, part),
            self.of_item("response.output_item.done", json!({"item": item})),
        ];
        self.index += 1;
        events
    }
}

impl Encoder for EventEncoder {
    fn begin(&mut self) -> Vec<Event> {
        let response = self.object.unfinished(weftwork_types::run::RunStatus::Running);
        let data = json!({"response": response});
        vec![self.event("response.created", data.clone()), self.event("response.in_progress", data)]
    }

    fn step(&mut self, step: &Step) -> Vec<Event> {
        match step {
            Step::Begins { id } => self.begin_message(id),
            Step::Text(delta) => {
                let id = self.object.open.clone().unwrap_or_default();
                let data = json!({"delta": delta, "logprobs": []});
                vec![self.of_text("response.output_text.delta", &id, data)]
            }
            Step::Ends { id, text } => self.end_message(id, text, "completed"),
            Step::Void { id, text } => self.end_message(id, text, "incomplete"),
            Step::Asks(item) => {
                let item = json!({"item": self.object.item(item)});
                let events = vec![
                    self.of_item("response.output_item.added", item.clone()),
                    self.of_item("response.output_item.done", item),
                ];
                self.index += 1;
                events
            }
        }
    }

    fn end(&mut self, answer: &Answer) -> Vec<Event> {
        let response = self.object.whole(answer);
        let name = match response["status"].as_str() {
            Some("completed") => "response.completed",
            Some("incomplete") => "response.incomplete",
            _ => "response.failed",
        };
        vec![self.event(name, json!({"response": response}))]
    }
}

/// The items of an answer as output.
fn output(object: &ResponseObject, items: &[Item]) -> Value {
    items.iter().map(|item| object.item(item)).collect()
}
