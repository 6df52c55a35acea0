//! Messages in the outputs of tasks.

use super::{ChannelIdx, Plan};
use crate::channel::{
    MessageWrite, Messages, messages_in_json, messages_written, returned_messages,
};
use crate::task::TaskOutput;
use crate::value::Write;

/// The name under which a flow or a task returns its result.
const RETURNED: &str = "__return__";
/// The index of the write with the value saved for the next turn of a flow.
const SAVED: usize = 1;

impl Plan {
    /// The messages that a task returned, in the order of its writes: the messages and removals
    /// written to conversations, and values of other channels that are messages or lists with
    /// messages, without overwrites. For flows and their tasks, the messages of the result and of
    /// the saved value.
    #[must_use]
    pub fn messages_in(&self, output: &TaskOutput) -> Vec<MessageWrite> {
        let mut found = Vec::new();
        let result = output.named.iter().find(|(name, _)| name == RETURNED);
        if let Some((_, Write::Json(result))) = result {
            found.extend(returned_messages(result));
            if let Some((_, Write::Json(saved))) = output.writes.get(SAVED) {
                found.extend(messages_in_json(saved));
            }
            return found;
        }
        for (index, write) in &output.writes {
            messages_written(write, self.is_conversation(Some(*index)), &mut found);
        }
        for (name, write) in &output.named {
            messages_written(write, self.is_conversation(self.channel_idx(name)), &mut found);
        }
        found
    }

    /// Returns `true` if a channel holds the messages of a conversation.
    #[must_use]
    pub fn is_conversation(&self, channel: Option<ChannelIdx>) -> bool {
        let channel = channel.and_then(|index| self.channels.get(index.0));
        channel.is_some_and(|planned| planned.channel.kind() == Messages::KIND)
    }
}

#[cfg(test)]
mod tests {
    use crate::channel::{Append, Items, LastValue, MessageWrite, Messages};
    use crate::plan::{ChannelIdx, Plan, PlanBuilder, START};
    use crate::task::TaskOutput;
    use crate::value::Write;
    use serde_json::{Value as Json, json};
    use std::sync::Arc;
    use weftwork_types::MessageId;
    use weftwork_types::message::{Message, Role};

    fn message(id: &str) -> Message {
        Message::text(MessageId::new(id).expect("an id"), Role::User, "hi")
    }

    fn plan() -> Plan {
        let mut plan = PlanBuilder::default();
        plan.channel("talk", Arc::new(Messages));
        plan.channel("one", Arc::new(LastValue::<Json>::new()));
        plan.channel("all", Arc::new(Append::<Message>::new()));
        plan.node("a");
        plan.edge(START, "a");
        plan.build().expect("sound")
    }

    fn found(output: &TaskOutput) -> Vec<String> {
        let id = |change: MessageWrite| match change {
            MessageWrite::Put(message) => message.id.to_string(),
            MessageWrite::Remove { remove } => format!("-{remove}"),
        };
        plan().messages_in(output).into_iter().map(id).collect()
    }

    #[test]
    fn messages_are_found_in_writes_of_every_form() {
        let mut output = TaskOutput::default();
        let changes = [MessageWrite::Put(message("a")), MessageWrite::remove_all()];
        output.write(ChannelIdx(0), Write::typed(Items::from_iter(changes)));
        output.write(ChannelIdx(2), Write::typed(Items::from_iter([message("b")])));
        output.write(ChannelIdx(1), Write::json(json!([message("c"), 5, {"remove": "x"}])));
        output.named = vec![
            ("talk".to_owned(), Write::json(json!([message("d"), {"remove": "y"}]))),
            ("talk".to_owned(), Write::overwrite(json!([message("e")]))),
            ("unknown".to_owned(), Write::json(json!(message("f")))),
            ("one".to_owned(), Write::json(json!({"nested": message("g")}))),
        ];
        assert_eq!(found(&output), ["a", "-__remove_all__", "b", "c", "d", "-y", "f"]);
    }

    #[test]
    fn results_of_flows_are_searched_to_their_members() {
        let returned = |result: Json| {
            let named = vec![("__return__".to_owned(), Write::json(result))];
            found(&TaskOutput { named, ..TaskOutput::default() })
        };
        assert_eq!(returned(json!(message("a"))), ["a"]);
        assert_eq!(returned(json!([message("a"), 1])), ["a"]);
        assert_eq!(returned(json!({"x": message("a"), "y": [message("b")]})), ["a", "b"]);
        assert_eq!(returned(json!({"x": {"y": message("a")}})), [""; 0]);
    }
}
