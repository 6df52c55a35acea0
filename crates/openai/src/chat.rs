//! Chat completions.

use crate::answer::{Answer, AnswerReader, Cut, End, Item, Step};
use crate::body::Body;
use crate::content::Messages;
use crate::error::{ApiError, Result};
use crate::format::Format;
use crate::model::{self, Model};
use crate::page::PageAddress;
use crate::stream::{self, Encoder, data};
use crate::turn::{Asking, Said, of_chat};
use axum::Json;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use weftwork_server::{MountedClient, name_ignored};
use weftwork_types::ThreadId;
use weftwork_types::code::Fault;
use weftwork_types::message::Message;
use weftwork_types::run::RunRef;
use weftwork_types::usage::Tokens;

/// Header with the id of the conversation; a member of `metadata` is the same.
const THREAD_HEADER: &str = "x-thread-id";
const THREAD_MEMBER: &str = "thread_id";
/// Member with the format of the answer.
const FORMAT: &str = "response_format";
/// Text between two messages of an answer.
const PARAGRAPH: &str = "\n\n";
/// Text after a message that is void: no chunk takes text back.
const RULE: &str = "\n\n---\n\n";

/// A request.
#[derive(Debug)]
struct ChatRequest {
    model: Model,
    messages: Vec<Message>,
    thread: Option<String>,
    stream: Option<Usage>,
    ignored: Vec<String>,
}

/// The usage in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Usage {
    Omit,
    Include,
}

impl ChatRequest {
    fn read(client: &MountedClient, headers: &HeaderMap, bytes: &Bytes) -> Result<Self> {
        let mut body = Body::read(bytes)?;
        let id = body.required_text("model")?;
        let list = body.list("messages")?;
        let stream = body.flag("stream")?;
        let usage = read_usage(&mut body)?;
        let metadata = body.metadata()?;
        let format = match body.take(FORMAT) {
            Some(format) => Format::read(&format, FORMAT)?,
            None => Format::Text,
        };
        body.check_one_answer()?;
        let messages = Messages::read(&list, "messages")?;
        let mut ignored: Vec<_> = body.rest().map(str::to_owned).collect();
        ignored.extend(messages.ignored.iter().map(|name| (*name).to_owned()));
        let messages = messages.finish("messages")?;
        let of_header = headers.get(THREAD_HEADER).map(|value| value.to_str().map(str::to_owned));
        let of_header = of_header.transpose().map_err(|_| {
            let message = format!("`{THREAD_HEADER}` has other characters than those of ASCII");
            ApiError::invalid(THREAD_HEADER, message)
        })?;
        let of_metadata = metadata.get(THREAD_MEMBER).and_then(Value::as_str);
        let thread = of_header.or_else(|| of_metadata.map(str::to_owned));
        let thread = thread.filter(|thread| !thread.is_empty());
        let model = model::find(client, &id)?;
        format.check(&model, FORMAT)?;
        Ok(Self { model, messages, thread, stream: stream.then_some(usage), ignored })
    }
}

fn read_usage(body: &mut Body) -> Result<Usage> {
    let include = match body.take("stream_options") {
        None => false,
        Some(Value::Object(options)) => match options.get("include_usage") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(include)) => *include,
            Some(other) => {
                let param = "stream_options.include_usage";
                return Err(ApiError::wrong_type(param, other, "true or false"));
            }
        },
        Some(other) => return Err(ApiError::wrong_type("stream_options", &other, "an object")),
    };
    Ok(if include { Usage::Include } else { Usage::Omit })
}

pub(crate) async fn create(
    client: MountedClient,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response> {
    let ChatRequest { model, messages, thread, stream, ignored } =
        ChatRequest::read(&client, &headers, &bytes)?;
    let page = PageAddress::of(&headers);
    let goes_on = match &thread {
        Some(thread) => exists(&client, thread).await?,
        None => false,
    };
    let whole = Said { messages, conversation: thread, after: None, metadata: of_chat() };
    let asking =
        Asking { client: &client, by: client.caller(&headers)?, model: &model, page: &page };
    let handle = match goes_on {
        false => asking.say(whole).await?,
        // The conversation has the earlier messages.
        true => match asking.say(whole.clone().with_last_alone()).await {
            // A repetition of the first request, which had all of them.
            Err(error) if error.is_of_used_key() => asking.say(whole).await?,
            begun => begun?,
        },
    };
    let reader = AnswerReader::new(handle.run.clone(), page.clone());
    let completion = Completion::new(&client, &handle.run, model.id, page).await?;
    let place = MountedClient::place_of(&handle.run);
    let mut response = match stream {
        Some(usage) => {
            let encoder = ChunkEncoder { completion, usage, text: Text::default() };
            stream::respond(&client, handle, reader, encoder)
        }
        None => {
            let answer = stream::whole(&client, handle, reader).await?;
            Json(completion.whole(&answer)?).into_response()
        }
    };
    let headers = response.headers_mut();
    name_ignored(headers, ignored.iter().map(String::as_str));
    headers.extend(place.parse().map(|place| (axum::http::header::CONTENT_LOCATION, place)));
    Ok(response)
}

async fn exists(client: &MountedClient, conversation: &str) -> Result<bool> {
    let platform = client.platform()?;
    match platform.conversation(client.principal(), conversation, false).await {
        Ok(_) => Ok(true),
        Err(Fault { code, .. }) if code == "W0201" => Ok(false),
        Err(fault) => Err(ApiError::refused(fault)),
    }
}

/// A chat completion.
#[derive(Debug)]
struct Completion {
    id: String,
    created: i64,
    model: String,
    page: PageAddress,
    thread: ThreadId,
}

impl Completion {
    async fn new(
        client: &MountedClient,
        run: &RunRef,
        model: String,
        page: PageAddress,
    ) -> Result<Self> {
        let turn = client.platform()?.turn(client.principal(), &run.run).await;
        let created = model::seconds(turn.map_err(ApiError::refused)?.created_at);
        let id = format!("chatcmpl-{}", run.run.as_str().replace('-', ""));
        Ok(Self { id, created, model, page, thread: run.thread.clone() })
    }

    /// The text of an item: an approval names the page where it is given.
    fn text_of(&self, item: &Item) -> String {
        match item {
            Item::Message { text, .. } => text.clone(),
            Item::Approval { question, .. } => self.page.invite(question, &self.thread),
        }
    }

    fn whole(&self, answer: &Answer) -> Result<Value> {
        let reason = finish_reason(&answer.end)?;
        let texts: Vec<_> = answer.items.iter().map(|item| self.text_of(item)).collect();
        let message = json!({
            "role": "assistant",
            "content": texts.join(PARAGRAPH),
            "refusal": null,
            "annotations": [],
        });
        let choice =
            json!({"index": 0, "message": message, "logprobs": null, "finish_reason": reason});
        Ok(json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [choice],
            "usage": usage_to_json(answer.tokens),
        }))
    }

    fn chunk(&self, choices: Value) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        })
    }
}

/// Returns the reason of the end of a completion.
fn finish_reason(end: &End) -> Result<&'static str> {
    match end {
        End::Answered(Cut::Whole) => Ok("stop"),
        End::Answered(Cut::Length) => Ok("length"),
        End::Answered(Cut::Filter) => Ok("content_filter"),
        End::Failed(fault) => Err(ApiError::failed(fault)),
        End::Cancelled => Err(ApiError::ended("the run was cancelled", "cancelled")),
        End::Limit(limit) => {
            let message = format!("the run reached its limit of {limit} supersteps");
            Err(ApiError::ended(message, "step_limit"))
        }
    }
}

fn usage_to_json(tokens: Tokens) -> Value {
    json!({
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.total(),
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    })
}

/// The text of a completion so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Text {
    #[default]
    None,
    /// The last message is part of the answer.
    Valid,
    /// The last message is void.
    Void,
}

impl Text {
    fn separator(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Valid => PARAGRAPH,
            Self::Void => RULE,
        }
    }
}

struct ChunkEncoder {
    completion: Completion,
    usage: Usage,
    text: Text,
}

impl ChunkEncoder {
    fn event(&self, delta: Value, finish_reason: Option<&str>) -> Event {
        let choice = json!({
            "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason,
        });
        let mut chunk = self.completion.chunk(json!([choice]));
        if self.usage == Usage::Include {
            chunk["usage"] = Value::Null;
        }
        data(&chunk)
    }

    fn text(&self, text: &str) -> Vec<Event> {
        match text {
            "" => Vec::new(),
            text => vec![self.event(json!({"content": text}), None)],
        }
    }
}

impl Encoder for ChunkEncoder {
    fn begin(&mut self) -> Vec<Event> {
        vec![self.event(json!({"role": "assistant", "content": "", "refusal": null}), None)]
    }

    fn step(&mut self, step: &Step) -> Vec<Event> {
        match step {
            Step::Begins { .. } => self.text(self.text.separator()),
            Step::Text(text) => self.text(text),
            Step::Ends { .. } => {
                self.text = Text::Valid;
                Vec::new()
            }
            Step::Void { .. } => {
                self.text = Text::Void;
                Vec::new()
            }
            Step::Asks(item) => {
                let separator = self.text.separator();
                let text = format!("{separator}{}", self.completion.text_of(item));
                self.text = Text::Valid;
                self.text(&text)
            }
        }
    }

    fn end(&mut self, answer: &Answer) -> Vec<Event> {
        let mut events = match finish_reason(&answer.end) {
            Ok(reason) => vec![self.event(json!({}), Some(reason))],
            Err(error) => vec![data(&json!({"error": error.body()}))],
        };
        if self.usage == Usage::Include {
            let mut chunk = self.completion.chunk(json!([]));
            chunk["usage"] = usage_to_json(answer.tokens);
            events.push(data(&chunk));
        }
        events.push(Event::default().data("[DONE]"));
        events
    }
}
