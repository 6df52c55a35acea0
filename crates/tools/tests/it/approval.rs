//! Tests of approvals for exact arguments, and of answers to questions.

use crate::rig::{Count, Rig, call, done, failure, runner, value};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork_schema::{Checker, Quotes};
use weftwork_tools::{
    Deps, Executed, FnTool, HumanCall, Need, PendingCall, Policy, Prepared, Tool, ToolBox,
    ToolContext, ToolError, ToolOutput, ToolRunner, tool,
};
use weftwork_types::BoxFuture;
use weftwork_types::approval::{ApprovalDecision, ApprovalRequest, Verdict};
use weftwork_types::canonical::Hash;
use weftwork_types::interrupt::Ask;
use weftwork_types::message::ToolCall;
use weftwork_types::tool::{Effect, ToolErrorKind, ToolOutcome, ToolSpec};

/// Refunds an order.
#[tool(effect = external_side_effect)]
fn refund_order(order_id: String, amount: f64, count: Deps<Count>) -> String {
    count.up();
    format!("{order_id}: {amount}")
}

fn desk(count: &Count) -> ToolRunner {
    let tools = ToolBox::new().with(refund_order).with_ask_human().provide(count.clone());
    runner(tools, Policy::new().ask_human("refund_order", "it moves money").expect("a name"))
}

fn refund(amount: f64) -> ToolCall {
    call("c-1", "refund_order", json!({"order_id": "A-1", "amount": amount}))
}

fn pending(runner: &ToolRunner, rig: &Rig, made: &ToolCall) -> PendingCall {
    match runner.prepare(made, &rig.context()) {
        Prepared::NeedsApproval(pending) => pending,
        other => panic!("no person is asked: {other:?}"),
    }
}

fn question(runner: &ToolRunner, rig: &Rig, args: Value) -> HumanCall {
    match runner.prepare(&call("c-2", "ask_human", args), &rig.context()) {
        Prepared::AskHuman(human) => human,
        other => panic!("no person is asked: {other:?}"),
    }
}

fn decision(approved: bool, binding: Hash, comment: Option<&str>) -> ApprovalDecision {
    let verdict = if approved { Verdict::Approve } else { Verdict::Reject };
    ApprovalDecision { binding, verdict, comment: comment.map(str::to_owned) }
}

#[test]
fn the_person_sees_the_exact_call_and_the_reason() {
    let rig = Rig::new();
    let count = Count::default();
    let pending = pending(&desk(&count), &rig, &refund(5.0));
    let request = pending.request();
    assert_eq!(
        (request.tool.as_str(), request.reason.as_str()),
        ("refund_order", "it moves money")
    );
    assert_eq!((&request.args, request.effect), (&refund(5.0).args, Effect::ExternalSideEffect));
    let context = rig.context();
    assert_eq!(
        request.binding,
        ApprovalRequest::bind(&context.thread, &refund(5.0).id, "refund_order", &request.args)
    );
    assert_eq!(pending.ask(), Ask::Approval(request.clone()));
    assert!(rig.events.all().is_empty(), "a call that waits has no start yet");

    let schema = Checker::compile(&pending.answer_schema()).expect("a schema");
    let answer = |d: ApprovalDecision| serde_json::to_value(d).expect("json");
    assert!(schema.check(&answer(decision(true, request.binding, None)), Quotes::Nothing).is_ok());
    let rejected = answer(decision(false, request.binding, Some("no")));
    assert!(schema.check(&rejected, Quotes::Nothing).is_ok());
    assert!(schema.check(&answer(decision(true, Hash([0; 32]), None)), Quotes::Nothing).is_err());
    assert!(schema.check(&json!("yes"), Quotes::Nothing).is_err());
}

#[test]
fn a_yes_runs_the_call_and_a_no_tells_the_model_why() {
    for (approved, comment) in [(true, None), (false, Some("too much")), (false, None)] {
        let rig = Rig::new();
        let count = Count::default();
        let runner = desk(&count);
        let pending = pending(&runner, &rig, &refund(5.0));
        let decision = decision(approved, pending.request().binding, comment);
        let executed = rig.drive(runner.execute(pending.decide(&decision))).expect("no error");
        if approved {
            assert_eq!(value(executed), json!("A-1: 5"));
        } else {
            let (kind, code, message) = failure(executed);
            assert_eq!((kind, code.as_str()), (ToolErrorKind::PolicyDenied, "W0404"));
            assert!(message.ends_with(comment.unwrap_or("no reason was given")), "{message}");
        }
        assert_eq!((count.get(), rig.pairs().len()), (usize::from(approved), 1));
    }
}

#[test]
fn a_yes_to_one_call_is_no_yes_to_another() {
    let count = Count::default();
    let runner = desk(&count);
    let asked = Rig::new();
    let yes = decision(true, pending(&runner, &asked, &refund(5.0)).request().binding, None);
    let mut other_thread = Rig::new();
    other_thread.thread = "t-2";
    let mut other_id = refund(5.0);
    other_id.id = "c-9".parse().expect("a valid id");
    for (rig, made) in
        [(Rig::new(), refund(500.0)), (Rig::new(), other_id), (other_thread, refund(5.0))]
    {
        let ready = pending(&runner, &rig, &made).decide(&yes);
        assert!(ready.refusal().is_some());
        let (kind, code, _) = failure(rig.drive(runner.execute(ready)).expect("no error"));
        assert_eq!((kind, code.as_str()), (ToolErrorKind::PolicyDenied, "W0405"));
        assert_eq!((rig.pairs().len(), rig.journal.counts()), (1, (0, 0)));
    }
    assert_eq!(count.get(), 0);
    // The order of keys does not change the arguments.
    let text = r#"{"amount": 5.0, "order_id": "A-1"}"#;
    let same = call("c-1", "refund_order", serde_json::from_str(text).expect("json"));
    assert_eq!(pending(&runner, &asked, &same).decide(&yes).refusal(), None);
}

#[test]
fn a_yes_does_not_help_arguments_that_break_the_schema() {
    let rig = Rig::new();
    let count = Count::default();
    let bad = call("c-1", "refund_order", json!({"order_id": "A-1", "amount": "all"}));
    let executed = rig.run(&desk(&count), &bad);
    assert_eq!(failure(executed).1, "W0402");
}

#[test]
fn the_answer_to_a_question_is_the_result_of_its_call() {
    let rig = Rig::new();
    let count = Count::default();
    let runner = desk(&count);
    let human = question(&runner, &rig, json!({"question": "Which order?"}));
    assert_eq!(human.question(), "Which order?");
    assert_eq!(
        human.ask(),
        Ask::Question {
            question: "Which order?".to_owned(),
            tool_call_id: "c-2".parse().expect("a valid id"),
            tool: None,
        }
    );
    assert!(rig.events.all().is_empty());
    let executed = rig.drive(runner.execute(human.answer(json!("A-1")))).expect("no error");
    assert_eq!(done(executed), ToolOutcome::ok(json!("A-1")));
    let pairs = rig.pairs();
    assert_eq!((pairs.len(), &pairs[0].result), (1, &json!("A-1")));
    assert_eq!(rig.journal.counts(), (0, 0), "the answer is on record as an answer");
}

#[test]
fn questions_can_be_denied_but_need_no_approval() {
    let rig = Rig::new();
    let asks = Policy::new().ask_human("*", "everything").expect("a pattern");
    let runner_asks = runner(ToolBox::new().with_ask_human(), asks);
    assert_eq!(question(&runner_asks, &rig, json!({"question": "q"})).question(), "q");
    let denies = Policy::new().deny("ask_human", "no person is available").expect("a name");
    let runner_denies = runner(ToolBox::new().with_ask_human(), denies);
    let made = call("c-2", "ask_human", json!({"question": "q"}));
    let (_, code, message) = failure(rig.run(&runner_denies, &made));
    assert_eq!(code, "W0403");
    assert!(message.ends_with("no person is available"), "{message}");
}

#[test]
fn a_node_that_runs_again_after_the_answer_pays_nothing_twice() {
    let rig = Rig::new();
    let count = Count::default();
    let runner = desk(&count);
    let mut outcomes = Vec::new();
    for _ in 0..3 {
        let pending = pending(&runner, &rig, &refund(5.0));
        let yes = decision(true, pending.request().binding, None);
        match rig.drive(runner.execute(pending.decide(&yes))).expect("no error") {
            Executed::Done(outcome) => outcomes.push(outcome),
            other => panic!("{other:?}"),
        }
    }
    outcomes.dedup();
    assert_eq!((outcomes.len(), count.get(), rig.reused(), rig.pairs().len()), (1, 1, 2, 3));
}

/// A tool that records the arguments it runs with, and its rules.
fn recording(rules: Value, ran: &Arc<Mutex<Vec<Value>>>, secret: bool) -> ToolRunner {
    #[derive(Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
    struct Pay {
        to: String,
        cents: u32,
    }
    #[derive(Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
    struct PayWithPin {
        to: String,
        #[schemars(extend("x-secret" = true))]
        pin: String,
    }
    let ran = Arc::clone(ran);
    let record = move |args: Value| {
        ran.lock().expect("not poisoned").push(args);
        async { Ok::<_, String>("paid") }
    };
    let tool = match secret {
        false => FnTool::new("pay", "Pays.", move |args: Pay, _| record(json!(args))),
        true => FnTool::new("pay", "Pays.", move |args: PayWithPin, _| record(json!(args))),
    };
    let tools = ToolBox::new().with(tool.effect(Effect::ExternalSideEffect));
    runner(tools, serde_json::from_value(json!({"rules": rules})).expect("a policy"))
}

#[test]
fn each_decision_has_its_result() {
    let rules = json!([
        {"tool": "pay", "decision": "deny", "reason": "too much", "when": "args.cents > 1000"},
        {"tool": "pay", "decision": "ask_human", "reason": "it pays"},
    ]);
    let args = json!({"to": "ada", "cents": 50});
    let edit = |args: Value| Verdict::Edit { args };
    let respond = Verdict::Respond { text: "it is paid".to_owned() };
    let other = json!({"to": "bob", "cents": 7});
    for (verdict, fits, runs, result) in [
        (Verdict::Approve, true, Some(&args), "paid"),
        (edit(other.clone()), true, Some(&other), "paid"),
        (edit(json!({"to": "bob", "cents": 1001})), true, None, "W0403"),
        (edit(json!({"to": "bob", "cents": -1})), false, None, "W0402"),
        (edit(json!({"to": "bob", "cents": 1, "more": 1})), false, None, "W0402"),
        (edit(json!("bob")), false, None, "W0402"),
        (respond, true, None, "it is paid"),
        (Verdict::Reject, true, None, "W0404"),
        (Verdict::Lapse, false, None, "W0404"),
    ] {
        let rig = Rig::new();
        let ran = Arc::default();
        let desk = recording(rules.clone(), &ran, false);
        let pending = pending(&desk, &rig, &call("c-1", "pay", args.clone()));
        let decision = ApprovalDecision::new(pending.request().binding, verdict.clone());
        let schema = Checker::compile(&pending.answer_schema()).expect("a schema");
        assert_eq!(schema.check(&json!(decision), Quotes::Nothing).is_ok(), fits, "{decision:?}");
        let executed = rig.drive(desk.execute(pending.decide(&decision))).expect("no error");
        let found = match done(executed) {
            ToolOutcome::Ok { value, .. } => value.as_str().expect("a text").to_owned(),
            ToolOutcome::Failed(failure) => failure.code.expect("a code"),
        };
        assert_eq!(found, result, "{verdict:?}");
        let ran = ran.lock().expect("not poisoned").clone();
        assert_eq!(ran.iter().collect::<Vec<_>>(), runs.into_iter().collect::<Vec<_>>());
        let bytes = |value: &Value| serde_json::to_vec(value).expect("json");
        assert_eq!(ran.first().map(bytes), runs.map(bytes), "what was approved runs");
        assert_eq!(rig.pairs().len(), 1);
    }
}

#[test]
fn arguments_beside_secret_ones_are_not_edited() {
    let rig = Rig::new();
    let ran = Arc::default();
    let rules = json!([{"tool": "pay", "decision": "ask_human", "reason": "it pays"}]);
    let desk = recording(rules, &ran, true);
    let args = json!({"to": "ada", "pin": "4711-0815"});
    let pending = pending(&desk, &rig, &call("c-1", "pay", args));
    let verdict = Verdict::Edit { args: json!({"to": "bob", "pin": "4711-0815"}) };
    let decision = ApprovalDecision::new(pending.request().binding, verdict);
    let schema = Checker::compile(&pending.answer_schema()).expect("a schema");
    assert!(schema.check(&json!(decision), Quotes::Nothing).is_err());
    let (_, code, _) = failure(rig.drive(desk.execute(pending.decide(&decision))).expect("none"));
    assert_eq!((code.as_str(), ran.lock().expect("not poisoned").len()), ("W0405", 0));
    assert!(!format!("{:?}", rig.events.all()).contains("4711-0815"));
}

#[test]
fn a_rule_limits_the_time_to_decide() {
    let rig = Rig::new();
    let ran = Arc::default();
    let rule = json!({"tool": "pay", "decision": "ask_human", "reason": "it pays",
        "expires_after_s": 60});
    let desk = recording(json!([rule]), &ran, false);
    let pending = pending(&desk, &rig, &call("c-1", "pay", json!({"to": "ada", "cents": 1})));
    let (at, lapse) = pending.expiry().expect("it expires");
    assert_eq!(at, rig.context().clock.now().plus(Duration::from_secs(60)));
    let lapse = serde_json::from_value::<ApprovalDecision>(lapse).expect("a decision");
    assert_eq!(lapse.verdict, Verdict::Lapse);
    let (_, code, text) = failure(rig.drive(desk.execute(pending.decide(&lapse))).expect("none"));
    assert!(code == "W0404" && text.contains("before it expired"), "{text}");
    for (decision, seconds) in [("allow", 60), ("ask_human", 0)] {
        let rule = json!({"tool": "pay", "decision": decision, "expires_after_s": seconds,
            "reason": (decision == "ask_human").then_some("it pays")});
        let refused = serde_json::from_value::<Policy>(json!({"rules": [rule]}));
        let refused = refused.expect_err("refused").to_string();
        assert!(refused.contains("rules[0].expires_after_s"), "{refused}");
    }
}

/// A refund of a remote system, which has an amount of its own for calls without one.
#[derive(Debug)]
struct Remote(Arc<dyn Tool>);

impl Tool for Remote {
    fn spec(&self) -> &ToolSpec {
        self.0.spec()
    }

    fn complete(&self, args: &mut Value) {
        if let Value::Object(args) = args {
            args.entry("amount").or_insert_with(|| json!(1_000.0));
        }
    }

    fn call(
        &self,
        args: Value,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        self.0.call(args, context)
    }

    fn needs(&self) -> Vec<Need> {
        self.0.needs()
    }
}

#[test]
fn a_person_sees_the_arguments_that_are_filled_in() {
    let rig = Rig::new();
    let count = Count::default();
    let tools = ToolBox::new().with(Remote(Arc::new(refund_order))).provide(count.clone());
    let policy = Policy::new().ask_human("refund_order", "it moves money").expect("a name");
    let runner = runner(tools, policy);
    let made = call("c-1", "refund_order", json!({"order_id": "A-1"}));
    let pending = pending(&runner, &rig, &made);
    assert_eq!(pending.request().args, json!({"order_id": "A-1", "amount": 1_000.0}));
}
