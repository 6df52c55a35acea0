//! Calls whose servers report progress.

use crate::rig::{Rig, Said, Talk, reads, results};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use weftwork_mcp::Terms;
use weftwork_models::scripted::Step;
use weftwork_store::memory::MemoryStore;
use weftwork_testkit::ManualClock;

const LIMIT: Duration = Duration::from_secs(5);

/// A step of a call: what the test does after the limit of the call has begun so many times.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// Time passes.
    Wait(u64),
    /// The server goes on to the file of this name.
    Write(&'static str),
}

/// Makes a call of a tool that reports progress three times, and returns its result with the reports.
async fn call(rig: Rig, terms: &Terms, acts: &[(usize, Act)]) -> (Said, Vec<Value>) {
    rig.allowing(&["plain/works"], terms).await;
    let clock = ManualClock::new();
    let servers = rig.servers_at(Arc::new(clock.clone()));
    let steps = vec![Step::call("plain__works", json!({})), Step::text("Done.")];
    let store = Arc::new(MemoryStore::new());
    let talk = Talk::open(store, Arc::new(clock.clone()), &servers, servers.policy(), steps).await;
    let drive = async {
        for (begun, act) in acts {
            while clock.sleeps().iter().filter(|sleep| **sleep == LIMIT).count() < *begun {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            match act {
                Act::Wait(seconds) => clock.advance(Duration::from_secs(*seconds)),
                Act::Write(name) => std::fs::write(rig.path(name), "").expect("written"),
            }
        }
    };
    let (outcome, ()) = tokio::join!(talk.say(), drive);
    let reports = std::mem::take(&mut *talk.reports.lock().expect("no panic"));
    let said = results(&outcome).into_iter().next().expect("a result");
    // The server may wait for a file.
    for name in ["step-1", "step-2", "step-3", "end"] {
        std::fs::write(rig.path(name), "").expect("written");
    }
    servers.shutdown().await;
    (said, reports)
}

#[tokio::test]
async fn progress_extends_the_limit_of_a_call() {
    let acts = [
        (1, Act::Wait(4)),
        (1, Act::Write("step-1")),
        (2, Act::Wait(4)),
        (2, Act::Write("step-2")),
        (3, Act::Wait(4)),
        (3, Act::Write("step-3")),
        (4, Act::Write("end")),
    ];
    let report = |step: f64| json!({"progress": step, "total": 3.0, "message": "step of CANARY"});
    let (said, reports) = call(Rig::with("plain"), &reads(), &acts).await;
    assert_eq!(said.ok(), "finished");
    assert_eq!(reports, [report(1.0), report(2.0), report(3.0)]);
    // The text is that of the server, which people see with whole results only.
    let hidden = Terms { shown: Vec::new(), ..reads() };
    let (_, reports) = call(Rig::with("plain"), &hidden, &acts).await;
    assert_eq!(reports[0], json!({"progress": 1.0, "total": 3.0}));
}

#[tokio::test]
async fn reports_within_a_second_are_one() {
    let acts = [
        (1, Act::Write("step-1")),
        (2, Act::Write("step-2")),
        (3, Act::Wait(1)),
        (3, Act::Write("step-3")),
        (4, Act::Write("end")),
    ];
    let (said, reports) = call(Rig::with("plain"), &reads(), &acts).await;
    assert_eq!(said.ok(), "finished");
    let steps: Vec<&Value> = reports.iter().map(|report| &report["progress"]).collect();
    assert_eq!(steps, [&json!(1.0), &json!(3.0)]);
}

#[tokio::test]
async fn a_call_ends_at_its_limit_without_progress_and_at_its_maximum_with_it() {
    let silent = [(1, Act::Wait(5))];
    let (said, _) = call(Rig::with("plain"), &reads(), &silent).await;
    let (code, message) = said.failure();
    assert_eq!(code, "W0408");
    assert!(message.contains("within 5000 ms, and its server reported no progress"), "{message}");
    let busy = [
        (1, Act::Wait(4)),
        (1, Act::Write("step-1")),
        (2, Act::Wait(4)),
        (2, Act::Write("step-2")),
        (3, Act::Wait(4)),
    ];
    let (said, _) = call(Rig::with("plain").max_timeout(12_000), &reads(), &busy).await;
    let (code, message) = said.failure();
    assert_eq!(code, "W0408");
    assert!(message.contains("did not end within 12000 ms"), "{message}");
}
