//! Halves of characters.
//!
//! Some servers cut the text of an answer between the two UTF-16 units of a character, and write each
//! of them as an escape of its own chunk. A unit alone is no text, so a character of a private area
//! stands for it until the other half is received.

use crate::chat::ChatEvent;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// First character of the private area that stands for units.
const FIRST: u32 = 0x0010_d800;
/// First unit that is a half of a character, the first one that is a second half, and the last one.
const UNITS: [u16; 3] = [0xd800, 0xdc00, 0xdfff];
/// Stands for a half without the other one.
const REPLACEMENT: char = '\u{fffd}';

/// Returns a JSON text in which a character of the private area stands for each escape of a half without
/// the other one.
pub(super) fn mark_halves(json: &str) -> Cow<'_, str> {
    if !json.contains("\\ud") && !json.contains("\\uD") {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let unit = half(rest).filter(|_| !(is_first(half(rest)) && is_second(rest.get(6..))));
        let length = match unit {
            Some(unit) => {
                out.extend(char::from_u32(FIRST + u32::from(unit - UNITS[0])));
                rest = &rest[6..];
                continue;
            }
            None if half(rest).is_some() => 12,
            None => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Returns the half of a character that an escape at the beginning of a text has.
fn half(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let unit = u16::from_str_radix(digits, 16).ok()?;
    (UNITS[0]..=UNITS[2]).contains(&unit).then_some(unit)
}

fn is_first(unit: Option<u16>) -> bool {
    unit.is_some_and(|unit| unit < UNITS[1])
}

fn is_second(text: Option<&str>) -> bool {
    text.and_then(half).is_some_and(|unit| unit >= UNITS[1])
}

/// Returns the half of a character that a character stands for.
fn half_of(char: char) -> Option<u16> {
    let unit = u16::try_from(u32::from(char).checked_sub(FIRST - u32::from(UNITS[0]))?).ok()?;
    (UNITS[0]..=UNITS[2]).contains(&unit).then_some(unit)
}

/// Returns a text with its halves joined. `open` is the first half at the end of the text before it, and
/// then that at its own end.
fn join(text: &str, open: &mut Option<u16>) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match (half_of(char), open.take()) {
            (Some(second), Some(first)) if second >= UNITS[1] => {
                out.extend(char::decode_utf16([first, second]).flatten());
            }
            (half, before) => {
                out.extend(before.map(|_| REPLACEMENT));
                match half {
                    Some(unit) if unit < UNITS[1] => *open = half,
                    Some(_) => out.push(REPLACEMENT),
                    None => out.push(char),
                }
            }
        }
    }
    out
}

/// Returns a whole text with its halves joined.
pub(super) fn join_all(text: &str) -> String {
    let mut open = None;
    let mut out = join(text, &mut open);
    out.extend(open.map(|_| REPLACEMENT));
    out
}

/// Texts of an answer that are sent in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Text {
    Answer,
    Reasoning,
    Arguments(usize),
}

/// First halves at the ends of the texts so far.
#[derive(Debug, Default)]
pub(super) struct OpenHalves(BTreeMap<Text, u16>);

impl OpenHalves {
    /// Joins the halves in the texts of events.
    pub(super) fn join(&mut self, events: &mut std::collections::VecDeque<ChatEvent>) {
        for event in events.iter_mut() {
            match event {
                ChatEvent::TextDelta(text) => self.join_piece(Text::Answer, text),
                ChatEvent::ReasoningDelta(text) => self.join_piece(Text::Reasoning, text),
                ChatEvent::ReasoningSignature(text) => *text = join_all(text),
                ChatEvent::ToolCallDelta { index, id, name, args } => {
                    self.join_piece(Text::Arguments(*index), args);
                    id.iter_mut().chain(name).for_each(|text| *text = join_all(text));
                }
                _ => {}
            }
        }
        events.retain(|event| {
            let (ChatEvent::TextDelta(text) | ChatEvent::ReasoningDelta(text)) = event else {
                return true;
            };
            !text.is_empty()
        });
    }

    fn join_piece(&mut self, of: Text, text: &mut String) {
        if text.is_empty() {
            return;
        }
        let mut open = self.0.remove(&of);
        *text = join(text, &mut open);
        self.0.extend(open.map(|open| (of, open)));
    }

    /// Returns events for halves whose other half was not received.
    pub(super) fn end(&mut self) -> impl Iterator<Item = ChatEvent> {
        std::mem::take(&mut self.0).into_keys().filter_map(|text| match text {
            Text::Answer => Some(ChatEvent::TextDelta(REPLACEMENT.into())),
            Text::Reasoning => Some(ChatEvent::ReasoningDelta(REPLACEMENT.into())),
            // Arguments that end within a text are no JSON.
            Text::Arguments(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_joined_and_whole_characters_stay() {
        for (json, text) in [
            (r#"a\ud83d\ude00b"#, r#"a\ud83d\ude00b"#),
            (r#"a\\ud83d"#, r#"a\\ud83d"#),
            (r#"\uD83D"#, "\u{fffd}"),
            (r#"\ude00x"#, "\u{fffd}x"),
            (r#"\ud83d\ud83d\ude00"#, "\u{fffd}\\ud83d\\ude00"),
            (r#"\ud8"#, r#"\ud8"#),
            (r#"é\"#, r#"é\"#),
        ] {
            assert_eq!(join_all(&mark_halves(json)), text, "{json}");
        }
        let mut open = None;
        assert_eq!(join(&mark_halves(r#"a\ud83d"#), &mut open), "a");
        assert_eq!(join(&mark_halves(r#"\ude00b"#), &mut open), "😀b");
        assert_eq!(open, None);
    }
}
