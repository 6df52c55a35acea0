//! `weft approvals`: calls that wait for a decision, and the record of decisions.

use crate::args::{ApprovalList, Approvals};
use serde_json::{Value, json};
use weftwork::graph::SystemClock;
use weftwork::store::Store;
use weftwork::store::approval::{
    self, ApprovalPage, ApprovalQuery, ApprovalRow, WaitingApproval, waiting,
};
use weftwork::types::approval::{ApprovalDecision, ApprovalOutcome, Verdict};
use weftwork::types::port::Clock;
use weftwork::types::{Principal, ThreadId, Timestamp};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::{Table, format_moment};

pub async fn approvals(command: Approvals, context: &CommandContext) -> Result<Exit, CliError> {
    match command {
        Approvals::List(args) => list_approvals(args, context).await,
    }
}

async fn list_approvals(args: ApprovalList, context: &CommandContext) -> Result<Exit, CliError> {
    let thread = args.thread.as_ref().map(ThreadId::new).transpose()?;
    let terminal = &context.terminal;
    if thread.is_none() && context.is_new() {
        if !args.json {
            terminal.note("no approvals");
        }
        return Ok(Exit::Done);
    }
    let store = match &thread {
        Some(thread) => context.store_of(thread)?,
        None => context.store_there()?,
    };
    let continues = args.after.is_some();
    let (open, page) = find_approvals(store.as_ref(), thread, &args).await?;
    if args.json {
        for one in &open {
            terminal.line(with_type("waiting", waiting_json(one)))?;
        }
        for row in &page.rows {
            terminal.line(with_type("record", json!(row)))?;
        }
    } else if open.is_empty() && page.rows.is_empty() {
        terminal.note(if continues { "no further approvals" } else { "no approvals" });
    } else {
        if !open.is_empty() {
            waiting_table(&open).write(terminal)?;
        }
        if !page.rows.is_empty() {
            records_table(page.rows).write(terminal)?;
        }
    }
    if let Some(next) = page.next {
        let weft = &terminal.weft;
        terminal.note(format_args!("further decisions: {weft} approvals list --after {next}"));
    }
    Ok(Exit::Done)
}

async fn find_approvals(
    store: &dyn Store,
    thread: Option<ThreadId>,
    args: &ApprovalList,
) -> Result<(Vec<WaitingApproval>, ApprovalPage), CliError> {
    let who = Principal::local();
    let limit = args.limit.get();
    if let Some(thread) = &thread {
        store.thread(&who, thread).await?;
    }
    let open = match &args.after {
        Some(_) => Vec::new(),
        None => waiting(store, &who, thread.as_ref(), limit).await?,
    };
    let query = ApprovalQuery { thread, after: args.after.clone(), limit };
    Ok((open, approval::approvals(store, &who, query).await?))
}

/// Returns a call that waits as a line of JSON: its question by its id, and without members that have
/// no value.
fn waiting_json(one: &WaitingApproval) -> Value {
    let mut line = json!({
        "thread": one.thread,
        "question": one.question.id,
        "request": one.question.approval(),
    });
    let times = [("asked_at", one.asked_at), ("expires_at", one.question.expires_at)];
    for (name, time) in times {
        if let Some(time) = time {
            line[name] = json!(time);
        }
    }
    line
}

/// Adds the type of a line of JSON.
fn with_type(kind: &str, mut value: Value) -> Value {
    value["type"] = json!(kind);
    value
}

fn waiting_table(open: &[WaitingApproval]) -> Table {
    let now = SystemClock::new().now();
    let mut table = Table::new(&["THREAD", "WAITS", "EXPIRES (UTC)", "TOOL", "ARGUMENTS"]);
    for one in open {
        let request = one.question.approval();
        table.row([
            one.thread.to_string(),
            one.asked_at.map(|asked| format_age(asked, now)).unwrap_or_default(),
            one.question.expires_at.map_or_else(|| "never".to_owned(), format_moment),
            request.map(|request| request.tool.clone()).unwrap_or_default(),
            request.map(|request| request.args.to_string()).unwrap_or_default(),
        ]);
    }
    table
}

fn records_table(rows: Vec<ApprovalRow>) -> Table {
    let mut table = Table::new(&["THREAD", "DECIDED (UTC)", "BY", "DECISION", "TOOL", "ARGUMENTS"]);
    for ApprovalRow { thread, record } in rows {
        let (decision, edited) = describe_outcome(&record.outcome);
        table.row([
            thread.to_string(),
            format_moment(record.at),
            record.by.unwrap_or_else(|| "nobody".to_owned()),
            decision,
            record.request.tool,
            edited.unwrap_or(&record.request.args).to_string(),
        ]);
    }
    table
}

/// Returns a result in words, with the arguments if they were edited.
fn describe_outcome(outcome: &ApprovalOutcome) -> (String, Option<&Value>) {
    let ApprovalDecision { verdict, comment, .. } = match outcome {
        ApprovalOutcome::Decided(decision) => decision,
        ApprovalOutcome::Refused(reason) => return (format!("refused: {}", reason.words()), None),
    };
    let (words, edited) = match verdict {
        Verdict::Approve => ("approved".to_owned(), None),
        Verdict::Edit { args } => ("edited".to_owned(), Some(args)),
        Verdict::Reject => ("rejected".to_owned(), None),
        Verdict::Respond { text } => (format!("responded: {text}"), None),
        Verdict::Lapse => ("lapsed".to_owned(), None),
    };
    match comment {
        Some(comment) => (format!("{words}: {comment}"), edited),
        None => (words, edited),
    }
}

/// Returns the time since a moment in its largest unit, such as `3 h`.
fn format_age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.since(since).as_secs();
    let (unit, length) = [("d", 86_400), ("h", 3_600), ("min", 60)]
        .into_iter()
        .find(|(_, length)| seconds >= *length)
        .unwrap_or(("s", 1));
    format!("{} {unit}", seconds / length)
}

#[cfg(test)]
mod tests {
    use super::{describe_outcome, format_age};
    use weftwork::types::Timestamp;
    use weftwork::types::approval::{ApprovalDecision, ApprovalOutcome, RefusedAnswer, Verdict};
    use weftwork::types::canonical::Hash;

    #[test]
    fn ages_have_their_largest_unit() {
        for (ms, expected) in [(0, "0 s"), (59_999, "59 s"), (60_000, "1 min"), (7_200_000, "2 h")]
        {
            assert_eq!(format_age(Timestamp(5), Timestamp(5 + ms)), expected);
        }
        assert_eq!(format_age(Timestamp(0), Timestamp(200_000_000)), "2 d");
        assert_eq!(format_age(Timestamp(9), Timestamp(0)), "0 s", "another machine's clock");
    }

    #[test]
    fn results_are_in_words() {
        let args = serde_json::json!({"cents": 7});
        for (verdict, comment, expected) in [
            (Verdict::Approve, None, "approved"),
            (Verdict::Edit { args: args.clone() }, Some("less"), "edited: less"),
            (Verdict::Reject, Some("no"), "rejected: no"),
            (Verdict::Respond { text: "done".to_owned() }, None, "responded: done"),
            (Verdict::Lapse, None, "lapsed"),
        ] {
            let edited = matches!(verdict, Verdict::Edit { .. }).then_some(&args);
            let comment = comment.map(str::to_owned);
            let decision = ApprovalDecision { binding: Hash([0; 32]), verdict, comment };
            let outcome = ApprovalOutcome::Decided(decision);
            assert_eq!(describe_outcome(&outcome), (expected.to_owned(), edited));
        }
        let refused = ApprovalOutcome::Refused(RefusedAnswer::Expired);
        assert_eq!(describe_outcome(&refused).0, "refused: the time for the decision was over");
    }
}
