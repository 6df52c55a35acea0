//! `weft runs list`: lists runs, newest first.

use crate::args::RunList;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weftwork::graph::SystemClock;
use weftwork::runtime::deleted_runs::{deleted_runs, of_server};
use weftwork::store::thread::{Direction, ThreadKey};
use weftwork::store::{
    InterruptRow, RunRow, SearchFrom, Store, StoreError, StoreItems, ThreadOrder, ThreadQuery,
    ThreadRow,
};
use weftwork::types::run::RunStatus;
use weftwork::types::{Principal, ThreadId, Timestamp};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::states::{NOT_FINISHED, state_of, with_orphans};
use weftwork_cli_base::terminal::{Table, format_moment};

/// Number of threads read at once.
const THREADS_AT_ONCE: usize = 100;

pub(super) async fn list(args: &RunList, context: &CommandContext) -> Result<Exit, CliError> {
    let thread = args.thread.as_ref().map(ThreadId::new).transpose()?;
    let (rows, left, questions) = match &thread {
        None if context.is_new() => (Vec::new(), BTreeSet::new(), BTreeMap::new()),
        thread => {
            let store = match thread {
                Some(thread) => context.store_of(thread)?,
                None => context.store_there()?,
            };
            let rows = match thread {
                Some(thread) => of_thread(&store, thread, args).await?,
                None => of_all(&store, args).await?,
            };
            let unfinished = rows.iter().any(|row| row.status == RunStatus::Running);
            let left = match unfinished && !args.json {
                true => with_orphans(store.as_ref()).await?,
                false => BTreeSet::new(),
            };
            let questions = match args.json {
                true => BTreeMap::new(),
                false => questions_of(store.as_ref(), &rows).await?,
            };
            (rows, left, questions)
        }
    };
    if args.json {
        for row in &rows {
            context.terminal.line(serde_json::json!(row))?;
        }
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        context.terminal.note("no such runs");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["RUN", "THREAD", "AGENT", "STATUS", "CREATED (UTC)"]);
    for row in rows {
        let at = &row.new.at;
        let is_left = row.status == RunStatus::Running && left.contains(&at.thread);
        let questions = questions.get(&at.thread).map_or(&[][..], Vec::as_slice);
        let status = if is_left { NOT_FINISHED } else { state_of(&row, questions) };
        table.row([
            at.run.to_string(),
            at.thread.to_string(),
            row.new.graph,
            status.to_owned(),
            format_moment(row.new.created_at),
        ]);
    }
    table.write(&context.terminal)?;
    Ok(Exit::Done)
}

/// Returns the questions of the threads of runs that ended at one.
async fn questions_of(
    store: &dyn Store,
    rows: &[RunRow],
) -> Result<BTreeMap<ThreadId, Vec<InterruptRow>>, CliError> {
    let asked = rows.iter().filter(|row| row.status == RunStatus::Interrupted);
    let threads: BTreeSet<_> = asked.map(|row| &row.new.at.thread).collect();
    let mut questions = BTreeMap::new();
    for thread in threads {
        match store.interrupts(&Principal::local(), thread).await {
            Ok(rows) => questions.insert(thread.clone(), rows),
            // The thread was deleted meanwhile.
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
    }
    Ok(questions)
}

/// Returns the newest runs of a thread that fulfil the conditions.
async fn of_thread(
    store: &Arc<dyn Store>,
    thread: &ThreadId,
    args: &RunList,
) -> Result<Vec<RunRow>, CliError> {
    let who = Principal::local();
    let runs = store.runs(&who, thread).await?.into_iter().rev();
    let deleted = match args.all {
        true => BTreeSet::new(),
        false => {
            let items = StoreItems::of(Arc::clone(store), Arc::new(SystemClock::new()));
            deleted_runs(&items, &of_server(&who)?, thread).await?
        }
    };
    let runs = runs.filter(|run| !deleted.contains(run.new.at.run.as_str()));
    let wanted = runs
        .filter(|run| args.status.is_none_or(|status| run.status == status))
        .filter(|run| args.all || run.rolled_back_by.is_none());
    Ok(wanted.take(args.limit.get()).collect())
}

/// Returns the newest runs of all threads that fulfil the conditions.
async fn of_all(store: &Arc<dyn Store>, args: &RunList) -> Result<Vec<RunRow>, CliError> {
    let by = ThreadOrder { by: ThreadKey::UpdatedAt, direction: Direction::Descending };
    let from = SearchFrom::Start(by);
    let mut query = ThreadQuery { from, limit: THREADS_AT_ONCE, ..ThreadQuery::default() };
    let mut newest = Newest { rows: Vec::new(), limit: args.limit.get() };
    loop {
        let page = store.search_threads(&Principal::local(), query.clone()).await?;
        for found in page.threads {
            if newest.is_complete(&found.row) {
                return Ok(newest.rows);
            }
            match of_thread(store, &found.row.id, args).await {
                Ok(runs) => newest.add(runs),
                // The thread was deleted meanwhile.
                Err(CliError::App(weftwork::Error::Store(StoreError::NotFound { .. }))) => {}
                Err(error) => return Err(error),
            }
        }
        let Some(next) = page.next else { return Ok(newest.rows) };
        query.from = SearchFrom::After(next);
    }
}

/// The newest runs of the threads that were read.
struct Newest {
    rows: Vec<RunRow>,
    limit: usize,
}

impl Newest {
    fn add(&mut self, runs: Vec<RunRow>) {
        self.rows.extend(runs);
        self.rows.sort_by(|a, b| creation_order(b).cmp(&creation_order(a)));
        self.rows.truncate(self.limit);
    }

    /// Returns `true` if no run of a thread can be among the newest. A thread changes when a run is
    /// created on it, so that no run is newer than the last change of its thread.
    fn is_complete(&self, thread: &ThreadRow) -> bool {
        let oldest = self.rows.last().filter(|_| self.rows.len() == self.limit);
        oldest.is_some_and(|oldest| oldest.new.created_at > thread.updated_at)
    }
}

/// The order of runs by their creation.
fn creation_order(run: &RunRow) -> (Timestamp, &str) {
    (run.new.created_at, run.new.at.run.as_str())
}
