//! Values that are too large for a part: their beginning, with a mark and a reference.

use serde_json::{Value, json};

/// Maximum size of a value in one part, in bytes of JSON.
pub(crate) const PART_BYTES_MAX: usize = 64 << 10;
/// Size of the mark, in bytes of JSON, references included.
const MARK_BYTES: usize = 1 << 10;

/// Returns a value, or its beginning if it is too large. `reference` names the place where the whole
/// value is read.
pub(super) fn cut_value(value: Value, reference: &str) -> Value {
    let text = match &value {
        // Most values are small, and need no text to know that.
        Value::Null | Value::Bool(_) | Value::Number(_) => return value,
        value => value.to_string(),
    };
    if text.len() <= PART_BYTES_MAX {
        return value;
    }
    let mark = |beginning: &str| {
        json!({
            "cut": {"bytes": beginning.len(), "of": text.len(), "reference": reference},
            "beginning": beginning,
        })
    };
    // Characters that a JSON string escapes take up to six times the room.
    let mut room = PART_BYTES_MAX - MARK_BYTES;
    loop {
        let cut = mark(&text[..text.floor_char_boundary(room)]);
        if cut.to_string().len() <= PART_BYTES_MAX || room == 0 {
            return cut;
        }
        room /= 2;
    }
}

/// Splits a text into pieces that each fit into a part.
pub(super) fn split_text(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        if text.is_empty() {
            return None;
        }
        // An escaped character takes up to six bytes.
        let (piece, rest) = text.split_at(text.floor_char_boundary(PART_BYTES_MAX / 6));
        text = rest;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_value_is_cut_with_a_mark_and_a_reference() {
        let small = json!({"text": "a".repeat(60_000)});
        assert_eq!(cut_value(small.clone(), "t/r/c"), small);
        for large in
            [json!("a".repeat(70_000)), json!("\u{1}".repeat(70_000)), json!(vec!["ü"; 30_000])]
        {
            let of = large.to_string().len();
            let found = cut_value(large, "t/r/c");
            assert!(found.to_string().len() <= PART_BYTES_MAX, "{}", found.to_string().len());
            assert_eq!(
                (&found["cut"]["of"], &found["cut"]["reference"]),
                (&json!(of), &json!("t/r/c"))
            );
            assert!(!found["beginning"].as_str().expect("a text").is_empty());
        }
    }

    #[test]
    fn pieces_of_a_text_are_the_text() {
        let text = "üa\u{1}".repeat(20_000);
        assert!(split_text(&text).count() > 4);
        assert_eq!(split_text(&text).collect::<String>(), text);
        assert_eq!(split_text("").count(), 0);
    }
}
