//! Errors of evaluations: each kind, caused on purpose in both modes and on each store, with all
//! fields of the error and of the events.

use crate::evaluate::{Mode, custom};
use crate::stores::{Place, on_three_stores};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weftwork::agents::{
    ClientConfig, Evaluation, EvaluationError, Evaluator, EventBus, Model, Overrides, Prompt,
    PromptRun, Section, Session, Tools, Visibility,
};
use weftwork::graph::CompiledGraph;
use weftwork::models::{ModelError, RefusalKind};
use weftwork::prelude::*;
use weftwork::store::Store;
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork::types::message::ToolCall;
use weftwork::types::port::Limits;
use weftwork::types::usage::Tokens;
use weftwork_testkit::ManualClock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Case {
    /// The prompt cannot be rendered.
    Prompt,
    /// The prompt of a continuation is another one.
    PromptChanged,
    RecursionLimit,
    /// Two tasks write to a channel that takes one write.
    InvalidUpdate,
    Deadline,
    BudgetOfCalls,
    BudgetOfTools,
    BudgetOfTime,
    RateLimit,
    QuotaExhausted,
    Timeout,
    Provider,
    Output,
    /// A continuation has another session.
    Session,
    Cancelled,
    /// The thread has a run that is not at its end.
    Failed,
}

const CASES: [Case; 16] = [
    Case::Prompt,
    Case::PromptChanged,
    Case::RecursionLimit,
    Case::InvalidUpdate,
    Case::Deadline,
    Case::BudgetOfCalls,
    Case::BudgetOfTools,
    Case::BudgetOfTime,
    Case::RateLimit,
    Case::QuotaExhausted,
    Case::Timeout,
    Case::Provider,
    Case::Output,
    Case::Session,
    Case::Cancelled,
    Case::Failed,
];

/// Adds two numbers.
#[tool]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Sum {
    sum: i64,
}

fn prompt(text: &str) -> Prompt<()> {
    let task = Section::new("task", "Task", text).tool(add).ask_human();
    Prompt::<()>::builder("tests", "sum", "Sum").section(task).build().expect("a sound prompt")
}

fn typed() -> Prompt<(), Sum> {
    let task = Section::new("task", "Task", "Calculate 2 + 2.");
    let builder = Prompt::<()>::builder("tests", "typed", "Typed").section(task);
    builder.output::<Sum>().build().expect("a sound prompt")
}

#[derive(State)]
struct Once {
    #[channel(messages)]
    messages: List<Message>,
    last: String,
}

async fn think(once: State<Once>, model: Model) -> NodeResult<OnceUpdate> {
    Ok(OnceUpdate::new().messages([model.ask(once.messages()).await?]))
}

fn calls(once: State<Once>) -> Vec<Next> {
    let last = once.messages().last().expect("a message");
    last.tool_calls().map(|call| SendTo::to("tool", call.clone()).into()).collect()
}

async fn act(Arg(call): Arg<ToolCall>, tools: Tools) -> NodeResult<OnceUpdate> {
    tools.execute(&call).await?;
    Ok(OnceUpdate::new().last(call.name))
}

/// A graph whose tasks of one superstep write to one channel.
fn colliding() -> CompiledGraph {
    Graph::<Once>::new("custom")
        .channel(Session::channel())
        .with_run_scoped::<PromptRun>()
        .node("model", think)
        .node("tool", act)
        .edge(START, "model")
        .route_to("model", ["tool"], calls)
        .build()
        .expect("a sound graph")
}

fn steps(case: Case) -> Vec<Step> {
    let sum = || ("add".to_owned(), json!({"a": 2, "b": 2}));
    let call = || Step::calls(vec![sum()]).using(Tokens::reported(10, 5));
    let ask = || Step::call("ask_human", json!({"question": "Which base?"}));
    let throttled = |kind, retry_after| {
        let provider = "scripted".to_owned();
        let message = "slow down".to_owned();
        Step::fails(ModelError::Throttled { provider, message, retry_after, kind })
    };
    let after = Some(Duration::from_secs(2));
    match case {
        Case::Prompt => Vec::new(),
        Case::PromptChanged | Case::Session => vec![ask()],
        Case::RecursionLimit => (0..9).map(|_| call()).collect(),
        Case::InvalidUpdate => vec![Step::calls(vec![sum(), sum()])],
        Case::Deadline | Case::BudgetOfTime | Case::Cancelled | Case::Failed => {
            vec![call(), Step::text("").hanging()]
        }
        Case::BudgetOfCalls | Case::BudgetOfTools => vec![call(), call()],
        Case::RateLimit => {
            let limited = (0..9).map(|_| throttled(RefusalKind::RateLimit, after));
            [call()].into_iter().chain(limited).collect()
        }
        Case::QuotaExhausted => vec![call(), throttled(RefusalKind::QuotaExhausted, None)],
        Case::Timeout => {
            let late = (0..9).map(|_| throttled(RefusalKind::Timeout, None));
            [call()].into_iter().chain(late).collect()
        }
        Case::Provider => {
            let provider = "scripted".to_owned();
            let message = "no".to_owned();
            let kind = RefusalKind::InvalidRequest;
            let refused = ModelError::BadRequest { provider, status: 400, message, kind };
            vec![call(), Step::fails(refused)]
        }
        Case::Output => (0..3).map(|_| Step::text("It is 4.")).collect(),
    }
}

/// Sets what makes an evaluation fail.
fn limited<'a>(case: Case, evaluation: Evaluation<'a, (), ()>) -> Evaluation<'a, (), ()> {
    let wall = Limits::wall_time(Duration::from_secs(2));
    match case {
        Case::Prompt => evaluation.overrides(Overrides::new().visibility("none", Visibility::Full)),
        Case::Deadline => evaluation.deadline(Duration::from_secs(2)),
        Case::BudgetOfCalls => evaluation.budget(Limits::model_calls(1)),
        Case::BudgetOfTools => evaluation.budget(Limits::tool_calls(0)),
        Case::BudgetOfTime => evaluation.budget(wall),
        _ => evaluation,
    }
}

/// The rig of a case.
struct World {
    evaluator: Evaluator,
    model: Arc<ScriptedModel>,
    clock: Arc<ManualClock>,
    session: Session,
}

impl World {
    /// Fails an evaluation in the way of the case.
    async fn fail(&self, case: Case) -> EvaluationError {
        let sum = prompt("Calculate 2 + 2.");
        let evaluation = || self.evaluator.evaluate(&sum, ()).session(&self.session);
        match case {
            Case::Output => {
                let typed = typed();
                let evaluation = self.evaluator.evaluate(&typed, ()).session(&self.session);
                evaluation.await.expect_err("no answer fits")
            }
            Case::PromptChanged | Case::Session => {
                let waiting = evaluation().await.expect("evaluates");
                let thread = waiting.interrupted().expect("asks").thread;
                let other = Session::new("other").expect("an id");
                let changed = prompt("Calculate 3 + 3.");
                let refused = match case {
                    Case::Session => {
                        self.evaluator.answer(&sum, &thread, json!("ten")).session(&other).await
                    }
                    _ => self.evaluator.answer(&changed, &thread, json!("ten")).await,
                };
                refused.expect_err("another one")
            }
            Case::Failed => {
                let first = evaluation().into_future();
                let second = async {
                    self.called(2).await;
                    evaluation().await.expect_err("the thread is busy")
                };
                tokio::select! {
                    _ = first => panic!("the model hangs"),
                    error = second => error,
                }
            }
            _ => {
                let (ended, ()) =
                    tokio::join!(limited(case, evaluation()).into_future(), self.act(case));
                ended.expect_err("it fails")
            }
        }
    }

    async fn called(&self, calls: usize) {
        while self.model.calls() < calls {
            tokio::task::yield_now().await;
        }
    }

    /// Does what happens while the evaluation runs.
    async fn act(&self, case: Case) {
        match case {
            Case::Deadline | Case::BudgetOfTime => {
                self.called(2).await;
                self.clock.advance(Duration::from_secs(2));
            }
            Case::Cancelled => {
                self.called(2).await;
                let threads = self.evaluator.runtime().threads();
                threads.cancel(self.session.id()).await.expect("cancels");
            }
            // Another attempt is made after a delay.
            Case::RateLimit | Case::Timeout => {
                for calls in 3..=4 {
                    while self.model.calls() < calls {
                        self.clock.advance(Duration::from_secs(60));
                        tokio::task::yield_now().await;
                    }
                }
            }
            _ => {}
        }
    }
}

async fn errors_have_all_their_fields(place: Place) {
    let store = place.open();
    let clock = Arc::new(ManualClock::new());
    for case in CASES {
        for mode in [Mode::React, Mode::Custom] {
            // The prebuilt graph writes nothing that its state does not accept.
            if case != Case::InvalidUpdate || mode == Mode::Custom {
                check(mode, case, &store, &clock).await;
            }
        }
    }
}

async fn check(mode: Mode, case: Case, store: &Arc<dyn Store>, clock: &Arc<ManualClock>) {
    let model = Arc::new(ScriptedModel::from_steps(steps(case)));
    let bus = EventBus::new();
    let mut events = bus.subscribe();
    let limit = if case == Case::RecursionLimit { 4 } else { 25 };
    let config = ClientConfig { recursion_limit: limit, ..ClientConfig::default() };
    let runtime = Runtime::builder(Arc::clone(store)).clock(Arc::clone(clock) as _);
    let evaluator = Evaluator::builder(Arc::clone(&model)).client_config(config);
    let evaluator = evaluator.runtime(runtime).bus(&bus);
    let evaluator = match (mode, case) {
        (Mode::React, _) => evaluator,
        (Mode::Custom, Case::InvalidUpdate) => evaluator.graph(colliding()),
        (Mode::Custom, _) => evaluator.graph(custom()),
    };
    let evaluator = evaluator.open().await.expect("opens");
    let session = Session::new(format!("{mode:?}-{case:?}")).expect("an id");
    let world = World { evaluator, model, clock: Arc::clone(clock), session };
    let error = world.fail(case).await;
    let mut reported = events.drain();
    // Two prompts, a call and two ends: that of the dropped evaluation comes when its run has ended.
    while case == Case::Failed && reported.len() < 5 {
        reported.push(events.next().await.expect("the bus is open"));
    }
    let events: Vec<Value> = reported.iter().map(|event| event.to_shown()).collect();
    let shown = json!({
        "error": {
            "kind": format!("{:?}", error.kind),
            "phase": format!("{:?}", error.phase),
            "prompt": error.prompt,
            "thread": error.thread,
            "attempt": error.attempt,
            "usage": error.usage,
            "text": error.to_string(),
            "fault": error.fault,
        },
        "events": events,
    });
    let mut shown = plain(shown, &world.session);
    if case == Case::Deadline {
        // The call of the model and the run have the same deadline, and either reports it.
        for path in ["/error/text", "/error/fault", "/events/2/outcome/message"] {
            let value = shown.pointer_mut(path).expect("a member");
            let text = value.to_string();
            assert!(text.contains("deadline"), "{text}");
            *value = json!("the deadline passed");
        }
    }
    let text = serde_json::to_string_pretty(&shown).expect("writes");
    insta::assert_snapshot!(format!("{case:?}"), text, &format!("{mode:?}"));
}

/// Names ids by the order in which they come, and leaves times out.
fn plain(shown: Value, session: &Session) -> Value {
    let mut ids = BTreeMap::new();
    rename(shown, session.id().as_str(), &mut ids)
}

fn rename(value: Value, session: &str, ids: &mut BTreeMap<String, String>) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(|item| rename(item, session, ids)).collect(),
        Value::Object(members) => {
            let named = members.into_iter().map(|(name, value)| {
                let value = match (name.as_str(), value) {
                    ("at", Value::Number(_)) => json!("a time"),
                    ("id" | "evaluation", Value::String(id)) => {
                        let next = format!("{name} {}", ids.len() + 1);
                        json!(ids.entry(id).or_insert(next).clone())
                    }
                    (_, value) => rename(value, session, ids),
                };
                (name, value)
            });
            Value::Object(named.collect())
        }
        Value::String(text) => {
            let text = text.replace(session, "the session");
            // Messages quote ids of runs.
            let parts = text.split('`').map(|part| match uuid::Uuid::parse_str(part) {
                Ok(_) => "an id",
                Err(_) => part,
            });
            json!(parts.collect::<Vec<_>>().join("`"))
        }
        other => other,
    }
}

on_three_stores![errors_have_all_their_fields];
