//! Messages of requests.

use crate::error::{ApiError, Result};
use serde_json::Value;
use weftwork_types::message::{Message, Part, Role, langchain};

/// Maximum number of messages of a request.
const MESSAGES_MAX: usize = 2_000;

/// The messages of a request, in order, as an agent gets them.
///
/// Texts of `system` and `developer` come before the text of the user that follows them, in one message
/// with it: the instructions of an agent are those of its definition, and clients are its users. Messages
/// without content, and results of tools that a client ran, are left out.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    messages: Vec<Message>,
    /// Texts of `system` and `developer` that no message of the user has followed.
    instructions: Vec<Part>,
    /// Roles of messages that were left out.
    pub(crate) ignored: Vec<&'static str>,
}

impl Messages {
    /// Reads a list of messages.
    ///
    /// # Errors
    /// Status 400 for a list that is too long, and as [`add`](Self::add).
    pub(crate) fn read(list: &[Value], param: &str) -> Result<Self> {
        if list.len() > MESSAGES_MAX {
            let message =
                format!("`{param}` has {} messages; expected at most {MESSAGES_MAX}", list.len());
            return Err(ApiError::invalid(param, message));
        }
        let mut messages = Self::default();
        for (index, message) in list.iter().enumerate() {
            messages.add(message, &format!("{param}[{index}]"))?;
        }
        Ok(messages)
    }

    /// Adds a message.
    ///
    /// # Errors
    /// Status 400 for an unknown role, or content that is neither text nor a medium.
    pub(crate) fn add(&mut self, message: &Value, param: &str) -> Result<()> {
        if !message.is_object() {
            return Err(ApiError::wrong_type(
                param,
                message,
                "a message with `role` and `content`",
            ));
        }
        let role = &message["role"];
        let parts = || read_content(&message["content"], &format!("{param}.content"));
        match role.as_str() {
            Some("system" | "developer") => self.instructions.extend(parts()?),
            Some("user") => {
                let own = parts()?;
                if !own.is_empty() {
                    self.add_user(own);
                }
            }
            Some("assistant") => {
                let parts = parts()?;
                if !parts.is_empty() {
                    let mut message = Message::assistant("");
                    message.parts = parts;
                    self.messages.push(message);
                }
            }
            Some("tool" | "function") => self.ignored.push("tool messages"),
            _ => {
                let param = format!("{param}.role");
                let expected = "system, developer, user, assistant or tool";
                return Err(ApiError::wrong_type(&param, role, expected));
            }
        }
        Ok(())
    }

    /// Returns the messages after instructions.
    pub(crate) fn after(mut self, first: Self) -> Self {
        let mut instructions = first.instructions;
        let user = self.messages.iter_mut().find(|message| message.role == Role::User);
        match user {
            Some(user) => {
                end_paragraphs(&mut instructions);
                user.parts.splice(0..0, instructions);
            }
            None => {
                instructions.append(&mut self.instructions);
                self.instructions = instructions;
            }
        }
        self
    }

    /// Adds a text of the user.
    pub(crate) fn add_text(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.add_user(vec![Part::Text { text: text.to_owned() }]);
        }
    }

    /// Adds instructions before the next message of the user.
    pub(crate) fn instruct(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.instructions.push(Part::Text { text: text.to_owned() });
        }
    }

    fn add_user(&mut self, own: Vec<Part>) {
        let mut parts = std::mem::take(&mut self.instructions);
        end_paragraphs(&mut parts);
        parts.extend(own);
        let mut message = Message::user("");
        message.parts = parts;
        self.messages.push(message);
    }

    /// Returns the messages, of which the last one is the user's.
    ///
    /// # Errors
    /// Status 400 if it is not.
    pub(crate) fn finish(mut self, param: &str) -> Result<Vec<Message>> {
        if !self.instructions.is_empty() {
            self.add_user(Vec::new());
        }
        match self.messages.last().map(|message| message.role) {
            Some(Role::User) => Ok(self.messages),
            Some(_) => {
                let message = format!(
                    "the last message of `{param}` is the assistant's, and an agent continues no \
                     answer; end with a message of the user"
                );
                Err(ApiError::invalid(param, message))
            }
            None => {
                let message = format!("`{param}` has no message with text or an image");
                Err(ApiError::invalid(param, message))
            }
        }
    }
}

/// Separates texts from the text that follows them.
fn end_paragraphs(parts: &mut [Part]) {
    for part in parts {
        if let Part::Text { text } = part {
            text.push_str("\n\n");
        }
    }
}

/// Reads content: a text, or a list of parts. None, and an empty text, have no parts.
fn read_content(content: &Value, param: &str) -> Result<Vec<Part>> {
    let list = match content {
        Value::Null => return Ok(Vec::new()),
        Value::String(text) if text.is_empty() => return Ok(Vec::new()),
        Value::String(text) => return Ok(vec![Part::Text { text: text.clone() }]),
        Value::Array(list) => list,
        other => return Err(ApiError::wrong_type(param, other, "a text or a list of parts")),
    };
    let mut parts = Vec::new();
    for (index, part) in list.iter().enumerate() {
        let param = format!("{param}[{index}]");
        parts.extend(read_part(part, &param)?);
    }
    Ok(parts)
}

fn read_part(part: &Value, param: &str) -> Result<Vec<Part>> {
    match part["type"].as_str() {
        Some("text" | "input_text" | "output_text") => read_text(&part["text"], param, "text"),
        Some("refusal") => read_text(&part["refusal"], param, "refusal"),
        Some("image_url" | "input_image" | "input_audio" | "file" | "input_file") => {
            let read = langchain::blocks(Value::Array(vec![part.clone()]));
            read.map_err(|problem| ApiError::invalid(param, format!("`{param}`: {problem}")))
        }
        _ => {
            let param = format!("{param}.type");
            let expected =
                "text, image_url or file (input_text, input_image or input_file in responses)";
            Err(ApiError::wrong_type(&param, &part["type"], expected))
        }
    }
}

fn read_text(text: &Value, param: &str, name: &str) -> Result<Vec<Part>> {
    match text {
        Value::String(text) if text.is_empty() => Ok(Vec::new()),
        Value::String(text) => Ok(vec![Part::Text { text: text.clone() }]),
        other => Err(ApiError::wrong_type(&format!("{param}.{name}"), other, "a text")),
    }
}
