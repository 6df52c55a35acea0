//! Evaluations of a prompt: in both modes and on each store, the same outcomes and the same events.

use crate::stores::{Place, on_three_stores};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use weftwork::agents::{
    ClientConfig, Evaluated, Evaluator, EventBus, ExecutedOutcome, Model, Prompt, PromptEvent,
    PromptEventKind, PromptRun, Section, Session, Tools,
};
use weftwork::graph::CompiledGraph;
use weftwork::models::{ModelError, RefusalKind};
use weftwork::prelude::*;
use weftwork::store::Store;
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork::types::message::ToolCall;
use weftwork::types::port::Limits;
use weftwork::types::run::Stops;
use weftwork_testkit::ManualClock;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    React,
    Custom,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Case {
    Done,
    StopBefore,
    StopAfter,
    AskHuman,
    Failure,
    Deadline,
    Budget,
}

/// Adds two numbers.
#[tool]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

fn prompt() -> Prompt<()> {
    let task = Section::new("task", "Task", "Calculate 2 + 2.").tool(add).ask_human();
    Prompt::<()>::builder("tests", "sum", "Sum").section(task).build().expect("a sound prompt")
}

#[derive(State)]
struct Talk {
    #[channel(messages)]
    messages: List<Message>,
}

async fn think(talk: State<Talk>, model: Model) -> NodeResult<TalkUpdate> {
    Ok(TalkUpdate::new().messages([model.ask(talk.messages()).await?]))
}

fn calls(talk: State<Talk>) -> Vec<Next> {
    let last = talk.messages().last().expect("a message");
    let tasks: Vec<Next> =
        last.tool_calls().map(|call| SendTo::to("tool", call.clone()).into()).collect();
    if tasks.is_empty() { vec![Next::End] } else { tasks }
}

async fn act(Arg(call): Arg<ToolCall>, tools: Tools, ctx: Ctx) -> NodeResult<TalkUpdate> {
    let result = tools.execute(&call).await?;
    Ok(TalkUpdate::new().messages([Message::tool_result(ctx.message_id(), result)]))
}

pub(crate) fn custom() -> CompiledGraph {
    Graph::<Talk>::new("custom")
        .channel(Session::channel())
        .with_run_scoped::<PromptRun>()
        .node("model", think)
        .node("tool", act)
        .edge(START, "model")
        .route_to("model", ["tool", END], calls)
        .edge("tool", "model")
        .build()
        .expect("a sound graph")
}

fn steps(case: Case) -> Vec<Step> {
    let sum = || Step::call("add", json!({"a": 2, "b": 2}));
    let answer = || Step::text("It is 4.");
    match case {
        Case::AskHuman => {
            let ask = ("ask_human".to_owned(), json!({"question": "Which base?"}));
            let sum = ("add".to_owned(), json!({"a": 2, "b": 2}));
            vec![Step::calls(vec![ask, sum]), answer()]
        }
        Case::Failure => {
            let provider = "scripted".to_owned();
            let message = "no".to_owned();
            let kind = RefusalKind::InvalidRequest;
            let refused = ModelError::BadRequest { provider, status: 400, message, kind };
            vec![sum(), Step::fails(refused)]
        }
        Case::Deadline => vec![sum(), answer().hanging()],
        _ => vec![sum(), answer()],
    }
}

fn client(case: Case) -> ClientConfig {
    let tool = Some(Stops::at(["tool"]));
    match case {
        Case::StopBefore => ClientConfig { interrupt_before: tool, ..ClientConfig::default() },
        Case::StopAfter => ClientConfig { interrupt_after: tool, ..ClientConfig::default() },
        _ => ClientConfig::default(),
    }
}

/// An event in one line.
fn line(event: &PromptEvent) -> String {
    match &event.kind {
        PromptEventKind::PromptRendered(_) => format!("rendered {}", event.prompt),
        PromptEventKind::ToolInvoked(event) => format!("tool {}", event.call.name),
        PromptEventKind::PromptExecuted(event) => match &event.outcome {
            ExecutedOutcome::Done { text, .. } => format!("executed: {text}"),
            ExecutedOutcome::Interrupted { questions } => format!("executed: {questions} open"),
            ExecutedOutcome::Failed { code, .. } => format!("executed: {code}"),
            ExecutedOutcome::Dropped => "executed: dropped".to_owned(),
        },
        _ => "other".to_owned(),
    }
}

/// Evaluates a case to its end, and returns the events and the outcome.
async fn trace(
    mode: Mode,
    case: Case,
    store: Arc<dyn Store>,
    clock: &Arc<ManualClock>,
) -> Vec<String> {
    let model = Arc::new(ScriptedModel::from_steps(steps(case)));
    let bus = EventBus::new();
    let mut events = bus.subscribe();
    let open = || {
        let runtime = Runtime::builder(Arc::clone(&store)).clock(Arc::clone(clock) as _);
        let evaluator = Evaluator::builder(Arc::clone(&model));
        let evaluator = evaluator.client_config(client(case)).runtime(runtime).bus(&bus);
        match mode {
            Mode::React => evaluator.open(),
            Mode::Custom => evaluator.graph(custom()).open(),
        }
    };
    let evaluator = open().await.expect("opens");
    let session = Session::new(format!("{mode:?}-{case:?}")).expect("an id");
    let prompt = prompt();
    let mut evaluation = evaluator.evaluate(&prompt, ()).session(&session);
    if case == Case::Budget {
        evaluation = evaluation.budget(Limits { model_calls: Some(1), ..Limits::default() });
    }
    if case == Case::Deadline {
        evaluation = evaluation.deadline(Duration::from_secs(2));
    }
    let late = async {
        while case == Case::Deadline && model.calls() < 2 {
            tokio::task::yield_now().await;
        }
        clock.advance(Duration::from_secs(if case == Case::Deadline { 2 } else { 0 }));
    };
    let (mut outcome, ()) = tokio::join!(evaluation.into_future(), late);
    let mut trace = Vec::new();
    if let Ok(Evaluated::Interrupted(waiting)) = &outcome {
        assert_eq!(&waiting.thread, session.id(), "the thread is that of the session");
        // Another process, which has the store and the prompt.
        drop(evaluator);
        let evaluator = open().await.expect("opens");
        let evaluation = match &waiting.interrupts[..] {
            [] => evaluator.resume(&prompt, &waiting.thread),
            _ => evaluator.answer(&prompt, &waiting.thread, json!("ten")),
        };
        outcome = evaluation.await;
    }
    trace.extend(events.drain().iter().map(|event| line(event)));
    trace.push(match outcome {
        Ok(Evaluated::Done(response)) => format!(
            "{}, {} model calls, {} tool calls",
            response.text, response.usage.model_calls, response.usage.tool_calls
        ),
        Ok(Evaluated::Interrupted(waiting)) => format!("{} open", waiting.interrupts.len()),
        Err(error) => format!(
            "{:?} in {:?} after {} model calls",
            error.kind, error.phase, error.usage.model_calls
        ),
    });
    trace
}

fn expected(case: Case) -> Vec<&'static str> {
    let rendered = "rendered tests/sum";
    match case {
        Case::Done => vec![
            rendered,
            "tool add",
            "executed: It is 4.",
            "It is 4., 2 model calls, 1 tool calls",
        ],
        Case::StopBefore => vec![
            rendered,
            "executed: 0 open",
            rendered,
            "tool add",
            "executed: It is 4.",
            "It is 4., 2 model calls, 1 tool calls",
        ],
        Case::StopAfter => vec![
            rendered,
            "tool add",
            "executed: 0 open",
            rendered,
            "executed: It is 4.",
            "It is 4., 2 model calls, 1 tool calls",
        ],
        Case::AskHuman => vec![
            rendered,
            "tool add",
            "executed: 1 open",
            rendered,
            "tool ask_human",
            "executed: It is 4.",
            // A question runs no tool.
            "It is 4., 2 model calls, 1 tool calls",
        ],
        Case::Failure => {
            vec![rendered, "tool add", "executed: W0306", "Provider in Request after 2 model calls"]
        }
        Case::Deadline => {
            vec![rendered, "tool add", "executed: W0124", "Deadline in Request after 2 model calls"]
        }
        Case::Budget => {
            vec![rendered, "tool add", "executed: W0601", "Budget in Request after 1 model calls"]
        }
    }
}

const CASES: [Case; 7] = [
    Case::Done,
    Case::StopBefore,
    Case::StopAfter,
    Case::AskHuman,
    Case::Failure,
    Case::Deadline,
    Case::Budget,
];

async fn both_modes_report_the_same(place: Place) {
    let store = place.open();
    // Its ids are unique within one clock.
    let clock = Arc::new(ManualClock::new());
    for case in CASES {
        for mode in [Mode::React, Mode::Custom] {
            let trace = trace(mode, case, Arc::clone(&store), &clock).await;
            assert_eq!(trace, expected(case), "{mode:?} {case:?}");
        }
    }
}

on_three_stores![both_modes_report_the_same];
