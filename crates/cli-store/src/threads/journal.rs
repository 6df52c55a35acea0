use weftwork::store::JournalRead;
use weftwork::types::port::{CallKind, CallRecord, CallState};
use weftwork::types::{Principal, ThreadId};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::{Table, Terminal};

/// Lists the recorded calls of a thread, with the results that may be shown.
pub(crate) async fn journal(
    id: &ThreadId,
    json: bool,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let store = context.store_of(id)?;
    let calls = JournalRead::calls(store.as_ref(), &Principal::local(), id).await?;
    if json {
        for call in calls {
            context.terminal.line(serde_json::json!(call.into_shown()))?;
        }
        return Ok(Exit::Done);
    }
    journal_lines(&calls, &context.terminal)
        .iter()
        .try_for_each(|line| context.terminal.line(line))?;
    Ok(Exit::Done)
}

/// Formats calls as a table with totals.
pub fn journal_lines(calls: &[CallRecord], terminal: &Terminal) -> Vec<String> {
    let mut table =
        Table::new(&["STEP", "KIND", "NAME", "STATE", "MADE", "REUSED", "POSSIBLY PAID"]);
    for call in calls {
        let state = match call.state {
            CallState::Intent => "no result",
            CallState::Settled => "recorded",
        };
        let cells = [
            call.step.to_string(),
            kind_word(call.kind).to_owned(),
            call.name.clone(),
            state.to_owned(),
            call.made.to_string(),
            call.reused.to_string(),
            call.possibly_paid.to_string(),
        ];
        table.row(cells);
    }
    let mut lines = table.lines(terminal);
    let sum = |count: fn(&CallRecord) -> u32| calls.iter().map(count).sum::<u32>();
    lines.push(format!(
        "calls made: {}, reused: {}, possibly paid: {}",
        sum(|call| call.made),
        sum(|call| call.reused),
        sum(|call| call.possibly_paid)
    ));
    if calls.iter().any(|call| call.possibly_paid > 0) {
        lines.push(
            "possibly paid: upper bound of calls without a result, which were cut off or failed, or were made by processes that died before the result was recorded"
                .to_owned(),
        );
    }
    lines
}

fn kind_word(kind: CallKind) -> &'static str {
    match kind {
        CallKind::Model => "model",
        CallKind::Tool => "tool",
        CallKind::Once => "once",
    }
}
