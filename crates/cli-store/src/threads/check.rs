use std::sync::Arc;
use weftwork::graph::CompiledGraph;
use weftwork::graph::{Host, StateQuery};
use weftwork::runtime::StoreCheckpointer;
use weftwork::store::{Store as AnyStore, ThreadRow};
use weftwork::types::Principal;
use weftwork::types::code::Fault;
use weftwork::types::run::RunStatus;
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::states::last_run;
use weftwork_cli_base::terminal::{Table, count_items};

/// Lists the threads that this build cannot resume.
pub(crate) async fn check(
    against: Option<&str>,
    all: bool,
    json: bool,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    // An unknown agent is an error of the command, not of every thread.
    let against = against.map(|agent| context.agent(agent)).transpose()?;
    let store = context.store_there()?;
    let rows = store.threads(&Principal::local(), 0, usize::MAX).await?;
    let open = |row: &ThreadRow| all || row.status != Some(RunStatus::Completed);
    let has_run = |row: &ThreadRow| row.status.is_some();
    let rows: Vec<_> = rows.into_iter().filter(has_run).filter(open).collect();
    let counter = count_items("threads", Some(rows.len()));
    let mut refused = Vec::new();
    for row in &rows {
        let of_row = row.graph.as_deref().unwrap_or_default();
        let agent = against.as_ref().map_or(of_row, |agent| agent.id());
        let fault = match context.graph_of(agent) {
            Ok(graph) => load_thread(&graph, &store, row).await.err(),
            Err(error) => Some(error.fault()),
        };
        counter.one_more();
        if json {
            let line = serde_json::json!({
                "thread": row.id, "agent": agent, "status": row.status, "refused": fault,
            });
            context.terminal.line(line)?;
        }
        refused.extend(fault.map(|fault| (row, agent, fault)));
    }
    drop(counter);
    if !json && !refused.is_empty() {
        let mut table = Table::new(&["THREAD", "AGENT", "LAST RUN", "REASON"]);
        for (row, agent, fault) in &refused {
            let why = format!("{} {}", fault.code, fault.message);
            table.row([row.id.to_string(), (*agent).to_owned(), last_run(row).to_owned(), why]);
        }
        table.write(&context.terminal)?;
    }
    let checked = rows.len();
    let refused = refused.len();
    context.terminal.note(format_args!("{checked} threads checked, {refused} refused"));
    Ok(if refused == 0 { Exit::Done } else { Exit::Failed })
}

/// Reads a thread's newest checkpoint and the checkpoints of its subgraphs, as a run does.
async fn load_thread(
    graph: &CompiledGraph,
    store: &Arc<dyn AnyStore>,
    row: &ThreadRow,
) -> Result<(), Fault> {
    let checkpointer = StoreCheckpointer::new(Arc::clone(store) as _, Principal::local());
    let host = Host::new().with_checkpointer(checkpointer);
    let found = graph.state(&host, &StateQuery::thread(row.id.as_str()), true).await;
    found.map(drop).map_err(|error| error.fault())
}
