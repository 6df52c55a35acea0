//! Reading messages in the very form in which this program writes them.
//!
//! Nearly every list of messages that is read was written here: without spaces, the members of each
//! object in their order, none missing and none more. To check for just that takes a fraction of
//! what it takes to read any JSON that means the same. What is of another form is left to the
//! readers of that, which also say what is wrong.

use super::{Media, Message, Part, Role, ToolCall, ToolResult};
use crate::canonical::can_be_read_back;
use crate::{MessageId, ToolCallId};
use serde_json::Value;
use std::borrow::Cow;

/// Bytes that are looked at together.
const LANES: usize = 16;

/// Reads a list of messages as JSON text in the form in which this program writes it, and gives
/// each to `take`, in order.
///
/// `false` when the text has another form. Some of its first messages may have been taken then,
/// all of them as any other reader reads them; such a reader is to read the text from its beginning.
#[must_use]
pub fn read_written(text: &str, mut take: impl FnMut(Message)) -> bool {
    let mut read = Written { rest: text };
    let mut all = || {
        read.skip("[")?;
        loop {
            take(read.message()?);
            if read.is_next(",") {
                continue;
            }
            read.skip("]")?;
            return read.rest.is_empty().then_some(());
        }
    };
    all().is_some()
}

/// What is still to be read. Nothing that it says is an error: where a method gives nothing, the
/// text has another form.
struct Written<'t> {
    rest: &'t str,
}

impl<'t> Written<'t> {
    fn skip(&mut self, expected: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(expected)?;
        Some(())
    }

    fn is_next(&mut self, expected: &str) -> bool {
        self.skip(expected).is_some()
    }

    fn message(&mut self) -> Option<Message> {
        self.skip("{\"id\":\"")?;
        let id = MessageId::new(self.words()?).ok()?;
        self.skip(",\"role\":\"")?;
        let role = self.role()?;
        self.skip("\",\"parts\":[")?;
        let mut parts = Vec::new();
        if !self.is_next("]") {
            parts.reserve_exact(1);
            parts.push(self.part()?);
            while self.is_next(",") {
                parts.push(self.part()?);
            }
            self.skip("]")?;
        }
        self.skip("}")?;
        Some(Message { id, role, parts })
    }

    fn role(&mut self) -> Option<Role> {
        let known = [
            ("assistant", Role::Assistant),
            ("user", Role::User),
            ("tool", Role::Tool),
            ("system", Role::System),
        ];
        known.into_iter().find_map(|(name, role)| self.is_next(name).then_some(role))
    }

    fn part(&mut self) -> Option<Part> {
        self.skip("{\"type\":\"")?;
        let part = if self.is_next("text\",\"text\":\"") {
            Part::Text { text: self.words()?.into_owned() }
        } else if self.is_next("tool_call\",\"id\":\"") {
            Part::ToolCall(self.tool_call()?)
        } else if self.is_next("tool_result\",\"tool_call_id\":\"") {
            Part::ToolResult(self.tool_result()?)
        } else if self.is_next("reasoning\",\"text\":\"") {
            let text = self.words()?.into_owned();
            let signed = self.is_next(",\"signature\":\"");
            let signature = if signed { Some(self.words()?.into_owned()) } else { None };
            Part::Reasoning { text, signature }
        } else {
            self.skip("media\",\"media_type\":\"")?;
            let media_type = self.words()?.into_owned();
            self.skip(",\"url\":\"")?;
            Part::Media(Media { media_type, url: self.words()?.into_owned() })
        };
        self.skip("}")?;
        Some(part)
    }

    fn tool_call(&mut self) -> Option<ToolCall> {
        let id = ToolCallId::new(self.words()?).ok()?;
        self.skip(",\"name\":\"")?;
        let name = self.words()?.into_owned();
        self.skip(",\"args\":")?;
        Some(ToolCall { id, name, args: self.value()? })
    }

    fn tool_result(&mut self) -> Option<ToolResult> {
        let tool_call_id = ToolCallId::new(self.words()?).ok()?;
        self.skip(",\"name\":\"")?;
        let name = self.words()?.into_owned();
        self.skip(",\"value\":")?;
        let value = self.value()?;
        self.skip(",\"is_error\":")?;
        let is_error = self.is_next("true");
        if !is_error {
            self.skip("false")?;
        }
        Some(ToolResult { tool_call_id, name, value, is_error })
    }

    /// A text whose opening quote was read, and its closing quote.
    fn words(&mut self) -> Option<Cow<'t, str>> {
        let end = end_of_plain(self.rest.as_bytes());
        let (words, rest) = self.rest.split_at_checked(end)?;
        if let Some(rest) = rest.strip_prefix('"') {
            self.rest = rest;
            return Some(Cow::Borrowed(words));
        }
        // Whoever reads all of JSON also knows which escapes there are.
        let mut end = end;
        while self.rest.as_bytes().get(end) == Some(&b'\\') {
            end += 2;
            end += end_of_plain(self.rest.as_bytes().get(end..)?);
        }
        let (words, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest.strip_prefix('"')?;
        serde_json::from_str(&format!("\"{words}\"")).ok().map(Cow::Owned)
    }

    /// Any value that is not nested too deeply: what is around it may take another few levels.
    fn value(&mut self) -> Option<Value> {
        let mut values = serde_json::Deserializer::from_str(self.rest).into_iter();
        let value = values.next()?.ok()?;
        self.rest = self.rest.get(values.byte_offset()..)?;
        can_be_read_back(&value).then_some(value)
    }
}

/// How many bytes there are before the first that ends a text, begins an escape or must not be in a
/// text as it is.
fn end_of_plain(bytes: &[u8]) -> usize {
    // Without a choice between the three, many bytes are looked at in one instruction.
    let ends = |byte: &u8| (*byte == b'"') | (*byte == b'\\') | (*byte < 0x20);
    let (lanes, _) = bytes.as_chunks::<LANES>();
    let has_end = |lane: &[u8; LANES]| lane.iter().fold(0, |any, byte| any | u8::from(ends(byte)));
    let start = lanes.iter().take_while(|lane| has_end(lane) == 0).count() * LANES;
    let rest = bytes.get(start..).unwrap_or_default();
    start + rest.iter().position(ends).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests;
