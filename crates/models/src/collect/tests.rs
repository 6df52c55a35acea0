use super::*;
use serde_json::json;
use weftwork_types::canonical;

fn info() -> ModelInfo {
    ModelInfo { provider: "p".to_owned(), model: "m".to_owned(), label: None }
}

fn key() -> CallKey {
    CallKey(canonical::hash(&json!("key")))
}

fn call(index: usize, id: Option<&str>, name: Option<&str>, args: &str) -> ChatEvent {
    ChatEvent::ToolCallDelta {
        index,
        id: id.map(str::to_owned),
        name: name.map(str::to_owned),
        args: args.to_owned(),
    }
}

fn collect(
    events: Vec<ChatEvent>,
    reason: FinishReason,
    request: &ChatRequest,
) -> Result<ChatResponse, ModelError> {
    let mut collector = Collector::default();
    events.into_iter().for_each(|event| collector.push(event));
    collector.push(ChatEvent::Finish { reason, provider_call_id: Some("x".to_owned()) });
    assert!(collector.is_whole());
    collector.response(&info(), key(), message_id(key()), request, Tokens::default())
}

fn calls(events: Vec<ChatEvent>) -> Vec<ToolCall> {
    let response = collect(events, FinishReason::ToolCalls, &ChatRequest::default());
    response.expect("an answer").message.tool_calls().cloned().collect()
}

#[test]
fn pieces_are_joined_in_the_order_in_which_they_were_said() {
    let events = vec![
        ChatEvent::ReasoningDelta("h".to_owned()),
        ChatEvent::ReasoningDelta("m".to_owned()),
        ChatEvent::TextDelta("I ".to_owned()),
        ChatEvent::TextDelta("look".to_owned()),
        call(0, Some("c1"), Some("add"), "{\"a\""),
        call(1, Some("c2"), Some("sub"), ""),
        call(0, None, None, ":1}"),
    ];
    let response = collect(events, FinishReason::Stop, &ChatRequest::default()).expect("an answer");
    let id = |text| ToolCallId::new(text).expect("an id");
    let parts = [
        Part::Reasoning { text: "hm".to_owned(), signature: None },
        Part::Text { text: "I look".to_owned() },
        Part::ToolCall(ToolCall {
            id: id("c1"),
            name: "add".to_owned(),
            args: json!({"a": 1}),
            shown: None,
        }),
        Part::ToolCall(ToolCall {
            id: id("c2"),
            name: "sub".to_owned(),
            args: json!({}),
            shown: None,
        }),
    ];
    assert_eq!(response.message.parts, parts);
    assert_eq!(response.finish, FinishReason::ToolCalls);
    assert_eq!(response.message.id.as_str(), &key().0.to_string()[..32]);
    assert_eq!((response.model.as_str(), response.provider_call_id.as_deref()), ("p:m", Some("x")));
}

#[test]
fn arguments_that_are_no_json_stay_a_string() {
    let found = calls(vec![call(0, Some("c"), Some("add"), "{a: 1}")]);
    assert_eq!(found[0].args, json!("{a: 1}"));
}

#[test]
fn missing_unusable_and_repeated_ids_are_replaced_by_ones_made_from_the_key() {
    let found = calls(vec![
        call(0, None, Some("f"), ""),
        call(1, Some("not\nok"), Some("f"), ""),
        call(2, Some("c"), Some("f"), ""),
        call(3, Some("c"), Some("f"), ""),
    ]);
    let made = |index| format!("call_{}_{index}", &key().0.to_string()[..24]);
    let ids: Vec<&str> = found.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, [made(0).as_str(), made(1).as_str(), "c", made(3).as_str()]);

    // An id that an earlier answer used would assign its result to the wrong call.
    let earlier =
        Message::new(message_id(key()), Role::Assistant, vec![Part::ToolCall(found[2].clone())]);
    let request = ChatRequest { messages: vec![earlier], ..ChatRequest::default() };
    let again = collect(vec![call(0, Some("c"), Some("f"), "")], FinishReason::Stop, &request);
    let again = again.expect("an answer");
    assert_eq!(again.message.tool_calls().next().expect("a call").id.as_str(), made(0));
}

#[test]
fn the_token_limit_may_cut_words_but_not_arguments() {
    let words = vec![ChatEvent::TextDelta("once upon".to_owned())];
    let response = collect(words, FinishReason::Length, &ChatRequest::default());
    assert_eq!(response.expect("an answer").finish, FinishReason::Length);

    let cut = vec![call(0, Some("c"), Some("refund"), "{\"amount\": 2")];
    let error = collect(cut, FinishReason::Length, &ChatRequest::default()).expect_err("cut");
    assert_eq!(error.code().0, "W0315");
    assert!(!error.is_retriable() && error.to_string().contains("refund"));
}

#[test]
fn calls_that_are_announced_and_missing_are_malformed() {
    let none = collect(Vec::new(), FinishReason::ToolCalls, &ChatRequest::default());
    let none = none.expect_err("no calls");
    assert!(none.is_retriable() && none.code().0 == "W0307", "{none}");
    let unnamed = vec![call(0, Some("c"), None, "{}")];
    let unnamed = collect(unnamed, FinishReason::Stop, &ChatRequest::default());
    let unnamed = unnamed.expect("a call for the model to repair").message;
    assert_eq!(unnamed.tool_calls().next().expect("a call").name, "unnamed");
    let words = vec![ChatEvent::TextDelta("well".to_owned())];
    let words = collect(words, FinishReason::ToolCalls, &ChatRequest::default());
    assert_eq!(words.expect("words").finish, FinishReason::Stop);
}

#[test]
fn an_answer_that_says_nothing_is_none() {
    let thought = ChatEvent::ReasoningDelta("hm".to_owned());
    let signed = ChatEvent::ReasoningSignature("anthropic-redacted@p:x".to_owned());
    let blank = ChatEvent::TextDelta("\n\n".to_owned());
    for (events, reason, is_again) in [
        (vec![], FinishReason::Stop, true),
        (vec![blank.clone()], FinishReason::Stop, true),
        (vec![signed], FinishReason::Stop, true),
        (vec![thought.clone()], FinishReason::Stop, true),
        (vec![], FinishReason::Length, false),
        (vec![thought.clone(), blank], FinishReason::Length, false),
    ] {
        let shown = format!("{events:?} {reason:?}");
        let error = collect(events, reason, &ChatRequest::default()).expect_err(&shown);
        assert_eq!((error.code().0, error.is_retriable()), ("W0317", is_again), "{shown}");
    }
    // A filter and the end of the context window are other errors.
    let withheld = collect(Vec::new(), FinishReason::ContentFilter, &ChatRequest::default());
    assert_eq!(withheld.expect_err("withheld").code().0, "W0306");
    for events in [vec![], vec![thought], vec![call(0, Some("c"), Some("refund"), "{\"a\": 2")]] {
        let full = collect(events, FinishReason::ContextLength, &ChatRequest::default());
        let full = full.expect_err("no room");
        assert_eq!(full.refusal(), Some(RefusalKind::ContextLength), "{full}");
        assert!(!full.is_retriable() && full.to_string().contains("fewer or shorter messages"));
    }
}

#[test]
fn a_text_that_was_cut_says_so() {
    for (reason, word) in [
        (FinishReason::Length, Some("length")),
        (FinishReason::ContextLength, Some("length")),
        (FinishReason::ContentFilter, Some("content_filter")),
        (FinishReason::Stop, None),
    ] {
        let words = vec![ChatEvent::TextDelta("The total is 12".to_owned())];
        let answer = collect(words, reason, &ChatRequest::default()).expect("an answer");
        let extra = answer.message.extra.unwrap_or_default();
        assert_eq!(extra.response_metadata.get("finish_reason"), word.map(Value::from).as_ref());
        assert_ne!(answer.finish, FinishReason::ContextLength);
    }
}

#[test]
fn names_with_additions_are_those_of_the_tool_that_they_mean() {
    let tool = |name: &str| weftwork_types::tool::ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        parameters: json!({}),
        output: None,
        effect: weftwork_types::tool::Effect::ReadOnly,
        on_unknown: weftwork_types::tool::UnknownOutcome::Idempotent,
        shown: None,
        examples: Vec::new(),
    };
    let tools = ["lookup_order", "files/read", "order:1", "read"].map(tool).to_vec();
    let request = ChatRequest { tools, ..ChatRequest::default() };
    for (name, found) in [
        ("lookup_order", "lookup_order"),
        ("functions.lookup_order", "lookup_order"),
        ("functions.lookup_order:0", "lookup_order"),
        ("default_api:lookup_order", "lookup_order"),
        ("lookup_order<|channel|>commentary", "lookup_order"),
        (" lookup_order ", "lookup_order"),
        ("functions.files__read:12", "files__read"),
        ("order:1", "order:1"),
        ("functions.Lookup", "functions.Lookup"),
        ("lookup", "lookup"),
        ("", "unnamed"),
    ] {
        let events = vec![call(0, Some("c"), Some(name), "{}")];
        let answer = collect(events, FinishReason::ToolCalls, &request).expect("an answer");
        assert_eq!(answer.message.tool_calls().next().expect("a call").name, found, "{name}");
    }
}

#[test]
fn arguments_that_no_record_can_have_stay_a_string() {
    for levels in [10, 60, 70, 100, 130, 1000] {
        let args = format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        let found = calls(vec![call(0, Some("c"), Some("add"), &args)]);
        assert_eq!(found[0].args.is_string(), levels > 64, "{levels}");
    }
}

#[test]
fn without_a_finish_there_is_no_answer() {
    let mut collector = Collector::default();
    collector.push(ChatEvent::TextDelta("half".to_owned()));
    let error = collector.response(
        &info(),
        key(),
        message_id(key()),
        &ChatRequest::default(),
        Tokens::default(),
    );
    assert_eq!(error.expect_err("cut").code().0, "W0307");
}
