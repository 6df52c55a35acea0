use super::*;

fn id(text: &str) -> MessageId {
    MessageId::new(text).expect("valid")
}

#[test]
fn messages_have_the_shape_of_langchain_and_read_back() {
    let messages = [
        json!({"id": "m1", "role": "user", "parts": [{"type": "text", "text": "2+3?"}]}),
        json!({"id": "m2", "role": "assistant", "parts": [
            {"type": "text", "text": "Let me add these"},
            {"type": "tool_call", "id": "call_1", "name": "add", "args": {"a": 2, "b": 3}},
        ]}),
        json!({"id": "m3", "role": "tool", "parts": [{
            "type": "tool_result", "tool_call_id": "call_1", "name": "add", "value": "5",
            "is_error": false,
        }]}),
    ];
    let mut state = json!({"messages": messages, "n": 1});
    show(&mut state);
    assert_eq!(
        state,
        json!({"n": 1, "messages": [
            {"content": "2+3?", "additional_kwargs": {}, "response_metadata": {},
             "type": "human", "name": null, "id": "m1"},
            {"content": "Let me add these", "additional_kwargs": {}, "response_metadata": {},
             "type": "ai", "name": null, "id": "m2", "tool_calls": [
                {"name": "add", "args": {"a": 2, "b": 3}, "id": "call_1", "type": "tool_call"}
             ], "invalid_tool_calls": [], "usage_metadata": null},
            {"content": "5", "additional_kwargs": {}, "response_metadata": {}, "type": "tool",
             "name": "add", "id": "m3", "tool_call_id": "call_1", "artifact": null,
             "status": "success"},
        ]})
    );
    let read = read(state["messages"].take(), &mut || panic!("all have ids")).expect("reads");
    assert_eq!(read, json!(messages));
}

#[test]
fn members_of_other_systems_come_back() {
    for kind in ["human", "ai", "system", "tool"] {
        let mut message = json!({
            "type": kind, "id": "m", "content": "x", "name": "ada", "tool_call_id": "c",
            "additional_kwargs": {"refusal": null}, "response_metadata": {"model": {"n": 1}},
        });
        let mut read = read(message.clone(), &mut || id("made")).expect("reads");
        show(&mut read);
        for name in ["name", "additional_kwargs", "response_metadata", "content", "id"] {
            assert_eq!(read[0][name], message[name].take(), "{kind}: {name}");
        }
    }
}

#[test]
fn ids_are_made_where_they_are_missing_and_other_objects_stay() {
    let read =
        read(json!({"role": "user", "content": [{"type": "text", "text": "hi"}]}), &mut || {
            id("made")
        });
    assert_eq!(
        read.expect("reads"),
        json!([{"id": "made", "role": "user", "parts": [{"type": "text", "text": "hi"}]}])
    );
    let other = json!({"id": "x", "role": "user", "parts": [], "more": 1});
    assert_eq!(into_shown(other.clone()), other);
}

#[test]
fn calls_of_the_last_chunks_are_apart_and_have_their_arguments_after_their_names() {
    let call = |id: &str, name: &str| json!({"type": "tool_call", "id": id, "name": name, "args": {"q": id}});
    let message = json!({"id": "m", "role": "assistant", "parts": [
        {"type": "text", "text": "Let me look"}, call("a", "search"), call("b", "read")]});
    let message: Message = serde_json::from_value(message).expect("a message");
    let tokens = Tokens::reported(3, 2).reasoning(1);
    let chunks = rest_in_parts(&message, "Let me ", Some(&tokens));
    let shown: Vec<_> = chunks
        .iter()
        .map(|chunk| {
            let call = &chunk["tool_call_chunks"][0];
            (chunk["content"].clone(), call["name"].clone(), call["args"].clone())
        })
        .collect();
    let row = |content: &str, name: Value, args: Value| (json!(content), name, args);
    let empty = || row("", Value::Null, Value::Null);
    assert_eq!(
        shown,
        [
            row("look", Value::Null, Value::Null),
            empty(),
            row("", json!("search"), json!("")),
            row("", Value::Null, json!(r#"{"q":"a"}"#)),
            empty(),
            row("", json!("read"), json!("")),
            row("", Value::Null, json!(r#"{"q":"b"}"#)),
            empty(),
        ]
    );
    let last = chunks.last().expect("a last one");
    assert_eq!(last["chunk_position"], "last");
    assert_eq!(
        last["usage_metadata"],
        json!({"input_tokens": 3, "output_tokens": 2, "total_tokens": 5,
            "output_token_details": {"reasoning": 1}})
    );
    let whole = rest(&message, "Let me look", None);
    assert_eq!((&whole["content"], &whole["chunk_position"]), (&json!(""), &json!("last")));
    assert_eq!(whole["tool_call_chunks"].as_array().map(Vec::len), Some(2));
}

#[test]
fn serialised_messages_and_pairs_are_messages() {
    let constructor = |class: &str, kwargs: Value| {
        json!({"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", class],
            "kwargs": kwargs})
    };
    for (value, role, text) in [
        (constructor("HumanMessage", json!({"content": "hi"})), "user", "hi"),
        (constructor("AIMessageChunk", json!({"content": "hi", "type": "ai"})), "assistant", "hi"),
        (constructor("SystemMessage", json!({"content": "hi"})), "system", "hi"),
        (constructor("ChatMessage", json!({"content": "hi", "role": "user"})), "user", "hi"),
        (json!(["user", "hi"]), "user", "hi"),
        (json!(["ai", [{"type": "text", "text": "hi"}]]), "assistant", "hi"),
    ] {
        let read = read(json!([value]), &mut || id("made")).expect("a message");
        assert_eq!(
            read,
            json!([{"id": "made", "role": role, "parts": [{"type": "text", "text": text}]}])
        );
    }
    let tool = constructor("ToolMessage", json!({"content": "5", "tool_call_id": "c", "id": "m"}));
    let read = read(tool, &mut || id("made")).expect("a message");
    assert_eq!(read[0]["parts"][0]["tool_call_id"], "c");
}

#[test]
fn what_is_no_message_is_named() {
    for (value, says) in [
        (json!([7]), "found `7`"),
        (json!({"content": "x"}), "`type` or `role`"),
        (json!({"type": "robot", "content": "x"}), "`robot`"),
        (json!({"type": "tool", "content": "x"}), "`tool_call_id`"),
        (json!({"type": "human", "content": 3}), "`content`"),
        (json!({"type": "human", "content": [{"type": "smell"}]}), "`smell`"),
        (json!([["nobody", "hi"]]), "message 0: message type `nobody`"),
        (json!([[1, 2]]), "found `[1,2]`; a message is"),
        (
            json!(["hi", {"type": "human", "content": ["look",
                {"type": "image", "mimeType": "image/png", "data": "@@@"}]}]),
            "message 1: part 1: the data of type `image/png` is not base64: found `@@@`",
        ),
        (
            json!({"role": "user", "parts": [
                {"type": "media", "media_type": "image/png", "url": "data:image/png;base64,@"}]}),
            "part 0: the data of type `image/png` is not base64",
        ),
    ] {
        let error = read(value, &mut || id("m")).expect_err(says);
        assert!(error.contains(says), "{error}");
    }
}
