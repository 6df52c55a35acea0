//! JSON texts of people, clients and models, of which no number is rounded in silence.

use serde::de::IgnoredAny;
use serde_json::Value;
use std::borrow::Cow;
use std::ops::Range;

/// An error for a JSON text that is not read.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The text is not JSON.
    #[error("not JSON: {0}")]
    Syntax(#[from] serde_json::Error),
    /// The text has an integer that a JSON value would have as a rounded number.
    #[error("integer `{digits}` has more than 64 bits and would be rounded; give it as a text")]
    WideInteger {
        /// The integer, truncated to 80 characters.
        digits: String,
    },
}

/// Parses a JSON text.
///
/// ```
/// use weftwork_types::json;
///
/// assert_eq!(json::read(b"18446744073709551615").expect("64 bits"), u64::MAX);
/// assert!(json::read(b"[18446744073709551616]").is_err());
/// assert_eq!(json::read(b"\"18446744073709551616\"").expect("a text"), "18446744073709551616");
/// ```
///
/// # Errors
/// [`JsonError`] for other texts, and for integers that are less than -2^63 or more than 2^64-1.
pub fn read(text: &[u8]) -> Result<Value, JsonError> {
    let value = serde_json::from_slice(text)?;
    match wide_integer(text) {
        None => Ok(value),
        Some(digits) => Err(JsonError::WideInteger { digits: digits.chars().take(80).collect() }),
    }
}

/// Counts the values of a JSON text, in pieces, before any of them is built.
///
/// ```
/// use weftwork_types::json::ValueCounter;
///
/// let mut counter = ValueCounter::default();
/// counter.add(br#"{"a": [1, 2], "b": "x, "#);
/// counter.add(br#"[y]"}"#);
/// assert_eq!(counter.values(), 5);
/// ```
#[derive(Debug, Clone, Default)]
pub struct ValueCounter {
    /// Number of bytes after which a value may begin.
    openings: usize,
    is_in_string: bool,
    is_escaped: bool,
}

impl ValueCounter {
    /// Reads the next piece of the text.
    pub fn add(&mut self, piece: &[u8]) {
        for byte in piece {
            if self.is_in_string {
                self.is_in_string = self.is_escaped || *byte != b'"';
                self.is_escaped = *byte == b'\\' && !self.is_escaped;
            } else if *byte == b'"' {
                self.is_in_string = true;
            } else if matches!(*byte, b',' | b'[' | b'{') {
                self.openings += 1;
            }
        }
    }

    /// Returns the number of values, containers included. An empty container counts as two, and a
    /// text that is not JSON has some number.
    #[must_use]
    pub const fn values(&self) -> usize {
        self.openings.saturating_add(1)
    }
}

/// Parses a JSON text of others, liberally where its meaning is clear: a number that a JSON value would
/// have rounded, or not at all, is a text with its digits (an integer of more than 64 bits, or a number
/// beyond floating point); `NaN`, `Infinity` and `-Infinity` are null; half of a surrogate pair and
/// bytes that are not UTF-8 are the replacement character, and control characters in texts are allowed.
///
/// ```
/// use serde_json::json;
/// use weftwork_types::json;
///
/// let text = br#"{"cost": 18446744073709551616, "rate": NaN, "text": "hi \ud83d", "n": 1}"#;
/// let expected = json!({
///     "cost": "18446744073709551616", "rate": null, "text": "hi \u{fffd}", "n": 1,
/// });
/// assert_eq!(json::read_liberal(text).expect("JSON"), expected);
/// ```
///
/// # Errors
/// Those of `serde_json`, for other texts.
pub fn read_liberal(text: &[u8]) -> serde_json::Result<Value> {
    read_wide_as_text(text).or_else(|error| match repaired(text) {
        Some(repaired) => read_wide_as_text(repaired.as_bytes()),
        None => Err(error),
    })
}

/// Returns JSON for a text that is nearly JSON, as [`read_liberal`] reads it; `None` if there is nothing
/// to repair. The result need not be JSON.
#[must_use]
pub fn repaired(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let mut is_repaired = matches!(text, Cow::Owned(_));
    let mut repaired = String::with_capacity(text.len());
    let mut rest = &*text;
    let mut is_in_string = false;
    while let Some(first) = rest.chars().next() {
        is_in_string ^= first == '"';
        let (length, instead) =
            if is_in_string { in_string(rest, first) } else { outside(rest, first) };
        is_repaired |= instead.is_some();
        repaired.push_str(instead.as_deref().or(rest.get(..length)).unwrap_or(rest));
        rest = rest.get(length..).unwrap_or_default();
    }
    is_repaired.then_some(repaired)
}

/// Returns the length of the first element of a text outside strings, and what it stands for if it is
/// no JSON.
fn outside(text: &str, first: char) -> (usize, Option<Cow<'static, str>>) {
    let names = ["NaN", "Infinity", "-Infinity"];
    match names.iter().find(|name| text.starts_with(**name)) {
        Some(name) => (name.len(), Some("null".into())),
        None => (first.len_utf8(), None),
    }
}

/// Returns the length of the first character or escape of a text within a string, and what it stands
/// for if it is no JSON: a control character, or half of a surrogate pair.
fn in_string(text: &str, first: char) -> (usize, Option<Cow<'static, str>>) {
    match (unit(text), first) {
        (Some(0xd800..=0xdbff), _) if text.get(6..).and_then(unit).is_some_and(is_low) => {
            (12, None)
        }
        (Some(0xd800..=0xdfff), _) => (6, Some("\u{fffd}".into())),
        (None, '\\') => {
            let escaped = text.chars().nth(1).map_or(0, char::len_utf8);
            (1 + escaped, None)
        }
        (None, control) if control < ' ' => {
            (1, Some(format!("\\u{:04x}", u32::from(control)).into()))
        }
        (_, other) => (other.len_utf8(), None),
    }
}

/// Returns the UTF-16 unit of an escape at the beginning of a text.
fn unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

fn is_low(unit: u16) -> bool {
    (0xdc00..=0xdfff).contains(&unit)
}

/// Parses a JSON text in which a number that a JSON value would have rounded, or not at all, is a text
/// with its digits: an integer of more than 64 bits, or a number beyond floating point.
fn read_wide_as_text(text: &[u8]) -> serde_json::Result<Value> {
    let mut quoted = Vec::new();
    let mut done = 0;
    for at in Numbers::of(text) {
        let Some(number) = text.get(at.clone()).and_then(|number| str::from_utf8(number).ok())
        else {
            continue;
        };
        // Digits that are no number of JSON, such as `01`, stay for the error of the parser.
        let is_number = || serde_json::from_str::<IgnoredAny>(number).is_ok();
        if (is_wide_integer(number) || is_infinite(number)) && is_number() {
            quoted.extend_from_slice(text.get(done..at.start).unwrap_or_default());
            quoted.extend(format!("\"{number}\"").bytes());
            done = at.end;
        }
    }
    if done == 0 {
        return serde_json::from_slice(text);
    }
    quoted.extend_from_slice(text.get(done..).unwrap_or_default());
    serde_json::from_slice(&quoted)
}

/// Returns `true` if a JSON text has a number that a JSON value would have rounded, or not at all.
#[must_use]
pub fn has_wide_number(json: &[u8]) -> bool {
    let mut numbers = Numbers::of(json).filter_map(|at| str::from_utf8(json.get(at)?).ok());
    // Only long numbers and those with an exponent can be such.
    numbers.any(|number| {
        let may_be = number.len() > 18 || number.contains(['e', 'E']);
        may_be && (is_wide_integer(number) || is_infinite(number))
    })
}

/// Returns a JSON text in which a text stands for each part that is nested deeper than a number of
/// levels; `None` for a text without such parts, and for one whose brackets do not close.
#[must_use]
pub fn without_depth(json: &[u8], levels_max: usize) -> Option<Vec<u8>> {
    let mut shallow = Vec::with_capacity(json.len());
    let mut levels = 0_usize;
    let mut is_cut = false;
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        let length = match byte {
            b'"' => json.len() - at - after_string(json.get(at + 1..)?).len(),
            _ => 1,
        };
        let closes = matches!(byte, b']' | b'}');
        if closes {
            levels = levels.checked_sub(1)?;
        }
        if levels < levels_max || (levels == levels_max && !closes && !matches!(byte, b'[' | b'{'))
        {
            shallow.extend_from_slice(json.get(at..at + length)?);
        }
        if matches!(byte, b'[' | b'{') {
            if levels == levels_max {
                shallow.extend_from_slice(b"\"[nested too deeply]\"");
                is_cut = true;
            }
            levels += 1;
        }
        at += length;
    }
    (is_cut && levels == 0).then_some(shallow)
}

/// Returns the first integer of a JSON text that has more than 64 bits.
fn wide_integer(json: &[u8]) -> Option<&str> {
    let mut numbers = Numbers::of(json).filter_map(|at| str::from_utf8(json.get(at)?).ok());
    numbers.find(|number| is_wide_integer(number))
}

/// Returns `true` for an integer of more than 64 bits. Numbers with a fraction or an exponent are not
/// integers: their authors expect floating point.
fn is_wide_integer(number: &str) -> bool {
    let fits = || number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
    !number.contains(['.', 'e', 'E']) && !fits()
}

fn is_infinite(number: &str) -> bool {
    number.parse::<f64>().is_ok_and(f64::is_infinite)
}

/// The numbers of a JSON text, by their places.
struct Numbers<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Numbers<'a> {
    fn of(json: &'a [u8]) -> Self {
        Self { json, at: 0 }
    }
}

impl Iterator for Numbers<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        loop {
            let start = self.at;
            match self.json.get(start)? {
                b'"' => {
                    let inside = self.json.get(start + 1..)?;
                    self.at = self.json.len() - after_string(inside).len();
                }
                b'-' | b'0'..=b'9' => {
                    let is_number =
                        |byte: &&u8| matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E' | b'0'..=b'9');
                    let length = self.json.get(start..)?.iter().take_while(is_number).count();
                    self.at = start + length;
                    return Some(start..self.at);
                }
                _ => self.at = start + 1,
            }
        }
    }
}

/// Returns the text after a string whose opening quote was consumed.
fn after_string(text: &[u8]) -> &[u8] {
    let mut is_escaped = false;
    let end = text.iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    });
    end.and_then(|end| text.get(end + 1..)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_counted_in_any_pieces() {
        fn values(value: &Value) -> usize {
            1 + match value {
                Value::Array(items) => items.iter().map(values).sum(),
                Value::Object(members) => members.values().map(values).sum(),
                _ => 0,
            }
        }
        for value in [
            json!(null),
            json!("a \"quoted, [text]\" \\"),
            json!([1, [2, {"a, {": "\\\"", "b": [null]}], "x"]),
            json!({"messages": vec![json!({"role": "user", "content": "hi, [you]"}); 9]}),
        ] {
            let text = value.to_string();
            for size in [1, 2, 7, text.len()] {
                let mut counter = ValueCounter::default();
                text.as_bytes().chunks(size).for_each(|piece| counter.add(piece));
                assert_eq!(counter.values(), values(&value), "{text}");
            }
        }
    }

    #[test]
    fn integers_are_read_exactly_or_refused() {
        for (text, expected) in [
            ("{\"a\":-9223372036854775808}", json!({"a": i64::MIN})),
            ("[18446744073709551615, 1]", json!([u64::MAX, 1])),
            ("1e30", json!(1e30)),
            ("12345678901234567890123.5", json!(12_345_678_901_234_567_890_123.5_f64)),
            (
                r#"{"99999999999999999999\"": "\\", "b": "9\"99999999999999999999"}"#,
                json!({"99999999999999999999\"": "\\", "b": "9\"99999999999999999999"}),
            ),
        ] {
            assert_eq!(read(text.as_bytes()).expect(text), expected, "{text}");
        }
        for (text, digits) in [
            ("{\"id\": 123456789012345678901}", "123456789012345678901"),
            ("[1, -9223372036854775809]", "-9223372036854775809"),
            ("{\"\\\\\": 18446744073709551616}", "18446744073709551616"),
        ] {
            let error = read(text.as_bytes()).expect_err(text).to_string();
            assert!(error.contains(&format!("`{digits}`")), "{error}");
        }
        assert!(matches!(read(b"{"), Err(JsonError::Syntax(_))));
    }

    #[test]
    fn numbers_that_no_value_has_are_texts_with_their_digits() {
        for (text, expected) in [
            (
                r#"{"a\"1": [18446744073709551616,-9223372036854775809 ], "b": 1e999}"#,
                json!({"a\"1": ["18446744073709551616", "-9223372036854775809"], "b": "1e999"}),
            ),
            ("-9223372036854775808", json!(i64::MIN)),
            ("[1.5, 1e30, \"1e999\"]", json!([1.5, 1e30, "1e999"])),
        ] {
            assert_eq!(read_wide_as_text(text.as_bytes()).expect(text), expected);
        }
        for text in ["018446744073709551616", "[1e999-]", "{", "--99999999999999999999", "\"1"] {
            assert!(read_wide_as_text(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn parts_that_are_nested_too_deeply_are_texts() {
        let cut = "[nested too deeply]";
        for (text, expected) in [
            (
                r#"{"a": [[1, 2], "[[", {"b": {}}, 3], "c": "\"]"}"#,
                Some(json!({"a": [cut, "[[", cut, 3], "c": "\"]"})),
            ),
            (r#"[[[[[]]]], [1]]"#, Some(json!([[cut], [1]]))),
            ("[[1], {\"a\": 2}]", None),
            ("[[[", None),
            ("]]", None),
        ] {
            let shallow = without_depth(text.as_bytes(), 2);
            let shallow = shallow.map(|text| serde_json::from_slice::<Value>(&text).expect("JSON"));
            assert_eq!(shallow, expected, "{text}");
        }
        for (text, expected) in [
            ("[1, 1e30, 18446744073709551615]", false),
            ("[18446744073709551616]", true),
            ("1e999", true),
        ] {
            assert_eq!(has_wide_number(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn texts_that_are_nearly_json_are_read_by_their_meaning() {
        for (text, expected) in [
            (
                r#"{"a": NaN, "b": [Infinity, -Infinity, -1]}"#,
                json!({"a": null, "b": [null, null, -1]}),
            ),
            (r#"{"NaN": "NaN, -Infinity", "b": NaN}"#, json!({"NaN": "NaN, -Infinity", "b": null})),
            (
                r#"["\ud83d", "\ude00x", "\ud83d\ud83d\ude00", "\\ud83d", "\u00e9\ud83d\n"]"#,
                json!(["\u{fffd}", "\u{fffd}x", "\u{fffd}😀", "\\ud83d", "é\u{fffd}\n"]),
            ),
            ("{\"a\": \"one\ntwo\tthree\"}", json!({"a": "one\ntwo\tthree"})),
            (
                r#"{"big": 18446744073709551616, "n": NaN, "s": "\"NaN\\"}"#,
                json!({"big": "18446744073709551616", "n": null, "s": "\"NaN\\"}),
            ),
        ] {
            assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
            assert_eq!(read_liberal(text.as_bytes()).expect(text), expected, "{text}");
        }
        assert_eq!(read_liberal(b"{\"a\": \"\xff\"}").expect("read"), json!({"a": "\u{fffd}"}));
        for text in ["{", "{'a': 1}", "[NaN", "Nan", "\"\\ud83d", "\"\\", "[1,]", "-", "\"\\u12\""]
        {
            assert!(read_liberal(text.as_bytes()).is_err(), "{text}");
        }
    }
}
