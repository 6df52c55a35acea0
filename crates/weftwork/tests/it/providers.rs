//! Evaluations whose model is behind a server of each protocol, in both modes: refusals by what their
//! caller can do, and answers that do not fit the output type.

use crate::bills;
use crate::evaluate::custom;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use weftwork::agents::{
    EvaluationError, EvaluationErrorKind as Kind, EvaluationPhase as Phase, ExecutedOutcome,
    PromptEventKind, PromptRun, ThrottleKind,
};
use weftwork::graph::NodeError;
use weftwork::models::{ChatModel, ChatRequest, ModelCallError, ModelCaller, RetryPolicy};
use weftwork::prelude::*;
use weftwork::types::code::Fault;
use weftwork_testkit::{LoopbackServer, Reply};

const PROTOCOLS: [&str; 4] = ["openai", "openai_responses", "anthropic", "gemini"];
/// Timeout for a server that never answers.
const PATIENCE_MS: u64 = 100;
/// Timeout for servers that answer, longer than a busy machine takes.
const ENOUGH_MS: u64 = 60_000;

#[derive(Clone, Copy, Debug)]
enum Mode {
    React,
    Custom,
    /// A graph whose node wraps the failure of its call in an error of its own.
    Wrapping,
    /// A graph whose node makes the call itself, and returns its error.
    Calling,
    /// A graph whose node makes the call itself, and wraps its error.
    CallingAndWrapping,
}

const MODES: [Mode; 3] = [Mode::React, Mode::Custom, Mode::Wrapping];
const CALLING_MODES: [Mode; 2] = [Mode::Calling, Mode::CallingAndWrapping];

#[derive(Debug, thiserror::Error)]
#[error("there is no plan")]
struct PlanError(#[source] Fault);

fn wrapping() -> CompiledGraph {
    async fn plan(chat: State<Chat>, model: Model) -> NodeResult<ChatUpdate> {
        match model.ask(chat.messages()).await {
            Ok(answer) => Ok(ChatUpdate::new().messages([answer])),
            Err(error) => Err(PlanError(error.try_into_fault()?).into()),
        }
    }
    let graph = Graph::<Chat>::new("wrapping").with_run_scoped::<PromptRun>();
    graph.node("plan", plan).edge(START, "plan").build().expect("sound")
}

#[derive(Debug, thiserror::Error)]
#[error("there is no plan")]
struct CallError(#[source] ModelCallError);

struct Fail(fn(ModelCallError) -> NodeError);

/// A graph whose node calls this model, and passes its error on as `fail` has it.
fn calling(model: Arc<dyn ChatModel>, fail: fn(ModelCallError) -> NodeError) -> CompiledGraph {
    let plan =
        async |chat: State<Chat>, ctx: Ctx, model: Deps<Arc<dyn ChatModel>>, fail: Deps<Fail>| {
            let request = ChatRequest {
                messages: chat.messages().iter().cloned().collect(),
                ..ChatRequest::default()
            };
            let caller = ModelCaller::new(policy());
            let answer = caller.call(&**model, request, ctx.calls()).await.map_err(fail.0.0)?;
            NodeResult::Ok(ChatUpdate::new().messages([answer.message]))
        };
    let graph = Graph::<Chat>::new("calling").with_run_scoped::<PromptRun>();
    let graph = graph.with(model).with(Fail(fail));
    graph.node("plan", plan).edge(START, "plan").build().expect("sound")
}

/// A call has two attempts.
fn policy() -> RetryPolicy {
    let backoff_first = Duration::from_millis(1);
    RetryPolicy { attempts_max: 2, backoff_first, ..RetryPolicy::default() }
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Day {
    city: String,
    hours: u32,
}

fn prompt() -> Prompt<(), Day> {
    let task = Section::new("task", "Task", "Plan a day.");
    let prompt = Prompt::<()>::builder("tests", "day", "Day").section(task).output::<Day>();
    prompt.build().expect("sound")
}

/// The end of an evaluation.
struct Ended {
    outcome: Result<Evaluated<Day>, EvaluationError>,
    /// Outcome that its last event reports.
    reported: ExecutedOutcome,
    /// Number of requests that the server received.
    requests: usize,
}

/// Evaluates the prompt with a server that sends these replies, the last one again and again. A call
/// of the model has two attempts.
async fn evaluate(mode: Mode, protocol: &str, replies: Vec<Reply>, patience_ms: u64) -> Ended {
    let last = replies.len() - 1;
    let server = LoopbackServer::start(move |number, _| replies[number.min(last)].clone()).await;
    let server = server.expect("a server");
    let settings = format!(
        "protocol = \"{protocol}\"\nhead_timeout_ms = {patience_ms}\nidle_timeout_ms = {patience_ms}"
    );
    let model = bills::model(&server, &settings);
    let builder = Evaluator::builder(Arc::clone(&model));
    let builder = builder.model_caller(ModelCaller::new(policy()));
    let builder = match mode {
        Mode::React => builder,
        Mode::Custom => builder.graph(custom()),
        Mode::Wrapping => builder.graph(wrapping()),
        Mode::Calling => builder.graph(calling(model, NodeError::from)),
        Mode::CallingAndWrapping => builder.graph(calling(model, |error| CallError(error).into())),
    };
    let evaluator = builder.open().await.expect("opens");
    let mut events = evaluator.bus().subscribe();
    let outcome = evaluator.evaluate(&prompt(), ()).await;
    let events = events.drain();
    let last = events.last().map(|event| event.kind.clone());
    let Some(PromptEventKind::PromptExecuted(executed)) = last else { panic!("{events:?}") };
    Ended { outcome, reported: executed.outcome, requests: server.received().len() }
}

fn throttle(kind: ThrottleKind, retry_after_ms: Option<u64>) -> Kind {
    Kind::Throttle { kind, retry_after: retry_after_ms.map(Duration::from_millis) }
}

#[tokio::test]
async fn a_refusal_has_the_kind_the_delay_and_the_attempt_by_which_its_caller_acts() {
    let slow = r#"{"error": {"message": "slow down"}}"#;
    let quota = r#"{"error": {"message": "You exceeded your current quota, please check your plan and billing details.", "type": "insufficient_quota", "code": "insufficient_quota"}}"#;
    let cases = [
        (
            Reply::full(429, &[("retry-after-ms", "20")], slow),
            throttle(ThrottleKind::RateLimit, Some(20)),
            ("W0304", "rate_limit", 2),
        ),
        (
            Reply::full(429, &[], quota),
            throttle(ThrottleKind::QuotaExhausted, None),
            ("W0304", "quota_exhausted", 1),
        ),
        (Reply::nothing().hang(), throttle(ThrottleKind::Timeout, None), ("W0309", "timeout", 2)),
        (Reply::full(503, &[], "down"), Kind::Provider, ("W0305", "provider", 2)),
        (Reply::full(401, &[], slow), Kind::Provider, ("W0303", "provider", 1)),
        (Reply::full(400, &[], slow), Kind::Provider, ("W0306", "provider", 1)),
    ];
    for protocol in PROTOCOLS {
        for (reply, kind, (code, word, attempts)) in &cases {
            for mode in MODES.into_iter().chain(CALLING_MODES) {
                let at = format!("{protocol} {mode:?} {word} {code}");
                let patience_ms = if *word == "timeout" { PATIENCE_MS } else { ENOUGH_MS };
                let ended = evaluate(mode, protocol, vec![reply.clone()], patience_ms).await;
                let error = ended.outcome.expect_err(&at);
                assert_eq!((error.kind, error.phase), (*kind, Phase::Request), "{at}: {error:?}");
                let wraps = matches!(mode, Mode::Wrapping | Mode::CallingAndWrapping);
                let code = if wraps { "W0109" } else { *code };
                assert_eq!((error.code(), error.attempt), (code, *attempts), "{at}");
                assert_eq!(*error.prompt, *prompt().id(), "{at}");
                assert!(error.thread.is_some(), "{at}");
                // Each attempt was paid for, as far as the provider says.
                let made = usize::try_from(*attempts).expect("small");
                let counted = error.usage.model_calls;
                assert_eq!((ended.requests, counted), (made, u64::from(*attempts)), "{at}");
                let reported = &ended.reported;
                let ExecutedOutcome::Failed { kind, phase, attempt, code, .. } = reported else {
                    panic!("{at}: {reported:?}")
                };
                let of_error = (error.kind, error.phase, error.attempt);
                assert_eq!((*kind, *phase, *attempt), of_error, "{at}");
                assert_eq!(code, error.code(), "{at}");
            }
        }
    }
}

/// An answer of a server in its protocol, complete or cut at the token limit.
fn answer(protocol: &str, text: &str, is_cut: bool) -> Reply {
    let documents = match protocol {
        "openai" => openai(text, is_cut),
        "openai_responses" => responses(text, is_cut),
        "anthropic" => anthropic(text, is_cut),
        _ => gemini(text, is_cut),
    };
    let head = Reply::pieces(200, &[("content-type", "text/event-stream")]);
    let reply =
        documents.iter().fold(head, |reply, document| reply.piece(format!("data: {document}\n\n")));
    let reply = if protocol == "openai" { reply.piece("data: [DONE]\n\n") } else { reply };
    reply.end()
}

fn openai(text: &str, is_cut: bool) -> Vec<Value> {
    let chunk = |delta: Value, finish: Value| json!({"id": "lab-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let finish = if is_cut { "length" } else { "stop" };
    vec![chunk(json!({"content": text}), Value::Null), chunk(json!({}), json!(finish))]
}

fn responses(text: &str, is_cut: bool) -> Vec<Value> {
    let last = match is_cut {
        true => json!({"type": "response.incomplete", "response": {"id": "lab-1",
            "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}}),
        false => json!({"type": "response.completed",
            "response": {"id": "lab-1", "status": "completed"}}),
    };
    vec![
        json!({"type": "response.created", "response": {"id": "lab-1"}}),
        json!({"type": "response.output_text.delta", "delta": text}),
        last,
    ]
}

fn anthropic(text: &str, is_cut: bool) -> Vec<Value> {
    let reason = if is_cut { "max_tokens" } else { "end_turn" };
    vec![
        json!({"type": "message_start",
            "message": {"id": "lab-1", "type": "message", "content": []}}),
        json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": text}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": reason}}),
        json!({"type": "message_stop"}),
    ]
}

fn gemini(text: &str, is_cut: bool) -> Vec<Value> {
    let reason = if is_cut { "MAX_TOKENS" } else { "STOP" };
    let content = json!({"role": "model", "parts": [{"text": text}]});
    vec![json!({"responseId": "lab-1",
        "candidates": [{"index": 0, "content": content, "finishReason": reason}]})]
}

#[tokio::test]
async fn answers_that_do_not_fit_have_the_same_errors_in_each_protocol() {
    const DAY: &str = r#"{"city": "Bern", "hours": 3}"#;
    type Answers = &'static [(&'static str, bool)];
    // The answers, with the code of the error, its attempt, and the number of requests.
    let cases: [(Answers, _, u32, usize); 8] = [
        (&[(DAY, false)], Ok(()), 1, 1),
        (&[("Sure!", false), (r#"{"city": "Bern"}"#, false), (DAY, false)], Ok(()), 1, 3),
        (&[("Sure!", false)], Err((Kind::Output, "W0615")), 3, 3),
        (&[("[]", false)], Err((Kind::Output, "W0616")), 3, 3),
        // The fence of a code block with nothing in it.
        (&[("```json\n```", false)], Err((Kind::Output, "W0617")), 3, 3),
        // It would be cut again.
        (&[(r#"{"city": "Be"#, true)], Err((Kind::Output, "W0618")), 1, 1),
        // An answer that says nothing is a failure of its call, which is made again.
        (&[("", false)], Err((Kind::Provider, "W0317")), 2, 2),
        (&[("", true)], Err((Kind::Provider, "W0317")), 1, 1),
    ];
    for protocol in PROTOCOLS {
        for (texts, expected, attempt, requests) in &cases {
            for mode in MODES {
                let at = format!("{protocol} {mode:?} {texts:?}");
                let replies = texts.iter().map(|(text, is_cut)| answer(protocol, text, *is_cut));
                let ended = evaluate(mode, protocol, replies.collect(), ENOUGH_MS).await;
                assert_eq!(ended.requests, *requests, "{at}: {:?}", ended.outcome);
                let (kind, code) = match expected {
                    Ok(()) => {
                        let found = ended.outcome.expect(&at).value().expect(&at);
                        assert_eq!(found, Day { city: "Bern".to_owned(), hours: 3 }, "{at}");
                        continue;
                    }
                    Err(expected) => *expected,
                };
                let error = ended.outcome.expect_err(&at);
                let code = if matches!(mode, Mode::Wrapping) { "W0109" } else { code };
                assert_eq!((error.kind, error.code()), (kind, code), "{at}: {error:?}");
                assert_eq!(error.attempt, *attempt, "{at}");
                let phase = if kind == Kind::Output { Phase::Response } else { Phase::Request };
                assert_eq!(error.phase, phase, "{at}");
            }
        }
    }
}
