use super::*;
use crate::chat::{FinishReason, ToolChoice};
use serde_json::{Value, json};
use weftwork_types::message::{Message, Part, Role, ToolCall, ToolResult};
use weftwork_types::tool::{Effect, ToolExample, ToolSpec, UnknownOutcome};
use weftwork_types::{MessageId, ToolCallId};

fn tool(name: &str, description: &str, properties: Value, example: (&str, Value)) -> ToolSpec {
    let names: Vec<&String> = properties.as_object().expect("an object").keys().collect();
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({"type": "object", "properties": properties, "required": names}),
        output: None,
        effect: Effect::ReadOnly,
        on_unknown: UnknownOutcome::Idempotent,
        shown: None,
        examples: vec![ToolExample { request: example.0.to_owned(), args: example.1 }],
    }
}

fn order_desk() -> Vec<ToolSpec> {
    let text = json!({"type": "string"});
    let number = json!({"type": "number"});
    vec![
        tool(
            "lookup_order",
            "Looks up an order by its number.",
            json!({"order_id": text}),
            ("Where is order A1003?", json!({"order_id": "A1003"})),
        ),
        tool(
            "get_weather",
            "Tells the weather in a city.",
            json!({"city": text}),
            ("What is the weather in Berlin?", json!({"city": "Berlin"})),
        ),
        tool(
            "multiply",
            "Multiplies two numbers.",
            json!({"a": number, "b": number}),
            ("What is 6 times 7?", json!({"a": 6, "b": 7})),
        ),
        tool(
            "refund_order",
            "Pays money back for an order.",
            json!({"order_id": text, "amount": number}),
            ("Refund 10 for order A1002", json!({"order_id": "A1002", "amount": 10})),
        ),
        tool(
            "ask_human",
            "Asks the person a question.",
            json!({"question": text}),
            ("Ask me which color I like", json!({"question": "Which color do you like?"})),
        ),
    ]
}

/// A conversation with the rules, as an agent would have it.
struct Talk {
    request: ChatRequest,
    model: ScriptedModel,
}

impl Talk {
    fn with(tools: Vec<ToolSpec>) -> Self {
        let request = ChatRequest { tools, ..ChatRequest::default() };
        Self { request, model: ScriptedModel::rules() }
    }

    fn id(&self) -> MessageId {
        MessageId::new(format!("m{}", self.request.messages.len())).expect("an id")
    }

    fn say(&mut self, text: &str) -> Vec<(String, Value)> {
        self.request.messages.push(Message::text(self.id(), Role::User, text));
        self.next().0
    }

    /// The model's next answer: its calls and its text, which begins with the mark.
    fn next(&mut self) -> (Vec<(String, Value)>, String) {
        let events = events(&self.model, &self.request);
        let mut calls = Vec::<(String, String)>::new();
        let mut text = String::new();
        for event in events {
            match event.expect("no error") {
                ChatEvent::TextDelta(word) => text.push_str(&word),
                ChatEvent::ToolCallDelta { name: Some(name), args, .. } => calls.push((name, args)),
                ChatEvent::ToolCallDelta { index, args, .. } => calls[index].1.push_str(&args),
                _ => {}
            }
        }
        let calls: Vec<(String, Value)> = calls
            .into_iter()
            .map(|(name, args)| (name, serde_json::from_str(&args).expect("json")))
            .collect();
        let parts = calls.iter().enumerate().map(|(at, (name, args))| {
            let id = ToolCallId::new(format!("{}-{at}", self.id())).expect("an id");
            Part::ToolCall(ToolCall { id, name: name.clone(), args: args.clone(), shown: None })
        });
        let message = Message::new(self.id(), Role::Assistant, parts.collect());
        self.request.messages.push(message);
        match calls.is_empty() {
            true => (calls, text.strip_prefix(MARK).expect("a mark").to_owned()),
            false => (calls, text),
        }
    }

    /// Appends results for the calls of the last answer, in order.
    fn results(&mut self, values: &[(Value, bool)]) -> (Vec<(String, Value)>, String) {
        let last = self.request.messages.last().expect("an answer").clone();
        for (call, (value, is_error)) in last.tool_calls().zip(values) {
            let result = ToolResult {
                tool_call_id: call.id.clone(),
                name: call.name.clone(),
                value: value.clone(),
                shown: None,
                is_error: *is_error,
            };
            self.request.messages.push(Message::tool_result(self.id(), result));
        }
        self.next()
    }
}

fn events(model: &ScriptedModel, request: &ChatRequest) -> Vec<Result<ChatEvent, ModelError>> {
    let stream = model.stream(Arc::new(request.clone()));
    futures_util::FutureExt::now_or_never(stream.collect()).expect("it never waits")
}

fn call(name: &str, args: Value) -> (String, Value) {
    (name.to_owned(), args)
}

#[test]
fn each_wish_finds_its_tool_and_arguments() {
    for (text, expected) in [
        ("Where is order A1001?", call("lookup_order", json!({"order_id": "A1001"}))),
        ("what's the status of order B-77", call("lookup_order", json!({"order_id": "B-77"}))),
        ("How is the weather in Lisbon?", call("get_weather", json!({"city": "Lisbon"}))),
        ("multiply 12 and 3.5", call("multiply", json!({"a": 12, "b": 3.5}))),
        ("What is 17 times 23?", call("multiply", json!({"a": 17, "b": 23}))),
        ("6 * 7?", call("multiply", json!({"a": 6, "b": 7}))),
        (
            "Please refund order A1001, amount 25",
            call("refund_order", json!({"order_id": "A1001", "amount": 25})),
        ),
    ] {
        assert_eq!(Talk::with(order_desk()).say(text), [expected], "{text}");
    }
}

#[test]
fn two_wishes_in_one_message_are_two_calls() {
    let mut talk = Talk::with(order_desk());
    let calls = talk.say("Where is order A1001? Then refund it, amount 25");
    let lookup = call("lookup_order", json!({"order_id": "A1001"}));
    let refund = call("refund_order", json!({"order_id": "A1001", "amount": 25}));
    assert_eq!(calls, [lookup.clone(), refund.clone()]);

    let mut talk = Talk::with(order_desk());
    talk.request.parallel_tool_calls = Some(false);
    assert_eq!(talk.say("Where is order A1001? Then refund it, amount 25"), [lookup]);
    assert_eq!(talk.results(&[(json!({"status": "shipped"}), false)]).0, [refund]);
}

#[test]
fn texts_end_before_the_first_stop_text() {
    let mut talk = Talk::with(order_desk());
    talk.request.stop = vec!["A1001".to_owned(), ", status".to_owned(), "[scripted".to_owned()];
    talk.say("Where is order A1001?");
    let shipped = json!({"order_id": "A1001", "status": "shipped"});
    assert_eq!(talk.results(&[(shipped, false)]).1, "Lookup order: order id ");
}

#[test]
fn results_become_sentences() {
    let mut talk = Talk::with(order_desk());
    talk.say("Where is order A1001 and what is the weather in Rome?");
    let shipped = json!({"order_id": "A1001", "status": "shipped"});
    let (calls, text) = talk.results(&[(shipped, false), (json!("sunny"), false)]);
    assert!(calls.is_empty());
    assert_eq!(text, "Lookup order: order id A1001, status shipped. Get weather: sunny.");
}

#[test]
fn a_refused_call_is_told_and_not_tried_again() {
    let mut talk = Talk::with(order_desk());
    talk.say("Refund order A1001, amount 25");
    let refused = json!({"error_code": "policy_denied", "safe_message": "the person said no."});
    let (calls, text) = talk.results(&[(refused, true)]);
    assert!(calls.is_empty());
    assert_eq!(text, "Refund order was not done: the person said no.");
}

#[test]
fn later_messages_may_say_it() {
    let mut talk = Talk::with(order_desk());
    talk.say("Where is order A1001?");
    talk.results(&[(json!({"status": "late"}), false)]);
    let calls = talk.say("Then refund it please, amount 12.5");
    assert_eq!(calls, [call("refund_order", json!({"order_id": "A1001", "amount": 12.5}))]);
}

#[test]
fn what_is_missing_is_asked_for_and_the_answer_completes_the_call() {
    let mut talk = Talk::with(order_desk());
    let asked = talk.say("Refund order A1001");
    let question = "Which amount should I use for refund order?";
    assert_eq!(asked, [call("ask_human", json!({"question": question}))]);
    let (calls, _) = talk.results(&[(json!({"answer": "25 euros"}), false)]);
    assert_eq!(calls, [call("refund_order", json!({"order_id": "A1001", "amount": 25}))]);
}

#[test]
fn a_person_who_does_not_answer_is_not_asked_for_ever() {
    let mut talk = Talk::with(order_desk());
    talk.say("Refund order A1001");
    let (calls, text) = talk.results(&[(json!("no idea"), false)]);
    assert!(calls.is_empty(), "{calls:?}");
    assert_eq!(text, "To use refund_order I need: amount.");
}

#[test]
fn without_a_way_to_ask_it_says_what_is_missing() {
    let tools = order_desk().into_iter().filter(|tool| tool.name != "ask_human").collect();
    let mut talk = Talk::with(tools);
    assert!(talk.say("Refund order A1001").is_empty());
}

#[test]
fn words_without_a_rule_get_help_and_no_call() {
    for text in ["Hello!", "Tell me a joke", "What is love?", "Thanks, bye.", ""] {
        let mut talk = Talk::with(order_desk());
        assert_eq!(talk.say(text), [], "{text}");
    }
    let mut talk = Talk::with(order_desk());
    talk.request.messages.push(Message::text(talk.id(), Role::User, "Tell me a joke"));
    assert!(talk.next().1.contains("\"Where is order A1003?\""));
}

#[test]
fn tool_choice_is_obeyed() {
    let mut talk = Talk::with(order_desk());
    talk.request.tool_choice = ToolChoice::None;
    assert!(talk.say("Where is order A1001?").is_empty());
    let mut talk = Talk::with(order_desk());
    talk.request.tool_choice = ToolChoice::Named("refund_order".to_owned());
    assert_eq!(talk.say("A1001 and 5")[0].0, "refund_order");
}

#[test]
fn it_says_what_it_is() {
    let model = ScriptedModel::rules();
    assert_eq!(model.info().id(), "scripted:rules");
    assert_eq!(model.info().label.as_deref(), Some(LABEL));
    assert_eq!(ScriptedProvider.list()[0].id(), "scripted:rules");
    assert!(ScriptedProvider.open("gpt").is_err());
}

#[test]
fn steps_are_taken_in_order_and_counted() {
    let model = ScriptedModel::from_steps(vec![
        Step::text("one two"),
        Step::fails(ModelError::Deadline { provider: "p".to_owned() }),
        Step::cut("half"),
    ]);
    let request = ChatRequest::default();
    let first = events(&model, &request);
    assert_eq!(first[0], Ok(ChatEvent::TextDelta("one ".to_owned())));
    let end = ChatEvent::Finish { reason: FinishReason::Stop, provider_call_id: None };
    assert_eq!(first.last(), Some(&Ok(end)));
    assert!(events(&model, &request)[0].is_err());
    assert_eq!(events(&model, &request).len(), 1);
    assert_eq!(events(&model, &request)[0].as_ref().expect_err("over").code().0, "W0311");
    assert_eq!(model.calls(), 4);
}
