//! Tests of all outcomes of a call: its events, its result and its records.

use crate::rig::{Count, Rig, call, done, failure, runner, tool_calls};
use serde_json::{Value, json};
use std::future::pending;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;
use weftwork_tools::{
    Deps, FnTool, Policy, Prepared, RunToolError, ToolBox, ToolContext, ToolError, ToolOutput,
    ToolRunner, tool, tool_result,
};
use weftwork_types::BoxFuture;
use weftwork_types::tool::{Effect, ToolErrorKind, ToolOutcome, ToolSpec, UnknownOutcome};
use weftwork_types::usage::UsageCount;

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Order {
    id: String,
    total: f64,
    card: String,
}

/// Looks up an order.
#[tool(shown(id, total))]
async fn lookup_order(order_id: String, count: Deps<Count>) -> Result<Order, String> {
    count.up();
    match order_id.as_str() {
        "A-1" => Ok(Order { id: order_id, total: 12.5, card: "4111".to_owned() }),
        _ => Err(format!("there is no order `{order_id}`")),
    }
}

/// Fails in the way its argument names.
#[tool(timeout_ms = 5000)]
async fn misbehave(how: String, count: Deps<Count>) -> Result<String, ToolError> {
    count.up();
    match how.as_str() {
        "panic" => panic!("the password is hunter2"),
        "hang" => pending().await,
        "large" => Ok("x".repeat(50_000_000)),
        "down" => Err(ToolError::unavailable("the warehouse does not answer")),
        "args" => Err(ToolError::invalid_args("that is no way to misbehave")),
        "long error" => Err(ToolError::failed("e".repeat(100_000))),
        "io" => Err(std::io::Error::other("disk on fire"))?,
        other => Ok(other.to_owned()),
    }
}

/// Panics before it returns a future.
#[tool]
fn panics_at_once(count: Deps<Count>) -> String {
    count.up();
    panic!("now");
}

/// A tool with an effect that returns an invalid result.
#[derive(Debug)]
struct Raw {
    spec: ToolSpec,
    result: Value,
    count: Count,
}

impl weftwork_tools::Tool for Raw {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, _: Value, _: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        self.count.up();
        let result = self.result.clone();
        Box::pin(async move { Ok(ToolOutput::Value(result)) })
    }
}

fn raw(name: &str, shown: Option<&[&str]>, result: Value, count: &Count) -> Raw {
    Raw {
        spec: ToolSpec {
            name: name.to_owned(),
            description: "Raw.".to_owned(),
            parameters: json!({"type": "object", "additionalProperties": false}),
            output: Some(json!({
                "type": "object",
                "properties": {"id": {"type": "string"}},
                "required": ["id"],
            })),
            effect: Effect::ReadOnly,
            on_unknown: UnknownOutcome::Idempotent,
            shown: shown.map(|names| names.iter().map(|n| (*n).to_owned()).collect()),
            examples: Vec::new(),
        },
        result,
        count: count.clone(),
    }
}

/// Saves a note.
#[tool(effect = state_change)]
fn save_note(text: String, count: Deps<Count>) -> usize {
    count.up();
    text.len()
}

fn desk(count: &Count) -> ToolRunner {
    let tools = ToolBox::new()
        .with(lookup_order)
        .with(misbehave)
        .with(panics_at_once)
        .with(save_note)
        .with(raw("broken", Some(&["id"]), json!({"id": 7}), count))
        .with(raw("chatty", Some(&["id"]), json!({"id": "A", "secret": "s"}), count))
        .with(raw("unshown", None, json!({"id": "A"}), count))
        .with(raw("far/away", Some(&["id"]), json!({"id": "A"}), count))
        .with_ask_human()
        .provide(count.clone());
    runner(tools, Policy::new())
}

/// A call and its expected outcome, events and counts.
struct Row {
    name: &'static str,
    args: Value,
    /// The value for the model, or the kind, the code and a part of the message.
    outcome: Result<Value, (ToolErrorKind, &'static str, &'static str)>,
    /// The value in the result event.
    shown: Value,
    executions: usize,
    opened: usize,
    settled: usize,
}

fn good(name: &'static str, args: Value, value: Value, shown: Value) -> Row {
    Row { name, args, outcome: Ok(value), shown, executions: 1, opened: 1, settled: 1 }
}

/// Refused without running the tool.
fn refused(
    name: &'static str,
    args: Value,
    kind: ToolErrorKind,
    code: &'static str,
    says: &'static str,
) -> Row {
    Row {
        name,
        args,
        outcome: Err((kind, code, says)),
        shown: Value::Null,
        executions: 0,
        opened: 0,
        settled: 0,
    }
}

/// Called once and failed, with or without a record.
fn failed(
    name: &'static str,
    args: Value,
    kind: ToolErrorKind,
    code_and_text: (&'static str, &'static str),
    settled: usize,
) -> Row {
    let (code, says) = code_and_text;
    let outcome = Err((kind, code, says));
    Row { name, args, outcome, shown: Value::Null, executions: 1, opened: 1, settled }
}

fn rows_that_are_refused() -> Vec<Row> {
    use ToolErrorKind::{PolicyDenied, RedactionFailed, Unavailable, Validation};
    let order = |args: Value, says| refused("lookup_order", args, Validation, "W0402", says);
    vec![
        refused("lookup_orders", json!({}), Unavailable, "W0401", "did you mean `lookup_order`?"),
        refused("rm_rf", json!({}), Unavailable, "W0401", "the tools are: lookup_order, misbehave"),
        order(json!({}), "at /: \"order_id\" is a required property"),
        order(json!({"order_id": 7}), "at /order_id: 7 is not of type \"string\""),
        order(json!({"order_id": "A-1", "force": true}), "'force' was unexpected"),
        order(json!("{\"order_id\": \"A-1"), "they are not valid JSON: `{\"order_id\": \"A-1`"),
        order(json!(["A-1"]), "expected one JSON object"),
        order(Value::Null, "expected one JSON object, found `null`"),
        refused("unshown", json!({}), RedactionFailed, "W0411", "was not called"),
        refused("save_note", json!({"text": "x"}), PolicyDenied, "W0403", "`state_change`"),
        refused("far__away", json!({}), PolicyDenied, "W0403", "tool `far/away`"),
        refused("far/away", json!({}), Unavailable, "W0401", "did you mean `far__away`?"),
        refused("ask_human", json!({"question": ""}), Validation, "W0402", "at /question"),
    ]
}

fn rows_that_run() -> Vec<Row> {
    use ToolErrorKind::{Execution, Unavailable, Validation};
    let bad = |how: &str, kind, code_and_text, settled| {
        failed("misbehave", json!({"how": how}), kind, code_and_text, settled)
    };
    vec![
        good(
            "lookup_order",
            json!({"order_id": "A-1"}),
            json!({"id": "A-1", "total": 12.5, "card": "4111"}),
            json!({"id": "A-1", "total": 12.5}),
        ),
        good("misbehave", json!({"how": "not"}), json!("not"), json!("not")),
        good("chatty", json!({}), json!({"id": "A"}), json!({"id": "A"})),
        failed(
            "lookup_order",
            json!({"order_id": "Z-9"}),
            Execution,
            ("W0406", "there is no order `Z-9`"),
            1,
        ),
        bad("panic", Execution, ("W0407", "stopped by an error in its own code"), 0),
        failed("panics_at_once", json!({}), Execution, ("W0407", "stopped by an error"), 0),
        bad("hang", Execution, ("W0408", "did not end within 5000 ms"), 0),
        bad("large", Execution, ("W0410", "50000002 bytes is over the limit of 262144"), 1),
        bad("down", Unavailable, ("W0414", "the warehouse does not answer"), 1),
        bad("args", Validation, ("W0402", "no way to misbehave"), 1),
        bad("long error", Execution, ("W0406", "eee"), 1),
        bad("io", Execution, ("W0406", "disk on fire"), 1),
        failed("broken", json!({}), Validation, ("W0409", "at /id: value is not of type"), 1),
    ]
}

#[test]
fn every_call_has_one_start_one_result_and_the_right_records() {
    for row in rows_that_are_refused().into_iter().chain(rows_that_run()) {
        check(&row);
    }
}

fn check(row: &Row) {
    let at = format!("{} {}", row.name, row.args);
    let rig = Rig::new();
    let count = Count::default();
    let made = call("c-1", row.name, row.args.clone());
    let outcome = done(rig.run(&desk(&count), &made));
    let pairs = rig.pairs();
    assert_eq!(pairs.len(), 1, "{at}");
    assert_eq!((pairs[0].id.as_str(), pairs[0].name.as_str()), ("c-1", row.name), "{at}");
    assert_eq!(pairs[0].is_error, row.outcome.is_err(), "{at}");
    let result = tool_result(&made, &outcome);
    assert_eq!((result.tool_call_id.as_str(), result.is_error), ("c-1", row.outcome.is_err()));
    match (&outcome, &row.outcome) {
        (ToolOutcome::Ok { value, .. }, Ok(expected)) => {
            assert_eq!(value, expected, "{at}");
            assert_eq!(pairs[0].result, row.shown, "{at}");
            assert_eq!(&result.value, expected, "{at}");
        }
        (ToolOutcome::Failed(failure), Err((kind, code, says))) => {
            let found = (failure.error_code, failure.code.as_deref());
            assert_eq!(found, (*kind, Some(*code)), "{at}: {failure:?}");
            assert!(failure.safe_message.contains(says), "{at}: {}", failure.safe_message);
            assert!(
                failure.safe_message.len() < 3_000 && !failure.safe_message.contains("hunter2")
            );
            assert_eq!(pairs[0].result, json!(failure), "{at}");
            assert_eq!(result.value, json!(failure), "{at}");
        }
        (found, expected) => panic!("{at}: expected {expected:?}, found {found:?}"),
    }
    assert_eq!(count.get(), row.executions, "{at}: executions");
    assert_eq!(rig.journal.counts(), (row.opened, row.settled), "{at}: journal");
}

#[test]
fn a_dropped_call_tells_that_it_was_cut_short() {
    let rig = Rig::new();
    let count = Count::default();
    let runner = desk(&count);
    let hang = call("c-1", "misbehave", json!({"how": "hang"}));
    let Prepared::Ready(ready) = runner.prepare(&hang, &rig.context()) else { panic!("ready") };
    {
        let mut future = pin!(runner.execute(ready));
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    let pairs = rig.pairs();
    assert_eq!(pairs.len(), 1);
    assert!(pairs[0].is_error && pairs[0].result["code"] == "W0412", "{pairs:?}");
    assert_eq!((count.get(), rig.journal.counts()), (1, (1, 0)));
}

#[test]
fn preparing_tells_nothing_and_changes_nothing() {
    let rig = Rig::new();
    let count = Count::default();
    let runner = desk(&count);
    for row in rows_that_are_refused().into_iter().chain(rows_that_run()) {
        let prepared = runner.prepare(&call("c-1", row.name, row.args), &rig.context());
        let Prepared::Ready(ready) = prepared else { panic!("expected a ready call") };
        assert_eq!(ready.refusal().is_some(), row.opened == 0, "{}", row.name);
    }
    assert_eq!((rig.events.all().len(), count.get(), rig.journal.counts()), (0, 0, (0, 0)));
}

#[test]
fn the_callers_deadline_cuts_a_tool_off_before_its_own_limit() {
    let count = Count::default();
    let hang = call("c-1", "misbehave", json!({"how": "hang"}));
    for (deadline, says, executions) in
        [(Duration::from_secs(2), "within 2000 ms", 1), (Duration::ZERO, "within 0 ms", 1)]
    {
        let mut rig = Rig::new();
        rig.deadline = Some(deadline);
        let (_, code, message) = failure(rig.run(&desk(&count), &hang));
        assert_eq!(code, "W0408");
        assert!(message.contains(says), "{message}");
        assert_eq!(count.get(), executions, "a deadline in the past starts nothing");
        assert_eq!(rig.pairs().len(), 1);
    }
}

#[test]
fn a_journal_that_refuses_fails_the_node_and_not_the_call() {
    let rig = Rig::new();
    let count = Count::default();
    let runner = desk(&count);
    let order = call("c-1", "lookup_order", json!({"order_id": "A-1"}));
    let execute = || match runner.prepare(&order, &rig.context()) {
        Prepared::Ready(ready) => rig.drive(runner.execute(ready)).expect_err("the disk is full"),
        other => panic!("{other:?}"),
    };
    *rig.journal.refuse_open.lock().expect("not poisoned") = true;
    let error = execute();
    assert_eq!(error.code().0, "W0416");
    assert_eq!(error.to_string(), "call of `lookup_order` cannot be recorded: disk full");
    assert_eq!((count.get(), rig.events.all().len()), (0, 0), "nothing was announced or made");

    *rig.journal.refuse_open.lock().expect("not poisoned") = false;
    *rig.journal.refuse_settle.lock().expect("not poisoned") = true;
    assert!(matches!(execute(), RunToolError::NotRecorded(_)));
    let pairs = rig.pairs();
    assert_eq!((count.get(), pairs.len()), (1, 1));
    assert!(pairs[0].is_error, "a result that is not on record is not shown as one");
}

#[test]
fn a_used_up_budget_stops_the_node_before_the_tool() {
    let rig = Rig::new();
    let count = Count::default();
    *rig.budget.lock().expect("not poisoned") = tool_calls(0);
    let policy = Policy::new().allow("save_note").expect("a name");
    let tools = ToolBox::new().with(save_note).with(lookup_order).provide(count.clone());
    let runner = runner(tools, policy);
    for (id, name, args) in [
        ("c-1", "lookup_order", json!({"order_id": "A-1"})),
        ("c-2", "save_note", json!({"text": "x"})),
    ] {
        let made = call(id, name, args);
        let Prepared::Ready(ready) = runner.prepare(&made, &rig.context()) else { panic!("ready") };
        let error = rig.drive(runner.execute(ready)).expect_err("nothing is left");
        assert!(matches!(error, RunToolError::Budget(_)) && error.code().0 == "W0601");
        // A record would look as if the call had been made.
        assert_eq!(rig.journal.counts(), (0, 0), "{name}");
    }
    assert_eq!((count.get(), rig.events.all().len()), (0, 0));
    *rig.budget.lock().expect("not poisoned") = tool_calls(1);
    let outcome = rig.run(&runner, &call("c-2", "save_note", json!({"text": "x"})));
    assert!(matches!(done(outcome), ToolOutcome::Ok { .. }), "with a higher limit it is made");
    assert_eq!((count.get(), rig.journal.counts()), (1, (1, 1)));
}

#[test]
fn a_call_on_record_needs_no_budget_and_one_that_runs_no_tool_takes_none() {
    let rig = Rig::new();
    let count = Count::default();
    *rig.budget.lock().expect("not poisoned") = tool_calls(1);
    let policy = Policy::new().allow("save_note").expect("a name");
    let tools = ToolBox::new().with(save_note).with(lookup_order).provide(count.clone());
    let runner = runner(tools, policy);
    failure(rig.run(&runner, &call("c-0", "lookup_order", json!({"order_id": 7}))));
    for _ in 0..2 {
        let outcome = rig.run(&runner, &call("c-1", "save_note", json!({"text": "x"})));
        assert!(matches!(done(outcome), ToolOutcome::Ok { .. }));
    }
    assert_eq!(count.get(), 1);
    let mut used = UsageCount::default();
    rig.events.all().iter().for_each(|event| used.read(event));
    assert_eq!(used.used().tool_calls, 1, "a log counts what the budget does");
}

#[test]
fn calls_side_by_side_keep_their_own_pairs() {
    let rig = Rig::new();
    let count = Count::default();
    let slow = FnTool::new("slow", "Waits.", |_: Empty, context: ToolContext| async move {
        context.clock().sleep(Duration::from_secs(1)).await;
        Ok::<_, ToolError>(context.tool_call_id.to_string())
    });
    let runner = runner(ToolBox::new().with(slow).provide(count), Policy::new());
    let execute = |id: &str| {
        let Prepared::Ready(ready) = runner.prepare(&call(id, "slow", json!({})), &rig.context())
        else {
            panic!("ready")
        };
        runner.execute(ready)
    };
    // Waiting advances the clock by an hour, past the tools' own limit too, but a ready future
    // counts first.
    let (a, b) = rig.drive(futures_util::future::join(execute("c-1"), execute("c-2")));
    for (executed, id) in [(a, "c-1"), (b, "c-2")] {
        assert_eq!(done(executed.expect("no error")), ToolOutcome::ok(json!(id)));
    }
    let ids: Vec<String> = rig
        .events
        .all()
        .iter()
        .map(|event| serde_json::to_value(event).expect("json")["tool_call_id"].to_string())
        .collect();
    assert_eq!(ids, ["\"c-1\"", "\"c-2\"", "\"c-1\"", "\"c-2\""]);
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Empty {}
