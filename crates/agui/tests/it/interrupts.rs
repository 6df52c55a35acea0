//! Interrupts: approvals and questions, and the runs that answer them.

use crate::page::Page;
use crate::rules::{kind, of};
use crate::world::{ADA, RUNNER, World, code_of, resumes, says, says_all, written};
use serde_json::{Value, json};

/// The interrupts at which a run ended.
#[track_caller]
fn interrupts(events: &[Value]) -> Vec<Value> {
    let outcome = &events.last().expect("events")["outcome"];
    assert_eq!(outcome["type"], "interrupt", "{events:?}");
    outcome["interrupts"].as_array().expect("a list").clone()
}

fn resolved(interrupt: &Value, payload: Value) -> Value {
    json!([{"interruptId": interrupt["id"], "status": "resolved", "payload": payload}])
}

#[track_caller]
fn error(events: &[Value]) -> (&str, &str) {
    assert_eq!(events.len(), 2, "{events:?}");
    let last = &events[1];
    assert_eq!(kind(last), "RUN_ERROR");
    (last["code"].as_str().expect("a code"), last["message"].as_str().expect("a text"))
}

#[tokio::test]
async fn an_approval_is_an_interrupt_and_the_next_run_decides() {
    for (payload, writes, result) in [
        (json!({"approved": true}), 1, "wrote a"),
        (json!(true), 1, "wrote a"),
        (json!({"approved": true, "editedArgs": {"line": "b"}}), 1, "wrote b"),
        (json!({"approved": false, "reason": "not today"}), 0, "not today"),
        (Value::Null, 0, "gave no decision"),
    ] {
        let world = World::new().await;
        let before = written();
        let input = says("t", "r1", "Write a.");
        let messages = input["messages"].as_array().expect("a list").clone();
        let mut page = Page { messages, ..Page::default() };
        let events = world.run("clerk", input).await;
        let [interrupt] = &interrupts(&events)[..] else { panic!("{events:?}") };
        assert_eq!(interrupt["reason"], "tool_call");
        assert_eq!(interrupt["responseSchema"]["required"], json!(["approved"]));
        let message = interrupt["message"].as_str().expect("a text");
        assert!(message.starts_with("approve the call of `desk/write`"), "{message}");
        let [call] = of(&events, "TOOL_CALL_START")[..] else { panic!("{events:?}") };
        assert_eq!(call["toolCallId"], interrupt["toolCallId"]);
        assert_eq!(of(&events, "TOOL_CALL_ARGS")[0]["delta"], r#"{"line":"a"}"#);
        assert!(of(&events, "TOOL_CALL_RESULT").is_empty());
        page.apply(&events);
        assert_eq!(written(), before, "nobody has approved");

        let mut answer = resolved(interrupt, payload.clone());
        if payload.is_null() {
            answer = json!([{"interruptId": interrupt["id"], "status": "cancelled"}]);
        }
        let mut input = resumes("t", "r2", answer.clone());
        input["messages"] = Value::Array(page.messages.clone());
        let done = world.run("clerk", input).await;
        assert!(of(&done, "TOOL_CALL_START").is_empty(), "the page has the call: {done:?}");
        let [returned] = of(&done, "TOOL_CALL_RESULT")[..] else { panic!("{done:?}") };
        assert_eq!(returned["toolCallId"], interrupt["toolCallId"]);
        let content = returned["content"].as_str().expect("a text");
        assert!(content.contains(result), "{payload}: {content}");
        assert_eq!(written() - before, writes, "{payload}");
        let last = done.last().expect("events");
        let is_done = kind(last) == "RUN_FINISHED" && last["outcome"]["type"] == "success";
        assert!(is_done || writes == 0, "{last}");
        page.apply(&done);
        assert_eq!(
            page.shown()[1],
            format!("assistant calls {}", call["toolCallName"].as_str().expect("a name"))
        );

        // The same run again does nothing; another one finds the interrupt answered.
        let again = world.run("clerk", resumes("t", "r2", answer.clone())).await;
        assert_eq!(again.last(), done.last());
        let shown = Page::of(&again).shown();
        assert_eq!(shown.iter().filter(|text| text.contains("calls")).count(), 1, "{shown:?}");
        let second = world.run("clerk", resumes("t", "r3", answer)).await;
        assert_eq!(error(&second).0, "interrupt_mismatch");
        assert_eq!(written() - before, writes, "the first answer counts");
    }
}

#[tokio::test]
async fn a_question_of_a_tool_is_answered_or_left() {
    let world = World::new().await;
    for (thread, answer, said) in [
        ("t1", json!({"status": "resolved", "payload": 4}), "4 on Monday"),
        ("t2", json!({"status": "cancelled"}), "nobody came"),
    ] {
        let events = world.run("pager", says(thread, "r1", "Book a table.")).await;
        let [interrupt] = &interrupts(&events)[..] else { panic!("{events:?}") };
        assert_eq!(interrupt["reason"], "input_required");
        assert_eq!(interrupt["message"], "How many on Monday?");
        assert_eq!(interrupt["responseSchema"]["type"], "integer");
        assert_eq!(interrupt["toolCallId"], of(&events, "TOOL_CALL_START")[0]["toolCallId"]);
        let mut entry = answer.clone();
        entry["interruptId"] = interrupt["id"].clone();
        let done = world.run("pager", resumes(thread, "r2", json!([entry]))).await;
        assert_eq!(of(&done, "TOOL_CALL_RESULT")[0]["content"], said, "{done:?}");
        assert_eq!(done.last().expect("events")["outcome"]["type"], "success");
    }
}

#[tokio::test]
async fn answers_that_do_not_fit_are_errors_of_the_stream_and_change_nothing() {
    let world = World::new().await;
    let none = world
        .run("clerk", resumes("t", "r0", json!([{"interruptId": "x", "status": "cancelled"}])))
        .await;
    assert_eq!(error(&none).0, "interrupt_mismatch");
    let events = world.run("pager", says("t", "r1", "Book a table.")).await;
    let [question] = &interrupts(&events)[..] else { panic!("{events:?}") };
    let events = world.run("clerk", says("t2", "r1", "Write a.")).await;
    let [approval] = &interrupts(&events)[..] else { panic!("{events:?}") };
    let other = json!({"id": "00000000000000000000000000000001"});
    for (agent, thread, resume, code, part) in [
        ("pager", "t", resolved(question, json!("four")), "W", "integer"),
        ("pager", "t", resolved(&other, json!(4)), "interrupt_mismatch", "no open interrupt"),
        ("clerk", "t", resolved(question, json!(4)), "interrupt_mismatch", "no open interrupt"),
        (
            "clerk",
            "t2",
            resolved(approval, json!({"decision": "yes"})),
            "invalid_payload",
            "approved",
        ),
        ("clerk", "t2", resolved(approval, json!("yes")), "invalid_payload", "approved"),
        ("clerk", "t2", resolved(question, json!(true)), "interrupt_mismatch", "no open interrupt"),
    ] {
        let events = world.run(agent, resumes(thread, "r2", resume.clone())).await;
        let (found, message) = error(&events);
        assert!(found.starts_with(code) && message.contains(part), "{resume}: {found} {message}");
    }
    // A further message waits as well, and the questions stay open.
    let events = world.run("clerk", says_all("t2", "r3", &["Write a.", "Write b."])).await;
    assert_eq!(error(&events).0, "W1038");
    let open = &events[1]["rawEvent"]["interrupts"];
    assert_eq!((open[0]["id"].clone(), open.get(1)), (approval["id"].clone(), None));
    let mut both = resumes("t", "r2", resolved(question, json!(4)));
    both["messages"] = says("t", "r2", "And more.")["messages"].clone();
    let refused = world.post(ADA, "/agui/pager", &both).await;
    assert_eq!((refused.status, code_of(&refused)), (400, "invalid_input".to_owned()));
    let done = world.run("pager", resumes("t", "r2", resolved(question, json!(4)))).await;
    assert_eq!(done.last().expect("events")["outcome"]["type"], "success");
}

#[tokio::test]
async fn a_run_without_a_new_message_has_the_interrupts_of_a_run_that_another_client_began() {
    let world = World::new().await;
    let first = world.run("clerk", says("t", "r1", "Write a.")).await;
    let requests = world.requests().len();
    let before = written();
    for (run, input) in [
        ("r2", says_all("t", "r2", &[])),
        ("r3", says("t", "r3", "Write a.")),
        ("r2", resumes("t", "r2", json!([]))),
    ] {
        let events = world.run("clerk", input).await;
        assert_eq!(interrupts(&events), interrupts(&first), "{run}");
        assert_eq!(events.last().expect("events")["runId"], run);
        assert_eq!(Page::of(&events).shown()[0], "user: Write a.");
    }
    assert_eq!((world.requests().len(), written()), (requests, before), "nothing was begun");
    // Another agent does not answer them.
    let other = world.run("golf", says_all("t", "r4", &[])).await;
    assert_eq!(error(&other).0, "W1038");
    let answer = resolved(&interrupts(&first)[0], json!(true));
    let done = world.run("clerk", resumes("t", "r2", answer)).await;
    assert_eq!(done.last().expect("events")["outcome"]["type"], "success", "{done:?}");
}

#[tokio::test]
async fn a_call_of_unknown_outcome_is_asked_about_in_words() {
    let world = World::of_cashier().await;
    let events = world.run("cashier", says("t", "r1", "Pay a.")).await;
    let [interrupt] = &interrupts(&events)[..] else { panic!("{events:?}") };
    let message = interrupt["message"].as_str().expect("a text");
    assert!(message.contains("It may have been made, with {\"line\":\"a\"}"), "{message}");
    let wrong = resumes("t", "r2", resolved(interrupt, json!("perhaps")));
    let refused = world.run("cashier", wrong).await;
    assert_eq!(error(&refused).0, "invalid_payload");
    let given = resumes("t", "r2", resolved(interrupt, json!("give_up")));
    let done = world.run("cashier", given).await;
    assert!(of(&done, "RUN_STARTED").len() == 1 && interrupts_of(&done).is_none(), "{done:?}");
}

/// The interrupts of a run, if it ended at some.
fn interrupts_of(events: &[Value]) -> Option<&Value> {
    events.last()?["outcome"].get("interrupts")
}

#[tokio::test]
async fn an_answer_needs_the_right_to_approve() {
    let world = World::new().await;
    let events = world.run("clerk", says("t", "r1", "Write a.")).await;
    let input = resumes("t", "r2", resolved(&interrupts(&events)[0], json!(true)));
    let refused = world.post(RUNNER, "/agui/clerk", &input).await;
    assert_eq!((refused.status, code_of(&refused)), (403, "forbidden".to_owned()));
    assert_eq!(world.post(ADA, "/agui/clerk", &input).await.status, 200);
}

/// A page that is loaded again at an interrupt has all that it needs to answer.
#[tokio::test]
async fn a_reload_at_an_interrupt_has_the_call_and_the_interrupt() {
    let world = World::new().await;
    let first = world.run("clerk", says("t", "r1", "Write a.")).await;
    let again = world.run("clerk", says_all("t", "r1", &[])).await;
    assert_eq!(interrupts(&again), interrupts(&first));
    let page = Page::of(&again);
    assert_eq!(page.shown()[0], "user: Write a.");
    assert_eq!(page.messages[1]["id"], interrupts(&again)[0]["toolCallId"]);
    let input = resumes("t", "r2", resolved(&interrupts(&again)[0], json!(true)));
    let done = world.run("clerk", input).await;
    // The page of a new client has the call from the messages.
    let mut other = Page::of(&done);
    let calls = |page: &Page| page.shown().iter().filter(|text| text.contains("calls")).count();
    assert_eq!(calls(&other), 1, "{other:?}");
    other.apply(&world.run("clerk", says_all("t", "r1", &[])).await);
    assert_eq!(calls(&other), 1, "{other:?}");
}
