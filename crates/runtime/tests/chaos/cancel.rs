//! Runs that are cancelled at random moments: no superstep is committed after the end.

use crate::place::Place;
use crate::worker::{CHAIN, STEPS, Site, drawn, runtime};
use crate::{check_time, full, report};
use futures_util::StreamExt;
use futures_util::stream;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::SystemClock;
use weftwork_runtime::Runtime;
use weftwork_store::{Store, StoredEvent};
use weftwork_testkit::fuzz::Random;
use weftwork_types::caller::Caller;
use weftwork_types::event::AiEvent;
use weftwork_types::port::{Clock, GraphExecutor};
use weftwork_types::run::{
    Durability, RunInput, RunOptions, RunOutcome, RunRef, RunRequest, RunStatus,
};
use weftwork_types::{Principal, ThreadId};

/// Number of concurrent runs.
const AT_A_TIME: usize = 16;
/// The longest that the end of a cancelled run may take, without messages between processes.
const END_MAX: Duration = Duration::from_secs(6);

/// A run that was cancelled or was faster.
struct Ended {
    at: RunRef,
    cancelled: bool,
    took: Duration,
    events: Vec<StoredEvent>,
    head: Option<weftwork_types::CheckpointId>,
}

fn steps(events: &[StoredEvent]) -> usize {
    events.iter().filter(|told| told.event.is_step()).count()
}

struct Pair {
    here: Runtime,
    /// Another process's handle to the store.
    there: Arc<dyn Store>,
    clock: SystemClock,
}

impl Pair {
    async fn events(&self, at: &RunRef) -> Vec<StoredEvent> {
        self.there.events(&Principal::local(), at, 0, usize::MAX).await.expect("reads")
    }

    /// Begins a run, cancels it after a while, here or from elsewhere, and waits for its end.
    async fn cancel(&self, number: usize, delay: Duration) -> Ended {
        let who = Principal::local();
        let thread = ThreadId::new(format!("t{number}")).expect("an id");
        let durability = drawn(thread.as_str(), "0");
        let request = RunRequest {
            principal: who.clone(),
            caller: Caller::local("request").expect("an id"),
            graph: CHAIN.to_owned(),
            thread: thread.clone(),
            input: RunInput::Start { input: json!({"tag": format!("t{number}"), "n": 0}) },
            options: RunOptions { durability, ..RunOptions::default() },
        };
        let handle = self.here.execute(request).await.expect("accepted");
        let at = handle.run.clone();
        self.clock.sleep(delay).await;
        let asked = self.clock.elapsed();
        let from_here = number.is_multiple_of(2);
        let told = match from_here {
            true => self.here.cancel(&who, &at).await.is_ok(),
            false => self.there.request_cancel(&who, &at).await.is_ok(),
        };
        let then = steps(&self.events(&at).await);
        let outcome = handle.outcome.await;
        let took = self.clock.elapsed() - asked;
        let events = self.events(&at).await;
        let cancelled = match outcome {
            RunOutcome::Cancelled { .. } => true,
            RunOutcome::Completed { .. } => false,
            other => panic!("{at:?}: {other:?}"),
        };
        assert!(told || !cancelled, "{at:?} was not cancelled");
        // What was on its way to the store when it was asked to stop gets there, and what it began
        // before it heard of that.
        let late = steps(&events) - then;
        // An exit run keeps them until then.
        let may = durability == Durability::Exit || late <= 1 + usize::from(!from_here);
        assert!(!cancelled || may, "{at:?}, {durability:?}: {late} steps later");
        let head = self.there.thread(&who, &thread).await.expect("reads").head;
        Ended { at, cancelled, took, events, head }
    }

    /// Nothing came after the end.
    async fn check(&self, ended: &Ended) {
        let who = Principal::local();
        let events = self.events(&ended.at).await;
        assert_eq!(events, ended.events, "{:?}: events after the end", ended.at);
        let last = events.last().map(|told| &told.event);
        assert!(matches!(last, Some(AiEvent::Done { .. })), "{last:?}");
        let row = self.there.run(&who, &ended.at).await.expect("reads");
        let status = if ended.cancelled { RunStatus::Cancelled } else { RunStatus::Completed };
        assert_eq!(row.status, status);
        let thread = self.there.thread(&who, &ended.at.thread).await.expect("reads");
        assert_eq!(thread.head, ended.head, "{:?}: a checkpoint after the end", ended.at);
        let state = self.here.state(&who, &ended.at.thread).await.expect("reads");
        let log = state.values["log"].as_array().map_or(0, Vec::len);
        // The superstep that takes the input writes no line.
        let committed = steps(&events);
        assert!(log == committed || log + 1 == committed, "{log} lines of {committed} steps");
    }
}

async fn cancel(name: &str, place: Place, folder: &Path) {
    let runs = if full() { 10_000 } else { 200 };
    let site = Site {
        database: place,
        folder: folder.to_owned(),
        pace_ms: 500,
        step_ms: 4,
        attempts_max: 3,
    };
    let there = site.database.open();
    let site = Pair { here: runtime(&site).await, there, clock: SystemClock::new() };
    let mut random = Random::new(7);
    let longest = 20 * STEPS as usize;
    let plans: Vec<_> =
        (0..runs).map(|n| (n, Duration::from_millis(random.below(longest) as u64))).collect();
    let ended: Vec<Ended> = stream::iter(plans)
        .map(|(number, delay)| site.cancel(number, delay))
        .buffer_unordered(AT_A_TIME)
        .collect()
        .await;
    for ended in &ended {
        site.check(ended).await;
    }
    let mut took: Vec<_> = ended.iter().filter(|e| e.cancelled).map(|ended| ended.took).collect();
    took.sort();
    let cancelled = took.len();
    let p99 = took[cancelled - 1 - cancelled / 100];
    report(
        name,
        &format!(
            "{runs} runs, {cancelled} cancelled before their end: 0 steps committed after it; \
             ended p99 {} ms, most {} ms after they were told",
            p99.as_millis(),
            took[cancelled - 1].as_millis(),
        ),
    );
    assert!(cancelled * 3 > runs, "most were too fast");
    check_time(took[cancelled - 1], END_MAX);
}

#[tokio::test]
async fn nothing_is_committed_after_a_cancelled_end_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    cancel("cancel-sqlite", Place::sqlite(folder.path()), folder.path()).await;
}

#[tokio::test]
async fn nothing_is_committed_after_a_cancelled_end_on_postgres() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(place) = Place::postgres("cancel") else { return };
    cancel("cancel-postgres", place, folder.path()).await;
}
