//! A fast parser for messages in the exact format in which this program writes them.
//!
//! Nearly every stored list of messages was written by this program: without white space, with all
//! members of each object in a fixed order. Parsing only this format takes a fraction of the time
//! of a general JSON parser. Any other format is left to the general parser, which also reports
//! errors.

use super::{Media, Message, Part, Role, ToolCall, ToolResult};
use crate::canonical::can_be_read_back;
use crate::{MessageId, ToolCallId};
use serde_json::Value;
use std::borrow::Cow;

/// Number of bytes that are examined together.
const LANES: usize = 16;

/// Parses a list of messages from JSON text in the exact format in which this program writes it,
/// and passes each message to `take`, in order.
///
/// Returns `false` if the text has another format. Some of the first messages may have been passed
/// to `take` by then, with the same content that a general parser returns. The caller then has to
/// parse the text again from the start with such a parser.
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

/// The text that is not yet parsed. `None` from a method is not an error: the text has another
/// format.
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
        Some(Message::new(id, role, parts))
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
        let args = self.value()?;
        let is_hidden = self.is_next(",\"shown\":");
        let shown = if is_hidden { Some(self.value()?) } else { None };
        Some(ToolCall { id, name, args, shown })
    }

    fn tool_result(&mut self) -> Option<ToolResult> {
        let tool_call_id = ToolCallId::new(self.words()?).ok()?;
        self.skip(",\"name\":\"")?;
        let name = self.words()?.into_owned();
        self.skip(",\"value\":")?;
        let value = self.value()?;
        let is_hidden = self.is_next(",\"shown\":");
        let shown = if is_hidden { Some(self.value()?) } else { None };
        self.skip(",\"is_error\":")?;
        let is_error = self.is_next("true");
        if !is_error {
            self.skip("false")?;
        }
        Some(ToolResult { tool_call_id, name, value, shown, is_error })
    }

    /// Parses a string whose opening quote was consumed, with its closing quote.
    fn words(&mut self) -> Option<Cow<'t, str>> {
        let end = end_of_plain(self.rest.as_bytes());
        let (words, rest) = self.rest.split_at_checked(end)?;
        if let Some(rest) = rest.strip_prefix('"') {
            self.rest = rest;
            return Some(Cow::Borrowed(words));
        }
        // Escapes are left to the general parser.
        let mut end = end;
        while self.rest.as_bytes().get(end) == Some(&b'\\') {
            end += 2;
            end += end_of_plain(self.rest.as_bytes().get(end..)?);
        }
        let (words, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest.strip_prefix('"')?;
        serde_json::from_str(&format!("\"{words}\"")).ok().map(Cow::Owned)
    }

    /// Parses any value that is not nested too deeply, given that the surrounding record adds some
    /// levels.
    fn value(&mut self) -> Option<Value> {
        let mut values = serde_json::Deserializer::from_str(self.rest).into_iter();
        let value = values.next()?.ok()?;
        self.rest = self.rest.get(values.byte_offset()..)?;
        can_be_read_back(&value).then_some(value)
    }
}

/// Returns the number of bytes before the first byte that ends a string, starts an escape or is not
/// allowed in a string.
fn end_of_plain(bytes: &[u8]) -> usize {
    // Without short-circuit evaluation, the comparisons of many bytes compile to vector
    // instructions.
    let ends = |byte: &u8| (*byte == b'"') | (*byte == b'\\') | (*byte < 0x20);
    let (lanes, _) = bytes.as_chunks::<LANES>();
    let has_end = |lane: &[u8; LANES]| lane.iter().fold(0, |any, byte| any | u8::from(ends(byte)));
    let start = lanes.iter().take_while(|lane| has_end(lane) == 0).count() * LANES;
    let rest = bytes.get(start..).unwrap_or_default();
    start + rest.iter().position(ends).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests;
