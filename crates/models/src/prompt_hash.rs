//! The prompt hash: equal prompts have equal hashes in all processes and versions.

use crate::{ChatRequest, fingerprint};
use serde_json::json;
use weftwork_types::canonical::{self, Hash};

/// Version of the hashed payload. Every change of the payload needs a new version.
pub(crate) const VERSION: &str = "v1";

/// Hashes the inputs that determine an answer: model, messages, temperature, `top_p`, `stop`, `seed`,
/// token limit and tools.
///
/// Ids, callers and other data that only serve correlation or billing are left out. Only
/// [`crate::ModelCaller`] computes this hash.
#[must_use]
pub(crate) fn prompt_hash(model: &str, request: &ChatRequest) -> Hash {
    let mut payload = json!({
        "prompt_hash_version": VERSION,
        "model": model,
        "messages": fingerprint::messages(&request.messages),
        "temperature": fingerprint::decimal(request.temperature),
        "max_tokens": request.max_tokens,
    });
    fingerprint::add_later_options(&mut payload, request);
    if !request.tools.is_empty() {
        payload["tools"] = request.tools.iter().map(fingerprint::tool).collect();
    }
    canonical::hash(&payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ToolChoice;
    use weftwork_types::message::{Message, Part, Role, ToolCall, ToolResult};
    use weftwork_types::tool::{Effect, ToolSpec, UnknownOutcome};
    use weftwork_types::{MessageId, ToolCallId};

    fn message(id: &str, role: Role, text: &str) -> Message {
        Message::text(MessageId::new(id).expect("an id"), role, text)
    }

    fn plain() -> ChatRequest {
        ChatRequest { messages: vec![message("m1", Role::User, "hello")], ..Default::default() }
    }

    fn with_call(call_id: &str) -> ChatRequest {
        let id = ToolCallId::new(call_id).expect("an id");
        let call = ToolCall {
            id: id.clone(),
            name: "add".to_owned(),
            args: json!({"b": 2, "a": 1}),
            shown: None,
        };
        let result = ToolResult {
            tool_call_id: id,
            name: "add".to_owned(),
            value: json!(3),
            shown: None,
            is_error: false,
        };
        let mut messages = plain().messages;
        messages.push(Message::new(
            MessageId::new("m2").expect("an id"),
            Role::Assistant,
            vec![Part::ToolCall(call)],
        ));
        messages.push(Message::tool_result(MessageId::new("m3").expect("an id"), result));
        let add = ToolSpec {
            name: "math/add".to_owned(),
            description: "adds".to_owned(),
            parameters: json!({"type": "object"}),
            output: None,
            effect: Effect::ReadOnly,
            on_unknown: UnknownOutcome::Idempotent,
            shown: None,
            examples: Vec::new(),
        };
        ChatRequest {
            messages,
            tools: vec![add],
            temperature: Some(0.7),
            max_tokens: Some(100),
            ..Default::default()
        }
    }

    /// Known hashes, which change only together with [`VERSION`].
    #[test]
    fn known_prompts_keep_their_hashes() {
        let payload = r#"{"max_tokens":null,"messages":[{"content":"hello","role":"user"}],"model":"openai:m","prompt_hash_version":"v1","temperature":null}"#;
        assert_eq!(prompt_hash("openai:m", &plain()), canonical::hash_bytes(payload.as_bytes()));
        assert_eq!(
            prompt_hash("openai:m", &plain()).to_string(),
            "107bb55791c99f79cdfd76e94867fbef9440b92eb649d22600f78d73d6156b59"
        );
        assert_eq!(
            prompt_hash("openai:m", &with_call("call_1")).to_string(),
            "a97e6650d48751f31c6ca5c395f6b95bac22e45c872c6f7bf5a85727b3c89c7d"
        );
    }

    /// Media count by kind and address, and reasoning by its text: signatures differ by chance.
    #[test]
    fn media_and_reasoning_have_one_form_in_all_protocols() {
        let media = |url: &str| {
            Part::Media(weftwork_types::message::Media {
                media_type: "image/png".to_owned(),
                url: url.to_owned(),
            })
        };
        let reasoning = |signature: Option<&str>| Part::Reasoning {
            text: "hm".to_owned(),
            signature: signature.map(str::to_owned),
        };
        let with = |part: Part| {
            let mut request = plain();
            request.messages[0].parts.push(part);
            prompt_hash("openai:m", &request)
        };
        let payload = r#"{"max_tokens":null,"messages":[{"content":[{"text":"hello","type":"text"},{"media_type":"image/png","type":"media","url":"data:image/png;base64,AA=="}],"role":"user"}],"model":"openai:m","prompt_hash_version":"v1","temperature":null}"#;
        let image = with(media("data:image/png;base64,AA=="));
        assert_eq!(image, canonical::hash_bytes(payload.as_bytes()));
        assert_ne!(image, with(media("data:image/png;base64,AQ==")));
        let payload = r#"{"max_tokens":null,"messages":[{"content":[{"text":"hello","type":"text"},{"text":"hm","type":"reasoning"}],"role":"user"}],"model":"openai:m","prompt_hash_version":"v1","temperature":null}"#;
        assert_eq!(with(reasoning(None)), canonical::hash_bytes(payload.as_bytes()));
        assert_eq!(with(reasoning(Some("gemini:a"))), with(reasoning(Some("anthropic:b"))));
    }

    #[test]
    fn ids_and_what_only_correlates_make_no_difference() {
        let one = prompt_hash("openai:m", &with_call("call_1"));
        assert_eq!(one, prompt_hash("openai:m", &with_call("another")));
        let mut renamed = with_call("call_1");
        renamed.messages[0].id = MessageId::new("x").expect("an id");
        assert_eq!(one, prompt_hash("openai:m", &renamed));
    }

    #[test]
    fn what_decides_about_the_answer_makes_one() {
        let base = prompt_hash("openai:m", &with_call("c"));
        let changed: [fn(&mut ChatRequest); 8] = [
            |r| r.temperature = None,
            |r| r.top_p = Some(0.9),
            |r| r.stop = vec!["END".to_owned()],
            |r| r.seed = Some(7),
            |r| r.max_tokens = Some(99),
            |r| r.tools.clear(),
            |r| r.messages[0] = message("m1", Role::User, "hallo"),
            |r| r.messages[0] = message("m1", Role::System, "hello"),
        ];
        for change in changed {
            let mut request = with_call("c");
            change(&mut request);
            assert_ne!(prompt_hash("openai:m", &request), base);
        }
        assert_ne!(prompt_hash("groq:m", &with_call("c")), base);
    }

    /// Requests with options of later versions: each value makes another hash, and a request without
    /// them has the payload of the first version.
    #[test]
    fn later_options_are_hashed_only_where_they_are_set() {
        let with = |seed: Option<i64>, top_p: Option<f32>, stop: &[&str]| {
            let stop = stop.iter().map(|text| (*text).to_owned()).collect();
            ChatRequest { seed, top_p, stop, ..plain() }
        };
        let all = with(Some(-1), Some(0.9), &["END"]);
        let payload = r#"{"max_tokens":null,"messages":[{"content":"hello","role":"user"}],"model":"openai:m","prompt_hash_version":"v1","seed":-1,"stop":["END"],"temperature":null,"top_p":0.9}"#;
        assert_eq!(prompt_hash("openai:m", &all), canonical::hash_bytes(payload.as_bytes()));
        let first = r#"{"max_tokens":null,"messages":[{"content":"hello","role":"user"}],"parallel_tool_calls":null,"response_schema":null,"temperature":null,"tool_choice":"auto","tools":[]}"#;
        assert_eq!(canonical::to_string(&fingerprint::request(&plain())), first);
        let others = [
            with(None, None, &[]),
            with(Some(1), None, &[]),
            with(Some(2), None, &[]),
            with(None, Some(0.5), &[]),
            with(None, Some(0.9), &[]),
            with(None, None, &["a"]),
            with(None, None, &["b"]),
            with(None, None, &["a", "b"]),
            with(None, None, &["b", "a"]),
        ];
        for hashes in [
            others.each_ref().map(|request| prompt_hash("openai:m", request)),
            others.each_ref().map(|request| canonical::hash(&fingerprint::request(request))),
        ] {
            let different: std::collections::BTreeSet<_> =
                hashes.iter().map(ToString::to_string).collect();
            assert_eq!(different.len(), others.len());
        }
    }

    #[test]
    fn the_journal_also_tells_tool_choice_and_schema_apart() {
        let base = fingerprint::request(&plain());
        let required = ChatRequest { tool_choice: ToolChoice::Required, ..plain() };
        let schema = ChatRequest { response_schema: Some(json!({})), ..plain() };
        assert_ne!(fingerprint::request(&required), base);
        assert_ne!(fingerprint::request(&schema), base);
    }
}
