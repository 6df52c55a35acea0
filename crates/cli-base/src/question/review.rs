//! Reviews: questions of assistants of other servers about calls, in the form of LangChain's
//! middleware for humans in the loop.
//!
//! Source: `HITLRequest` and `HITLResponse` of `langchain` 1.

use crate::terminal::{shorten, to_plain};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use weftwork::types::approval::Verdict;

/// Maximum number of calls of a review. A question with more is shown as the value that it is.
const CALLS_MAX: usize = 32;
/// Maximum length of the name of a tool, in characters.
const NAME_CHARS_MAX: usize = 128;
/// Maximum length of a displayed description, in characters.
const DESCRIPTION_CHARS_MAX: usize = 300;

/// Calls that wait for decisions, at least one. All texts come from the other server.
#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct Review {
    action_requests: Vec<ReviewedCall>,
    review_configs: Vec<Terms>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct ReviewedCall {
    name: String,
    args: Map<String, Value>,
    #[serde(default)]
    description: Option<String>,
}

/// Decisions that are allowed about calls of a tool.
#[derive(Debug, PartialEq, Deserialize)]
struct Terms {
    action_name: String,
    allowed_decisions: Vec<String>,
}

impl Review {
    /// Reads the value of a question; `None` if it is not exactly of this form, so that it is shown
    /// as a value.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let count = |name: &str| value.get(name).and_then(Value::as_array).map(Vec::len);
        let calls = count("action_requests")?;
        let terms = count("review_configs")?;
        if !(1..=CALLS_MAX).contains(&calls) || terms > CALLS_MAX {
            return None;
        }
        let review = Self::deserialize(value).ok()?;
        let is_named = |call: &ReviewedCall| {
            !call.name.trim().is_empty() && call.name.chars().count() <= NAME_CHARS_MAX
        };
        review.action_requests.iter().all(is_named).then_some(review)
    }

    /// Returns the calls in one line.
    pub(crate) fn short_form(&self) -> String {
        let calls = self.action_requests.iter();
        let calls = calls.map(|call| format!("{} {}", call.name, json!(call.args)));
        calls.collect::<Vec<_>>().join(", ")
    }

    /// Returns a head and the arguments for each call. Each is one line.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (String, String)> {
        self.action_requests.iter().map(|call| {
            // A line break could begin a line that looks like one of ours.
            let name = shorten(&call.name, NAME_CHARS_MAX);
            let reason = match &call.description {
                Some(text) => format!(": {}", shorten(text, DESCRIPTION_CHARS_MAX)),
                None => String::new(),
            };
            (format!("{name} needs approval{reason}"), to_plain(&json!(call.args).to_string()))
        })
    }

    /// Returns the prompt for the answer.
    pub(crate) fn prompt(&self) -> &'static str {
        match self.action_requests.as_slice() {
            [_] => super::APPROVE,
            _ => "approve exactly these calls? [y/n, or the answer as JSON]",
        }
    }

    /// Returns the flags that answer the question, if one of them is allowed.
    pub(crate) fn flags(&self) -> Option<&'static str> {
        match (self.allows("approve"), self.allows("reject")) {
            (true, true) => Some("--approve (or --reject)"),
            (true, false) => Some("--approve"),
            (false, true) => Some("--reject"),
            (false, false) => None,
        }
    }

    /// Returns `true` if a decision is allowed about every call. Terms that are given twice all
    /// count, and a tool without terms allows nothing.
    fn allows(&self, decision: &str) -> bool {
        self.action_requests.iter().all(|call| {
            let of_call = |terms: &&Terms| terms.action_name == call.name;
            let mut terms = self.review_configs.iter().filter(of_call).peekable();
            terms.peek().is_some()
                && terms.all(|terms| terms.allowed_decisions.iter().any(|one| one == decision))
        })
    }

    /// Returns the answer that decides about every call in the same way. Arguments and results are
    /// given for a single call only.
    ///
    /// # Errors
    /// The reason why there is no such answer.
    pub(crate) fn decide(&self, verdict: &Verdict, comment: Option<&str>) -> Result<Value, String> {
        let word = verdict_word(verdict).ok_or("a review cannot lapse")?;
        if !self.allows(word) {
            return Err(format!("the assistant does not allow the decision `{word}`"));
        }
        let only = match self.action_requests.as_slice() {
            [one] => Ok(one),
            several => Err(format!("the question is about {} calls", several.len())),
        };
        let mut decision = json!({"type": word});
        match verdict {
            Verdict::Edit { args } => {
                decision["edited_action"] = json!({"name": only?.name, "args": args});
            }
            Verdict::Respond { text } => {
                only?;
                decision["message"] = json!(text);
            }
            _ => {}
        }
        if let Some(comment) = comment
            && matches!(verdict, Verdict::Reject)
        {
            decision["message"] = json!(comment);
        }
        Ok(json!({"decisions": vec![decision; self.action_requests.len()]}))
    }
}

/// Returns the name of a decision; `None` if a person cannot take it.
fn verdict_word(verdict: &Verdict) -> Option<&'static str> {
    Some(match verdict {
        Verdict::Approve => "approve",
        Verdict::Reject => "reject",
        Verdict::Edit { .. } => "edit",
        Verdict::Respond { .. } => "respond",
        Verdict::Lapse => return None,
    })
}

/// Returns `true` if an answer decides in this way about every call.
pub(super) fn has_verdict(answer: &Value, verdict: &Verdict) -> bool {
    let Some(decisions) = answer.get("decisions").and_then(Value::as_array) else { return false };
    let is_same = |decision: &Value| {
        decision.get("type").and_then(Value::as_str) == verdict_word(verdict)
            && match verdict {
                Verdict::Edit { args } => decision.pointer("/edited_action/args") == Some(args),
                Verdict::Respond { text } => decision.get("message") == Some(&json!(text)),
                _ => true,
            }
    };
    !decisions.is_empty() && decisions.iter().all(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(calls: &[&str], allowed: &[&str]) -> Value {
        let requests = calls.iter().map(|name| json!({"name": name, "args": {"cents": 5}}));
        let configs = calls.iter().map(
            |name| json!({"action_name": name, "allowed_decisions": allowed, "args_schema": {}}),
        );
        json!({
            "action_requests": requests.collect::<Vec<_>>(),
            "review_configs": configs.collect::<Vec<_>>(),
        })
    }

    #[test]
    fn each_call_gets_a_decision() {
        let all = ["approve", "reject", "edit", "respond"];
        let two = Review::read(&value(&["pay", "send"], &all)).expect("a review");
        let yes = two.decide(&Verdict::Approve, Some("fine")).expect("allowed");
        assert_eq!(yes, json!({"decisions": [{"type": "approve"}, {"type": "approve"}]}));
        assert!(has_verdict(&yes, &Verdict::Approve) && !has_verdict(&yes, &Verdict::Reject));
        let no = two.decide(&Verdict::Reject, Some("late")).expect("allowed");
        let rejected = json!({"type": "reject", "message": "late"});
        assert_eq!(no, json!({"decisions": [rejected, rejected]}));
        let edit = Verdict::Edit { args: json!({"cents": 4}) };
        let error = two.decide(&edit, None).expect_err("two calls");
        assert_eq!(error, "the question is about 2 calls");
        let one = Review::read(&value(&["pay"], &all)).expect("a review");
        let edited = one.decide(&edit, None).expect("one call");
        let action = json!({"name": "pay", "args": {"cents": 4}});
        assert_eq!(edited, json!({"decisions": [{"type": "edit", "edited_action": action}]}));
        assert!(has_verdict(&edited, &edit));
        assert!(!has_verdict(&edited, &Verdict::Edit { args: json!({}) }));
        assert!(!has_verdict(&json!({"decisions": []}), &edit) && !has_verdict(&json!(1), &edit));
    }

    #[test]
    fn only_allowed_decisions_are_taken() {
        let review = |value: &Value| Review::read(value).expect("a review");
        let only_no = review(&value(&["pay"], &["reject"]));
        assert_eq!(only_no.flags(), Some("--reject"));
        only_no.decide(&Verdict::Approve, None).expect_err("not allowed");
        // Terms of another tool, and terms that contradict each other.
        let mut other = value(&["pay"], &["approve"]);
        other["review_configs"][0]["action_name"] = json!("send");
        assert_eq!(review(&other).flags(), None);
        let mut twice = value(&["pay", "pay"], &["approve", "reject"]);
        twice["review_configs"][1]["allowed_decisions"] = json!(["reject"]);
        assert_eq!(review(&twice).flags(), Some("--reject"));
    }

    #[test]
    fn other_values_are_no_reviews() {
        let many = vec!["pay"; CALLS_MAX + 1];
        let long = "p".repeat(NAME_CHARS_MAX + 1);
        for other in [
            json!("yes?"),
            json!({"action_requests": [], "review_configs": []}),
            json!({"action_requests": [{"name": "pay", "args": {}}]}),
            json!({"action_requests": [{"name": "pay", "args": "all"}], "review_configs": []}),
            value(&many, &["approve"]),
            value(&[&long], &["approve"]),
            value(&[" "], &["approve"]),
        ] {
            assert_eq!(Review::read(&other), None, "{other}");
        }
    }

    #[test]
    fn texts_of_the_server_stay_on_their_lines() {
        let mut hostile = value(&["pay\n? safe"], &["approve"]);
        hostile["action_requests"][0]["args"] = json!({"to": "a\u{202e}\u{1b}[2J\nb"});
        hostile["action_requests"][0]["description"] = json!("harmless\n\u{1b}[A? look");
        let review = Review::read(&hostile).expect("a review");
        let (head, args) = review.lines().next().expect("a call");
        assert!(head.starts_with("pay ? safe needs approval: harmless "), "{head}");
        for text in [head, args] {
            assert!(!text.contains(['\n', '\u{1b}', '\u{202e}']), "{text}");
        }
    }
}
