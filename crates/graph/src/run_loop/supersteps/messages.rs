//! Messages in the input of a run and in changes, in the forms in which people write them.

use super::RunLoop;
use crate::compiled::CompiledGraph;
use crate::error::RuntimeError;
use serde_json::{Map, Value as Json};
use std::sync::Arc;
use weftwork_engine::EngineError;
use weftwork_engine::pregel::StartInput;
use weftwork_types::MessageId;
use weftwork_types::canonical::{first_128, hash};
use weftwork_types::message::langchain;

/// Channel of an input that is a message, or the text of one.
const CHANNEL: &str = "messages";

impl RunLoop {
    /// Gives messages of the input the form of the conversation, and an id where they have none. A
    /// process that repeats the start of the run derives the same ids.
    pub(super) fn with_messages(&self, input: StartInput) -> Result<StartInput, RuntimeError> {
        let StartInput::Json(json) = &input else { return Ok(input) };
        let loop_context = &self.loop_context;
        if !loop_context.graph.reads_messages() || !is_short(&loop_context.graph, json) {
            return Ok(input);
        }
        let parent = self.position.id();
        let place = format!(
            "{}\u{0}{}\u{0}{parent:?}",
            loop_context.run.options.thread, loop_context.address.ns
        );
        let mut channels = loop_context.graph.input_by_channel(Json::clone(json));
        let named = channels.as_object_mut().into_iter().flatten();
        loop_context.graph.complete_messages(named, &place)?;
        Ok(StartInput::Json(Arc::new(channels)))
    }
}

impl CompiledGraph {
    /// Returns input with its channels named: a message, or the text of one, is for the channel
    /// `messages`, if the graph has such a conversation. Other input stays as it is.
    #[must_use]
    pub fn input_by_channel(&self, input: Json) -> Json {
        if !self.reads_messages() || !is_message(self, &input) {
            return input;
        }
        Json::Object(Map::from_iter([(CHANNEL.to_owned(), input)]))
    }

    /// Gives messages in the writes of a change the form of the conversation, and an id where they
    /// have none: the same for equal writes at one `place`.
    pub(crate) fn with_whole_messages(
        &self,
        mut writes: Vec<(String, Json)>,
        place: &str,
    ) -> Result<Vec<(String, Json)>, RuntimeError> {
        if self.reads_messages() {
            let named = writes.iter_mut().map(|(channel, value)| (&*channel, value));
            self.complete_messages(named, place)?;
        }
        Ok(writes)
    }

    fn complete_messages<'w>(
        &self,
        writes: impl Iterator<Item = (&'w String, &'w mut Json)>,
        place: &str,
    ) -> Result<(), RuntimeError> {
        for (channel, value) in writes {
            if self.holds_messages(channel) && has_short(value) {
                *value = read_messages(channel, std::mem::take(value), place)?;
            }
        }
        Ok(())
    }

    /// `false` if the input is taken as it is: by the node of a flow, and by channels of the reference,
    /// which read messages by themselves.
    fn reads_messages(&self) -> bool {
        !self.plan().is_single() && !self.settings().ignores_unknown
    }
}

/// Returns `true` if the input is a message or has one in another form than that of a conversation.
fn is_short(graph: &CompiledGraph, input: &Json) -> bool {
    let channels = || input.as_object().into_iter().flatten();
    is_message(graph, input)
        || channels().any(|(channel, value)| graph.holds_messages(channel) && has_short(value))
}

/// Returns `true` if the whole input is a message, or the text of one.
fn is_message(graph: &CompiledGraph, input: &Json) -> bool {
    let is_known = |name: &str| graph.plan().channel_idx(name).is_some();
    let is_object = || {
        input.get("role").is_some_and(Json::is_string) && !is_known("role") && !is_known("content")
    };
    graph.holds_messages(CHANNEL) && (input.is_string() || is_object())
}

fn has_short(value: &Json) -> bool {
    match value {
        Json::Array(items) => items.iter().any(|item| item.is_string() || is_short_message(item)),
        one => one.is_string() || is_short_message(one),
    }
}

/// Returns `true` if a message has no id, or its content in another form than parts.
fn is_short_message(value: &Json) -> bool {
    let has = |name| value.get(name).is_some();
    value.is_object() && !has("remove") && !(has("id") && has("parts"))
}

fn read_messages(channel: &str, value: Json, place: &str) -> Result<Json, RuntimeError> {
    let said = hash(&value);
    let mut count = 0_u32;
    // Counted: two equal texts in one input are two messages.
    let mut make_id = || {
        count += 1;
        let bits = first_128(&format!("input\u{0}{place}\u{0}{channel}\u{0}{said}\u{0}{count}"));
        MessageId::from_uuid(uuid::Uuid::from_u128(bits))
    };
    langchain::read(value, &mut make_id).map_err(|reason| {
        let by = "the input".to_owned();
        EngineError::BadWrite { channel: channel.to_owned(), by, reason }.into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{LastValue, Messages};
    use crate::{ChannelDef, DynUpdate, Dynamic, Graph, Input, START};
    use serde_json::json;

    fn graph(more: &[&'static str]) -> CompiledGraph {
        let more = more.iter().map(|name| ChannelDef::new(*name, LastValue::<Json>::new()));
        let channels = [ChannelDef::new(CHANNEL, Messages)].into_iter().chain(more).collect();
        let node = async |_: Input| DynUpdate::new();
        let graph = Graph::<Dynamic>::dynamic("talk", channels).node("node", node);
        graph.edge(START, "node").build().expect("sound")
    }

    async fn messages(graph: &CompiledGraph, input: Json) -> Vec<Json> {
        let outcome = graph.invoke(input).await.expect("runs");
        outcome.output().expect("completes")[CHANNEL].as_array().expect("messages").clone()
    }

    #[tokio::test]
    async fn messages_need_no_id_and_no_parts() {
        let graph = graph(&[]);
        let said = json!({"role": "user", "content": "hi"});
        let parts = json!([{"type": "text", "text": "hi"}]);
        for input in [
            json!("hi"),
            said.clone(),
            json!({"messages": "hi"}),
            json!({"messages": said}),
            json!({"messages": ["hi"]}),
            json!({"messages": [said]}),
            json!({"messages": [{"role": "user", "parts": parts}]}),
            json!({"messages": [{"type": "human", "content": "hi"}]}),
        ] {
            let found = messages(&graph, input.clone()).await;
            assert_eq!(found.len(), 1, "{input}");
            assert_eq!((&found[0]["role"], &found[0]["parts"]), (&json!("user"), &parts));
            assert_eq!(messages(&graph, input).await, found, "the same ids again");
        }
        // Messages with ids keep them, also beside others.
        let whole = json!({"id": "a", "role": "assistant", "parts": parts});
        let named = json!({"id": "b", "role": "user", "content": "hi"});
        let found = messages(&graph, json!({"messages": [whole, "hi", "hi", named]})).await;
        let ids: Vec<&str> = found.iter().filter_map(|message| message["id"].as_str()).collect();
        assert!(ids.len() == 4 && (ids[0], ids[3]) == ("a", "b") && ids[1] != ids[2], "{ids:?}");
    }

    #[tokio::test]
    async fn input_that_is_no_message_is_refused_with_its_reason() {
        let graph = graph(&["role"]);
        for (input, says) in [
            (json!({"messages": [{"content": "hi"}]}), "a message needs `type` or `role`"),
            (
                json!({"messages": [{"role": "me", "content": "hi"}]}),
                "message type `me` is not known",
            ),
            (json!({"messages": [{"role": "user", "content": 3}]}), "expected a text or a list"),
            // The graph has a channel `role`.
            (json!({"role": "user", "content": "hi"}), "names channel `content`"),
        ] {
            let error = graph.invoke(input.clone()).await.expect_err("refused").to_string();
            assert!(error.contains(says), "{input}: {error}");
        }
    }
}
