//! A web service with an agent: messages, a stream that resumes, approvals:
//! `cargo run --example web_service DB`.
//!
//! - `POST /threads/ID/messages` with `{"text": …}` starts a run.
//! - `GET /threads/ID/stream` returns the events of the newest run, from `Last-Event-ID` on; within
//!   a text, the rest of it.
//! - `GET /threads/ID/questions` returns open approvals.
//! - `POST /threads/ID/answer` with `{"approved": true}` or `false` starts a run.
//!
//! It prints its port. A client that reconnects gets each event once, also after the process was
//! killed and started again: its runs go on.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use axum::extract::{Path, State as Shared};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, Sse};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::{Stream, TryStreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use weftwork::graph::RuntimeError;
use weftwork::models::ChatRequest;
use weftwork::prelude::*;
use weftwork::runtime::{Output, RolledBack, RunOutput, ThreadRun};
use weftwork::testing::{ScriptedModel, Step};
use weftwork::types::event::AiEvent;
use weftwork::types::interrupt::Ask;

/// Refunds an order.
#[tool(effect = external_side_effect)]
fn refund_order(order: String, euros: u32) -> String {
    format!("refunded {euros} euros for order {order}")
}

fn model(request: &ChatRequest) -> Step {
    if let Some(result) = request.last_tool_result() {
        return Step::text(format!("Done: {}", result.text()));
    }
    let text = request.last_user_text();
    match text.strip_prefix("Refund ").and_then(|euros| euros.parse::<u32>().ok()) {
        Some(euros) => Step::call("refund_order", json!({"order": "A1", "euros": euros})),
        None => Step::text("I refund orders, nothing else."),
    }
}

#[derive(Deserialize)]
struct Say {
    text: String,
}

#[derive(Deserialize)]
struct Answer {
    approved: bool,
}

type Refusal = (StatusCode, String);

fn refusal(error: RuntimeError) -> Refusal {
    let status = match error.code().0 {
        "W0202" | "W0120" => StatusCode::CONFLICT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, error.to_string())
}

async fn begin(run: ThreadRun) -> Result<StatusCode, Refusal> {
    run.begin().await.map_err(refusal)?;
    Ok(StatusCode::ACCEPTED)
}

async fn say(
    Shared(runtime): Shared<Runtime>,
    Path(thread): Path<String>,
    Json(body): Json<Say>,
) -> Result<StatusCode, Refusal> {
    begin(runtime.thread("agent", thread).map_err(refusal)?.say(body.text)).await
}

async fn follow(
    Shared(runtime): Shared<Runtime>,
    Path(thread): Path<String>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, RuntimeError>>>, Refusal> {
    let thread = runtime.thread("agent", thread).map_err(refusal)?;
    let runs = thread.runs(RolledBack::Omitted).await.map_err(refusal)?;
    let run = runs.last().ok_or((StatusCode::NOT_FOUND, "the thread has no run".to_owned()))?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let run = thread.follow_run(&run.new.at).await.map_err(refusal)?;
    Ok(Sse::new(run.after(last.unwrap_or_default()).try_filter_map(|output| {
        let event = Event::default().id(output.position.to_string());
        std::future::ready(Ok(show(&output).map(|json| event.data(json.to_string()))))
    })))
}

fn show(output: &Output) -> Option<Value> {
    match &output.output {
        RunOutput::Text(part) => Some(json!({"type": "text", "text": part.text})),
        RunOutput::Reset(_) => Some(json!({"type": "reset"})),
        RunOutput::Event(event) => match event.event {
            AiEvent::HumanInputRequired { .. } => Some(json!({"type": "question"})),
            AiEvent::Done { .. } => Some(json!({"type": "end"})),
            _ => None,
        },
        RunOutput::Frame(_) => None,
    }
}

async fn questions(
    Shared(runtime): Shared<Runtime>,
    Path(thread): Path<String>,
) -> Result<Json<Vec<Value>>, Refusal> {
    let thread = runtime.thread("agent", thread).map_err(refusal)?;
    let open = thread.questions().await.map_err(refusal)?;
    let shown = open.into_iter().filter_map(|question| match question.ask {
        Ask::Approval(request) => Some(json!({"tool": request.tool, "args": request.args})),
        _ => None,
    });
    Ok(Json(shown.collect()))
}

async fn answer(
    Shared(runtime): Shared<Runtime>,
    Path(thread): Path<String>,
    Json(body): Json<Answer>,
) -> Result<StatusCode, Refusal> {
    let thread = runtime.thread("agent", thread).map_err(refusal)?;
    let open = thread.questions().await.map_err(refusal)?;
    let question = open.first().ok_or((StatusCode::CONFLICT, "no question is open".to_owned()))?;
    let answer = if body.approved { question.approve() } else { question.reject("not approved") };
    begin(thread.answer(answer)).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = std::env::args().nth(1).ok_or("usage: DB")?;
    let agent = ReactAgent::new("agent", ScriptedModel::from_fn(model))
        .tools(ToolBox::new().with(refund_order))
        .policy(Policy::new().ask_human("refund_order", "it moves money")?);
    let runtime = Runtime::sqlite(database)?.graph("agent", agent).open().await?;
    let app = Router::new()
        .route("/threads/{thread}/messages", post(say))
        .route("/threads/{thread}/stream", get(follow))
        .route("/threads/{thread}/questions", get(questions))
        .route("/threads/{thread}/answer", post(answer))
        .with_state(runtime);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    axum::serve(listener, app).await?;
    Ok(())
}
