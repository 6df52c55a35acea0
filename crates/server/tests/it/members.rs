//! Questions of members of a team have the name of the member, in chats and in the inbox.

use crate::chat::{chunks, user};
use crate::client::Client;
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork::agents::Supervisor;
use weftwork::models::{ChatEvent, FinishReason};
use weftwork::prelude::*;
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork_runtime::Runtime;

/// Refunds an order.
#[tool(effect = external_side_effect, example(request = "Refund order B7.", args = {"order": "B7"}))]
fn refund_order(order: String) -> String {
    format!("order {order} is refunded")
}

/// Returns the weather of a city.
#[tool(example(request = "What is the weather in Oslo?", args = {"city": "Oslo"}))]
fn get_weather(city: String) -> String {
    format!("{city} has 21 degrees and sun")
}

/// Greets a person.
#[tool(effect = external_side_effect, example(request = "Greet Anna.", args = {"name": "Anna"}))]
fn greet(name: String) -> String {
    format!("greeted {name}")
}

fn approval_of(tool: &str) -> Policy {
    Policy::new().ask_human(tool, "it is seen").expect("a pattern")
}

/// A team with a member whose call waits for approval, one that asks, and a tool of its own.
fn team() -> CompiledGraph {
    let model = || Arc::new(ScriptedModel::rules());
    let refunds = ReactAgent::new("refunds", model())
        .tools(ToolBox::new().with(refund_order))
        .policy(approval_of("refund_order"));
    let weather = ReactAgent::new("weather", model())
        .tools(ToolBox::new().with(get_weather).with_ask_human());
    Supervisor::new("team", model())
        .member(refunds.build().expect("sound"), "refunds an order")
        .member(weather.build().expect("sound"), "answers questions about the weather")
        .example("refunds", "Refund order B7.")
        .example("weather", "What is the weather in Oslo?")
        .tools(ToolBox::new().with(greet))
        .policy(approval_of("greet"))
        .build()
        .expect("sound")
}

/// The facts about questions in a list of parts.
fn questions(parts: &[Value]) -> Vec<&Value> {
    let facts = parts.iter().filter(|part| part["type"] == "data-question");
    facts.map(|part| &part["data"]).collect()
}

#[tokio::test]
async fn a_question_of_a_member_names_it() {
    let runtime = Runtime::in_memory().graph("team", team()).open().await.expect("opens");
    let client = Client::over(runtime);
    for (thread, text, member, answer) in [
        ("r", "Refund order A1.", json!("refunds"), json!({"type": "approve"})),
        ("w", "What is the weather?", json!("weather"), json!({"answer": "Rome"})),
        ("g", "Greet Bert.", json!(null), json!({"type": "approve"})),
    ] {
        let body = json!({"threadId": thread, "messages": [user(text)]});
        let streamed = chunks(&client.post("/chat/team", body).await);
        let [asked] = questions(&streamed)[..] else { panic!("{text}: {streamed:?}") };
        assert_eq!(asked["graph"], member, "{text}: {asked}");
        let stored = client.get(&format!("/chat/team/{thread}")).await.json();
        let parts = stored[1]["parts"].as_array().expect("parts");
        assert_eq!(questions(parts), [asked]);
        let open = client.get("/interrupts").await.json();
        let [row] = &open.as_array().expect("a list")[..] else { panic!("{text}: {open}") };
        assert_eq!((&row["agent"], &row["graph"]), (&json!("team"), &member), "{text}: {row}");
        let of_thread = async |id: &str| client.get(&format!("/interrupts?thread_id={id}")).await;
        let mine = of_thread(thread).await.json();
        assert_eq!(
            (mine.as_array().map(Vec::len), &mine[0]["id"]),
            (Some(1), &row["id"]),
            "{mine}"
        );
        assert_eq!(of_thread("another").await.status, 404, "{text}");
        let address = format!("/interrupts/{}/respond", row["id"].as_str().expect("an id"));
        let answered = client.post(&address, answer).await;
        assert_eq!(answered.status, 202, "{text}: {}", answered.body);
        let path = format!("/interrupts?answered=true&thread_id={thread}");
        let answered = client.get(&path).await.json();
        assert_eq!(answered[0]["graph"], member, "{text}: {answered}");
        client.get(&format!("/chat/team/{thread}/stream")).await;
    }
}

/// A member whose model makes one call with the id `call_1`.
fn member(name: &str, tool: &str, args: Value, tools: ToolBox, policy: Policy) -> CompiledGraph {
    let called = ChatEvent::ToolCallDelta {
        index: 0,
        id: Some("call_1".to_owned()),
        name: Some(tool.to_owned()),
        args: args.to_string(),
    };
    let finish = ChatEvent::Finish { reason: FinishReason::ToolCalls, provider_call_id: None };
    let says = ChatEvent::TextDelta(format!("{name} has a look."));
    let asks = Step::events([says, called, finish].map(Ok).to_vec());
    let steps = vec![asks, Step::text(format!("{name} is done."))];
    let agent = ReactAgent::new(name, Arc::new(ScriptedModel::from_steps(steps)));
    agent.tools(tools).policy(policy).build().expect("sound")
}

/// A team of two members that work at the same time.
fn pair(first: CompiledGraph, second: CompiledGraph) -> CompiledGraph {
    let hand_off = |graph: &CompiledGraph| (format!("transfer_to_{}", graph.name()), json!({}));
    let calls = vec![hand_off(&first), hand_off(&second)];
    let steps = vec![Step::calls(calls), Step::text("Both are done.")];
    let team = Supervisor::new("pair", Arc::new(ScriptedModel::from_steps(steps)));
    team.member(first, "one").member(second, "other").build().expect("sound")
}

/// Two members that call the same tool with one id, each with its own arguments.
fn greeters() -> CompiledGraph {
    let greeter = |name: &str, person: &str| {
        let args = json!({"name": person});
        member(name, "greet", args, ToolBox::new().with(greet), approval_of("greet"))
    };
    pair(greeter("anna", "Anna"), greeter("bert", "Bert"))
}

/// Two members whose models ask with one id.
fn askers() -> CompiledGraph {
    let asker = |name: &str| {
        let args = json!({"question": format!("What does {name} need?")});
        member(name, "ask_human", args, ToolBox::new().with_ask_human(), Policy::new())
    };
    pair(asker("anna"), asker("bert"))
}

async fn pairs() -> Client {
    let runtime = Runtime::in_memory().graph("greeters", greeters()).graph("askers", askers());
    Client::over(runtime.open().await.expect("opens"))
}

/// The calls of tools in a message: id, input, and output.
fn calls_of(message: &Value, tool: &str) -> Vec<(String, Value, Value)> {
    let kind = format!("tool-{tool}");
    let parts = message["parts"].as_array().expect("parts").iter();
    let calls = parts.filter(|part| part["type"] == kind);
    calls
        .map(|part| {
            let id = part["toolCallId"].as_str().expect("an id").to_owned();
            (id, part["input"].clone(), part["output"].clone())
        })
        .collect()
}

async fn stored(client: &Client, agent: &str, thread: &str) -> Value {
    client.get(&format!("/chat/{agent}/{thread}")).await.json()[1].clone()
}

/// The calls of a response in the order in which they began: id and input.
fn live_calls(chunks: &[Value], tool: &str) -> Vec<(String, Value)> {
    let ready = chunks.iter().filter(|chunk| chunk["type"] == "tool-input-available");
    let of_tool = ready.filter(|chunk| chunk["toolName"] == tool);
    of_tool
        .map(|chunk| {
            (chunk["toolCallId"].as_str().expect("an id").to_owned(), chunk["input"].clone())
        })
        .collect()
}

#[tokio::test]
async fn approvals_of_members_with_one_id_of_a_call_name_their_own_call() {
    let client = pairs().await;
    let body = json!({"threadId": "t", "messages": [user("Greet both.")]});
    let live = chunks(&client.post("/chat/greeters", body).await);
    let calls = live_calls(&live, "greet");
    assert_eq!(calls.len(), 2, "{live:?}");
    assert_ne!(calls[0].0, calls[1].0);
    let cards = live_calls(&live, "request_approval");
    assert_eq!(cards.len(), 2);
    for (_, card) in &cards {
        let named = calls.iter().find(|(id, _)| card["toolCallId"] == *id).expect("its call");
        assert_eq!(card["args"], named.1, "{card}");
    }
    // After a reload the same calls wait, with the same ids.
    let before = stored(&client, "greeters", "t").await;
    for (id, input) in &calls {
        let reloaded = calls_of(&before, "greet");
        let same = reloaded.iter().find(|call| call.0 == *id).unwrap_or_else(|| panic!("{before}"));
        assert_eq!(&same.1, input);
    }
    // So do the texts of their messages.
    let text: String = before["parts"]
        .as_array()
        .expect("parts")
        .iter()
        .filter_map(|part| part["text"].as_str())
        .collect();
    assert!(text.contains("anna has a look.") && text.contains("bert has a look."), "{text}");
    assert_eq!(text.matches("has a look").count(), 2, "{text}");
    let waits = before["parts"].as_array().expect("parts").iter();
    let waits: Vec<_> = waits.filter(|part| part["type"] == "tool-greet").collect();
    assert!(waits.iter().all(|part| part["state"] == "approval-requested"), "{before}");

    // The AI SDK sends the message with its decisions: one call is approved, the other is not.
    let mut message = before.clone();
    for part in message["parts"].as_array_mut().expect("parts") {
        if part["state"] == "approval-requested" {
            let approved = part["input"].to_string().contains("Anna");
            part["state"] = json!("approval-responded");
            part["approval"]["approved"] = json!(approved);
        }
    }
    let body = json!({"id": "t", "messages": [user("Greet both."), message]});
    let live = chunks(&client.post("/chat/greeters", body).await);
    let new = live_calls(&live, "greet");
    assert_eq!(new, [], "a result has no part of its own");
    let results = live.iter().filter(|chunk| chunk["type"] == "tool-output-available");
    let outputs: Vec<_> = results.map(|chunk| (&chunk["toolCallId"], &chunk["output"])).collect();
    let of = |person: &str| {
        let call = calls.iter().find(|(_, input)| input["name"] == person);
        json!(call.expect("a call").0)
    };
    let anna = outputs.iter().find(|(id, _)| **id == of("Anna")).expect("a result");
    assert_eq!(anna.1, "greeted Anna");
    assert!(!outputs.iter().any(|(id, _)| **id == of("Bert")), "{outputs:?}");
    let refused = live
        .iter()
        .any(|chunk| chunk["type"] == "tool-output-error" && chunk["toolCallId"] == of("Bert"));
    assert!(refused, "{live:?}");
    let after = stored(&client, "greeters", "t").await;
    let ids = |calls: Vec<(String, Value, Value)>| {
        calls.into_iter().map(|call| call.0).collect::<Vec<_>>()
    };
    assert_eq!(ids(calls_of(&after, "greet")), ids(calls_of(&before, "greet")));
}

#[tokio::test]
async fn answers_to_questions_of_members_with_one_id_reach_their_own_question() {
    for protocol in ["ui-message-stream", "data-stream"] {
        let client = pairs().await;
        let path = format!("/chat/askers?protocol={protocol}");
        let body = json!({"threadId": "t", "messages": [user("Ask both.")]});
        let said = client.post(&path, body).await;
        assert!(!said.cut, "{}", said.body);
        let cards = calls_of(&stored(&client, "askers", "t").await, "ask_human");
        assert_eq!(cards.len(), 2, "{cards:?}");
        assert!(cards.iter().all(|(id, ..)| said.body.contains(&format!("\"{id}\""))), "{cards:?}");
        let facts = stored(&client, "askers", "t").await;
        let facts = questions(facts["parts"].as_array().expect("parts")).into_iter();
        let named: Vec<_> = facts.map(|fact| fact["toolCallId"].clone()).collect();
        assert_eq!(named, cards.iter().map(|card| json!(card.0)).collect::<Vec<_>>());
        // Both are answered, as the clients of the format send it.
        let answer = |input: &Value| {
            let of_anna = input["question"].as_str().expect("a text").contains("anna");
            if of_anna { "tea" } else { "cake" }
        };
        let body = match protocol {
            "data-stream" => {
                let results = cards.iter().map(|(id, input, _)| {
                    json!({
                        "type": "tool-result", "toolCallId": id, "toolName": "ask_human",
                        "output": {"type": "json", "value": {"answer": answer(input)}},
                    })
                });
                let results: Vec<_> = results.collect();
                json!({"threadId": "t", "messages": [user("Ask both."), {"role": "tool", "content": results}]})
            }
            _ => {
                let mut message = stored(&client, "askers", "t").await;
                for part in message["parts"].as_array_mut().expect("parts") {
                    if part["type"] == "tool-ask_human" {
                        part["output"] = json!(answer(&part["input"]));
                        part["state"] = json!("output-available");
                    }
                }
                json!({"id": "t", "messages": [user("Ask both."), message]})
            }
        };
        let answered = client.post(&path, body).await;
        assert!(!answered.cut && answered.status == 200, "{}", answered.body);
        let given = client.get("/interrupts?answered=true&thread_id=t").await.json();
        let given = given.as_array().expect("a list");
        let of = |member: &str| {
            let row = given.iter().find(|row| row["graph"] == member);
            row.unwrap_or_else(|| panic!("{given:?}"))["answer"].clone()
        };
        assert_eq!((of("anna"), of("bert")), (json!("tea"), json!("cake")), "{protocol}");
        let after = calls_of(&stored(&client, "askers", "t").await, "ask_human");
        let outputs =
            after.iter().map(|(id, input, output)| (id.clone(), input.clone(), output.clone()));
        for (id, input, output) in outputs {
            assert_eq!(output, answer(&input), "{id}");
            assert!(cards.iter().any(|card| card.0 == id), "{id}");
        }
    }
}

#[tokio::test]
async fn one_answer_without_an_id_is_refused_while_members_ask_several_questions() {
    let client = pairs().await;
    let thread = client.thread().await;
    let input = json!({"messages": [{"role": "user", "content": "Ask both."}]});
    let run = json!({"assistant_id": "askers", "input": input});
    client.post(&format!("{thread}/runs/wait"), run).await.json();
    let resume = json!({"assistant_id": "askers", "command": {"resume": "tea"}});
    let refused = client.post(&format!("{thread}/runs/wait"), resume).await;
    assert!(refused.status.is_client_error(), "{}: {}", refused.status, refused.body);
    let state = client.get(&format!("{thread}/state")).await.json();
    assert_eq!(state["interrupts"].as_array().map(Vec::len), Some(2), "{state}");
}

/// Some models give two calls of one answer the same id.
#[tokio::test]
async fn two_calls_of_one_answer_with_one_id_are_two_calls() {
    let called = |index, city: &str| ChatEvent::ToolCallDelta {
        index,
        id: Some("call_1".to_owned()),
        name: Some("get_weather".to_owned()),
        args: json!({"city": city}).to_string(),
    };
    let finish = ChatEvent::Finish { reason: FinishReason::ToolCalls, provider_call_id: None };
    let both = [called(0, "Oslo"), called(1, "Rome"), finish].map(Ok).to_vec();
    let steps = vec![Step::events(both), Step::text("Both have sun.")];
    let agent = ReactAgent::new("twice", Arc::new(ScriptedModel::from_steps(steps)));
    let agent = agent.tools(ToolBox::new().with(get_weather)).build().expect("sound");
    let runtime = Runtime::in_memory().graph("twice", agent).open().await.expect("opens");
    let client = Client::over(runtime);
    let body = json!({"threadId": "t", "messages": [user("Weather of both?")]});
    let live = chunks(&client.post("/chat/twice", body).await);
    let outputs = live.iter().filter(|chunk| chunk["type"] == "tool-output-available").count();
    assert_eq!(outputs, 2, "{live:#?}");
    let after = calls_of(&stored(&client, "twice", "t").await, "get_weather");
    for (_, input, output) in &after {
        let city = input["city"].as_str().expect("a text");
        assert_eq!(output, &json!(format!("{city} has 21 degrees and sun")), "{after:?}");
    }
    assert_eq!(after.len(), 2, "{after:?}");
}
