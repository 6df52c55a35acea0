//! Tests of tools that ask a person within a call.

use crate::rig::{Count, Rig, call, done, failure, runner, tool_calls, value};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use weftwork_schema::{Checker, Quotes};
use weftwork_tools::{
    AskingCall, Executed, FnTool, Policy, Prepared, QUESTION_BYTES_MAX, QUESTIONS_MAX, Questions,
    ROUNDS_MAX, Replies, Reply, STATE_BYTES_MAX, ToolBox, ToolContext, ToolError, ToolOutput,
    ToolQuestion, ToolRunner, UnknownAnswer, question, tool,
};
use weftwork_types::Timestamp;
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::Ask;
use weftwork_types::message::ToolCall;
use weftwork_types::port::{LimitedBudget, Limits};
use weftwork_types::tool::{Effect, ToolOutcome, UnknownOutcome};
use weftwork_types::usage::{Tokens, Usage};

/// Rounds that a tool has seen, in order.
#[derive(Debug, Clone, Default)]
struct Seen(Arc<Mutex<Vec<Round>>>);

/// The idempotency key and the replies.
type Round = (String, Option<Replies>);

impl Seen {
    fn rounds(&self) -> Vec<Option<Replies>> {
        self.0.lock().expect("not poisoned").iter().map(|(_, replies)| replies.clone()).collect()
    }

    /// The idempotency keys, without repetitions.
    fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> =
            self.0.lock().expect("not poisoned").iter().map(|(key, _)| key.clone()).collect();
        keys.dedup();
        keys
    }
}

/// A tool that asks these rounds of questions, then returns the last replies.
fn asks(rounds: Vec<Questions>, effect: Effect, on_unknown: UnknownOutcome, seen: &Seen) -> FnTool {
    let seen = seen.clone();
    let book = move |_: Book, context: ToolContext| {
        let rounds = rounds.clone();
        let seen = seen.clone();
        async move {
            let key = context.idempotency_key;
            let replies = context.replies;
            seen.0.lock().expect("not poisoned").push((key, replies.clone()));
            let round = replies.as_ref().map_or(0, |replies| replies.round as usize);
            Ok::<_, ToolError>(match (rounds.get(round), replies) {
                (Some(questions), _) => ToolOutput::Questions(questions.clone()),
                (None, replies) => {
                    ToolOutput::Value(replies.map(|r| json!(r.replies)).unwrap_or_default())
                }
            })
        }
    };
    let tool = FnTool::new("book", "Books.", book).shown(["."]);
    match on_unknown {
        UnknownOutcome::Reconcile => tool
            .effect(effect)
            .reconcile(|_: Value, _| async { Ok::<_, String>(Some(json!("found"))) }),
        other => tool.effect(effect).on_unknown(other),
    }
}

#[derive(Debug, Clone, serde::Deserialize, schemars::JsonSchema)]
struct Book {
    #[expect(dead_code, reason = "read by the schema alone")]
    day: String,
    #[serde(default)]
    #[schemars(extend("x-secret" = true))]
    #[expect(dead_code, reason = "read by the schema alone")]
    pin: Option<String>,
}

fn how_many() -> Questions {
    Questions::new([question::<u32>("How many?")]).state(json!({"table": 7}))
}

fn desk(rounds: Vec<Questions>, seen: &Seen) -> ToolRunner {
    let tool = asks(rounds, Effect::ExternalSideEffect, UnknownOutcome::Ask, seen);
    runner(ToolBox::new().with(tool), Policy::new().allow("book").expect("a name"))
}

fn book() -> ToolCall {
    call("c-1", "book", json!({"day": "monday"}))
}

fn asking(executed: Executed) -> AskingCall {
    match executed {
        Executed::Asks(asking) => asking,
        other => panic!("it does not ask: {other:?}"),
    }
}

fn accept(content: Value) -> Reply {
    Reply::Accept { content }
}

/// The numbers of start and result events.
fn events(rig: &Rig) -> (usize, usize) {
    let all = rig.events.all();
    let starts = all.iter().filter(|e| matches!(e, AiEvent::ToolCallStart { .. })).count();
    let results = all.iter().filter(|e| matches!(e, AiEvent::ToolCallResult { .. })).count();
    (starts, results)
}

#[test]
fn a_tool_asks_and_goes_on_with_its_state_and_the_replies() {
    for effect in [Effect::ReadOnly, Effect::StateChange, Effect::ExternalSideEffect] {
        let rig = Rig::new();
        let seen = Seen::default();
        let rounds = vec![how_many(), how_many().state(json!("second"))];
        let desk = || {
            let tool = asks(rounds.clone(), effect, UnknownOutcome::Ask, &seen);
            runner(ToolBox::new().with(tool), Policy::new().allow("book").expect("a name"))
        };
        let asked = asking(rig.run(&desk(), &book()));
        let one = &asked.questions()[0];
        assert_eq!(
            asked.ask(one),
            Ask::Question {
                question: "How many?".to_owned(),
                tool_call_id: "c-1".parse().expect("a valid id"),
                tool: Some("book".to_owned()),
            }
        );
        assert_eq!((events(&rig), asked.expiry(one)), ((1, 0), None));

        // Each runner is one of another process: it finds the rounds on record.
        let desk = desk();
        let asked = asking(rig.run(&desk, &book()));
        let asked = asking(rig.drive(desk.reply(asked, [accept(json!(2))])).expect("no error"));
        let ended = rig.drive(desk.reply(asked, [accept(json!(3))])).expect("no error");
        assert_eq!(value(ended), json!([{"action": "accept", "content": 3}]));
        let replies =
            |round, state, n: u32| Some(Replies { round, state, replies: vec![accept(json!(n))] });
        let expected = [None, replies(1, json!({"table": 7}), 2), replies(2, json!("second"), 3)];
        assert_eq!(seen.rounds(), expected, "each round was made once");
        assert_eq!(seen.keys().len(), 1, "one call, one key");
        assert_eq!((events(&rig), rig.journal.counts()), ((1, 1), (3, 3)));
        assert_eq!(rig.pairs()[0].result, json!([{"action": "accept", "content": 3}]));

        // After the end everything is on record.
        let asked = asking(rig.run(&desk, &book()));
        let asked = asking(rig.drive(desk.reply(asked, [accept(json!(2))])).expect("no error"));
        done(rig.drive(desk.reply(asked, [accept(json!(3))])).expect("no error"));
        assert_eq!(seen.rounds().len(), 3);
    }
}

#[test]
fn other_replies_make_another_round() {
    let rig = Rig::new();
    let seen = Seen::default();
    let desk = desk(vec![how_many()], &seen);
    for guests in [2, 2, 4] {
        let asked = asking(rig.run(&desk, &book()));
        let ended = rig.drive(desk.reply(asked, [accept(json!(guests))])).expect("no error");
        assert_eq!(value(ended)[0]["content"], json!(guests));
    }
    assert_eq!(seen.rounds().len(), 3, "one round of questions, and one for each answer");
}

#[test]
fn a_person_declines_cancels_or_says_something_else() {
    let two = Questions::new([question::<u32>("How many?"), question::<String>("Which name?")]);
    let cancel = Reply::Cancel;
    for (given, seen_by_tool) in [
        (
            vec![accept(json!(2)), accept(json!("Ada"))],
            vec![accept(json!(2)), accept(json!("Ada"))],
        ),
        (vec![Reply::Decline, cancel.clone()], vec![Reply::Decline, cancel.clone()]),
        (vec![Reply::Decline], vec![Reply::Decline, cancel.clone()]),
        (vec![], vec![cancel.clone(), cancel.clone()]),
        (vec![accept(json!("two")), accept(json!(7))], vec![cancel.clone(), cancel.clone()]),
        (
            vec![accept(json!(2)), Reply::Decline, accept(json!(3))],
            vec![accept(json!(2)), Reply::Decline],
        ),
    ] {
        let rig = Rig::new();
        let seen = Seen::default();
        let desk = desk(vec![two.clone()], &seen);
        let asked = asking(rig.run(&desk, &book()));
        done(rig.drive(desk.reply(asked, given.clone())).expect("no error"));
        let replies = seen.rounds().pop().flatten().expect("a second round").replies;
        assert_eq!(replies, seen_by_tool, "{given:?}");
    }
}

#[test]
fn answers_have_the_schema_of_their_question() {
    let rig = Rig::new();
    let seen = Seen::default();
    let lapses = how_many().questions.remove(0).expires_at(Timestamp(9)).default(json!(4));
    let cancelled = ToolQuestion { default: None, ..lapses.clone() };
    let desk = desk(vec![Questions::new([lapses, cancelled])], &seen);
    let asked = asking(rig.run(&desk, &book()));
    let [first, second] = asked.questions() else { panic!("two questions") };
    let schema = Checker::compile(&asked.answer_schema(first)).expect("a schema");
    for (answer, fits) in [
        (json!({"action": "accept", "content": 2}), true),
        (json!({"action": "decline"}), true),
        (json!({"action": "cancel"}), true),
        (json!({"action": "accept", "content": "two"}), false),
        (json!({"action": "accept"}), false),
        (json!({"action": "decline", "content": 2}), false),
        (json!(2), false),
    ] {
        assert_eq!(schema.check(&answer, Quotes::Nothing).is_ok(), fits, "{answer}");
        let read = serde_json::from_value::<Reply>(answer.clone()).is_ok();
        assert!(read || !fits, "{answer}");
    }
    let lapse = json!({"action": "accept", "content": 4});
    assert_eq!(asked.expiry(first), Some((Timestamp(9), lapse)));
    assert_eq!(asked.expiry(second), Some((Timestamp(9), json!({"action": "cancel"}))));
}

#[test]
fn a_round_that_a_process_died_in_goes_by_what_the_tool_declares() {
    for (effect, policy, made, expected) in [
        (Effect::ExternalSideEffect, UnknownOutcome::Ask, 2, "asked"),
        (Effect::ExternalSideEffect, UnknownOutcome::Idempotent, 3, "[{"),
        (Effect::StateChange, UnknownOutcome::Reconcile, 2, "found"),
    ] {
        let rig = Rig::new();
        let seen = Seen::default();
        let tool = asks(vec![how_many()], effect, policy, &seen);
        let desk = runner(ToolBox::new().with(tool), Policy::new().allow("book").expect("a name"));
        // A call that asks and waits is not one in which a process died.
        let asked = asking(rig.run(&desk, &book()));
        *rig.journal.refuse_settle.lock().expect("not poisoned") = true;
        rig.drive(desk.reply(asked, [accept(json!(2))])).expect_err("not recorded");
        *rig.journal.refuse_settle.lock().expect("not poisoned") = false;

        let asked = asking(rig.run(&desk, &book()));
        let executed = rig.drive(desk.reply(asked, [accept(json!(2))])).expect("no error");
        let (found, executed) = match executed {
            Executed::OutcomeUnknown(unknown) => {
                let again = desk.resolve(unknown, UnknownAnswer::CallAgain);
                ("asked".to_owned(), Some(rig.drive(again).expect("no error")))
            }
            other => (value(other).to_string(), None),
        };
        assert!(found.contains(expected), "{policy:?}: {found}");
        assert_eq!(seen.rounds().len() - usize::from(executed.is_some()), made, "{policy:?}");
        if let Some(executed) = executed {
            assert_eq!(value(executed)[0]["content"], json!(2));
            assert_eq!(seen.rounds()[1], seen.rounds()[2], "with the same state and replies");
        }
        assert_eq!(seen.keys().len(), 1);
    }
}

#[test]
fn questions_over_a_limit_fail_the_call() {
    let ask = |schema: Value| Questions::new([ToolQuestion::new("How many?", schema)]);
    let long = |bytes: usize| "x".repeat(bytes);
    let mut deep = json!({"type": "integer"});
    for _ in 0..200 {
        deep = json!({"anyOf": [deep]});
    }
    let mut deep_state = json!(1);
    for _ in 0..200 {
        deep_state = json!([deep_state]);
    }
    let one = question::<u32>("How many?");
    for (questions, says) in [
        (Questions::new([]), "expected 1 to 8 questions, found 0"),
        (
            Questions::new(vec![one.clone(); QUESTIONS_MAX + 1]),
            "expected 1 to 8 questions, found 9",
        ),
        (Questions::new([question::<u32>(" \n")]), "question 1: it has no text"),
        (
            Questions::new([one.clone(), question::<u32>(long(QUESTION_BYTES_MAX))]),
            "question 2: it has",
        ),
        (ask(json!({"type": 3})), "its schema cannot be used"),
        (ask(json!({"$ref": "https://example.com/schema"})), "its schema cannot be used"),
        (ask(deep), "nested too deeply"),
        (Questions::new([one.clone().default(json!("two"))]), "its default breaks its schema"),
        (how_many().state(json!(long(STATE_BYTES_MAX))), "its state has 65538 bytes"),
        (how_many().state(deep_state), "its state is nested too deeply"),
        (Questions::new([]).acted(), "; it may have taken effect"),
    ] {
        let rig = Rig::new();
        let seen = Seen::default();
        let (_, code, message) = failure(rig.run(&desk(vec![questions], &seen), &book()));
        assert_eq!(code, "W0417");
        assert!(message.contains(says), "{says}: {message}");
        assert_eq!((events(&rig), rig.journal.counts()), ((1, 1), (1, 1)));
    }
    let rig = Rig::new();
    let seen = Seen::default();
    let many = Questions::new(vec![one; QUESTIONS_MAX]).state(json!(long(STATE_BYTES_MAX - 2)));
    assert_eq!(asking(rig.run(&desk(vec![many], &seen), &book())).questions().len(), QUESTIONS_MAX);
}

#[test]
fn a_tool_asks_in_a_limited_number_of_rounds() {
    let rig = Rig::new();
    let seen = Seen::default();
    let desk = desk(vec![how_many().acted(); ROUNDS_MAX + 1], &seen);
    let mut executed = rig.run(&desk, &book());
    for round in 0..ROUNDS_MAX {
        executed =
            rig.drive(desk.reply(asking(executed), [accept(json!(round))])).expect("no error");
    }
    let (_, code, message) = failure(executed);
    assert_eq!(code, "W0417");
    assert!(
        message.ends_with("it asked again after 8 rounds; it may have taken effect"),
        "{message}"
    );
    assert_eq!((seen.rounds().len(), events(&rig)), (ROUNDS_MAX + 1, (1, 1)));
}

#[test]
fn a_call_that_asks_is_one_call_of_the_budget() {
    let rig = Rig::new();
    let seen = Seen::default();
    *rig.budget.lock().expect("not poisoned") = tool_calls(1);
    let desk = desk(vec![how_many(), how_many()], &seen);
    let asked = asking(rig.run(&desk, &book()));
    let asked = asking(rig.drive(desk.reply(asked, [accept(json!(1))])).expect("no error"));
    done(rig.drive(desk.reply(asked, [accept(json!(1))])).expect("no error"));
    let other = call("c-2", "book", json!({"day": "friday"}));
    let Prepared::Ready(ready) = desk.prepare(&other, &rig.context()) else { panic!("ready") };
    rig.drive(desk.execute(ready)).expect_err("the budget is used up");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[test]
fn a_tool_reads_what_is_left_of_the_budget() {
    let rig = Rig::new();
    let limits = Limits { tokens: Some(90), wall_ms: Some(5_000), ..Limits::tool_calls(3) };
    let used = Usage { wall_ms: 1_000, ..Usage::model_call(Tokens::reported(20, 10)) };
    *rig.budget.lock().expect("not poisoned") = LimitedBudget::new(limits, used);
    let look = FnTool::new("look", "Looks.", |_: Nothing, context: ToolContext| async move {
        Ok::<_, ToolError>(json!(context.budget_left()))
    });
    let look = look.shown(["."]);
    let runner = runner(ToolBox::new().with(look), Policy::new());
    for left in [2, 1, 0] {
        let made = call(&format!("c-{left}"), "look", json!({}));
        let expected = json!({"tool_calls": left, "tokens": 60, "wall_ms": 4_000});
        assert_eq!(value(rig.run(&runner, &made)), expected, "its own call is reserved");
    }
}

#[test]
fn secret_arguments_are_in_no_question() {
    let rig = Rig::new();
    let seen = Seen::default();
    let told = Questions::new([question::<bool>("Is hunter2 your pin?")]);
    let made = call("c-1", "book", json!({"day": "monday", "pin": "hunter2"}));
    let asked = asking(rig.run(&desk(vec![told], &seen), &made));
    let shown = format!("{:?} {:?}", asked.ask(&asked.questions()[0]), rig.events.all());
    assert!(!shown.contains("hunter2") && shown.contains("Is [secret] your pin?"), "{shown}");
}

/// Orders a cake.
#[tool(effect = external_side_effect)]
async fn order_cake(
    kind: String,
    replies: Option<Replies>,
    baked: weftwork_tools::Deps<Count>,
) -> ToolOutput<String> {
    let Some(replies) = replies else {
        let ask = question::<String>("What shall be written on it?");
        return Questions::new([ask]).state(json!(kind)).into();
    };
    baked.up();
    ToolOutput::Value(match replies.content::<String>(0) {
        Ok(Some(words)) => format!("{kind} with {words}, {}", replies.state),
        _ => format!("{kind} without words"),
    })
}

#[test]
fn a_function_asks() {
    for (reply, expected) in
        [(accept(json!("hi")), "plum with hi, \"plum\""), (Reply::Decline, "plum without words")]
    {
        let rig = Rig::new();
        let baked = Count::default();
        let tools = ToolBox::new().with(order_cake).provide(baked.clone());
        let desk = runner(tools, Policy::new().allow("order_cake").expect("a name"));
        assert_eq!(desk.specs()[0].parameters["properties"].as_object().map(|p| p.len()), Some(1));
        assert_eq!(desk.specs()[0].output, Some(json!({"type": "string"})));
        let asked = asking(rig.run(&desk, &call("c-1", "order_cake", json!({"kind": "plum"}))));
        assert_eq!(baked.get(), 0);
        let ended = rig.drive(desk.reply(asked, [reply])).expect("no error");
        assert_eq!((done(ended), baked.get()), (ToolOutcome::ok(json!(expected)), 1));
    }
}
