//! Encodings of bodies and of queries.

use crate::definition::BodyEncoding;
use serde_json::Value;
use std::fmt::Write;
use url::form_urlencoded;

/// A body as it is sent.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Encoded {
    pub(crate) content_type: Option<String>,
    pub(crate) bytes: Vec<u8>,
}

/// Encodes a body. `boundary` is for parts: a text that no part has.
pub(crate) fn encode(
    encoding: BodyEncoding,
    body: &Value,
    boundary: &str,
) -> Result<Encoded, String> {
    let of = |content_type: &str, bytes: Vec<u8>| Encoded {
        content_type: Some(content_type.to_owned()),
        bytes,
    };
    if body.is_null() {
        return Ok(Encoded::default());
    }
    Ok(match encoding {
        BodyEncoding::None => Encoded::default(),
        BodyEncoding::Json => of("application/json", body.to_string().into_bytes()),
        BodyEncoding::Text => of("text/plain; charset=utf-8", text_of(body).into_bytes()),
        BodyEncoding::Form | BodyEncoding::Multipart => {
            return encode_pairs(encoding, &pairs_of(body)?, boundary);
        }
    })
}

/// Encodes the names and texts of a form, or of its parts.
pub(crate) fn encode_pairs(
    encoding: BodyEncoding,
    pairs: &[(String, String)],
    boundary: &str,
) -> Result<Encoded, String> {
    let (content_type, bytes) = match encoding {
        BodyEncoding::Multipart => {
            let mut text = String::new();
            for (name, value) in pairs {
                let name = name.replace(['"', '\r', '\n'], "_");
                write!(text, "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
                    .map_err(|error| error.to_string())?;
            }
            write!(text, "--{boundary}--\r\n").map_err(|error| error.to_string())?;
            (format!("multipart/form-data; boundary={boundary}"), text)
        }
        _ => {
            let mut form = form_urlencoded::Serializer::new(String::new());
            form.extend_pairs(pairs);
            ("application/x-www-form-urlencoded".to_owned(), form.finish())
        }
    };
    Ok(Encoded { content_type: Some(content_type), bytes: bytes.into_bytes() })
}

/// Returns the names and texts of a form. Members of members have names such as `card[number]`, and
/// items such as `tags[0]`, as payment services read them.
pub(crate) fn pairs_of(value: &Value) -> Result<Vec<(String, String)>, String> {
    let Value::Object(members) = value else {
        return Err(format!("a form is made of an object, and the body is {}", kind_of(value)));
    };
    let mut pairs = Vec::new();
    for (name, value) in members {
        add(name.clone(), value, &mut pairs);
    }
    Ok(pairs)
}

/// Adds a value with its name to the pairs of a form.
pub(super) fn add(name: String, value: &Value, pairs: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::Object(members) => {
            for (inner, value) in members {
                add(format!("{name}[{inner}]"), value, pairs);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                add(format!("{name}[{index}]"), value, pairs);
            }
        }
        other => pairs.push((name, text_of(other))),
    }
}

/// Returns a value as text: a text as it is, and others as JSON.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Describes a value that is no object, in messages.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "a list",
        Value::String(_) => "a text",
        _ => "a value",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(encoding: BodyEncoding, body: Value) -> String {
        let encoded = encode(encoding, &body, "B").expect("can be encoded");
        format!("{:?} {}", encoded.content_type, String::from_utf8_lossy(&encoded.bytes))
    }

    #[test]
    fn bodies_have_the_forms_of_their_encodings() {
        let body =
            json!({"amount": 2000, "card": {"number": "42 & 1"}, "tags": ["a", "b"], "x": null});
        assert_eq!(
            text(BodyEncoding::Json, body.clone()),
            r#"Some("application/json") {"amount":2000,"card":{"number":"42 & 1"},"tags":["a","b"],"x":null}"#
        );
        assert_eq!(
            text(BodyEncoding::Form, body.clone()),
            r#"Some("application/x-www-form-urlencoded") amount=2000&card%5Bnumber%5D=42+%26+1&tags%5B0%5D=a&tags%5B1%5D=b"#
        );
        assert_eq!(
            text(BodyEncoding::Multipart, json!({"a\"\r\nX: 1": "v"})),
            "Some(\"multipart/form-data; boundary=B\") --B\r\nContent-Disposition: form-data; name=\"a___X: 1\"\r\n\r\nv\r\n--B--\r\n"
        );
        assert_eq!(text(BodyEncoding::Text, json!("ä")), "Some(\"text/plain; charset=utf-8\") ä");
        assert_eq!(text(BodyEncoding::None, json!({"a": 1})), "None ");
        assert_eq!(text(BodyEncoding::Json, Value::Null), "None ");
        assert!(encode(BodyEncoding::Form, &json!([1]), "B").is_err());
    }
}
