//! Requests for several calls.

use crate::said::Invented;
use crate::talk::Talk;
use serde::Deserialize;
use serde_json::{Value, json};
use std::error::Error;
use weftwork_local::chat::LocalModel;

/// Answers after which a conversation is given up.
const TURNS_MAX: usize = 8;
const SKIES: [&str; 5] = ["snow", "clear", "fog", "wind", "rain"];

#[derive(Debug, Deserialize)]
struct Case {
    request: String,
    calls: Vec<(String, Value)>,
}

/// Requests whose calls are played to the end: were exactly those made, and does the answer tell
/// each result of what it belongs to?
pub(crate) async fn several(
    model: &LocalModel,
    invented: &mut Invented,
) -> Result<Value, Box<dyn Error>> {
    let tools = crate::tools("left_out")?;
    let mut report = serde_json::Map::new();
    for name in ["tuned", "apart"] {
        let mut right = 0;
        let mut told = 0;
        let mut misses = Vec::new();
        let cases = crate::lines(&format!("several/{name}.jsonl"))?;
        for case in &cases {
            let case = Case::deserialize(case)?;
            let mut talk = Talk::new(model, &tools, &case.request)?;
            let mut calls = Vec::new();
            let mut text = String::new();
            for _ in 0..TURNS_MAX {
                let made = talk.turn().await?;
                invented.check(&tools, &made, &case.request);
                if made.name.is_empty() {
                    text = made.text;
                    break;
                }
                let args: Value = serde_json::from_str(&made.args)?;
                talk.result(&made, result(&made.name, &args))?;
                calls.push((made.name, args));
            }
            let is_right = calls.len() == case.calls.len()
                && case.calls.iter().all(|call| calls.iter().any(|made| is_call(call, made)));
            let is_told = calls.iter().all(|(name, args)| tells(&text, &result(name, args)));
            right += usize::from(is_right);
            told += usize::from(is_told);
            if !is_right || !is_told {
                misses.push(json!({"request": case.request, "calls": calls, "text": text}));
            }
        }
        let figures = json!({
            "requests": cases.len(), "right_calls": right, "each_result_told": told,
            "misses": misses,
        });
        report.insert(name.to_owned(), figures);
    }
    Ok(Value::Object(report))
}

fn is_call(expected: &(String, Value), made: &(String, Value)) -> bool {
    let args = expected.1.as_object().into_iter().flatten();
    expected.0 == made.0
        && args.into_iter().all(|(name, value)| crate::matches(value, &made.1[name]))
}

/// The result of a tool of the desk.
fn result(name: &str, args: &Value) -> Value {
    let number = |name: &str| args[name].as_f64().unwrap_or_default();
    let text = |name: &str| args[name].as_str().unwrap_or_default().to_owned();
    match name {
        "get_weather" => {
            let city = text("city");
            let sum = city.bytes().map(usize::from).sum::<usize>();
            json!({"city": city, "sky": SKIES[sum % SKIES.len()], "celsius": sum % 30})
        }
        "multiply" => json!(number("a") * number("b")),
        "refund_order" => {
            json!({"refund_id": "R1", "order_id": text("order_id"), "amount": number("amount"), "status": "refunded"})
        }
        _ => json!({"order_id": text("order_id"), "item": "lamp", "status": "shipped"}),
    }
}

/// Returns `true` if one sentence of the answer holds both the subject and the content of the
/// result.
fn tells(text: &str, result: &Value) -> bool {
    let words: Vec<String> = match result {
        Value::Object(map) => {
            let keys = ["city", "sky", "order_id", "status"];
            let told = keys.iter().filter_map(|key| map.get(*key)?.as_str());
            told.map(str::to_lowercase).collect()
        }
        Value::Number(number) => vec![format!("{}", number.as_f64().unwrap_or_default())],
        _ => Vec::new(),
    };
    let sentences = text.split_inclusive(". ").map(str::to_lowercase);
    sentences.into_iter().any(|sentence| words.iter().all(|word| sentence.contains(word.as_str())))
}
