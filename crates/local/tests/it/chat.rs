use crate::tiny::{self, Recipe};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_local::chat::{LocalModel, Settings};
use weftwork_models::{ChatEvent, ChatModel, ChatRequest, FinishReason, ModelError, ToolChoice};
use weftwork_types::message::{Message, Part, Role, ToolCall, ToolResult};
use weftwork_types::tool::{Effect, ToolExample, ToolSpec, UnknownOutcome};
use weftwork_types::{MessageId, ToolCallId};

/// A model with random weights.
fn model(recipe: &Recipe) -> LocalModel {
    let (directory, file) = tiny::model(recipe);
    let snapshots = Some(directory.path().join("snapshots"));
    LocalModel::open(Settings { file, expected: None, snapshots }).expect("a model")
}

pub(crate) fn tool(name: &str, parameters: Value, example: (&str, Value)) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: format!("Does {name}."),
        parameters,
        output: None,
        effect: Effect::ReadOnly,
        on_unknown: UnknownOutcome::Idempotent,
        shown: None,
        examples: vec![ToolExample { request: example.0.to_owned(), args: example.1 }],
    }
}

fn weather() -> ToolSpec {
    let parameters =
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    tool("demo/weather", parameters, ("Weather in Lima?", json!({"city": "Lima"})))
}

fn multiply() -> ToolSpec {
    let parameters = json!({
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    });
    tool("multiply", parameters, ("What is 3 times 4?", json!({"a": 3, "b": 4})))
}

pub(crate) fn said(role: Role, id: &str, text: &str) -> Message {
    Message::text(MessageId::new(id).expect("id"), role, text)
}

fn request(text: &str, tool_choice: ToolChoice) -> ChatRequest {
    ChatRequest {
        messages: vec![said(Role::User, "u1", text)],
        tools: vec![weather(), multiply()],
        tool_choice,
        max_tokens: Some(20),
        ..ChatRequest::default()
    }
}

/// A whole answer, put together.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) text: String,
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) args: String,
    pub(crate) tokens: (u64, u64),
    pub(crate) reason: Option<FinishReason>,
}

pub(crate) async fn hear(model: &LocalModel, request: ChatRequest) -> Result<Heard, ModelError> {
    let mut stream = model.stream(Arc::new(request));
    let mut heard = Heard::default();
    while let Some(event) = stream.next().await {
        assert_eq!(heard.reason, None, "nothing follows the end");
        match event? {
            ChatEvent::TextDelta(text) => heard.text.push_str(&text),
            ChatEvent::ToolCallDelta { index, id, name, args } => {
                assert_eq!(index, 0);
                heard.id.extend(id);
                heard.name.extend(name);
                heard.args.push_str(&args);
            }
            ChatEvent::Usage(tokens) => {
                assert!(!tokens.estimated);
                heard.tokens = (tokens.input, tokens.output);
            }
            ChatEvent::Finish { reason, .. } => heard.reason = Some(reason),
            other => panic!("{other:?}"),
        }
    }
    Ok(heard)
}

#[tokio::test]
async fn a_tool_call_is_valid_json_in_pieces() {
    let model = model(&Recipe::default());
    assert_eq!(model.info().id(), "local:tiny");
    let heard = hear(&model, request("Rain in Oslo today?", ToolChoice::Required)).await;
    let heard = heard.expect("an answer");
    assert_eq!(
        (heard.name.as_str(), heard.reason),
        ("demo__weather", Some(FinishReason::ToolCalls))
    );
    let args: Value = serde_json::from_str(&heard.args).expect("json");
    let city = args["city"].as_str().expect("a city");
    assert!("Rain in Oslo today?".contains(city), "copied from the request: {city}");
    assert!(heard.id.starts_with("call_") && heard.text.is_empty());
    assert!(heard.tokens.0 > 10 && heard.tokens.1 > 3, "{:?}", heard.tokens);
}

#[tokio::test]
async fn a_named_tool_is_the_one_that_is_called() {
    let model = model(&Recipe::default());
    let named = ToolChoice::Named("multiply".to_owned());
    let heard = hear(&model, request("12 by 30, please", named)).await.expect("an answer");
    assert_eq!(heard.name, "multiply");
    let args: Value = serde_json::from_str(&heard.args).expect("json");
    for key in ["a", "b"] {
        assert!([json!(12), json!(30)].contains(&args[key]), "{args}");
    }
}

#[tokio::test]
async fn without_tools_and_after_results_it_speaks() {
    let model = model(&Recipe::default());
    let plain = hear(&model, request("Hello", ToolChoice::None)).await.expect("an answer");
    assert!(plain.name.is_empty() && plain.reason.is_some());
    let mut after = request("Rain in Oslo?", ToolChoice::Auto);
    let id = ToolCallId::new("call_1").expect("id");
    let call = ToolCall { id: id.clone(), name: "demo__weather".to_owned(), args: json!({}) };
    let asked = MessageId::new("a1").expect("id");
    after.messages.push(Message {
        id: asked,
        role: Role::Assistant,
        parts: vec![Part::ToolCall(call)],
    });
    let value = json!({"sky": "clear"});
    let result =
        ToolResult { tool_call_id: id, name: "demo__weather".to_owned(), value, is_error: false };
    after.messages.push(Message::tool_result(MessageId::new("t1").expect("id"), result));
    let heard = hear(&model, after).await.expect("an answer");
    assert!(heard.name.is_empty() && !heard.text.contains('\n'));
}

#[tokio::test]
async fn a_response_schema_is_obeyed() {
    let model = model(&Recipe::default());
    let schema =
        json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]});
    let request =
        ChatRequest { response_schema: Some(schema), ..request("Is it?", ToolChoice::None) };
    let heard = hear(&model, request).await.expect("an answer");
    let value: Value = serde_json::from_str(&heard.text).expect("json");
    assert!(value["ok"].is_boolean());
}

#[tokio::test]
async fn the_same_question_gets_the_same_answer_and_another_place_another_id() {
    let model = model(&Recipe::default());
    let first = hear(&model, request("Rain in Oslo?", ToolChoice::Required)).await.expect("answer");
    let again = hear(&model, request("Rain in Oslo?", ToolChoice::Required)).await.expect("answer");
    assert_eq!((&first.id, &first.args), (&again.id, &again.args));
    let mut later = request("Rain in Oslo?", ToolChoice::Required);
    later.messages.insert(0, said(Role::User, "u0", "Hi"));
    let later = hear(&model, later).await.expect("answer");
    assert_ne!(first.id, later.id);
}

#[tokio::test]
async fn an_answer_nobody_waits_for_makes_room_for_the_next() {
    let model = model(&Recipe::default());
    let long = ChatRequest { max_tokens: Some(3000), ..request("Hello", ToolChoice::None) };
    let mut stream = model.stream(Arc::new(long));
    assert!(stream.next().await.is_some());
    drop(stream);
    let heard = hear(&model, request("Hello", ToolChoice::None)).await.expect("an answer");
    assert!(heard.reason.is_some());
}

#[tokio::test]
async fn what_does_not_fit_or_cannot_be_enforced_is_an_error_with_its_own_code() {
    let model = model(&Recipe { context: 48, ..Recipe::default() });
    let error = hear(&model, request("Hello", ToolChoice::None)).await.expect_err("too long");
    assert_eq!(error.fault().code, "W0508");
    let model = self::model(&Recipe::default());
    let odd = json!({"type": "object", "dependentSchemas": {"a": {"type": "string"}}});
    let request = ChatRequest {
        tools: vec![tool("odd", odd, ("Odd", json!({})))],
        ..request("Odd", ToolChoice::Required)
    };
    let error = hear(&model, request).await.expect_err("not enforceable");
    assert_eq!(error.fault().code, "W0509");
    assert!(error.to_string().contains("tool `odd`"), "{error}");
}
