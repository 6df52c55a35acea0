//! Ids of a recording and those that stand for them here; times.

use std::collections::BTreeMap;

/// The ids of the recording, each with the one that this server has for it.
#[derive(Debug, Default)]
pub(super) struct Ids(BTreeMap<String, String>);

/// A text with its ids and times replaced, and the ids in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Masked {
    pub(super) text: String,
    pub(super) ids: Vec<String>,
}

impl Ids {
    /// Returns a text of the recording with the ids of this server.
    pub(super) fn translate(&self, text: &str) -> String {
        pieces(text).into_iter().map(|piece| self.0.get(piece).map_or(piece, |id| id)).collect()
    }

    /// Compares ids that have the same place. Each recorded id stands for one id throughout.
    pub(super) fn same(&mut self, recorded: &[String], found: &[String]) -> bool {
        recorded.len() == found.len()
            && recorded.iter().zip(found).all(|(recorded, found)| {
                // Ids that are derived from names are the same everywhere.
                let own = if is_derived(recorded) { recorded } else { found };
                let known = self.0.entry(recorded.clone()).or_insert_with(|| own.clone());
                known == found
            })
    }

    pub(super) fn get(&self, recorded: &str) -> Option<&str> {
        self.0.get(recorded).map(String::as_str)
    }
}

/// Masks the ids and the times of a text.
pub(super) fn masked(text: &str) -> Masked {
    if is_time(text) {
        return Masked { text: "TIME".to_owned(), ids: Vec::new() };
    }
    if let Some(id) = text.strip_prefix("lc_run--") {
        // The id of a message. A message whose chunks were streamed has the suffix in states only.
        let id = id.strip_suffix("-0").unwrap_or(id).to_owned();
        return Masked { text: "ID".to_owned(), ids: vec![id] };
    }
    let (ids, others): (Vec<_>, Vec<_>) = pieces(text).into_iter().partition(|piece| is_id(piece));
    let ids = ids.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let text = match others.is_empty() && !ids.is_empty() {
        true => "ID".to_owned(),
        false => pieces(text).iter().map(|piece| if is_id(piece) { "ID" } else { piece }).collect(),
    };
    Masked { text, ids }
}

/// Returns `true` for a UUID, or 32 hexadecimal digits.
pub(super) fn is_id(text: &str) -> bool {
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    match text.len() {
        32 => hex(text),
        36 => text.split('-').map(str::len).eq([8, 4, 4, 4, 12]) && hex(&text.replace('-', "")),
        _ => false,
    }
}

fn is_derived(id: &str) -> bool {
    let version = id.as_bytes().get(14) == Some(&b'5');
    version && id.as_bytes().get(19).is_some_and(|variant| b"89ab".contains(variant))
}

fn is_time(text: &str) -> bool {
    text.len() == 32 && text.ends_with("+00:00") && text.as_bytes().get(10) == Some(&b'T')
}

/// Splits a text into runs of the characters of ids and the rest.
fn pieces(text: &str) -> Vec<&str> {
    let of_id = |letter: char| letter.is_ascii_hexdigit() || letter == '-';
    let mut pieces: Vec<&str> = Vec::new();
    let mut start = 0;
    let mut before = None;
    for (at, letter) in text.char_indices() {
        if before.is_some_and(|before| before != of_id(letter)) {
            pieces.push(&text[start..at]);
            start = at;
        }
        before = Some(of_id(letter));
    }
    pieces.push(&text[start..]);
    pieces
}
