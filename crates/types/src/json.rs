//! JSON texts of people, clients and models, of which no number is rounded in silence.

use serde_json::Value;

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

/// Returns the first integer of a JSON text that has more than 64 bits. Numbers with a fraction or an
/// exponent are not integers: their authors expect floating point.
fn wide_integer(json: &[u8]) -> Option<&str> {
    let mut rest = json;
    while let Some((byte, after)) = rest.split_first() {
        rest = match byte {
            b'"' => after_string(after),
            b'-' | b'0'..=b'9' => {
                let is_number =
                    |byte: &u8| matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E' | b'0'..=b'9');
                let end = rest.iter().position(|byte| !is_number(byte)).unwrap_or(rest.len());
                let (number, after) = rest.split_at_checked(end)?;
                let number = std::str::from_utf8(number).ok()?;
                let is_integer = !number.contains(['.', 'e', 'E']);
                let fits = number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
                if is_integer && !fits {
                    return Some(number);
                }
                after
            }
            _ => after,
        };
    }
    None
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
}
