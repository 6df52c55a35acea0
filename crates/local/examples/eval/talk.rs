//! A conversation with the model, whose tools are played.

use futures_util::StreamExt;
use serde_json::Value;
use std::error::Error;
use std::sync::Arc;
use weftwork_local::chat::LocalModel;
use weftwork_models::{ChatEvent, ChatModel, ChatRequest};
use weftwork_types::message::{Message, Part, Role, ToolCall, ToolResult};
use weftwork_types::tool::ToolSpec;
use weftwork_types::{MessageId, ToolCallId};

/// The content of one answer: a call, or words.
#[derive(Debug, Default)]
pub(crate) struct Made {
    pub(crate) name: String,
    pub(crate) args: String,
    pub(crate) text: String,
    id: String,
}

pub(crate) struct Talk<'a> {
    model: &'a LocalModel,
    request: ChatRequest,
}

impl<'a> Talk<'a> {
    pub(crate) fn new(
        model: &'a LocalModel,
        tools: &[ToolSpec],
        says: &str,
    ) -> Result<Self, Box<dyn Error>> {
        let message = Message::text(MessageId::new("m1")?, Role::User, says);
        let request = ChatRequest {
            messages: vec![message],
            tools: tools.to_vec(),
            ..ChatRequest::default()
        };
        Ok(Self { model, request })
    }

    /// The model's next answer.
    pub(crate) async fn turn(&mut self) -> Result<Made, Box<dyn Error>> {
        let mut stream = self.model.stream(Arc::new(self.request.clone()));
        let mut made = Made::default();
        while let Some(event) = stream.next().await {
            match event? {
                ChatEvent::ToolCallDelta { id, name, args, .. } => {
                    made.id.extend(id);
                    made.name.extend(name);
                    made.args.push_str(&args);
                }
                ChatEvent::TextDelta(text) => made.text.push_str(&text),
                _ => {}
            }
        }
        Ok(made)
    }

    /// Gives a call its result.
    pub(crate) fn result(&mut self, made: &Made, value: Value) -> Result<(), Box<dyn Error>> {
        let id = ToolCallId::new(&made.id)?;
        let number = self.request.messages.len();
        let name = made.name.clone();
        let args = serde_json::from_str(&made.args)?;
        let call = ToolCall { id: id.clone(), name: name.clone(), args, shown: None };
        self.request.messages.push(Message::new(
            MessageId::new(format!("a{number}"))?,
            Role::Assistant,
            vec![Part::ToolCall(call)],
        ));
        let result = ToolResult { tool_call_id: id, name, value, shown: None, is_error: false };
        let id = MessageId::new(format!("t{number}"))?;
        self.request.messages.push(Message::tool_result(id, result));
        Ok(())
    }
}
