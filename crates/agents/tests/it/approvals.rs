//! Tests of decisions about calls, on a clock that the tests move.

use crate::desk::{messages, open, said, thread};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork_agents::ReactAgent;
use weftwork_models::scripted::ScriptedModel;
use weftwork_models::scripted::Step;
use weftwork_runtime::Runtime;
use weftwork_store::Store;
use weftwork_store::memory::MemoryStore;
use weftwork_testkit::ManualClock;
use weftwork_tools::{FnTool, Policy, ToolBox, ToolContext};
use weftwork_types::caller::Caller;
use weftwork_types::interrupt::Ask;
use weftwork_types::message::Message;
use weftwork_types::port::GraphExecutor;
use weftwork_types::run::{RunInput, RunOptions, RunOutcome, RunRequest};
use weftwork_types::tool::Effect;
use weftwork_types::{InterruptId, Principal};

#[derive(Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Payment {
    to: String,
    cents: u32,
}

/// A cash desk: payments over 1000 cents are denied, others have a day for their approval.
struct CashDesk {
    runtime: Runtime,
    store: Arc<dyn Store>,
    clock: ManualClock,
    paid: Arc<Mutex<Vec<Value>>>,
}

impl CashDesk {
    async fn new() -> Self {
        let clock = ManualClock::new();
        let paid = Arc::<Mutex<Vec<Value>>>::default();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let to = Arc::clone(&paid);
        let pay = move |payment: Payment, _: ToolContext| {
            to.lock().expect("not poisoned").push(json!(payment));
            async { Ok::<_, String>("paid") }
        };
        let pay = FnTool::new("pay", "Pays.", pay).effect(Effect::ExternalSideEffect);
        let policy: Policy = serde_json::from_value(json!({"rules": [
            {"tool": "pay", "when": "args.cents > 1000", "decision": "deny", "reason": "too much"},
            {"tool": "pay", "decision": "ask_human", "reason": "it pays", "expires_after_s": 86_400},
        ]}))
        .expect("a policy");
        let steps = vec![Step::call("pay", json!({"to": "ada", "cents": 50})), Step::text("Done.")];
        let agent = ReactAgent::new("desk", Arc::new(ScriptedModel::from_steps(steps)))
            .tools(ToolBox::new().with(pay))
            .policy(policy)
            .build()
            .expect("a sound agent");
        let runtime = Runtime::builder(Arc::clone(&store))
            .clock(Arc::new(clock.clone()))
            .graph("test:desk", agent);
        Self { runtime: runtime.open().await.expect("opens"), store, clock, paid }
    }

    async fn run(&self, input: RunInput) -> Result<RunOutcome, String> {
        let request = RunRequest {
            principal: Principal::local(),
            caller: Caller::local("request").expect("valid id"),
            graph: "test:desk".to_owned(),
            thread: thread(),
            input,
            options: RunOptions::default(),
        };
        let handle = self.runtime.execute(request).await.map_err(|error| error.fault.code)?;
        let _: Vec<_> = handle.events.collect().await;
        Ok(handle.outcome.await)
    }

    /// Starts a run that waits for an approval; returns its question and its binding.
    async fn asks(&self) -> (InterruptId, Value) {
        let outcome = self.run(RunInput::Start { input: said("Pay.") }).await.expect("accepted");
        let rows = self.store.interrupts(&Principal::local(), &thread()).await.expect("reads");
        let Ask::Approval(request) = &rows[0].interrupt.ask else { panic!("{rows:?}") };
        (open(&outcome)[0], json!(request.binding))
    }

    async fn answer(&self, id: InterruptId, answer: Value) -> Result<RunOutcome, String> {
        self.run(RunInput::answers(BTreeMap::from([(id, answer)]))).await
    }

    fn paid(&self) -> Vec<Value> {
        self.paid.lock().expect("not poisoned").clone()
    }
}

fn result(outcome: &RunOutcome) -> String {
    let said = messages(outcome);
    let result = said.iter().flat_map(Message::tool_results).next();
    result.expect("a result").value.to_string()
}

#[tokio::test]
async fn what_was_approved_is_what_runs() {
    let edited = json!({"to": "bob", "cents": 7});
    for (decision, paid, said) in [
        (json!({"approved": true}), Some(json!({"to": "ada", "cents": 50})), "paid"),
        (json!({"approved": true, "args": edited}), Some(edited.clone()), "paid"),
        (json!({"approved": true, "args": {"to": "bob", "cents": 5000}}), None, "too much"),
        (json!({"approved": false, "comment": "not today"}), None, "not today"),
        (json!({"approved": false, "respond": "paid in cash"}), None, "paid in cash"),
    ] {
        let desk = CashDesk::new().await;
        let (id, binding) = desk.asks().await;
        let with = |mut decision: Value| {
            decision["binding"] = binding.clone();
            decision
        };
        for (wrong, code) in [
            (json!({"approved": true, "binding": "0".repeat(64)}), "W0127"),
            (with(json!({"approved": true, "args": {"to": "bob", "cents": "all"}})), "W0127"),
            (with(json!({"approved": true, "args": {"to": "bob"}})), "W0127"),
            (with(json!({"approved": false, "lapsed": true})), "W0127"),
        ] {
            assert_eq!(desk.answer(id, wrong.clone()).await.expect_err("refused"), code, "{wrong}");
        }
        let outcome = desk.answer(id, with(decision.clone())).await.expect("accepted");
        assert!(result(&outcome).contains(said), "{decision}: {}", result(&outcome));
        assert_eq!(desk.paid(), paid.into_iter().collect::<Vec<_>>(), "{decision}");
        // A decision is used once.
        desk.answer(id, with(json!({"approved": true}))).await.expect_err("refused");
        assert_eq!(desk.answer(id, with(decision.clone())).await.expect_err("again"), "W0204");
    }
}

#[tokio::test]
async fn a_decision_after_its_time_is_refused_and_the_call_is_rejected() {
    let desk = CashDesk::new().await;
    let (id, binding) = desk.asks().await;
    let yes = json!({"approved": true, "binding": binding});
    desk.clock.advance(Duration::from_secs(86_400));
    assert_eq!(desk.answer(id, yes.clone()).await.expect_err("late"), "W0127");
    let woken = desk.runtime.wake().await.expect("wakes");
    assert_eq!(woken.len(), 1);
    for handle in woken {
        let outcome = handle.outcome.await;
        assert!(result(&outcome).contains("before it expired"), "{outcome:?}");
    }
    desk.answer(id, yes).await.expect_err("closed");
    assert!(desk.paid().is_empty());
}
