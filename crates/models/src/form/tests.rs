use super::*;
use futures_util::FutureExt as _;
use weftwork_types::message::{ToolCall, ToolResult};
use weftwork_types::tool::{Effect, ToolExample, UnknownOutcome};
use weftwork_types::{MessageId, ToolCallId};

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: format!("does {name}"),
        parameters: json!({
            "type": "object", "required": ["city"], "additionalProperties": false,
            "properties": {
                "city": {"type": "string"},
                "unit": {"type": "string", "enum": ["c", "f"]},
                "note": {"type": "string", "maxLength": 9},
            },
        }),
        output: None,
        effect: Effect::ReadOnly,
        on_unknown: UnknownOutcome::Idempotent,
        shown: None,
        examples: vec![ToolExample {
            request: format!("Please {name} in Rome"),
            args: json!({"city": "Rome"}),
        }],
    }
}

fn message(role: Role, text: &str) -> Message {
    Message::text(MessageId::new("m").expect("an id"), role, text)
}

fn request() -> ChatRequest {
    ChatRequest {
        messages: vec![message(Role::System, "Be kind."), message(Role::User, "Weather in Rome?")],
        tools: vec![tool("get_weather"), tool("get_time")],
        ..ChatRequest::default()
    }
}

fn after_result() -> ChatRequest {
    let id = ToolCallId::new("c").expect("an id");
    let name = "get_weather".to_owned();
    let call = Part::ToolCall(ToolCall {
        id: id.clone(),
        name: name.clone(),
        args: json!({"city": "Rome"}),
        shown: None,
    });
    let result = ToolResult {
        tool_call_id: id,
        name,
        value: json!({"sky": "blue"}),
        shown: None,
        is_error: false,
    };
    let mut request = request();
    let assistant = Message { parts: vec![call], ..message(Role::Assistant, "") };
    request.messages.push(assistant);
    request
        .messages
        .push(Message { parts: vec![Part::ToolResult(result)], ..message(Role::Tool, "") });
    request
}

#[test]
fn first_the_model_chooses_by_a_schema() {
    let form = Form::of(&request());
    let sent = form.request();
    assert!(sent.tools.is_empty());
    let texts: Vec<String> = sent.messages.iter().map(Message::joined_text).collect();
    assert_eq!(
        texts,
        [
            "Be kind.\n\nTurn each request into a JSON tool call.",
            "Hello!",
            r#"{"tool": "answer", "args": {"text": "Hello!"}}"#,
            "Please get_time in Rome",
            r#"{"tool": "get_time", "args": {"city": "Rome"}}"#,
            "Please get_weather in Rome",
            r#"{"tool": "get_weather", "args": {"city": "Rome"}}"#,
            "Weather in Rome?",
        ],
        "the likest example is last"
    );
    let forms = &sent.response_schema.as_ref().expect("a schema")["anyOf"];
    assert_eq!(forms[0]["properties"]["tool"], json!({"const": "get_weather"}));
    let properties = &forms[0]["properties"]["args"]["properties"];
    assert_eq!(properties["city"]["maxLength"], STRING_CHARS_MAX);
    assert_eq!(properties["note"]["maxLength"], 9);
    assert!(properties["unit"].get("maxLength").is_none());
    assert_eq!(forms[2]["properties"]["tool"], json!({"const": "answer"}));
}

#[test]
fn a_request_that_is_like_no_example_reads_the_greeting_last() {
    let mut request = request();
    request.messages[1] = message(Role::User, "Hm?");
    request.tools.push(ToolSpec { examples: Vec::new(), ..tool("answer") });
    let form = Form::of(&request);
    let texts: Vec<String> = form.request().messages.iter().map(Message::joined_text).collect();
    assert!(texts[0].ends_with("call.\n- answer: does answer"), "a tool without example is told");
    let greeting = r#"{"tool": "answer_in_words", "args": {"text": "Hello!"}}"#;
    assert_eq!(texts[texts.len() - 2], greeting);
}

#[test]
fn a_tool_that_is_demanded_leaves_no_other_way() {
    let required = ChatRequest { tool_choice: ToolChoice::Required, ..request() };
    let form = Form::of(&required);
    let schema = form.request().response_schema.clone().expect("a schema");
    assert_eq!(schema["anyOf"].as_array().map(Vec::len), Some(2));
    let named = ChatRequest { tool_choice: ToolChoice::Named("get_time".to_owned()), ..request() };
    let form = Form::of(&named);
    let schema = form.request().response_schema.clone().expect("a schema");
    assert_eq!(schema["anyOf"][0]["properties"]["tool"], json!({"const": "get_time"}));
    let unknown = ChatRequest { tool_choice: ToolChoice::Named("x".to_owned()), ..request() };
    assert_eq!(Form::of(&unknown).request().tool_choice, unknown.tool_choice);
}

#[test]
fn after_a_result_it_tells_and_no_tool_is_mentioned() {
    let form = Form::of(&after_result());
    let sent = form.request();
    assert_eq!(sent.response_schema, None);
    let texts: Vec<String> = sent.messages.iter().map(Message::joined_text).collect();
    assert!(texts[0].starts_with("Be kind.\n\nSay in one short sentence"));
    assert_eq!(
        texts.last().expect("a question"),
        "Request: Weather in Rome?\nResult of get weather:\nsky: blue\n\
         What came of it, in one sentence?"
    );
    assert_eq!((texts.len(), sent.temperature), (2 + 2 * ANSWERED.len(), Some(0.0)));
    assert!(sent.messages.iter().all(|message| message.role != Role::Tool));
}

#[test]
fn results_are_told_in_lines_of_words() {
    let value = json!({"a": "x y", "b": [1, "x"], "n": 1.5});
    assert_eq!(lines(&value), "a: x y\nb: [1,\"x\"]\nn: 1.5");
    assert_eq!(lines(&json!("no order")), "no order");
    assert_eq!(lines(&json!(391.0)), "391.0");
}

#[test]
fn earlier_calls_and_results_are_told_in_words() {
    let mut request = after_result();
    request.messages.push(message(Role::User, "And the time?"));
    let form = Form::of(&request);
    let texts: Vec<String> = form.request().messages.iter().map(Message::joined_text).collect();
    assert_eq!(texts[1], "Weather in Rome?");
    assert_eq!(texts[2], r#"{"tool": "get_weather", "args": {"city": "Rome"}}"#);
    assert_eq!(texts[3], "Result of `get_weather`: {\"sky\":\"blue\"}");
    assert_eq!(texts[4], "Hello!", "examples stand between what was said before and the request");
    assert_eq!(texts.last().map(String::as_str), Some("And the time?"));
    let plain = ChatRequest { tool_choice: ToolChoice::None, ..request };
    assert_eq!(Form::of(&plain).request().response_schema, None);
    assert_eq!(Form::of(&plain).request().tools, []);
}

fn read(
    request: &ChatRequest,
    text: &str,
    reason: FinishReason,
) -> Vec<Result<ChatEvent, ModelError>> {
    let events = text.split_inclusive(' ').map(|word| Ok(ChatEvent::TextDelta(word.to_owned())));
    let end = ChatEvent::Finish { reason, provider_call_id: None };
    let events: Vec<_> = events.chain([Ok(end)]).collect();
    let stream = FormReader::read(Form::of(request), "p", streams::iter(events).boxed());
    stream.collect::<Vec<_>>().now_or_never().expect("it never waits")
}

#[test]
fn a_choice_becomes_a_call_and_an_answer_becomes_words() {
    let end = |reason| Ok(ChatEvent::Finish { reason, provider_call_id: None });
    let call =
        read(&request(), r#"{"tool": "get_time", "args": {"city": "Oslo"}}"#, FinishReason::Stop);
    let args = r#"{"city":"Oslo"}"#.to_owned();
    let name = Some("get_time".to_owned());
    let expected = ChatEvent::ToolCallDelta { index: 0, id: None, name, args };
    assert_eq!(call, [Ok(expected), end(FinishReason::ToolCalls)]);

    for text in [r#"{"tool": "answer", "args": {"text": "hello you"}}"#, "hello you"] {
        let words = read(&request(), text, FinishReason::Stop);
        let expected = Ok(ChatEvent::TextDelta("hello you".to_owned()));
        assert_eq!(words, [expected, end(FinishReason::Stop)]);
    }
    // After a result, text is not parsed as a choice.
    let events = read(&after_result(), r#"{"answer": "x"}"#, FinishReason::Stop);
    assert_eq!(events.len(), 3);
}

#[test]
fn a_choice_that_is_cut_or_something_else_is_an_error() {
    let cut = read(&request(), r#"{ "tool": "get_time","args":{"ci"#, FinishReason::Length);
    let error = cut[0].as_ref().expect_err("cut");
    assert!(matches!(error, ModelError::CutByLimit { tool, .. } if tool == "get_time"), "{error}");
    for text in [r#"{"tool":"get_time"}"#, "{}", "[1]", "{oops"] {
        let error = read(&request(), text, FinishReason::Stop)[0].clone().expect_err(text);
        assert_eq!(error.code().0, "W0308", "{text}");
    }
}
