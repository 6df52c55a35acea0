//! The record of approvals, on any store: who decided when about what, and which answers were
//! refused.

use crate::stores::{Place, on_three_stores};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork::agents::ReactAgent;
use weftwork::graph::RunOutcome;
use weftwork::runtime::Runtime;
use weftwork::store::Store;
use weftwork::store::approval::{ApprovalQuery, REFUSALS_MAX, WaitingApproval};
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork::tools::{
    FnTool, Policy, Questions, ToolBox, ToolContext, ToolError, ToolOutput, question, tool,
};
use weftwork::types::approval::{ApprovalOutcome, ApprovalRecord, ApprovalRequest, Verdict};
use weftwork::types::caller::Caller;
use weftwork::types::interrupt::Ask;
use weftwork::types::port::GraphExecutor;
use weftwork::types::run::{AnswerTo, RunInput, RunOptions, RunRequest};
use weftwork::types::tool::Effect;
use weftwork::types::{InterruptId, OrgId, Principal, ThreadId};
use weftwork_testkit::ManualClock;

/// A secret argument.
const PIN: &str = "CANARY-4711";
const DAY: Duration = Duration::from_secs(86_400);

#[derive(Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Payment {
    to: String,
    cents: u32,
}

/// Logs a user in.
#[tool(effect = external_side_effect)]
fn log_in(user: String, #[arg(secret)] pin: String) -> String {
    assert_eq!(pin, PIN);
    user
}

type World = Arc<Mutex<Vec<Value>>>;

fn tools(world: &World) -> ToolBox {
    let to = Arc::clone(world);
    let pay = move |payment: Payment, _: ToolContext| {
        to.lock().expect("not poisoned").push(json!(payment));
        async { Ok::<_, String>("paid") }
    };
    let book = |_: BTreeMap<String, String>, context: ToolContext| async move {
        match context.replies {
            None => Ok::<_, ToolError>(Questions::new([question::<u32>("How many?")]).into()),
            Some(_) => Ok(ToolOutput::Value("booked")),
        }
    };
    let effect = Effect::ExternalSideEffect;
    ToolBox::new()
        .with(FnTool::new("pay", "Pays.", pay).effect(effect))
        .with(FnTool::new("book", "Books.", book).effect(effect))
        .with(log_in)
}

fn carol() -> Principal {
    Principal { subject: "carol".to_owned(), ..Principal::local() }
}

/// A shop in which each call needs an approval within a day.
struct Shop {
    store: Arc<dyn Store>,
    clock: ManualClock,
    world: World,
}

/// A thread of the shop.
struct Talk {
    id: ThreadId,
    runtime: Runtime,
}

impl Shop {
    fn new(store: Arc<dyn Store>) -> Self {
        Self { store, clock: ManualClock::new(), world: World::default() }
    }

    /// Opens a thread, as a new process does, whose model takes these steps.
    async fn open(&self, id: &str, steps: Vec<Step>) -> Talk {
        let policy: Policy = serde_json::from_value(json!({"rules": [
            {"tool": "*", "decision": "ask_human", "reason": "it acts", "expires_after_s": 86_400},
        ]}))
        .expect("a policy");
        let model = ScriptedModel::from_steps(steps);
        let agent = ReactAgent::new("desk", Arc::new(model)).tools(tools(&self.world));
        let agent = agent.policy(policy).build().expect("a sound agent");
        let builder = Runtime::builder(Arc::clone(&self.store)).graph("test:desk", agent);
        let runtime = builder.clock(Arc::new(self.clock.clone())).open().await.expect("opens");
        Talk { id: ThreadId::new(id).expect("an id"), runtime }
    }

    async fn asks(&self, id: &str, tool: &str, args: Value) -> (Talk, WaitingApproval) {
        let talk = self.open(id, vec![Step::call(tool, args), Step::text("Done.")]).await;
        let part = json!({"type": "text", "text": "Do it."});
        let said = json!({"messages": [{"id": "u1", "role": "user", "parts": [part]}]});
        talk.run(RunInput::Start { input: said }).await.expect("runs");
        let threads = talk.runtime.threads();
        let waiting = threads.waiting_approvals(Some(&talk.id), 9).await.expect("reads");
        let [waiting] = waiting.try_into().expect("one call waits");
        (talk, waiting)
    }
}

impl Talk {
    async fn run(&self, input: RunInput) -> Result<RunOutcome, String> {
        let request = RunRequest {
            principal: carol(),
            caller: Caller::local("request").expect("a valid id"),
            graph: "test:desk".to_owned(),
            thread: self.id.clone(),
            input,
            options: RunOptions::default(),
        };
        let handle = self.runtime.execute(request).await.map_err(|error| error.fault.code)?;
        Ok(handle.outcome.await)
    }

    /// The answer to a call that waits, as the question makes it.
    async fn decide(&self, answer: AnswerTo) -> Result<RunOutcome, String> {
        self.run(RunInput::answers(answer)).await
    }

    async fn answer(&self, id: InterruptId, answer: &Value) -> Result<RunOutcome, String> {
        self.run(RunInput::answers(BTreeMap::from([(id, answer.clone())]))).await
    }

    async fn records(&self) -> Vec<ApprovalRecord> {
        let thread = Some(self.id.clone());
        let query = ApprovalQuery { thread, after: None, limit: 100 };
        let page = self.runtime.threads().approvals(query).await.expect("reads");
        assert!(page.next.is_none() && page.rows.iter().all(|row| row.thread == self.id));
        page.rows.into_iter().map(|row| row.record).collect()
    }
}

/// Returns the call that waits.
fn request(waiting: &WaitingApproval) -> &ApprovalRequest {
    waiting.question.approval().expect("an approval")
}

/// Returns who did what, in order.
fn decisions(records: &[ApprovalRecord]) -> Vec<(Option<&str>, String)> {
    let told = |record: &ApprovalRecord| match &record.outcome {
        ApprovalOutcome::Decided(decision) => match &decision.verdict {
            Verdict::Approve => "approved".to_owned(),
            Verdict::Edit { args } => format!("edited {args}"),
            Verdict::Reject => format!("rejected {:?}", decision.comment),
            Verdict::Respond { text } => format!("responded {text}"),
            Verdict::Lapse => "lapsed".to_owned(),
        },
        ApprovalOutcome::Refused(reason) => format!("{reason:?}"),
    };
    records.iter().map(|record| (record.by.as_deref(), told(record))).collect()
}

/// Arguments of a call of `pay`.
fn ada() -> Value {
    json!({"to": "ada", "cents": 50})
}

async fn what_ran_is_what_was_approved(shop: &Shop) {
    let (talk, waiting) = shop.asks("edit", "pay", ada()).await;
    let id = waiting.question.id;
    let binding = request(&waiting).binding;
    let asked_at = waiting.asked_at.expect("it was asked");
    assert_eq!(waiting.question.expires_at, Some(asked_at.plus(DAY)));
    assert_eq!(request(&waiting).args, ada());
    shop.clock.advance(Duration::from_secs(60));

    let other = json!({"approved": true, "binding": "0".repeat(64)});
    assert_eq!(talk.answer(id, &other).await, Err("W0127".to_owned()));
    let text = json!({"approved": true, "binding": binding, "args": {"to": "bob", "cents": "x"}});
    assert_eq!(talk.answer(id, &text).await, Err("W0127".to_owned()));
    let edit = json!({"approved": true, "binding": binding, "args": {"to": "bob", "cents": 7}});
    let outcome = talk.answer(id, &edit).await;
    assert!(matches!(outcome, Ok(RunOutcome::Completed { .. })), "{outcome:?}");
    let yes = json!({"approved": true, "binding": binding});
    for again in [&edit, &yes] {
        assert_eq!(talk.answer(id, again).await, Err("W0204".to_owned()));
    }

    let records = talk.records().await;
    let by = Some("carol");
    let expected = [
        (by, "OtherCall".to_owned()),
        (by, "Invalid".to_owned()),
        (by, format!("edited {}", edit["args"])),
        (by, "AlreadyAnswered".to_owned()),
        (by, "AlreadyAnswered".to_owned()),
    ];
    assert_eq!(decisions(&records), expected);
    for record in &records {
        assert_eq!((record.question, &record.request), (id, request(&waiting)));
        assert_eq!(record.at, asked_at.plus(Duration::from_secs(60)));
    }
    let ApprovalOutcome::Decided(decision) = &records[2].outcome else { panic!("{records:?}") };
    let Verdict::Edit { args } = &decision.verdict else { panic!("{decision:?}") };
    let ran = std::mem::take(&mut *shop.world.lock().expect("not poisoned"));
    let bytes = |value: &Value| serde_json::to_vec(value).expect("json");
    assert_eq!(ran.iter().map(bytes).collect::<Vec<_>>(), [bytes(args)], "byte for byte");
}

async fn each_decision_is_on_record(shop: &Shop) {
    for (id, decision, expected) in [
        ("yes", json!({"approved": true}), "approved"),
        ("no", json!({"approved": false, "comment": "not today"}), r#"rejected Some("not today")"#),
        ("cash", json!({"approved": false, "respond": "in cash"}), "responded in cash"),
    ] {
        let (talk, waiting) = shop.asks(id, "pay", ada()).await;
        let mut answer = decision;
        answer["binding"] = json!(request(&waiting).binding);
        talk.answer(waiting.question.id, &answer).await.expect("accepted");
        assert_eq!(decisions(&talk.records().await), [(Some("carol"), expected.to_owned())]);
        let left = talk.runtime.threads().waiting_approvals(Some(&talk.id), 9).await;
        assert_eq!(left.ok(), Some(Vec::new()));
    }
    assert_eq!(shop.world.lock().expect("not poisoned").drain(..).count(), 1, "one was approved");
}

async fn an_expired_decision_is_refused(shop: &Shop) {
    let (talk, waiting) = shop.asks("late", "pay", ada()).await;
    let yes = json!({"approved": true, "binding": request(&waiting).binding});
    shop.clock.advance(DAY);
    assert_eq!(talk.answer(waiting.question.id, &yes).await, Err("W0127".to_owned()));
    let woken = talk.runtime.wake().await.expect("wakes");
    for handle in woken {
        handle.outcome.await;
    }
    for _ in 0..=REFUSALS_MAX {
        assert_eq!(talk.answer(waiting.question.id, &yes).await, Err("W0127".to_owned()));
    }
    let records = talk.records().await;
    let (refused, lapsed): (Vec<_>, Vec<_>) =
        decisions(&records).into_iter().partition(|(by, _)| by.is_some());
    assert_eq!(refused, vec![(Some("carol"), "Expired".to_owned()); REFUSALS_MAX]);
    assert_eq!(lapsed, [(None, "lapsed".to_owned())]);
    assert!(shop.world.lock().expect("not poisoned").is_empty());
}

/// A task that runs again, in another process, takes the same decision again.
async fn a_decision_is_recorded_once(shop: &Shop) {
    let (talk, waiting) = shop.asks("twice", "book", json!({"day": "monday"})).await;
    let outcome = talk.decide(waiting.question.approve()).await.expect("accepted");
    let RunOutcome::Interrupted { questions, .. } = outcome else { panic!("the tool asks") };
    assert!(matches!(questions[0].ask, Ask::Question { .. }), "{questions:?}");
    let id = questions[0].id;
    let talk = shop.open("twice", vec![Step::text("Done.")]).await;
    talk.answer(id, &json!({"action": "accept", "content": 4})).await.expect("accepted");
    assert_eq!(decisions(&talk.records().await), [(Some("carol"), "approved".to_owned())]);
}

async fn secrets_are_in_no_record(shop: &Shop) {
    let args = json!({"user": "A-1", "pin": PIN});
    let (talk, waiting) = shop.asks("secret", "log_in", args).await;
    let binding = request(&waiting).binding;
    assert_eq!(request(&waiting).args, json!({"user": "A-1", "pin": "[secret]"}));
    let args = json!({"user": "A-1", "pin": PIN});
    let edit = json!({"approved": true, "binding": binding, "args": args});
    assert_eq!(talk.answer(waiting.question.id, &edit).await, Err("W0127".to_owned()));
    talk.decide(waiting.question.approve()).await.expect("accepted");
    let records = talk.records().await;
    let expected = [(Some("carol"), "Invalid".to_owned()), (Some("carol"), "approved".to_owned())];
    assert_eq!(decisions(&records), expected);
    let text = format!("{}", json!(records));
    assert!(text.contains("A-1") && !text.contains(PIN), "{text}");
}

async fn records_are_read_in_pages_and_by_their_organisation(shop: &Shop) {
    let (talk, waiting) = shop.asks("open", "pay", ada()).await;
    let threads = talk.runtime.threads();
    assert_eq!(threads.waiting_approvals(None, 9).await.ok(), Some(vec![waiting]));
    assert_eq!(threads.waiting_approvals(None, 0).await.ok(), Some(Vec::new()));
    let all = ApprovalQuery { thread: None, after: None, limit: 1_000 };
    let all = threads.approvals(all).await.expect("reads");
    assert_eq!((all.next, all.rows.len()), (None, 5 + 3 + 17 + 1 + 2));
    let mut query = ApprovalQuery { thread: None, after: None, limit: 4 };
    let mut pages = Vec::new();
    loop {
        let page = threads.approvals(query.clone()).await.expect("reads");
        assert!(page.rows.len() == 4 || page.next.is_none());
        pages.extend(page.rows);
        let Some(next) = page.next else { break };
        query.after = Some(next.to_string().parse().expect("a cursor"));
    }
    assert_eq!(pages, all.rows);

    let org = OrgId::new("other").expect("an id");
    let others = threads.with_principal(Principal { org, ..carol() });
    for thread in [None, Some(ThreadId::new("edit").expect("an id"))] {
        let page = others.approvals(ApprovalQuery { thread, after: None, limit: 9 }).await;
        assert_eq!(page.map(|page| page.rows).ok(), Some(Vec::new()));
    }
    assert_eq!(others.waiting_approvals(None, 9).await.ok(), Some(Vec::new()));
    let missing = others.waiting_approvals(Some(&talk.id), 9).await.expect_err("not theirs");
    assert_eq!(missing.fault().code, "W0201");

    let edit = ThreadId::new("edit").expect("an id");
    shop.store.delete_thread(&carol(), &edit).await.expect("deletes");
    let query = ApprovalQuery { thread: Some(edit), after: None, limit: 9 };
    let left = talk.runtime.threads().approvals(query).await.expect("reads");
    assert!(left.rows.is_empty(), "records go with their thread");
}

async fn approvals_are_on_record(place: Place) {
    let store = place.open();
    let shop = Shop::new(store);
    what_ran_is_what_was_approved(&shop).await;
    each_decision_is_on_record(&shop).await;
    an_expired_decision_is_refused(&shop).await;
    a_decision_is_recorded_once(&shop).await;
    secrets_are_in_no_record(&shop).await;
    records_are_read_in_pages_and_by_their_organisation(&shop).await;
    if let Some(rows) = place.rows("effects").await {
        assert!(rows.contains("A-1") && !rows.contains(PIN), "{rows}");
    }
}

on_three_stores![approvals_are_on_record];
