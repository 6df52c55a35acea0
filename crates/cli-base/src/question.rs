//! Display of open questions, and parsing of answers.

mod review;

use crate::CliError;
use crate::shell;
use crate::terminal::{IN_MEMORY, Style, Terminal, format_moment, to_plain};
use review::Review;
use serde_json::{Value, json};
use weftwork::store::{Store, open_questions};
use weftwork::tools::{UnknownAnswer, UnknownQuestion};
use weftwork::types::approval::{ApprovalDecision, ApprovalRequest, Verdict};
use weftwork::types::interrupt::{Ask, Interrupt};
use weftwork::types::tool::{Effect, Reply};
use weftwork::types::{Principal, ThreadId};

/// The prompt for an approval.
pub const APPROVE: &str = "approve exactly this call? [y/n]";

/// The prompt for an answer about a call of unknown outcome.
const UNKNOWN_PROMPT: &str = "type `happened` and the result as JSON, `again`, or `give up`:";

/// Reads the open questions of a thread, in the order in which they were asked.
pub async fn open_questions_of(
    store: &dyn Store,
    thread: &ThreadId,
) -> Result<Vec<Interrupt>, CliError> {
    let open = open_questions(store.interrupts(&Principal::local(), thread).await?);
    Ok(open.into_iter().map(Interrupt::into_shown).collect())
}

/// Adds the name of the member of a team that asks, which is the name of its graph.
pub fn with_member(graph: Option<&str>, text: &str) -> String {
    graph.map_or_else(|| text.to_owned(), |name| format!("[{name}] {text}"))
}

/// Returns a question in one line: a call, a text or a value.
pub fn short_form(interrupt: &Interrupt) -> String {
    let text = match &interrupt.ask {
        Ask::Question { question, .. } => question.clone(),
        Ask::Approval(request) => format!("{} {}", request.tool, request.args),
        Ask::Value { value } => calls_in_short(value)
            .unwrap_or_else(|| value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
        Ask::Timer { until } => format!("waits until {}", format_moment(*until)),
    };
    with_member(interrupt.graph.as_deref(), &text)
}

/// Returns the calls of another server that a value asks about, in one line.
pub fn calls_in_short(value: &Value) -> Option<String> {
    Review::read(value).map(|review| review.short_form())
}

/// Returns the calls of another server that a question is about.
fn review_of(interrupt: &Interrupt) -> Option<Review> {
    let Ask::Value { value } = &interrupt.ask else { return None };
    Review::read(value)
}

/// Returns `true` if the question asks for a decision about calls.
pub fn takes_decision(interrupt: &Interrupt) -> bool {
    matches!(interrupt.ask, Ask::Approval(_)) || review_of(interrupt).is_some()
}

/// Returns `true` if the answer to a review has this verdict about every call.
pub fn is_review_with(answer: &Value, verdict: &Verdict) -> bool {
    review::has_verdict(answer, verdict)
}

/// Returns `true` if the arguments of the call that waits for approval can be edited.
pub fn can_edit(interrupt: &Interrupt) -> bool {
    let schema = interrupt.answer_schema.as_ref();
    let forms = schema.and_then(|schema| schema["oneOf"].as_array());
    let edits = |form: &Value| form.pointer("/properties/args").is_some();
    forms.is_some_and(|forms| forms.iter().any(edits))
}

/// Formats a question as lines.
pub fn question_lines(interrupt: &Interrupt, terminal: &Terminal) -> Vec<String> {
    let head = |text: &str| {
        let text = with_member(interrupt.graph.as_deref(), text);
        format!("{} {}", terminal.paint(Style::Ask, "?"), to_plain(&text))
    };
    let body = |value: &Value| format!("    {}", to_plain(&value.to_string()));
    if let Some(review) = review_of(interrupt) {
        let lines = review.lines();
        return lines.flat_map(|(call, args)| [head(&call), format!("    {args}")]).collect();
    }
    match &interrupt.ask {
        Ask::Question { question, tool: None, .. } => vec![head(question)],
        Ask::Question { question, tool: Some(tool), .. } => {
            vec![head(&format!("tool {tool} asks: {question}"))]
        }
        Ask::Approval(request) => vec![
            head(&format!(
                "{} needs approval ({}): {}",
                request.tool,
                effect_words(request.effect),
                request.reason
            )),
            body(&request.args),
        ],
        Ask::Value { value } => match unknown_outcome(value) {
            Some(unknown) => vec![
                head(&unknown.reason),
                format!("    it was called with {}", to_plain(&unknown.given.to_string())),
                format!(
                    "    look at the other side, by the idempotency key {}, before you answer",
                    to_plain(&unknown.key)
                ),
            ],
            None => vec![head("the agent asks:"), body(value)],
        },
        Ask::Timer { until } => vec![head(&format!("waits until {}", format_moment(*until)))],
    }
}

fn effect_words(effect: Effect) -> &'static str {
    match effect {
        Effect::ReadOnly => "read only",
        Effect::StateChange => "state change",
        Effect::ExternalSideEffect => "external side effect",
    }
}

/// A call with an unknown outcome: of a tool, or of `ctx.once`.
struct Unknown {
    reason: String,
    given: Value,
    key: String,
}

fn unknown_outcome(value: &Value) -> Option<Unknown> {
    if let Ok(tool) = serde_json::from_value::<UnknownQuestion>(value.clone()) {
        let key = tool.idempotency_key.to_string();
        return Some(Unknown { reason: tool.reason, given: tool.args, key });
    }
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let once = value["kind"] == "once_outcome_unknown";
    let reason = text("reason")?;
    let key = text("idempotency_key")?;
    once.then(|| Unknown { reason, given: value["input"].clone(), key })
}

/// Returns `true` for a question about a call of unknown outcome.
pub fn is_about_unknown(interrupt: &Interrupt) -> bool {
    matches!(&interrupt.ask, Ask::Value { value } if unknown_outcome(value).is_some())
}

/// Returns `true` if an answer repeats a call of unknown outcome, which may then happen twice.
pub fn calls_again(interrupt: &Interrupt, answer: &Value) -> bool {
    is_about_unknown(interrupt) && *answer == json!(UnknownAnswer::CallAgain)
}

/// Returns the prompt for the answer.
pub fn prompt_of(interrupt: &Interrupt) -> &'static str {
    if let Some(review) = review_of(interrupt) {
        return review.prompt();
    }
    match &interrupt.ask {
        Ask::Question { tool: None, .. } => "your answer:",
        Ask::Question { tool: Some(_), .. } => "your answer, or `decline` or `cancel`:",
        Ask::Approval(_) => APPROVE,
        Ask::Value { .. } if is_about_unknown(interrupt) => UNKNOWN_PROMPT,
        Ask::Value { .. } => "your answer, as JSON or text:",
        Ask::Timer { .. } => "type `now` to continue before that time:",
    }
}

/// Parses a typed line as an answer; `None` if it does not answer the question.
pub fn parse_answer(interrupt: &Interrupt, line: &str) -> Option<Value> {
    let line = line.trim();
    match &interrupt.ask {
        Ask::Question { .. } if line.is_empty() => None,
        Ask::Question { tool: None, .. } => Some(json!(line)),
        Ask::Question { tool: Some(_), .. } => Some(json!(parse_reply(interrupt, line))),
        Ask::Approval(_) => {
            let (verdict, comment) = typed_decision(line)?;
            decide_calls(interrupt, verdict, comment).ok()
        }
        Ask::Value { .. } if takes_decision(interrupt) => match typed_decision(line) {
            Some((verdict, comment)) => decide_calls(interrupt, verdict, comment).ok(),
            // Decisions that differ from each other.
            None => serde_json::from_str(line).ok().filter(Value::is_object),
        },
        Ask::Value { .. } if is_about_unknown(interrupt) => {
            UnknownAnswer::of_line(line).map(|answer| json!(answer))
        }
        Ask::Value { .. } if line.is_empty() => None,
        Ask::Value { .. } => Some(serde_json::from_str(line).unwrap_or_else(|_| json!(line))),
        Ask::Timer { .. } => (line == "now").then_some(Value::Null),
    }
}

/// Parses a line as a decision about calls, with its comment.
fn typed_decision(line: &str) -> Option<(Verdict, Option<&str>)> {
    let (word, comment) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let comment = Some(comment.trim()).filter(|comment| !comment.is_empty());
    Some(match word.to_lowercase().trim_end_matches(',') {
        "y" | "yes" => (Verdict::Approve, comment),
        "n" | "no" => (Verdict::Reject, comment),
        "edit" => (Verdict::Edit { args: serde_json::from_str(comment?).ok()? }, None),
        "respond" => (Verdict::Respond { text: comment?.to_owned() }, None),
        _ => return None,
    })
}

/// Returns the answer that decides about the calls of a question.
///
/// # Errors
/// The reason why the question does not take the decision.
pub fn decide_calls(
    interrupt: &Interrupt,
    verdict: Verdict,
    comment: Option<&str>,
) -> Result<Value, String> {
    match (&interrupt.ask, review_of(interrupt)) {
        (Ask::Approval(request), _) => Ok(bound_decision(request, verdict, comment)),
        (_, Some(review)) => review.decide(&verdict, comment),
        _ => Err("the question needs another kind of answer".to_owned()),
    }
}

/// Parses a line as the reply to a question of a tool.
fn parse_reply(interrupt: &Interrupt, line: &str) -> Reply {
    let content = match (line, serde_json::from_str::<Value>(line)) {
        ("decline", _) => return Reply::Decline,
        ("cancel", _) => return Reply::Cancel,
        (_, Ok(Value::String(text))) => json!(text),
        (_, Ok(value)) if !takes_text(interrupt) => value,
        _ => json!(line),
    };
    Reply::Accept { content }
}

/// Returns `true` if the question of a tool takes a text.
fn takes_text(interrupt: &Interrupt) -> bool {
    let schema = interrupt.answer_schema.as_ref();
    let kind = schema.and_then(|schema| schema.pointer("/oneOf/0/properties/content/type"));
    kind.is_some_and(|kind| kind == "string")
}

/// Creates a decision that is bound to exactly the call shown.
pub fn bound_decision(request: &ApprovalRequest, verdict: Verdict, comment: Option<&str>) -> Value {
    let comment = comment.map(str::to_owned);
    json!(ApprovalDecision { binding: request.binding, verdict, comment })
}

/// Returns the command that answers one of the open questions of a thread.
pub fn how_to_answer(
    interrupt: &Interrupt,
    open: &[Interrupt],
    thread: &ThreadId,
    weft: &str,
) -> String {
    let resume = format!("{weft} threads resume {}", shell::quote_thread(thread));
    // The flags below that have no id are for the only open question.
    let which = match open {
        [] | [_] => String::new(),
        _ => format!("--question {} ", interrupt.id),
    };
    if let Some(flags) = review_of(interrupt).and_then(|review| review.flags()) {
        return format!("{resume} {which}{flags}");
    }
    let flag = match &interrupt.ask {
        Ask::Question { tool: None, .. } => format!("{which}--answer TEXT"),
        Ask::Question { tool: Some(_), .. } => {
            format!("{which}--answer TEXT (or decline, or cancel)")
        }
        Ask::Approval(_) => format!("{which}--approve (or --reject)"),
        Ask::Value { .. } if is_about_unknown(interrupt) => {
            let id = interrupt.id;
            format!(
                r#"--answer-json '{id}={{"answer":"happened","value":RESULT}}' (or {{"answer":"give_up"}}, or {{"answer":"call_again"}}, after which it may happen twice)"#
            )
        }
        Ask::Value { .. } => format!("--answer-json {}=JSON", interrupt.id),
        Ask::Timer { .. } => format!("--answer-json {}=null", interrupt.id),
    };
    format!("{resume} {flag}")
}

/// Prints the open questions with the commands that answer them.
pub fn tell_open(open: &[Interrupt], thread: &ThreadId, terminal: &Terminal) {
    for interrupt in open {
        question_lines(interrupt, terminal).iter().for_each(|line| terminal.note(line));
        let how = how_to_answer(interrupt, open, thread, &terminal.weft);
        terminal.note(match terminal.lasting {
            true => format!("  answer with: {how}"),
            false => format!("  {IN_MEMORY}"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::parse_answer;
    use serde_json::json;
    use weftwork::types::approval::ApprovalRequest;
    use weftwork::types::interrupt::{Ask, Interrupt};
    use weftwork::types::tool::{Effect, Reply};
    use weftwork::types::{InterruptId, TaskId, ThreadId, ToolCallId};

    fn asked(ask: Ask) -> Interrupt {
        Interrupt {
            id: InterruptId(1),
            task: TaskId(1),
            node: "tool".to_owned(),
            graph: None,
            ask,
            answer_schema: None,
            expires_at: None,
            default: None,
            key: None,
        }
    }

    #[test]
    fn commands_name_the_question_if_several_are_open() {
        let tool_call_id = ToolCallId::new("c").expect("id");
        let question = "which one?".to_owned();
        let one = asked(Ask::Question { question, tool_call_id, tool: None });
        let thread = ThreadId::new("order 7").expect("id");
        let how = super::how_to_answer(&one, std::slice::from_ref(&one), &thread, "weft");
        assert_eq!(how, "weft threads resume 'order 7' --answer TEXT");
        let how = super::how_to_answer(&one, &[one.clone(), one.clone()], &thread, "weft");
        let named = format!("weft threads resume 'order 7' --question {} --answer TEXT", one.id);
        assert_eq!(how, named);
    }

    #[test]
    fn a_timer_ends_early_with_the_answer_now() {
        let timer = asked(Ask::Timer { until: weftwork::types::Timestamp(0) });
        assert_eq!(parse_answer(&timer, " now "), Some(json!(null)));
        assert_eq!(parse_answer(&timer, "later"), None);
        let how = super::how_to_answer(&timer, &[], &ThreadId::new("t").expect("an id"), "weft");
        assert!(how.ends_with("=null"), "{how}");
    }

    #[test]
    fn a_tool_that_asks_takes_content_or_a_refusal() {
        let ask = |tool: Option<&str>| Ask::Question {
            question: "How many?".to_owned(),
            tool_call_id: ToolCallId::new("c").expect("an id"),
            tool: tool.map(str::to_owned),
        };
        let accept = |content| json!({"action": "accept", "content": content});
        for (kind, line, expected) in [
            ("integer", "2", accept(json!(2))),
            ("integer", "two", accept(json!("two"))),
            ("string", "2", accept(json!("2"))),
            ("string", "\"decline\"", accept(json!("decline"))),
            ("string", "decline", json!({"action": "decline"})),
            ("integer", " cancel ", json!({"action": "cancel"})),
        ] {
            let schema = Reply::schema(json!({"type": kind}));
            let asked = Interrupt { answer_schema: Some(schema), ..asked(ask(Some("book"))) };
            assert_eq!(parse_answer(&asked, line), Some(expected), "{kind} {line}");
        }
        assert_eq!(parse_answer(&asked(ask(None)), "decline"), Some(json!("decline")));
        assert_eq!(parse_answer(&asked(ask(Some("book"))), " "), None);
    }

    #[test]
    fn a_decision_is_bound_to_what_was_shown() {
        let thread = ThreadId::new("t").expect("id");
        let call = ToolCallId::new("c").expect("id");
        let args = json!({"a": 1});
        let binding = ApprovalRequest::bind(&thread, &call, "pay", &args);
        let asked = asked(Ask::Approval(ApprovalRequest {
            tool_call_id: call,
            tool: "pay".to_owned(),
            args,
            effect: Effect::ExternalSideEffect,
            binding,
            reason: "it pays".to_owned(),
        }));
        for (line, expected) in [
            (" Yes ", Some(json!({"approved": true, "binding": binding}))),
            (
                "n, too much",
                Some(json!({"approved": false, "binding": binding, "comment": "too much"})),
            ),
            ("", None),
            ("sure", None),
            (
                "edit {\"a\": 2}",
                Some(json!({"approved": true, "binding": binding, "args": {"a": 2}})),
            ),
            ("edit a", None),
            ("edit", None),
            (
                "respond it was paid",
                Some(json!({"approved": false, "binding": binding, "respond": "it was paid"})),
            ),
            ("respond", None),
        ] {
            assert_eq!(parse_answer(&asked, line), expected, "{line}");
        }
    }

    #[test]
    fn a_call_of_unknown_outcome_takes_three_answers() {
        let of_tool = json!({
            "kind": "tool_outcome_unknown", "tool_call_id": "c", "tool": "pay", "args": {},
            "effect": "external_side_effect", "idempotency_key": "k", "reason": "it died",
        });
        let of_once = json!({
            "kind": "once_outcome_unknown", "name": "pay", "input": null, "idempotency_key": "k",
            "reason": "it died",
        });
        for value in [of_tool, of_once] {
            takes_three_answers(&asked(Ask::Value { value }));
        }
    }

    fn takes_three_answers(asked: &Interrupt) {
        let how = super::how_to_answer(asked, &[], &ThreadId::new("t").expect("an id"), "weft");
        assert!(how.contains("call_again"), "{how}");
        for (line, expected) in [
            ("again", Some(json!({"answer": "call_again"}))),
            ("Call again", Some(json!({"answer": "call_again"}))),
            ("Give up", Some(json!({"answer": "give_up"}))),
            ("happened {\"id\":1}", Some(json!({"answer": "happened", "value": {"id": 1}}))),
            ("happened", None),
            ("maybe", None),
        ] {
            assert_eq!(parse_answer(asked, line), expected, "{line}");
            let again = expected.is_some_and(|answer| super::calls_again(asked, &answer));
            assert_eq!(again, line.ends_with("again"), "{line}");
        }
    }
}
