use crate::args::Resume;
use serde_json::Value;
use std::collections::BTreeMap;
use weftwork::graph::SystemClock;
use weftwork::types::approval::{ApprovalDecision, Verdict};
use weftwork::types::interrupt::{Ask, Interrupt};
use weftwork::types::json;
use weftwork::types::port::Clock;
use weftwork::types::run::{Multitask, RunInput};
use weftwork::types::{InterruptId, ThreadId};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::{CommandContext, RunSettings};
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::question;
use weftwork_cli_base::run::to_end;
use weftwork_cli_base::shell;

/// Resumes a thread with its own agent, and its own model unless a flag sets another.
pub(crate) async fn resume(args: &Resume, context: &CommandContext) -> Result<Exit, CliError> {
    let id = ThreadId::new(&args.id)?;
    let store = context.store_of(&id)?;
    let found = context.thread(store.as_ref(), &id).await?;
    let agent = context.agent(found.graph())?;
    let open = question::open_questions_of(store.as_ref(), &id).await?;
    let unfinished = found.unfinished();
    let finished = unfinished.is_none();
    if let Some(run) = unfinished
        && args.has_answer()
        && !args.is_answer_of(&run.new.input)
    {
        return Err(CliError::BadAnswer {
            thread: id.to_string(),
            reason: format!(
                "its last run is unfinished, so its questions are not known yet; resume it first: {} threads resume {}",
                context.terminal.weft,
                shell::quote_thread(&id)
            ),
        });
    }
    let answers = if finished {
        given_answers(args, &id, &open, &context.terminal.weft)?
    } else {
        BTreeMap::new()
    };
    let now = SystemClock::new().now();
    let wakes = finished && open.iter().any(|one| one.lapses_at().is_some_and(|at| at <= now));
    if finished && answers.is_empty() && !open.is_empty() && !wakes {
        question::tell_open(&open, &id, &context.terminal);
        return Ok(Exit::Waiting);
    }
    let settings =
        RunSettings { durability: args.keeping.durability(), multitask: Multitask::Reject };
    let app = context.open(&agent, Some(store), found.model(), settings).await?;
    let app = args.limits.limit(app);
    let app = match args.step_limit {
        Some(steps) => app.with_step_limit(steps),
        None => app,
    };
    if !finished && (args.limits.is_set() || args.step_limit.is_some()) {
        context.terminal.note("the unfinished run keeps the limits it has");
    }
    let thread = app.thread_of(agent.id(), &id)?;
    let started = if found.stopped_at_node() && answers.is_empty() {
        thread.proceed().begin().await?
    } else if answers.is_empty() {
        let started = app.resume(&id).await?;
        if !finished {
            context.terminal.note("resuming the unfinished run of the thread");
        }
        started
    } else {
        thread.answer(answers).begin().await?
    };
    let exit = to_end(started, &app, context, None, args.json).await?;
    if exit == Exit::Waiting && !finished && args.has_answer() {
        // The run already has this answer. The open question was asked after it.
        context.terminal.note("your answer was not used: the open question is a new one");
    }
    Ok(exit)
}

impl Resume {
    fn has_answer(&self) -> bool {
        self.answer.is_some() || self.decides() || !self.answer_json.is_empty()
    }

    /// Returns `true` if the answer decides about a call.
    fn decides(&self) -> bool {
        self.approve || self.reject.is_some() || self.edit.is_some() || self.respond.is_some()
    }

    /// Parses the decision about a call, with its comment.
    fn decision(&self) -> Result<(Verdict, Option<&str>), String> {
        let comment = self.comment.as_deref();
        Ok(match (&self.reject, &self.edit, &self.respond) {
            (Some(reason), ..) => {
                let reason = Some(reason.as_str()).filter(|reason| !reason.is_empty());
                (Verdict::Reject, reason.or(comment))
            }
            (_, Some(args), _) => {
                let args = json::read(args.as_bytes())
                    .map_err(|error| format!("the arguments of --edit: {error}"))?;
                (Verdict::Edit { args }, comment)
            }
            (.., Some(text)) => (Verdict::Respond { text: text.clone() }, comment),
            (None, None, None) => (Verdict::Approve, comment),
        })
    }

    /// Returns `true` if an unfinished run was started with this answer, so that the command is a
    /// repetition.
    fn is_answer_of(&self, input: &RunInput) -> bool {
        let Some(answers) = input.answers_by_id() else { return false };
        let was_given = |pair: &String| {
            let (id, json) = pair.split_once('=')?;
            let given = answers.iter().find(|(one, _)| one.to_string() == id.trim())?.1;
            Some(serde_json::from_str::<Value>(json).ok()? == *given)
        };
        if !self.answer_json.is_empty() {
            return self.answer_json.iter().all(|pair| was_given(pair) == Some(true));
        }
        answers.values().any(|value| match &self.answer {
            Some(text) => {
                let json = || serde_json::from_str::<Value>(text).ok();
                // The reply to a question of a tool has its answer within.
                let is =
                    |value: &Value| value.as_str() == Some(text) || json().as_ref() == Some(value);
                is(value)
                    || value.get("content").is_some_and(is)
                    || value.get("action").is_some_and(|action| *action != "accept" && is(action))
            }
            None => {
                let Ok((verdict, _)) = self.decision() else { return false };
                let given = serde_json::from_value::<ApprovalDecision>(value.clone());
                given.is_ok_and(|given| given.verdict == verdict)
                    || question::is_review_with(value, &verdict)
            }
        })
    }
}

/// Parses the answers to open questions from the flags.
fn given_answers(
    args: &Resume,
    thread: &ThreadId,
    open: &[Interrupt],
    weft: &str,
) -> Result<BTreeMap<InterruptId, Value>, CliError> {
    let bad = |reason: String| CliError::BadAnswer { thread: thread.to_string(), reason };
    if !args.has_answer() {
        return Ok(BTreeMap::new());
    }
    if !args.answer_json.is_empty() {
        let pairs = args.answer_json.iter().map(|pair| by_id(pair).map_err(&bad));
        return pairs.collect();
    }
    if open.is_empty() {
        return Err(bad("it has no open question".to_owned()));
    }
    let interrupt = chosen_question(args, open).map_err(&bad)?;
    let value = match (&interrupt.ask, &args.answer) {
        (_, None) if question::takes_decision(interrupt) => {
            let (verdict, comment) = args.decision().map_err(&bad)?;
            question::decide_calls(interrupt, verdict, comment).map_err(|reason| {
                bad(format!(
                    "{reason}; use: {}",
                    question::how_to_answer(interrupt, open, thread, weft)
                ))
            })?
        }
        (Ask::Question { .. } | Ask::Value { .. }, Some(text)) => {
            question::parse_answer(interrupt, text).ok_or_else(|| {
                let how = question::how_to_answer(interrupt, open, thread, weft);
                bad(format!("`{text}` does not answer the question; use: {how}"))
            })?
        }
        _ => {
            let how = question::how_to_answer(interrupt, open, thread, weft);
            return Err(bad(format!("the question needs another kind of answer; use: {how}")));
        }
    };
    Ok(BTreeMap::from([(interrupt.id, value)]))
}

/// Selects the question to answer: the question of `--question`, or the only question that fits the
/// flags.
fn chosen_question<'a>(args: &Resume, open: &'a [Interrupt]) -> Result<&'a Interrupt, String> {
    let ids = || open.iter().map(|one| one.id.to_string()).collect::<Vec<_>>().join(", ");
    if let Some(named) = &args.question {
        let found = open.iter().find(|interrupt| interrupt.id.to_string() == *named);
        return found.ok_or_else(|| {
            format!("no open question has the id `{named}`; open questions: {}", ids())
        });
    }
    let fits = |one: &&Interrupt| question::takes_decision(one) == args.answer.is_none();
    let fitting: Vec<&Interrupt> = open.iter().filter(fits).collect();
    match (fitting.as_slice(), open) {
        ([one], _) => Ok(*one),
        ([], [one]) => Ok(one),
        _ => {
            Err(format!("{} questions are open; select one with --question: {}", open.len(), ids()))
        }
    }
}

/// Parses an answer to a question. One that is not open any more is passed on: the runtime knows
/// why, and records refused decisions.
fn by_id(pair: &str) -> Result<(InterruptId, Value), String> {
    let (id, json) = pair.split_once('=').ok_or("expected --answer-json ID=JSON")?;
    let question = id.trim().parse::<InterruptId>();
    let question = question.map_err(|_| format!("no open question has the id `{id}`"))?;
    let value =
        json::read(json.as_bytes()).map_err(|error| format!("the answer to `{id}`: {error}"))?;
    Ok((question, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::json;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        resume: Resume,
    }

    fn given(flags: &[&str], answer: &Value) -> bool {
        let args = [&["resume", "t"], flags].concat();
        let args = Alone::try_parse_from(args).expect("flags").resume;
        let answers = BTreeMap::from([(InterruptId(1), answer.clone())]);
        args.is_answer_of(&RunInput::answers(answers))
    }

    #[test]
    fn a_repeated_answer_is_distinguished_from_another_one() {
        let binding = "0".repeat(64);
        let decided = |mut decision: Value| {
            decision["binding"] = json!(binding);
            decision
        };
        let yes = decided(json!({"approved": true}));
        let no = decided(json!({"approved": false, "comment": "no"}));
        let edited = decided(json!({"approved": true, "args": {"a": 1}}));
        assert!(given(&["--edit", "{\"a\": 1}"], &edited) && !given(&["--approve"], &edited));
        assert!(!given(&["--edit", "{\"a\": 2}"], &edited) && !given(&["--edit", "{"], &edited));
        let review = json!({"decisions": [{"type": "approve"}, {"type": "approve"}]});
        assert!(given(&["--approve"], &review) && !given(&["--reject"], &review));
        let said = decided(json!({"approved": false, "respond": "5"}));
        assert!(given(&["--respond", "5"], &said) && !given(&["--reject"], &said));
        assert!(given(&["--approve"], &yes) && given(&["--reject"], &no));
        assert!(!given(&["--reject"], &yes) && !given(&["--approve"], &no));
        assert!(!given(&["--reject"], &json!("Ada")), "not a decision");
        assert!(given(&["--answer", "Ada"], &json!("Ada")) && given(&["--answer", "5"], &json!(5)));
        assert!(!given(&["--answer", "Ada"], &json!("Bob")) && !given(&["--answer", "Ada"], &yes));
        let id = InterruptId(1);
        assert!(given(&["--answer-json", &format!("{id}= 5")], &json!(5)));
        assert!(!given(&["--answer-json", &format!("{id}=6")], &json!(5)));
        assert!(!given(&["--answer-json", &format!("{}=5", InterruptId(2))], &json!(5)));
        let args = Alone::try_parse_from(["resume", "t", "--approve"]).expect("flags").resume;
        assert!(!args.is_answer_of(&RunInput::Continue));
    }
}
