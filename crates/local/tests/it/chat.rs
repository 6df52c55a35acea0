use crate::tiny::{self, Recipe};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_local::chat::{LocalModel, Settings, WAITING_MAX};
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

/// A conversation that goes on with a call and its result.
fn with_result(mut request: ChatRequest, call: (&str, Value), value: Value) -> ChatRequest {
    let number = request.messages.len();
    let id = ToolCallId::new(format!("call_{number}")).expect("id");
    let name = call.0.to_owned();
    let made = ToolCall { id: id.clone(), name: name.clone(), args: call.1, shown: None };
    let message = |kind: &str| MessageId::new(format!("{kind}{number}")).expect("id");
    request.messages.push(Message::new(message("a"), Role::Assistant, vec![Part::ToolCall(made)]));
    let result = ToolResult { tool_call_id: id, name, value, shown: None, is_error: false };
    request.messages.push(Message::tool_result(message("t"), result));
    request
}

fn ask_human() -> ToolSpec {
    let parameters = json!({
        "type": "object",
        "properties": {"question": {"type": "string"}},
        "required": ["question"],
    });
    let example = ("Send it to my other address.", json!({"question": "Which one?"}));
    tool("ask_human", parameters, example)
}

fn args(heard: &Heard) -> Value {
    serde_json::from_str(&heard.args).expect("json")
}

#[tokio::test]
async fn without_tools_and_after_results_it_speaks() {
    let model = model(&Recipe::default());
    let plain = hear(&model, request("Hello", ToolChoice::None)).await.expect("an answer");
    assert!(plain.name.is_empty() && plain.reason.is_some());
    let after = request("Weather in Oslo?", ToolChoice::Auto);
    let call = ("demo__weather", json!({"city": "Oslo"}));
    let after = with_result(after, call, json!({"sky": "clear"}));
    let heard = hear(&model, after).await.expect("an answer");
    assert!(heard.name.is_empty() && !heard.text.contains('\n'));
}

/// The weights are random: whatever they write, the answer is that of the result.
#[tokio::test]
async fn an_answer_after_a_result_has_its_values_whatever_the_model_writes() {
    for seed in 1..=6 {
        let model = model(&Recipe { seed, ..Recipe::default() });
        for effect in [Effect::ReadOnly, Effect::ExternalSideEffect] {
            let asked = || {
                let mut asked = request("Does it rain in Oslo?", ToolChoice::Auto);
                asked.max_tokens = None;
                asked.tools.iter_mut().for_each(|tool| tool.effect = effect);
                asked
            };
            let call = || ("demo__weather", json!({"city": "Oslo"}));
            let clear = json!({"city": "Oslo", "sky": "clear", "source": "a book"});
            let heard = hear(&model, with_result(asked(), call(), clear)).await.expect("words");
            assert!(heard.text.contains("clear"), "{}", heard.text);
            assert!(!heard.text.to_lowercase().contains("yes"), "{}", heard.text);
            assert_eq!(heard.reason, Some(FinishReason::Stop));
            let empty = hear(&model, with_result(asked(), call(), json!({}))).await;
            assert_eq!(empty.expect("words").text, "The result has no values.");
            let mut failed = with_result(asked(), call(), json!({"safe_message": "no such city"}));
            if let Some(Part::ToolResult(result)) = failed.messages[2].parts.first_mut() {
                result.is_error = true;
            }
            let heard = hear(&model, failed.clone()).await.expect("words");
            assert_eq!(heard.text, "That did not work: no such city.");
            failed.max_tokens = Some(3);
            let cut = hear(&model, failed).await.expect("words");
            assert_eq!(cut.reason, Some(FinishReason::Length));
            assert!(heard.text.starts_with(&cut.text) && cut.tokens.1 == 3, "{}", cut.text);
        }
    }
}

/// The weights are random: the model has no part in the sentence, whatever is said.
#[tokio::test]
async fn a_request_that_no_tool_is_for_gets_the_tools_an_example_and_the_advice() {
    let model = model(&Recipe::default());
    for says in ["how do I bake bread?", "Hello!", "what can you do?", "Thanks a lot"] {
        let mut asked = request(says, ToolChoice::Auto);
        asked.max_tokens = None;
        let heard = hear(&model, asked.clone()).await.expect("words");
        let said = "I can only use my tools (demo weather, multiply), for example “Weather in \
                    Lima?”, and a larger model chats better.";
        assert_eq!((heard.name.as_str(), heard.text.as_str()), ("", said), "{says}");
        asked.tools = vec![ask_human()];
        let heard = hear(&model, asked).await.expect("words");
        assert_eq!(heard.text, "I have no tool for that, and a larger model chats better.");
    }
}

/// The weights are random: whatever they want, no value can come that nobody said.
#[tokio::test]
async fn a_copied_argument_that_nobody_said_is_asked_for_or_told() {
    for seed in 1..=6 {
        let model = model(&Recipe { seed, ..Recipe::default() });
        for (says, name, missing) in [
            ("Weather?", "demo__weather", "city"),
            ("does it rain where I am", "demo__weather", "city"),
            ("Multiply A1001 by 40", "multiply", "b"),
            ("times six", "multiply", "a"),
        ] {
            let named = ToolChoice::Named(name.to_owned());
            let mut asked = request(says, named);
            asked.tools.push(ask_human());
            let told = hear(&model, asked.clone()).await.expect("an answer");
            assert_eq!((told.name.as_str(), told.reason), ("", Some(FinishReason::Stop)));
            assert!(told.text.contains(&format!("I need: {missing}")), "{says}: {}", told.text);
            asked.tools.retain(|tool| tool.name == "ask_human" || tool.wire_name() == name);
            asked.tool_choice = ToolChoice::Required;
            let heard = hear(&model, asked).await.expect("an answer");
            assert_eq!((heard.name.as_str(), heard.text.as_str()), ("ask_human", ""), "{says}");
            let question = args(&heard)["question"].as_str().expect("a question").to_owned();
            assert!(question.starts_with(&format!("Which {missing} ")), "{says}: {question}");
        }
    }
}

#[tokio::test]
async fn an_answer_completes_the_call_and_a_useless_one_ends_in_words() {
    let model = model(&Recipe::default());
    let mut asked = request("Multiply 6", ToolChoice::Required);
    asked.tools = vec![multiply(), ask_human()];
    let first = hear(&model, asked.clone()).await.expect("a question");
    assert_eq!(first.name, "ask_human");
    let call = || ("ask_human", args(&first));
    let answered = with_result(asked.clone(), call(), json!("it is 8"));
    let heard = hear(&model, answered).await.expect("a call");
    assert_eq!((heard.name.as_str(), args(&heard)), ("multiply", json!({"a": 6, "b": 8})));
    let evaded = with_result(asked, call(), json!({"answer": "no idea"}));
    let again = hear(&model, evaded.clone()).await.expect("a question");
    assert_eq!((again.name.as_str(), args(&again)), ("ask_human", args(&first)));
    let told = hear(&model, with_result(evaded, call(), json!("guess"))).await.expect("words");
    assert_eq!((told.name.as_str(), told.text.as_str()), ("", "To use multiply I need: b."));
}

#[tokio::test]
async fn what_was_asked_for_and_not_called_is_called_after_a_result() {
    let model = model(&Recipe::default());
    let mut talk = request("Weather in Oslo and in Cairo?", ToolChoice::Auto);
    let mut cities = Vec::new();
    talk = with_result(talk, ("demo__weather", json!({"city": "Oslo"})), json!({"sky": "clear"}));
    for _ in 0..3 {
        let heard = hear(&model, talk.clone()).await.expect("an answer");
        if heard.name.is_empty() {
            break;
        }
        assert_eq!(heard.name, "demo__weather");
        cities.push(args(&heard)["city"].clone());
        talk = with_result(talk, (&heard.name, args(&heard)), json!({"sky": "rain"}));
    }
    assert_eq!(cities, [json!("Cairo")]);
    let place = request("Weather in Oslo, Norway?", ToolChoice::Auto);
    let place = with_result(place, ("demo__weather", json!({"city": "Oslo"})), json!("rain"));
    assert_eq!(hear(&model, place).await.expect("words").name, "");
}

#[tokio::test]
async fn the_choice_of_tools_is_obeyed_after_a_result_too() {
    let model = model(&Recipe::default());
    let result = |choice| {
        let call = ("demo__weather", json!({"city": "Oslo"}));
        with_result(request("Weather in Oslo, and 6 times 7?", choice), call, json!("rain"))
    };
    let named = hear(&model, result(ToolChoice::Named("demo__weather".to_owned()))).await;
    let named = named.expect("a call");
    assert_eq!((named.name.as_str(), args(&named)), ("demo__weather", json!({"city": "Oslo"})));
    let multiplied = hear(&model, result(ToolChoice::Named("multiply".to_owned()))).await;
    assert_eq!(multiplied.expect("a call").name, "multiply");
    let required = hear(&model, result(ToolChoice::Required)).await.expect("a call");
    assert_eq!(required.reason, Some(FinishReason::ToolCalls));
    assert!(!required.name.is_empty());
    let none = hear(&model, result(ToolChoice::None)).await.expect("words");
    assert_eq!(none.name, "");
}

#[tokio::test]
async fn more_requests_than_may_wait_are_refused_and_may_be_tried_again() {
    let model = model(&Recipe::default());
    let long = ChatRequest { max_tokens: Some(3000), ..request("Hello", ToolChoice::None) };
    let mut first = model.stream(Arc::new(long.clone()));
    assert!(first.next().await.is_some(), "it has left the queue");
    let waiting: Vec<_> = (0..WAITING_MAX).map(|_| model.stream(Arc::new(long.clone()))).collect();
    let error = hear(&model, long).await.expect_err("one too many");
    assert_eq!(error.fault().code, "W0516");
    assert!(error.is_retriable() && error.fault().retriable, "{error}");
    drop((first, waiting));
    let heard = loop {
        match hear(&model, request("Hello", ToolChoice::None)).await {
            Err(error) => assert_eq!(error.fault().code, "W0516"),
            Ok(heard) => break heard,
        }
        tokio::task::yield_now().await;
    };
    assert!(heard.reason.is_some(), "there is room again");
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
