//! The executor port: every start and every cancellation passes the executor of the program, once.

use crate::chat::user;
use crate::client::{Answer, Client};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork::agents::{Activity, AgentRuntime, InstanceOptions};
use weftwork::graph::RuntimeError;
use weftwork::prelude::*;
use weftwork::store::{MemoryStore, Store, StoreError, ThreadQuery};
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork::types::caller::Caller;
use weftwork::types::code::{Cause, Fault};
use weftwork::types::interrupt::Ask;
use weftwork::types::port::{ExecuteError, GraphExecutor, RunHandle};
use weftwork::types::run::{CancelAction, Multitask, RunInput, RunOptions, RunRef, RunRequest};
use weftwork::types::{BoxFuture, ErrorCode, InstanceId, Principal, RunId, ThreadId, Timestamp};

const REFUSED: ErrorCode = ErrorCode("X0042");
const REASON: &str = "the quota of this month is used up";

/// Requests that passed, and the decision about further ones.
#[derive(Debug, Default)]
struct Gate {
    passed: Mutex<Vec<&'static str>>,
    refuses: AtomicBool,
}

#[derive(Debug)]
struct GatedExecutor {
    inner: Arc<dyn GraphExecutor>,
    gate: Arc<Gate>,
}

impl Gate {
    fn pass(&self, what: &'static str) -> Result<(), ExecuteError> {
        self.passed.lock().expect("no test panics with it").push(what);
        match self.refuses.load(Ordering::Relaxed) {
            true => Err(ExecuteError { fault: Fault::new(REFUSED, REASON).retriable(true) }),
            false => Ok(()),
        }
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.passed.lock().expect("no test panics with it"))
    }

    fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
    }

    /// Returns a function that wraps executors, for a builder.
    fn wrap(self: &Arc<Self>) -> impl Fn(Arc<dyn GraphExecutor>) -> Arc<dyn GraphExecutor> + use<> {
        let gate = Arc::clone(self);
        move |inner| Arc::new(GatedExecutor { inner, gate: Arc::clone(&gate) })
    }
}

impl GraphExecutor for GatedExecutor {
    fn execute(&self, request: RunRequest) -> BoxFuture<'_, Result<RunHandle, ExecuteError>> {
        Box::pin(async move {
            self.gate.pass("execute")?;
            self.inner.execute(request).await
        })
    }

    fn cancel<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunRef,
    ) -> BoxFuture<'a, Result<(), ExecuteError>> {
        Box::pin(async move {
            self.gate.pass("cancel")?;
            self.inner.cancel(who, run).await
        })
    }
}

/// Sends a letter.
#[tool]
fn send_letter(name: String) -> String {
    format!("sent to {name}")
}

/// The parts of a program over one store, all with the same gate.
struct World {
    gate: Arc<Gate>,
    store: Arc<dyn Store>,
    app: App,
    client: Client,
    evaluator: Evaluator,
    agents: AgentRuntime,
}

async fn world() -> World {
    let gate = Arc::<Gate>::default();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let app = App::builder()
        .config(Config::in_memory())
        .model("scripted")
        .store(Arc::clone(&store))
        .agent("post", |model| {
            let policy = Policy::new().ask_human("send_letter", "it costs a stamp")?;
            let agent = ReactAgent::new("post", model);
            agent.tools(ToolBox::new().with(send_letter)).policy(policy).build()
        })
        .map_executor(gate.wrap())
        .open()
        .await
        .expect("opens");
    let client = Client::over(app.runtime().clone());
    let runtime = Runtime::builder(Arc::clone(&store)).map_executor(gate.wrap());
    let model = ScriptedModel::from_steps(vec![Step::text("It is 4.")]);
    let evaluator = Evaluator::builder(Arc::new(model)).runtime(runtime).open();
    let evaluator = evaluator.await.expect("opens");
    let agents = app.instances();
    World { gate, store, app, client, evaluator, agents }
}

/// The way in which a run is started.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Wait,
    Answer,
    Chat,
    ChatAnswer,
    Ask,
    Execute,
    Evaluate,
    Create,
    Send,
    Start,
    Stream,
    Resume,
}

const WAYS: [Way; 12] = [
    Way::Wait,
    Way::Answer,
    Way::Chat,
    Way::ChatAnswer,
    Way::Ask,
    Way::Execute,
    Way::Evaluate,
    Way::Create,
    Way::Send,
    Way::Start,
    Way::Stream,
    Way::Resume,
];

fn outcome_of(answer: &Answer) -> Result<(), String> {
    match answer.status.is_success() {
        true => Ok(()),
        false => Err(format!("{} {}", answer.status, answer.body)),
    }
}

/// The codes and messages of a fault and its causes.
fn text_of(fault: Fault) -> String {
    let of_cause =
        |cause: &Cause| format!(" {} {}", cause.code.clone().unwrap_or_default(), cause.message);
    let causes: String = fault.causes().map(of_cause).collect();
    format!("{} {}{causes}", fault.code, fault.message)
}

fn said(text: &str) -> Value {
    json!({"messages": [{"role": "user", "content": text}]})
}

impl World {
    /// Everything that the store has of threads and runs.
    async fn stored(&self) -> Vec<String> {
        let who = Principal::local();
        let found = self.store.search_threads(&who, ThreadQuery::default()).await.expect("reads");
        let mut lines = Vec::new();
        for thread in found.threads {
            lines.push(format!("{:?}", thread.row));
            let runs = self.store.runs(&who, &thread.row.id).await.expect("reads");
            lines.extend(runs.iter().map(|run| format!("{run:?}")));
            let questions = self.store.interrupts(&who, &thread.row.id).await.expect("reads");
            lines.extend(questions.iter().map(|question| format!("{question:?}")));
        }
        lines.sort();
        lines
    }

    /// Prepares a thread on which runs start, so that there is something to answer or to resume.
    async fn prepare(&self, way: Way, thread: &str) {
        self.gate.refuse(false);
        match way {
            Way::Answer | Way::ChatAnswer => {
                let reply = self.app.ask(thread, "Send a letter to Ada").await.expect("accepted");
                assert_eq!(reply.outcome().status(), RunStatus::Interrupted);
            }
            Way::Resume => {
                let thread = self.app.runtime().thread("post", thread).expect("hosted");
                let run = thread.start(said("Hello")).step_limit(0).await.expect("accepted");
                assert_eq!(run.outcome().status(), RunStatus::LimitReached);
            }
            Way::Send => {
                let options = InstanceOptions::new().id(InstanceId::new(thread).expect("an id"));
                self.agents.create_of("app:post", json!({}), options).await.expect("created");
            }
            _ => {}
        }
        self.gate.take();
    }

    async fn decision(&self, thread: &str) -> (String, Value) {
        let thread = self.app.runtime().thread("post", thread).expect("hosted");
        let asked = thread.questions().await.expect("reads").remove(0);
        let Ask::Approval(request) = asked.ask else { panic!("an approval: {asked:?}") };
        (asked.id.to_string(), json!({"approved": true, "binding": request.binding}))
    }

    /// Starts a run; an error is a text with its code or its reason.
    async fn start(&self, way: Way, thread: &str) -> Result<(), String> {
        let hosted = || self.app.runtime().thread("post", thread).expect("hosted");
        match way {
            Way::Wait => {
                let body = json!({"assistant_id": "post", "input": said("Hello")});
                outcome_of(&self.client.post("/runs/wait", body).await)
            }
            Way::Answer => {
                let (id, decision) = self.decision(thread).await;
                let resume = BTreeMap::from([(id, decision)]);
                let body = json!({"assistant_id": "post", "command": {"resume": resume}});
                let path = format!("/threads/{thread}/runs/wait");
                outcome_of(&self.client.post(&path, body).await)
            }
            Way::Chat => {
                let body = json!({"threadId": thread, "messages": [user("Hello")]});
                outcome_of(&self.client.post("/chat/post", body).await)
            }
            Way::ChatAnswer => {
                let (id, decision) = self.decision(thread).await;
                let path = format!("/interrupts/{thread}.{id}/respond");
                outcome_of(&self.client.post(&path, decision).await)
            }
            Way::Ask => {
                let asked = self.app.ask(thread, "Hello").await;
                asked.map(drop).map_err(|error| text_of(error.fault()))
            }
            Way::Execute => {
                let thread = ThreadId::new(thread).expect("an id");
                let request = RunRequest {
                    principal: Principal::local(),
                    caller: Caller::local("request").expect("an id"),
                    graph: "app:post".to_owned(),
                    thread,
                    input: RunInput::Start { input: self.app.say("Hello") },
                    options: RunOptions::default(),
                };
                let handle = self.app.runtime().execute(request).await;
                let handle = handle.map_err(|error| text_of(error.fault))?;
                drop(handle.outcome.await);
                Ok(())
            }
            Way::Evaluate => {
                let task = Section::new("task", "Task", "Calculate 2 + 2.");
                let prompt = Prompt::<()>::builder("tests", "sum", "Sum").section(task);
                let prompt = prompt.build().expect("a sound prompt");
                let session = Session::new(thread).expect("an id");
                let evaluated = self.evaluator.evaluate(&prompt, ()).session(&session).await;
                evaluated.map(drop).map_err(|error| text_of(*error.fault))
            }
            Way::Create => {
                let options = InstanceOptions::new().id(InstanceId::new(thread).expect("an id"));
                let created = self.agents.create_of("app:post", json!({}), options).await;
                created.map(drop).map_err(|error| text_of(error.fault))
            }
            Way::Send => {
                let id = InstanceId::new(thread).expect("an id");
                let activity = Activity::new(Value::Null).input(said("Hello"));
                let sent = self.agents.send(&id, activity).await;
                let sent = sent.map_err(|error| text_of(error.fault))?;
                sent.ended().await.map(drop).map_err(|error| text_of(error.fault))
            }
            Way::Start => {
                let ended = hosted().start(said("Hello")).await;
                ended.map(drop).map_err(|error| text_of(error.fault()))
            }
            Way::Stream => {
                let started = hosted().start(said("Hello")).begin().await;
                let started = started.map_err(|error| text_of(error.fault()))?;
                assert!(started.count().await > 0, "the executor passes the events on");
                Ok(())
            }
            Way::Resume => {
                let ended = hosted().resume().await;
                ended.map(drop).map_err(|error| text_of(error.fault()))
            }
        }
    }
}

#[tokio::test]
async fn each_way_to_start_a_run_passes_the_executor_once_and_can_be_refused() {
    let world = world().await;
    for (n, way) in WAYS.into_iter().enumerate() {
        let thread = uuid::Uuid::from_u128(n as u128 + 1).to_string();
        world.prepare(way, &thread).await;
        let before = world.stored().await;
        world.gate.refuse(true);
        let refused = world.start(way, &thread).await.expect_err("refused");
        assert!(refused.contains(REASON), "{way:?}: {refused}");
        let is_http = matches!(way, Way::Wait | Way::Answer | Way::Chat | Way::ChatAnswer);
        // The error can be repeated.
        let expected = if is_http { "503" } else { REFUSED.0 };
        assert!(refused.contains(expected), "{way:?}: {refused}");
        assert_eq!(world.gate.take(), ["execute"], "{way:?}");
        assert_eq!(world.stored().await, before, "{way:?}: nothing is written");

        world.gate.refuse(false);
        let started = world.start(way, &thread).await;
        assert_eq!((started, world.gate.take()), (Ok(()), vec!["execute"]), "{way:?}");
        assert_ne!(world.stored().await, before, "{way:?}: the run is stored");
    }
}

#[tokio::test]
async fn each_way_to_cancel_a_run_passes_the_executor_once_and_can_be_refused() {
    let world = world().await;
    let hosted = world.app.runtime().thread("post", "t").expect("hosted");
    let delay = Timestamp(i64::MAX);
    for way in ["http", "app", "thread", "threads"] {
        let multitask = Multitask::Enqueue;
        let options = RunOptions { not_before: Some(delay), multitask, ..RunOptions::default() };
        let handle = hosted
            .start(said("Hello"))
            .options(options)
            .begin()
            .await
            .expect("accepted")
            .into_handle();
        let run = handle.run;
        world.gate.take();
        for refuses in [true, false] {
            world.gate.refuse(refuses);
            let cancelled = match way {
                "http" => {
                    let path = format!("/threads/t/runs/{}/cancel", run.run);
                    outcome_of(&world.client.post(&path, json!({})).await)
                }
                "app" => world.app.cancel(&run).await.map_err(|e| e.to_string()),
                "thread" => {
                    let cancelled = hosted.cancel_run(&run, CancelAction::Interrupt).await;
                    cancelled.map(drop).map_err(|e| e.to_string())
                }
                _ => hosted.cancel().await.map(drop).map_err(|e| e.to_string()),
            };
            assert_eq!(world.gate.take(), ["cancel"], "{way}");
            assert_eq!(cancelled.is_err(), refuses, "{way}: {cancelled:?}");
            let row = world.store.run(&Principal::local(), &run).await.expect("reads");
            assert_eq!(row.cancel_requested || row.status.is_final(), !refuses, "{way}");
            if let Err(text) = cancelled {
                assert!(text.contains(REASON), "{way}: {text}");
            }
        }
        // The next run of the thread needs its end.
        hosted.cancel().await.expect("cancels");
    }
}

#[tokio::test]
async fn errors_of_the_runtime_have_their_types_behind_an_executor() {
    let world = world().await;
    let thread = world.app.runtime().thread("post", "t").expect("hosted");
    world.app.runtime().shutdown(Duration::from_secs(5)).await.expect("stops");
    let refused = thread.start(said("Hello")).await;
    assert!(matches!(refused, Err(RuntimeError::Stopping)), "{refused:?}");
    assert_eq!(world.gate.take(), ["execute"]);
    let unknown = RunRef { thread: thread.id().clone(), run: RunId::from_uuid(uuid::Uuid::nil()) };
    let refused = world.app.cancel(&unknown).await.expect_err("there is no such run");
    assert_eq!(refused.fault().code, "W0201");
    let refused = thread.cancel_run(&unknown, CancelAction::Interrupt).await;
    let is_missing = |error| matches!(error, RuntimeError::Store(StoreError::NotFound { .. }));
    assert!(refused.is_err_and(is_missing));
}
