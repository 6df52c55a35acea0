//! Answers to questions about calls that were begun and have no result.

use crate::error::{ApiError, Result};
use serde_json::{Value, json};
use weftwork_types::tool::{UnknownAnswer, UnknownCall};

/// Reads an answer: an [`UnknownAnswer`], or a line that means one.
///
/// # Errors
/// Status 422 for anything else. The question stays open.
pub(crate) fn read_answer(call: UnknownCall<'_>, value: &Value) -> Result<Value> {
    let answer = UnknownAnswer::read(value).map(|answer| json!(answer));
    answer.ok_or_else(|| {
        ApiError::invalid(format!(
            "this does not say what happened to the call of `{}`; expected {}. The question stays open",
            call.name(),
            UnknownAnswer::WORDS
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_none_is_refused_with_the_call() {
        let value = json!({"kind": "tool_outcome_unknown", "tool": "pay", "reason": "it died"});
        let call = UnknownCall::of_value(&value).expect("it is about a call");
        let read = read_answer(call, &json!("Give up")).expect("an answer");
        assert_eq!(read, json!({"answer": "give_up"}));
        let refused = read_answer(call, &json!("yes")).expect_err("no answer");
        assert!(refused.detail().contains("`pay`"), "{}", refused.detail());
    }
}
