//! Two organisations, and two subjects of one, on every route: own, other's and missing.

use crate::page::Page;
use crate::world::{ADA, Answer, BOB, EVE, READER, World, code_of, events_of, resumes, says};
use serde_json::{Value, json};

/// Returns an answer without what names the request.
fn comparable(answer: &Answer, id: &str) -> (u16, String) {
    (answer.status, answer.body.replace(id, "ID"))
}

#[tokio::test]
async fn another_ones_conversations_runs_and_interrupts_are_missing() {
    let world = World::new().await;
    world.run("golf", says("talk", "r1", "A secret of Ada.")).await;
    let waiting = world.run("clerk", says("desk", "r1", "Write a.")).await;
    let interrupt = waiting.last().expect("events")["outcome"]["interrupts"][0]["id"].clone();
    let interrupt = interrupt.as_str().expect("an id");
    let nobody = "00000000000000000000000000000001";
    let send = async |who: &str, path: &str, body: &Value, id: &str| {
        comparable(&world.post(who, path, body).await, id)
    };
    for who in [BOB, EVE] {
        let cancel = |thread: &str| json!({"threadId": thread, "runId": "r1"});
        let path = "/agui/golf/cancel";
        let missing = send(who, path, &cancel("none"), "none").await;
        assert_eq!(missing.0, 404);
        assert_eq!(send(who, path, &cancel("talk"), "talk").await, missing, "{who}");
        let answer = |thread: &str, id: &str| {
            let entry = json!({"interruptId": id, "status": "resolved", "payload": true});
            resumes(thread, "r2", json!([entry]))
        };
        let path = "/agui/clerk";
        let missing = send(who, path, &answer("desk", nobody), nobody).await;
        assert!(missing.1.contains("no open interrupt"), "{missing:?}");
        assert_eq!(send(who, path, &answer("desk", interrupt), interrupt).await, missing, "{who}");
        // A conversation with the same id is their own.
        let own = world.post(who, "/agui/golf", &says("talk", "r1", "Mine.")).await;
        assert!(!own.body.contains("secret"), "{}", own.body);
        assert_eq!(Page::of(&events_of(&own)).shown(), ["assistant: 1: Mine."]);
    }
    let mine = world.run("golf", says("talk", "r1", "A secret of Ada.")).await;
    assert!(Page::of(&mine).shown()[1].contains("A secret of Ada."));
}

#[tokio::test]
async fn an_agent_that_is_hidden_another_ones_or_missing_answers_the_same_bytes() {
    let world = World::new().await;
    for path in ["/agui/AGENT", "/agui/AGENT/cancel"] {
        for body in [says("t", "r", "Hi."), json!({}), json!([])] {
            let send = async |who: &str, agent: &str| {
                comparable(&world.post(who, &path.replace("AGENT", agent), &body).await, agent)
            };
            let missing = send(BOB, "nothing").await;
            assert_eq!(missing.0, 404);
            assert!(missing.1.contains("agent_not_found"), "{missing:?}");
            for agent in ["hidden", "own", "golf:build"] {
                assert_eq!(send(BOB, agent).await, missing, "{path} {agent}");
            }
        }
    }
    assert_eq!(world.post(ADA, "/agui/own", &says("t", "r", "Hi.")).await.status, 200);
    world.desk.expose(None, "golf", false).await;
    let gone = world.post(ADA, "/agui/golf", &says("t", "r", "Hi.")).await;
    assert_eq!((gone.status, code_of(&gone)), (404, "agent_not_found".to_owned()));
}

#[tokio::test]
async fn errors_of_the_guard_have_the_form_of_the_protocol() {
    let world = World::new().await;
    let input = says("t", "r", "Hi.");
    let wrong = world.post("token-of-nobody-here", "/agui/golf", &input).await;
    assert_eq!((wrong.status, code_of(&wrong)), (401, "unauthorized".to_owned()));
    assert_eq!(wrong.headers["www-authenticate"], "Bearer");
    let lacking = world.post(READER, "/agui/golf", &input).await;
    assert_eq!((lacking.status, code_of(&lacking)), (403, "forbidden".to_owned()));
    let method = world.get(ADA, "/agui/golf").await;
    assert_eq!((method.status, method.headers["allow"].to_str().ok()), (405, Some("POST")));
    let form = [("content-type", "text/plain")];
    let form = world.send_with(ADA, "POST /agui/golf", &form, "{}").await;
    assert_eq!((form.status, code_of(&form)), (415, "invalid_input".to_owned()));
}
