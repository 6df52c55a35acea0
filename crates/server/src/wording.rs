//! Errors of values in the words of JSON, without the names of types of this program.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Beginnings of what a type of this program is called in errors, and its JSON.
const TYPES: [(&str, &str); 8] = [
    ("struct ", "an object"),
    ("internally tagged enum ", "an object"),
    ("adjacently tagged enum ", "an object"),
    ("tuple struct ", "a list"),
    ("tuple variant ", "a list"),
    ("struct variant ", "an object"),
    ("enum ", "a text"),
    ("variant identifier", "a text"),
];
const INTEGERS: [&str; 10] =
    ["i8", "i16", "i32", "i64", "isize", "u8", "u16", "u32", "u64", "usize"];

/// Maximum length of the path of a member in texts of errors, in characters.
const PATH_CHARS_MAX: usize = 200;

/// Reads a value.
///
/// # Errors
/// A text with the path of the member that does not fit, and what was expected there.
pub(crate) fn read_value<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path: String = error.path().to_string().chars().take(PATH_CHARS_MAX).collect();
        let text = describe_error(error.inner());
        match path.as_str() {
            "." => text,
            path => format!("`{path}`: {text}"),
        }
    })
}

/// Returns the text of an error.
fn describe_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if text.contains("did not match any variant") {
        return "a value has none of the expected forms".to_owned();
    }
    let text = match text.strip_prefix("unknown variant ") {
        Some(rest) => format!("unknown value {rest}"),
        None => text.replace("invalid type: sequence", "invalid type: list"),
    };
    // The expected type is the end of the text; the value before it is the client's.
    match text.rsplit_once("expected ") {
        Some((found, expected)) => format!("{found}expected {}", expected_json(expected)),
        None => text,
    }
}

fn expected_json(expected: &str) -> String {
    let nonzero = expected.strip_prefix("a nonzero ");
    if nonzero.is_some_and(|number| INTEGERS.contains(&number)) {
        return "a positive integer".to_owned();
    }
    if INTEGERS.contains(&expected) {
        return "an integer".to_owned();
    }
    let known = TYPES.iter().find(|(begin, _)| expected.starts_with(begin));
    match (known, expected) {
        (Some((_, json)), _) => (*json).to_owned(),
        (None, "f32" | "f64") => "a number".to_owned(),
        (None, "a map") => "an object".to_owned(),
        (None, "string or map") => "a text".to_owned(),
        (None, "a sequence") => "a list".to_owned(),
        (None, other) => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde::de::DeserializeOwned;
    use serde_json::{Map, Value, json};
    use std::num::NonZeroU32;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only its errors matter")]
    struct Body {
        limit: usize,
    }

    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "only its errors matter")]
    enum Either {
        One(String),
        Many(Vec<String>),
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        First,
        Second,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only its errors matter")]
    struct Outer {
        inner: Vec<Body>,
    }

    fn error<T: DeserializeOwned + std::fmt::Debug>(value: Value) -> String {
        super::read_value::<T>(value).expect_err("does not fit")
    }

    #[test]
    fn errors_name_the_member() {
        let inner = json!({"inner": [{"limit": 1}, {"limit": "10"}]});
        assert_eq!(
            error::<Outer>(inner),
            "`inner[1].limit`: invalid type: string \"10\", expected an integer"
        );
        assert_eq!(error::<Outer>(json!({})), "missing field `inner`");
    }

    #[test]
    fn errors_name_what_json_has() {
        assert_eq!(error::<Body>(json!([])), "invalid length 0, expected an object");
        assert_eq!(error::<Body>(json!(7)), "invalid type: integer `7`, expected an object");
        let hostile = json!({"limit": "x, expected struct Body"});
        assert_eq!(
            error::<Body>(hostile),
            "`limit`: invalid type: string \"x, expected struct Body\", expected an integer"
        );
        assert_eq!(error::<Either>(json!(7)), "a value has none of the expected forms");
        let unknown = error::<Kind>(json!("third"));
        assert_eq!(unknown, "unknown value `third`, expected `first` or `second`");
        assert_eq!(error::<Kind>(json!(7)), "invalid type: integer `7`, expected a text");
        let positive = error::<NonZeroU32>(json!(0));
        assert_eq!(positive, "invalid value: integer `0`, expected a positive integer");
        assert_eq!(
            error::<Map<String, Value>>(json!("x")),
            "invalid type: string \"x\", expected an object"
        );
        assert!(matches!(
            serde_json::from_value::<Vec<Kind>>(json!(["first", "second"])).expect("kinds")[..],
            [Kind::First, Kind::Second]
        ));
    }
}
