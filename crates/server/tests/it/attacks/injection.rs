//! Line breaks and fields of formats in what models, tools and people write.

use crate::client::{Answer, Client};
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork::prelude::*;
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;

/// A text that has the frames of each format in it.
const HOSTILE: &str = "x\n\nevent: error\ndata: {\"type\":\"abort\"}\nid: 9-9\r\n\r\revent: end\n\
                       data: [DONE]\n\nd:{\"finishReason\":\"stop\"}\n3:\"boom\"\n\u{2028}: x\0";

/// Returns a text.
#[tool]
fn repeat(text: String) -> String {
    text
}

/// A client of an agent whose model calls the tool with the text, and says it.
async fn client() -> Client {
    let call = Step::call("repeat", json!({"text": HOSTILE}));
    let model = ScriptedModel::from_steps(vec![call, Step::text(HOSTILE)]);
    let agent = ReactAgent::new("parrot", Arc::new(model)).tools(ToolBox::new().with(repeat));
    let runtime = Runtime::in_memory().graph("parrot", agent.build().expect("sound")).open().await;
    Client::over(runtime.expect("opens"))
}

async fn say(protocol: &str) -> Answer {
    let body = json!({"threadId": HOSTILE.len().to_string(),
        "messages": [{"role": "user", "content": HOSTILE}]});
    client().await.post(&format!("/chat/parrot?protocol={protocol}"), body).await
}

#[tokio::test]
async fn s22_texts_make_no_frames_of_the_ui_message_stream() {
    let answer = say("ui-message-stream").await;
    let mut frames: Vec<&str> = answer.body.split("\n\n").collect();
    assert_eq!(frames.split_off(frames.len() - 2), ["data: [DONE]", ""]);
    let chunk = |frame: &&str| -> Value {
        let data = frame.strip_prefix("data: ").unwrap_or_else(|| panic!("{frame:?}"));
        serde_json::from_str(data).expect("JSON")
    };
    let chunks: Vec<Value> = frames.iter().map(chunk).collect();
    let of = |kind: &str| chunks.iter().filter(|chunk| chunk["type"] == kind).collect::<Vec<_>>();
    assert!(of("abort").is_empty() && of("error").is_empty(), "{chunks:?}");
    assert_eq!(of("finish").len(), 1);
    let said: String =
        of("text-delta").iter().filter_map(|chunk| chunk["delta"].as_str()).collect();
    assert_eq!(said, HOSTILE);
    assert_eq!(of("tool-output-available")[0]["output"], HOSTILE);
}

#[tokio::test]
async fn s22_texts_make_no_lines_of_the_data_stream() {
    let answer = say("data-stream").await;
    let line = |line: &str| -> (String, Value) {
        let (code, json) = line.split_once(':').unwrap_or_else(|| panic!("{line:?}"));
        (code.to_owned(), serde_json::from_str(json).expect("JSON"))
    };
    let lines: Vec<_> = answer.body.split_terminator('\n').map(line).collect();
    let of = |code: &str| lines.iter().filter(|line| line.0 == code).collect::<Vec<_>>();
    assert_eq!((of("d").len(), of("3").len()), (1, 0), "{lines:?}");
    let said: String = of("0").iter().filter_map(|line| line.1.as_str()).collect();
    assert_eq!(said, HOSTILE);
    assert_eq!(of("a")[0].1["result"], HOSTILE);
}

#[tokio::test]
async fn s22_texts_make_no_events_of_threads() {
    let client = client().await;
    let thread = uuid::Uuid::new_v4();
    let input = json!({"messages": [{"type": "human", "content": HOSTILE}]});
    let start = json!({"id": 1, "method": "run.start",
        "params": {"assistant_id": "parrot", "input": input}});
    let started = client.post(&format!("/threads/{thread}/commands"), start).await.json();
    let run = started["result"]["run_id"].as_str().expect("an id");
    client.get(&format!("/threads/{thread}/runs/{run}/join")).await.json();
    let filter = json!({"channels": ["messages", "tools", "values", "lifecycle"], "since": 0});
    let mut events =
        crate::protocol::Events::open(&client, &thread.to_string(), filter).await.run().await;
    let last = events.pop().expect("an end");
    assert_eq!(last["params"]["data"]["event"], "completed");
    let data = events.iter().map(|event| &event["params"]["data"]);
    let said = data.clone().filter(|data| data["event"] == "content-block-finish");
    let said: String = said.filter_map(|data| data["content"]["text"].as_str()).collect();
    assert_eq!(said, HOSTILE, "{events:?}");
    let output = data.clone().find(|data| data["event"] == "tool-finished").expect("an output");
    assert_eq!(output["output"]["content"], HOSTILE);
}
