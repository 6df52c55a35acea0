//! Servers that are killed with SIGKILL while a client streams a run of AG-UI.

use crate::home::Home;
use crate::killed_responses::{KILLS, Place, read_until, reply, serve};
use serde_json::{Value, json};
use std::fs;
use weftwork_testkit::LoopbackServer;

const RUN: &str = "POST /agui/golf";
const FINISHED: &str = "\"type\":\"RUN_FINISHED\"";

/// The events of a stream, as far as they are whole.
fn events(stream: &str) -> Vec<Value> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

/// The text of the message of the agent, as a page has it after the events.
fn text(events: &[Value]) -> String {
    let mut text = String::new();
    for event in events {
        match event["type"].as_str() {
            // A snapshot of the begin has no message that is being produced.
            Some("MESSAGES_SNAPSHOT") => text.clear(),
            Some("TEXT_MESSAGE_CONTENT") => text.push_str(event["delta"].as_str().expect("a text")),
            _ => {}
        }
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_followed_after_its_server_was_killed_and_nothing_is_made_twice() {
    for number in 0..KILLS {
        let place = if number % 3 == 2 { Place::After } else { Place::During };
        let model = LoopbackServer::start(move |number, _| reply(place, number)).await;
        let model = model.expect("a server");
        tokio::task::block_in_place(|| {
            let home = Home::new().provider(&model.url("/v1"));
            fs::create_dir_all(home.path("agents/golf")).expect("is made");
            fs::write(home.path("agents/golf/agent.yaml"), "type: context\n").expect("is written");
            let came = home.weft(&["agents", "expose", "golf", "--agui"]);
            assert_eq!(came.status, Some(0), "{came:?}");
            let served = serve(&home);
            let said = json!([{"id": "m", "role": "user", "content": "Hello"}]);
            let body = json!({"threadId": "t", "runId": "r", "messages": said});
            let last = match place {
                Place::During => "TEXT_MESSAGE_CONTENT",
                Place::After => FINISHED,
            };
            let mut page = events(&read_until(&served, RUN, &body, last));
            served.kill();

            let served = serve(&home);
            let again = events(&read_until(&served, RUN, &body, FINISHED));
            let calls = model.received().len();
            assert_eq!(calls, if place == Place::During { 2 } else { 1 }, "{place:?}");
            let expected = format!("Answer {}.", calls - 1);
            assert_eq!(again.first().map(|event| &event["type"]), Some(&json!("RUN_STARTED")));
            assert_eq!(
                again.last().map(|event| &event["result"]),
                Some(&json!(expected)),
                "{again:?}"
            );
            page.extend(again.iter().cloned());
            assert_eq!(text(&page), expected, "{page:?}");
            let third = events(&read_until(&served, RUN, &body, FINISHED));
            assert_eq!(
                (text(&third), third.last()),
                (expected, again.last()),
                "each reader gets the same"
            );
            assert_eq!(model.received().len(), calls, "nothing is asked again");
        });
    }
}
