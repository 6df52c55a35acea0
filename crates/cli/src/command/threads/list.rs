use crate::CliError;
use crate::exit::Exit;
use crate::house::House;
use crate::screen::{Table, moment};
use weftwork::store::ReadThreads;
use weftwork::types::Principal;
use weftwork::types::run::RunStatus;

pub(crate) async fn list(limit: usize, json: bool, house: &House) -> Result<Exit, CliError> {
    let store = house.store()?;
    let rows = ReadThreads::threads(store.as_ref(), &Principal::local(), 0, limit).await?;
    if json {
        for row in &rows {
            house.screen.line(serde_json::json!(row))?;
        }
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        let place = &house.config.store.value;
        house.screen.note(format_args!("no threads yet in {place}; begin one: weft chat"));
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["THREAD", "AGENT", "LAST RUN", "CHANGED (UTC)"]);
    for row in rows {
        let status = word(row.status).to_owned();
        table.row([row.id.to_string(), row.graph, status, moment(row.updated_at)]);
    }
    table.write(&house.screen)?;
    Ok(Exit::Done)
}

/// How a run stands, in words.
pub(super) fn word(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Queued => "waits for its turn",
        RunStatus::Pending => "not begun",
        RunStatus::Running => "running",
        RunStatus::Completed => "completed",
        RunStatus::Interrupted => "waits for an answer",
        RunStatus::LimitReached => "reached its limit",
        RunStatus::Cancelled => "cancelled",
        RunStatus::Failed => "failed",
    }
}
