//! Answers after the result of a call.
//!
//! The check knows nothing of the model's own rules: it compares the answer with the result and
//! with words that exclude each other.

use serde_json::{Value, json};

/// Skies, one of which a result has. An answer that names another one contradicts it.
const SKIES: [&str; 6] = ["cloudy", "sunny", "light rain", "snow", "fog", "storm"];
/// States of an order, one of which a result has.
const STATES: [&str; 5] = ["packed", "shipped", "delivered", "lost", "on hold"];

/// States of a refund.
const REFUNDS: [&str; 2] = ["refunded", "waiting for the bank"];
/// States of an email.
const MAILS: [&str; 2] = ["sent", "queued"];

/// Beginnings of words that state a sky or a temperature.
const SKY_WORDS: &str = "cloud sun rain umbrella snow fog mist storm wind clear dry wet hot warm \
    cold chilly freezing";
/// Beginnings of words that state what happened to an order.
const STATE_WORDS: &str = "packed packing ship deliver lost hold arriv cancel return pending late";
/// Words that deny or affirm, which no result of these tools does.
const VERDICTS: &str = "no not never none nothing without yes cannot can't isn't aren't wasn't \
    don't doesn't didn't won't haven't hasn't unfortunately";

/// Counts of answers after results.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    answers: usize,
    follow: usize,
    misses: Vec<Value>,
}

impl Answers {
    /// Adds the answer to a request, given the result of the call that was made for it.
    pub(crate) fn add(&mut self, request: &str, args: &Value, result: &Value, text: &str) {
        self.answers += 1;
        match problem(args, result, text) {
            None => self.follow += 1,
            Some(problem) => self.misses.push(json!({
                "request": request, "result": result, "answer": text, "problem": problem,
            })),
        }
    }

    /// Adds a request for which no call was made.
    pub(crate) fn add_missing(&mut self, request: &str, text: &str) {
        self.answers += 1;
        self.misses.push(json!({"request": request, "answer": text, "problem": "no call"}));
    }

    pub(crate) fn report(&self) -> Value {
        json!({"answers": self.answers, "follow": self.follow, "misses": self.misses})
    }
}

/// The result that is played for the call of a request. Its values depend on the number of the
/// request, so that they differ from what the request assumes.
pub(crate) fn result(number: usize, name: &str, args: &Value) -> Value {
    let float = |name: &str| args[name].as_f64().unwrap_or_default();
    match name {
        "lookup_order" => json!({
            "order_id": args["order_id"], "item": "desk lamp", "status": STATES[number % 5],
        }),
        "refund_order" => json!({
            "refund_id": format!("R{}", 500 + number), "order_id": args["order_id"],
            "amount": args["amount"], "status": REFUNDS[number % 2],
        }),
        "get_weather" => json!({
            "city": args["city"], "sky": SKIES[number % 6], "celsius": number % 17 + 2,
            "source": "sample data",
        }),
        "get_time" => json!({
            "city": args["city"], "time": format!("{:02}:{:02}", number % 12 + 8, number % 50 + 10),
        }),
        "add" => json!(float("a") + float("b")),
        "multiply" => json!(float("a") * float("b")),
        _ => json!({"to": args["to"], "status": MAILS[number % 2]}),
    }
}

/// The reason why an answer does not follow from a result.
fn problem(args: &Value, result: &Value, text: &str) -> Option<String> {
    let text = text.trim().to_lowercase();
    let words: Vec<&str> = text.split_whitespace().map(trimmed).collect();
    if text.is_empty() || text.ends_with('?') {
        return Some("it states nothing".to_owned());
    }
    let values = values(result);
    let given = self::values(args);
    let is_named = |value: &str| names(&text, &words, value);
    let mut fresh = values.clone();
    fresh.retain(|(name, value)| {
        !given.iter().any(|(_, given)| given == value) && name != "refund_id" && name != "source"
    });
    if !fresh.iter().any(|(_, value)| is_named(value)) {
        return Some("it names no value of the result".to_owned());
    }
    // The state of something is what the request is about: it must be there whenever there is one.
    let outcome = fresh.iter().find(|(name, _)| name == "status");
    if let Some((_, status)) = outcome.filter(|(_, status)| !is_named(status)) {
        return Some(format!("it leaves out `{status}`"));
    }
    let allowed: Vec<&str> = values.iter().chain(&given).map(|(_, value)| value.as_str()).collect();
    let stated = |word: &&&str| allowed.iter().any(|value| value.contains(**word));
    let is_claim = |word: &&&str| {
        let begins = |list: &str| list.split_whitespace().any(|begin| word.starts_with(begin));
        VERDICTS.split_whitespace().any(|verdict| verdict == **word)
            || begins(SKY_WORDS)
            || begins(STATE_WORDS)
    };
    if let Some(claim) = words.iter().find(|word| is_claim(word) && !stated(word)) {
        return Some(format!("it states `{claim}`, which the result does not"));
    }
    let number =
        words.iter().find(|word| word.contains(|c: char| c.is_ascii_digit()) && !stated(word));
    number.map(|number| format!("it states `{number}`, which the result does not"))
}

/// The values of a result or of arguments, with their names.
fn values(value: &Value) -> Vec<(String, String)> {
    match value {
        Value::Object(map) => map
            .iter()
            .flat_map(|(name, value)| values(value).into_iter().map(|(_, v)| (name.clone(), v)))
            .collect(),
        Value::String(text) => vec![(String::new(), text.to_lowercase())],
        Value::Number(number) => {
            vec![(String::new(), number.as_f64().unwrap_or_default().to_string())]
        }
        _ => Vec::new(),
    }
}

/// Returns `true` if an answer holds a value: a number as a word of its own.
fn names(text: &str, words: &[&str], value: &str) -> bool {
    match value.parse::<f64>() {
        Ok(number) => words.iter().any(|word| word.replace(',', "").parse() == Ok(number)),
        Err(_) => text.contains(value),
    }
}

fn trimmed(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric() && c != '-').trim_end_matches('-')
}

/// The reason why an answer without a call is not one short sentence.
pub(crate) fn rambles(text: &str) -> Option<&'static str> {
    let text = text.trim();
    let words: Vec<&str> = text.split_whitespace().map(trimmed).collect();
    let ends = |word: &&str| word.ends_with(['.', '!', '?']);
    // A greeting such as `Hello!` is part of the sentence after it.
    let sentences = text.split_whitespace().skip(1).filter(ends).count();
    let phrases: Vec<&[&str]> = words.windows(3).collect();
    let again = (1..phrases.len()).any(|at| phrases[..at].contains(&phrases[at]));
    let problems = [
        (words.is_empty(), "it is empty"),
        (!text.ends_with(['.', '!', '?']), "it is cut off"),
        (sentences > 1, "it is longer than a sentence"),
        (again, "it repeats a phrase"),
        (words.len() > 40, "it is long"),
    ];
    problems.into_iter().find(|(is_there, _)| *is_there).map(|(_, problem)| problem)
}
