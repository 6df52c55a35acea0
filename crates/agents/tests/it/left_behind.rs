//! Calls with effects that were made in work that a conversation leaves behind: the model reads that
//! they were made.

use crate::desk::{Desk, messages, open, said};
use serde_json::{Value, json};
use weftwork_graph::run_loop::HistoryFilter;
use weftwork_models::scripted::Step;
use weftwork_runtime::{RolledBack, Thread};
use weftwork_types::CheckpointId;
use weftwork_types::interrupt::Ask;
use weftwork_types::message::{Message, Part};
use weftwork_types::run::{CancelAction, Durability, Multitask, RunInput, RunOptions, RunOutcome};

fn letter(to: &str) -> (String, Value) {
    ("send_letter".to_owned(), json!({"to": to}))
}

fn read() -> (String, Value) {
    ("lookup_order".to_owned(), json!({"order_id": "A1"}))
}

fn refund() -> (String, Value) {
    ("refund_order".to_owned(), json!({"order_id": "A1", "amount": 5}))
}

/// The conversation in short: texts, calls, and results or the codes of their errors.
fn short(messages: &[Message]) -> Vec<String> {
    let part = |part: &Part| match part {
        Part::Text { text } => text.clone(),
        Part::ToolCall(call) => format!("{}()", call.name),
        Part::ToolResult(result) => {
            let code = result.value["code"].as_str().or(result.value.as_str());
            code.map_or_else(|| result.value.to_string(), str::to_owned)
        }
        other => format!("{other:?}"),
    };
    messages.iter().flat_map(|message| message.parts.iter().map(part)).collect()
}

/// Says something in place of what was said last.
async fn say_instead(desk: &Desk, text: &str) -> Vec<Message> {
    start_instead(desk, said(text)).await
}

/// Starts a run with input in place of that of the last one.
async fn start_instead(desk: &Desk, input: Value) -> Vec<Message> {
    let runs = desk.thread().runs(RolledBack::Omitted).await.expect("reads");
    let last = runs.iter().rfind(|row| matches!(row.new.input, RunInput::Start { .. }));
    let roll_back = last.map(|row| row.new.at.run.clone());
    let options = RunOptions { multitask: Multitask::Rollback, roll_back, ..RunOptions::default() };
    messages(&desk.run_with(RunInput::Start { input }, options).await.1)
}

async fn approve(desk: &Desk) -> RunOutcome {
    let questions = desk.open_questions().await;
    let approval = questions.iter().find_map(|(id, ask)| match ask {
        Ask::Approval(request) => {
            Some((*id, json!({"approved": true, "binding": request.binding})))
        }
        _ => None,
    });
    let (id, answer) = approval.expect("an approval");
    desk.answer(id, answer).await.1
}

#[tokio::test]
async fn an_answer_that_replaces_another_has_the_effects_of_that_one() {
    for first in [true, false] {
        let mut steps = vec![Step::text("Hello.")];
        steps.retain(|_| !first);
        steps.push(Step::calls(vec![letter("Ada"), read()]));
        steps.extend([Step::text("Sent."), Step::text("It was sent."), Step::text("As I said.")]);
        let desk = Desk::new(steps).await;
        if !first {
            desk.say("Hi.").await;
        }
        desk.say("Write to Ada.").await;
        let made = ["send_letter()", "a letter is on its way to Ada"];
        for (text, answer) in [("Write to Ada!", "It was sent."), ("And now?", "As I said.")] {
            let conversation = short(&say_instead(&desk, text).await);
            let conversation = &conversation[if first { 0 } else { 2 }..];
            assert_eq!(conversation, [text, made[0], made[1], answer], "{first}");
        }
        assert_eq!(desk.letters(), 1);
    }
}

#[tokio::test]
async fn every_form_of_input_has_the_effects_that_it_leaves_behind() {
    let message = json!({"role": "user", "content": "And now?"});
    for input in [
        json!("And now?"),
        message.clone(),
        json!({"messages": "And now?"}),
        json!({"messages": message}),
        json!({"messages": ["And now?"]}),
    ] {
        let steps = vec![Step::calls(vec![letter("Ada")]), Step::text("Sent."), Step::text("Yes.")];
        let desk = Desk::new(steps).await;
        desk.say("Write to Ada.").await;
        let conversation = short(&start_instead(&desk, input.clone()).await);
        let made = ["send_letter()", "a letter is on its way to Ada"];
        assert_eq!(conversation, ["And now?", made[0], made[1], "Yes."], "{input}");
    }
}

#[tokio::test]
async fn calls_that_were_not_made_are_left_behind() {
    let calls = Step::calls(vec![refund(), read()]);
    let desk = Desk::new(vec![calls, Step::text("All right."), Step::text("Yes.")]).await;
    open(&desk.say("Refund A1.").await.1);
    assert_eq!(short(&say_instead(&desk, "Forget it.").await), ["Forget it.", "All right."]);
    assert_eq!(desk.refunded(), 0);
}

#[tokio::test]
async fn an_approved_call_is_told_once_and_then_part_of_the_conversation() {
    let calls = Step::calls(vec![refund(), letter("Ada")]);
    let steps = vec![calls, Step::text("Done."), Step::text("Was done."), Step::text("Bye.")];
    let desk = Desk::new(steps).await;
    open(&desk.say("Refund A1.").await.1);
    approve(&desk).await;
    let made =
        ["refund_order()", "send_letter()", "refunded 5 for A1", "a letter is on its way to Ada"];
    let mut expected = vec!["Refund."];
    expected.extend(made);
    expected.push("Was done.");
    assert_eq!(short(&say_instead(&desk, "Refund.").await), expected);
    expected.extend(["Thanks a lot.", "Bye."]);
    assert_eq!(short(&messages(&desk.say("Thanks a lot.").await.1)), expected);
    assert_eq!((desk.refunded(), desk.letters()), (1, 1));
}

#[tokio::test]
async fn what_a_rollback_without_input_left_is_told_with_the_next_input() {
    let steps = vec![Step::calls(vec![letter("Ada")]), Step::text("Sent."), Step::text("It was.")];
    let desk = Desk::new(steps).await;
    desk.say("Hello?").await;
    let runs = desk.thread().runs(RolledBack::Included).await.expect("reads");
    let back = desk.thread().cancel_run(&runs[0].new.at, CancelAction::Rollback).await;
    back.expect("accepted").expect("a run").await;
    let conversation = short(&messages(&desk.say("Write to Ada.").await.1));
    let expected = ["Write to Ada.", "send_letter()", "a letter is on its way to Ada", "It was."];
    assert_eq!(conversation, expected);
}

async fn checkpoints(thread: &Thread) -> Vec<CheckpointId> {
    let history = thread.history(&HistoryFilter::default()).await.expect("reads");
    history.into_iter().filter_map(|found| found.checkpoint()).collect()
}

#[tokio::test]
async fn input_at_an_older_checkpoint_and_on_a_fork_has_the_effects_after_it() {
    for forks in [false, true] {
        let mut steps = vec![Step::text("Hello."), Step::calls(vec![letter("Ada")])];
        steps.extend([Step::text("Sent."), Step::text("It was sent."), Step::text("Bye.")]);
        let desk = Desk::new(steps).await;
        desk.say("Hi.").await;
        let before = checkpoints(&desk.thread()).await[0];
        desk.say("Write to Ada.").await;
        let told = vec![
            "Hi.",
            "Hello.",
            "Write!",
            "send_letter()",
            "a letter is on its way to Ada",
            "It was sent.",
        ];
        let mut thread = desk.thread().at(before);
        if forks {
            thread = thread.fork("fork").await.expect("forked");
        }
        let ended = thread.start(said("Write!")).await.expect("runs");
        let outcome = RunOutcome::Completed { output: ended.output().expect("completed").clone() };
        assert_eq!(short(&messages(&outcome)), told, "{forks}");
        if forks {
            let ended = thread.start(said("Goodbye.")).await.expect("runs");
            let output = ended.output().expect("completed").clone();
            let said = short(&messages(&RunOutcome::Completed { output }));
            assert_eq!(said[told.len()..], ["Goodbye.", "Bye."], "it is told once");
        }
        assert_eq!(desk.letters(), 1);
    }
}

/// Two refunds of one message, of which the first is approved and made.
async fn half_approved(then: Vec<Step>) -> Desk {
    let calls = Step::calls(vec![
        refund(),
        ("refund_order".to_owned(), json!({"order_id": "A2", "amount": 7})),
    ]);
    let mut steps = vec![calls];
    steps.extend(then);
    let desk = Desk::new(steps).await;
    open(&desk.say("Refund both.").await.1);
    approve(&desk).await;
    assert_eq!(desk.refunded(), 1);
    desk
}

async fn roll_back_answers(desk: &Desk) {
    let runs = desk.thread().runs(RolledBack::Omitted).await.expect("reads");
    let answered = runs.iter().rfind(|row| row.answers.is_some()).expect("an answer");
    let back = desk.thread().cancel_run(&answered.new.at, CancelAction::Rollback).await;
    back.expect("accepted").expect("a run").await;
}

const REFUNDED: &str = "refunded 5 for A1";

#[tokio::test]
async fn calls_of_an_answer_that_is_rolled_back_are_closed_from_the_record() {
    for times in 1..=2 {
        let desk = half_approved(vec![Step::text("It is sunny.")]).await;
        for time in 0..times {
            if time > 0 {
                open(&desk.run(RunInput::Continue).await.1);
                approve(&desk).await;
            }
            roll_back_answers(&desk).await;
        }
        let conversation = short(&messages(&desk.say("How is the weather?").await.1));
        let expected = [
            "Refund both.",
            "refund_order()",
            "refund_order()",
            REFUNDED,
            "W0418",
            "How is the weather?",
            "It is sunny.",
        ];
        assert_eq!(conversation, expected, "{times}");
        assert_eq!(desk.refunded(), 1);
    }
}

/// An approval with other arguments is a call with another key.
#[tokio::test]
async fn a_call_with_edited_arguments_is_closed_from_the_record_after_a_rollback_and_on_a_fork() {
    for forks in [false, true] {
        let steps = vec![
            Step::calls(vec![refund(), ("ask_human".to_owned(), json!({"question": "Why?"}))]),
            Step::text("It is sunny."),
        ];
        let desk = Desk::new(steps).await;
        open(&desk.say("Refund it.").await.1);
        let questions = desk.open_questions().await;
        let edit = questions.iter().find_map(|(id, ask)| match ask {
            Ask::Approval(request) => {
                let args = json!({"order_id": "A1", "amount": 2});
                Some((*id, json!({"approved": true, "binding": request.binding, "args": args})))
            }
            _ => None,
        });
        let (id, answer) = edit.expect("an approval");
        open(&desk.answer(id, answer).await.1);
        assert_eq!(desk.refunded(), 1);
        let mut thread = desk.thread();
        match forks {
            true => {
                let head = checkpoints(&thread).await[0];
                thread = thread.at(head).fork("fork").await.expect("forked");
            }
            false => roll_back_answers(&desk).await,
        }
        let ended = thread.start(said("How is the weather?")).await.expect("runs");
        let output = ended.output().expect("completed").clone();
        let conversation = short(&messages(&RunOutcome::Completed { output }));
        assert_eq!(conversation[3..5], ["refunded 2 for A1", "W0418"], "{forks}");
        assert_eq!(desk.refunded(), 1);
    }
}

#[tokio::test]
async fn a_call_that_is_approved_again_after_a_rollback_is_not_made_again() {
    let desk = half_approved(vec![Step::text("Done.")]).await;
    roll_back_answers(&desk).await;
    open(&desk.run(RunInput::Continue).await.1);
    approve(&desk).await;
    assert_eq!(desk.refunded(), 1);
    let conversation = short(&messages(&approve(&desk).await));
    assert_eq!(conversation[3..], [REFUNDED, "refunded 7 for A2", "Done."]);
    assert_eq!(desk.refunded(), 2);
}

#[tokio::test]
async fn calls_that_a_thread_made_are_closed_from_its_record_on_its_forks() {
    for deletes in [false, true] {
        let desk = half_approved(vec![Step::text("It is sunny."), Step::text("Bye.")]).await;
        let head = checkpoints(&desk.thread()).await[0];
        let fork = desk.thread().at(head).fork("fork").await.expect("forked");
        let fork = fork.fork("fork-of-the-fork").await.expect("forked");
        if deletes {
            let who = weftwork_types::Principal::local();
            let fork = weftwork_types::ThreadId::new("fork").expect("an id");
            desk.store.delete_thread(&who, &fork).await.expect("deletes");
        }
        let ended = fork.start(said("How is the weather?")).await.expect("runs");
        let output = ended.output().expect("completed").clone();
        let conversation = short(&messages(&RunOutcome::Completed { output }));
        let results = match deletes {
            false => [REFUNDED, "W0418"],
            // Nothing is known of them.
            true => ["W0413", "W0413"],
        };
        assert_eq!(conversation[3..5], results);
        assert_eq!(desk.refunded(), 1);
    }
}

#[tokio::test]
async fn a_call_in_which_a_process_died_is_in_the_conversation_for_each_durability() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let options = RunOptions { durability, ..RunOptions::default() };
        let desk = Desk::new(vec![Step::calls(vec![letter("nobody")])]).await;
        let desk = desk.dies_in_a_letter(options, vec![Step::text("It is sunny.")]).await;
        let conversation = short(&messages(&desk.say("How is the weather?").await.1));
        let call = ["send_letter()", "W0413"];
        let expected = match durability {
            // What was said before is lost.
            Durability::Exit => ["How is the weather?", call[0], call[1], "It is sunny."].to_vec(),
            _ => ["Write to nobody.", call[0], call[1], "How is the weather?", "It is sunny."]
                .to_vec(),
        };
        assert_eq!(conversation, expected, "{durability:?}");
        assert_eq!(desk.letters(), 1);
    }
}
