//! Positions in the output of the runs of a thread.

use super::{Position, ReceivedText, TextSource};
use crate::id::{to_key, unescape};
use crate::{MessageId, RunId, TaskId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A position in the output of the runs of a thread: all output up to it was received. It includes
/// which part of each unfinished text the reader has, so that it gets the rest of each.
///
/// Its text form has only characters that stay as they are in a header of HTTP, and in a query of a
/// URL. It is opaque, and has about 100 characters for each text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StreamPosition {
    /// The run; `None` for the run that is followed, whichever it is.
    pub run: Option<RunId>,
    /// Position in the output of the run.
    pub at: Position,
    /// Texts that were not final there.
    pub texts: ReceivedTexts,
}

impl StreamPosition {
    /// Creates a position in the output of a run, for a reader that has none of its unfinished texts.
    #[must_use]
    pub fn in_run(run: RunId, at: Position) -> Self {
        Self { run: Some(run), at, texts: ReceivedTexts::default() }
    }
}

impl From<Position> for StreamPosition {
    fn from(at: Position) -> Self {
        Self { at, ..Self::default() }
    }
}

/// The part of each unfinished text that a reader has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReceivedTexts(Arc<[ReceivedPart]>);

/// The part of a text that a reader has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReceivedPart {
    pub(super) source: TextSource,
    /// Namespace of the graph of the task, and the task: a reset names it.
    pub(super) ns: String,
    pub(super) task: TaskId,
    pub(super) text: ReceivedText,
    /// `true` if the task has ended.
    pub(super) has_ended: bool,
}

impl ReceivedTexts {
    pub(super) fn new(parts: impl Iterator<Item = ReceivedPart>) -> Self {
        Self(parts.collect())
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &ReceivedPart> {
        self.0.iter()
    }

    /// Returns the number of texts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if the reader has all texts that it has a part of.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// `RUN~SEQ,BYTES,PART`, and `~MESSAGE,BYTES,SUM,TASK,NAMESPACE` for each text, with a further `,e`
/// if its task has ended. A text of no message has an empty `MESSAGE`.
impl fmt::Display for StreamPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let run = self.run.as_ref().map(RunId::to_key).unwrap_or_default();
        let Position { seq, bytes, part } = self.at;
        write!(f, "{run}~{seq},{bytes},{part}")?;
        for ReceivedPart { source, ns, task, text, has_ended } in self.texts.parts() {
            let message = match source {
                TextSource::Message(id) => id.to_key(),
                TextSource::Task { .. } => "".into(),
            };
            let ns = to_key(ns);
            write!(f, "~{message},{},{:08x},{task},{ns}", text.bytes(), text.sum())?;
            if *has_ended {
                f.write_str(",e")?;
            }
        }
        Ok(())
    }
}

/// Error of a text that is no position in a stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is no position in a stream; expected one that an output had")]
pub struct NoStreamPosition {
    /// The text.
    pub found: String,
}

impl FromStr for StreamPosition {
    type Err = NoStreamPosition;

    fn from_str(text: &str) -> Result<Self, NoStreamPosition> {
        read_position(text).ok_or_else(|| NoStreamPosition { found: text.to_owned() })
    }
}

impl TryFrom<String> for StreamPosition {
    type Error = NoStreamPosition;

    fn try_from(text: String) -> Result<Self, NoStreamPosition> {
        text.parse()
    }
}

impl From<StreamPosition> for String {
    fn from(position: StreamPosition) -> Self {
        position.to_string()
    }
}

fn read_position(text: &str) -> Option<StreamPosition> {
    let mut fields = text.split('~');
    let run = fields.next().filter(|run| !run.is_empty());
    let run = run.map(RunId::from_key).transpose().ok()?;
    let mut numbers = fields.next()?.split(',').map(read_number);
    let at = Position { seq: numbers.next()??, bytes: numbers.next()??, part: numbers.next()?? };
    let texts = fields.map(read_part).collect::<Option<Vec<_>>>()?;
    let is_whole = numbers.next().is_none();
    is_whole.then(|| StreamPosition { run, at, texts: ReceivedTexts::new(texts.into_iter()) })
}

fn read_number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn read_part(text: &str) -> Option<ReceivedPart> {
    let mut fields = text.split(',');
    let message = fields.next()?;
    let bytes = usize::try_from(read_number(fields.next()?)?).ok()?;
    let sum = fields.next().filter(|sum| sum.len() == 8)?;
    let sum = u32::from_str_radix(sum, 16).ok()?;
    let task: TaskId = fields.next()?.parse().ok()?;
    let ns = unescape(fields.next()?, b'=')?;
    let has_ended = match fields.next() {
        None => false,
        Some("e") => true,
        Some(_) => return None,
    };
    let source = if message.is_empty() {
        TextSource::Task { ns: ns.clone(), task }
    } else {
        TextSource::Message(MessageId::from_key(message).ok()?)
    };
    let text = ReceivedText::read(bytes, sum);
    let is_whole = fields.next().is_none();
    is_whole.then_some(ReceivedPart { source, ns, task, text, has_ended })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Vec<ReceivedPart> {
        let message = TextSource::Message(MessageId::new("m/1 ~,é").expect("an id"));
        let ns = "sub:00000000000000000000000000000007|x".to_owned();
        let task = TaskId(9);
        let text = ReceivedText::whole("Hel");
        vec![
            ReceivedPart { source: message, ns: ns.clone(), task, text, has_ended: true },
            ReceivedPart {
                source: TextSource::Task { ns: ns.clone(), task },
                ns,
                task,
                text: ReceivedText::default(),
                has_ended: false,
            },
        ]
    }

    #[test]
    fn positions_survive_as_text() {
        let run = RunId::new("r-1").expect("an id");
        let mut position = StreamPosition::from(Position { seq: 3, bytes: 7, part: 1 });
        assert_eq!(position.to_string(), "~3,7,1");
        assert_eq!(position.to_string().parse(), Ok(position.clone()));
        position.run = Some(run);
        position.texts = ReceivedTexts::new(parts().into_iter());
        let text = position.to_string();
        let task = TaskId(9);
        let ns = "sub:00000000000000000000000000000007=7Cx";
        let expected =
            format!("r-1~3,7,1~m=2F1=20=7E=2C=C3=A9,3,{:08x},{task},{ns},e", parts()[0].text.sum());
        assert_eq!(text, format!("{expected}~,0,811c9dc5,{task},{ns}"));
        assert_eq!(text.parse(), Ok(position.clone()));
        let json = serde_json::to_string(&position).expect("json");
        assert_eq!(serde_json::from_str::<StreamPosition>(&json).expect("reads"), position);
    }

    #[test]
    fn other_texts_are_no_positions() {
        let task = TaskId(9);
        for text in [
            "",
            "r",
            "r~",
            "r~1",
            "r~1,2",
            "r~1,2,3,4",
            "r~+1,2,3",
            "r~a,2,3",
            "r~1,2,3~",
            "r~1,2,3~m",
            "r~1,2,3~m,1,811c9dc5",
            "12-3",
            "r /~1,2,3",
        ] {
            assert!(text.parse::<StreamPosition>().is_err(), "{text}");
        }
        for end in ["", ",e"] {
            let text = format!("~1,2,3~m,1,811c9dc5,{task},{end}");
            assert!(text.parse::<StreamPosition>().is_ok(), "{text}");
        }
        for part in ["m,1,811c9dc,T,", "m,x,811c9dc5,T,", "m,1,811c9dc5,T,,f", "m,1,811c9dc5,T,,e,"]
        {
            let text = format!("~1,2,3~{}", part.replace('T', &task.to_string()));
            assert!(text.parse::<StreamPosition>().is_err(), "{text}");
        }
    }
}
