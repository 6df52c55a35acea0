//! Tests that need the published weights.

use crate::chat::{hear, said, tool};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use weftwork_local::chat::{LocalModel, Settings};
use weftwork_local::engine::Engine;
use weftwork_local::weights;
use weftwork_models::{ChatRequest, FinishReason};
use weftwork_types::message::{Message, Part, Role, ToolCall, ToolResult};
use weftwork_types::tool::{Effect, ToolSpec};
use weftwork_types::{MessageId, ToolCallId};

/// The model file, if this machine has it; says so if not.
#[expect(clippy::print_stdout, reason = "the suite counts what was skipped from this line")]
fn weights_for(test: &str) -> Option<PathBuf> {
    let named = std::env::var_os("WEFT_TEST_MODEL").map(PathBuf::from);
    let cached = || {
        let directory = weights::directory(|name| std::env::var_os(name)).ok()?;
        Some(weights::find(weights::DEFAULT).ok()?.path_in(&directory))
    };
    let file = named.or_else(cached).filter(|file| file.exists());
    if file.is_none() {
        println!("SKIPPED(no-weights): {test}");
    }
    file
}

#[derive(Deserialize)]
struct Golden {
    text: String,
    tokens: Vec<u32>,
}

#[test]
fn tokens_are_those_of_the_reference() {
    let Some(file) = weights_for("tokens_are_those_of_the_reference") else { return };
    let engine = Engine::open(&file, None).expect("the model");
    // Made with the `tokenizers` library from the same tables; llama.cpp agrees on every line.
    for line in include_str!("../golden/tokens.jsonl").lines() {
        let golden: Golden = serde_json::from_str(line).expect("json");
        assert_eq!(engine.encode(&golden.text), golden.tokens, "{:?}", golden.text);
        assert_eq!(engine.decode(&golden.tokens), golden.text);
    }
}

#[test]
fn likelihoods_are_near_the_reference() {
    let Some(file) = weights_for("likelihoods_are_near_the_reference") else { return };
    let known = weights::find(weights::DEFAULT).expect("known");
    let engine = Engine::open(&file, Some(known.expected())).expect("the model");
    let mark = |name| engine.mark(name).expect("a mark");
    let start = mark("<|im_start|>");
    let end = mark("<|im_end|>");
    let turn =
        |text: &str| [vec![start], engine.encode(text), vec![end], engine.encode("\n")].concat();
    let system = "system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face";
    let question = "user\nWhat is the capital of France? Tell me a bit about it.";
    let mut prompt = [turn(system), turn(question), vec![start]].concat();
    prompt.extend(engine.encode("assistant\nThe"));
    let lead = prompt.pop().expect("a token");
    let mut prefixes = engine.read_prefixes(vec![prompt]);
    let text = engine.encode(" capital of France is Paris");
    let score = engine.likelihoods(&mut prefixes, &[(0, lead)], &text)[0];
    // llama.cpp on the same file, with 8-bit activations: -0.203.
    assert!((score + 0.203).abs() < 0.05, "{score}");
}

fn desk() -> Vec<ToolSpec> {
    let id = json!({"type": "string"});
    let order = json!({"type": "object", "properties": {"order_id": id}, "required": ["order_id"]});
    let refund = json!({
        "type": "object",
        "properties": {"order_id": id, "amount": {"type": "number"}},
        "required": ["order_id", "amount"],
    });
    let city = json!({"type": "object", "properties": {"city": id}, "required": ["city"]});
    let pair = json!({
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    });
    let described = |spec: ToolSpec, description: &str, effect| ToolSpec {
        description: description.to_owned(),
        effect,
        ..spec
    };
    vec![
        described(
            tool("lookup_order", order, ("Where is my order B2040?", json!({"order_id": "B2040"}))),
            "Finds an order by its id and tells where it is.",
            Effect::ReadOnly,
        ),
        described(
            tool("get_weather", city, ("What is the weather in Lima?", json!({"city": "Lima"}))),
            "Tells the weather in a city.",
            Effect::ReadOnly,
        ),
        described(
            tool("multiply", pair, ("What is 6 times 7?", json!({"a": 6, "b": 7}))),
            "Multiplies two numbers.",
            Effect::ReadOnly,
        ),
        described(
            tool(
                "refund_order",
                refund,
                ("Refund 12 for order C310.", json!({"order_id": "C310", "amount": 12})),
            ),
            "Refunds money for an order.",
            Effect::ExternalSideEffect,
        ),
    ]
}

/// A request of the story: its text, the expected call, the tool's result, and the words that the
/// last answer must mention.
struct Scene {
    says: &'static str,
    call: (&'static str, Value),
    result: (Value, bool),
    mentions: &'static [&'static str],
}

fn scenes() -> [Scene; 5] {
    [
        Scene {
            says: "Where is order A1001?",
            call: ("lookup_order", json!({"order_id": "A1001"})),
            result: (
                json!({"order_id": "A1001", "item": "blue teapot", "status": "shipped", "amount": 25}),
                false,
            ),
            mentions: &["A1001", "shipped"],
        },
        Scene {
            says: "Refund order A1001, amount 25",
            call: ("refund_order", json!({"order_id": "A1001", "amount": 25})),
            result: (json!({"order_id": "A1001", "refunded": 25}), false),
            mentions: &["A1001", "25", "refunded"],
        },
        Scene {
            says: "Refund order A1002, amount 40",
            call: ("refund_order", json!({"order_id": "A1002", "amount": 40})),
            result: (
                json!({"error_code": "policy_denied", "safe_message": "a person refused this call"}),
                true,
            ),
            mentions: &["refused"],
        },
        Scene {
            says: "What is the weather in Oslo?",
            call: ("get_weather", json!({"city": "Oslo"})),
            result: (json!({"city": "Oslo", "sky": "light rain", "celsius": 7}), false),
            mentions: &["Oslo", "rain"],
        },
        Scene {
            says: "What is 17 times 23?",
            call: ("multiply", json!({"a": 17, "b": 23})),
            result: (json!(391), false),
            mentions: &["391"],
        },
    ]
}

#[tokio::test]
async fn the_order_desk_works() {
    let Some(file) = weights_for("the_order_desk_works") else { return };
    let snapshots = tempfile::tempdir().expect("directory");
    let settings = Settings { file, expected: None, snapshots: Some(snapshots.path().to_owned()) };
    let model = LocalModel::open(settings).expect("the model");
    let mut messages = vec![said(Role::System, "s", "You are the order desk.")];
    let ask = |messages: &[Message]| ChatRequest {
        messages: messages.to_vec(),
        tools: desk(),
        ..ChatRequest::default()
    };
    for (id, says) in [("hello", "Hello!"), ("what", "What can you do?")] {
        messages.push(said(Role::User, id, says));
        let told = hear(&model, ask(&messages)).await.expect("an answer");
        assert!(told.name.is_empty(), "{told:?}");
        let says_so = told.text.contains("lookup order") && told.text.contains("a larger model");
        assert!(says_so, "{told:?}");
        messages.push(said(Role::Assistant, &format!("{id}-told"), &told.text));
    }
    for (n, scene) in scenes().into_iter().enumerate() {
        messages.push(said(Role::User, &format!("u{n}"), scene.says));
        let called = hear(&model, ask(&messages)).await.expect("a call");
        let args: Value = serde_json::from_str(&called.args).expect("json");
        assert_eq!((called.name.as_str(), args.clone()), scene.call, "{}", scene.says);
        assert_eq!(called.reason, Some(FinishReason::ToolCalls));
        let id = ToolCallId::new(&called.id).expect("id");
        let call = ToolCall { id: id.clone(), name: called.name.clone(), args, shown: None };
        let message_id = |kind: &str| MessageId::new(format!("{kind}{n}")).expect("id");
        let parts = vec![Part::ToolCall(call)];
        messages.push(Message::new(message_id("a"), Role::Assistant, parts));
        let (value, is_error) = scene.result;
        let result =
            ToolResult { tool_call_id: id, name: called.name, value, shown: None, is_error };
        messages.push(Message::tool_result(message_id("t"), result));
        let told = hear(&model, ask(&messages)).await.expect("an answer");
        for word in scene.mentions {
            assert!(told.text.contains(word), "{}: {}", scene.says, told.text);
        }
        messages.push(said(Role::Assistant, &format!("z{n}"), &told.text));
    }
}
