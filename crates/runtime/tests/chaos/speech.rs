//! `kill -9` of workers that speak: whoever follows hears each attempt's words in order, none twice
//! and none left out, and is told when they are void.

use crate::place::Place;
use crate::worker::{SPEAKS, Site, Worker, accept, speech, words};
use crate::{full, report};
use futures_util::StreamExt;
use std::path::Path;
use std::time::Duration;
use weftwork_store::Store;
use weftwork_testkit::fuzz::Random;
use weftwork_types::Principal;
use weftwork_types::event::{AiEvent, Position, RunEvent};
use weftwork_types::run::{RunRef, RunStatus};

/// A client that follows a run and reconnects repeatedly, with the events it received.
#[derive(Debug, Default)]
struct Listener {
    at: Position,
    /// The words of the attempt that is heard.
    heard: String,
    resets: usize,
    returns: usize,
    done: bool,
}

impl Listener {
    fn hear(&mut self, event: RunEvent) {
        let position = event.position().expect("the log is in reach");
        assert!(position > self.at, "{position:?} comes after {:?}", self.at);
        if let Some(seq) = event.seq {
            assert_eq!(seq, self.at.seq + 1, "the log is gapless");
        }
        self.at = position;
        match event.event {
            AiEvent::TextDelta { delta } => {
                self.heard.push_str(&delta);
                let heard = &self.heard;
                assert!(words().starts_with(heard), "each word once, in order: {heard:?}");
            }
            AiEvent::AttemptReset(_) => {
                self.heard.clear();
                self.resets += 1;
            }
            AiEvent::Done { outcome } => {
                assert_eq!(outcome, RunStatus::Completed);
                self.done = true;
            }
            _ => {}
        }
    }
}

/// The worker that has the run, once it was heard by somebody.
async fn speaker(store: &dyn Store, at: &RunRef, workers: &[Worker]) -> Option<usize> {
    let row = store.run(&Principal::local(), at).await.expect("reads");
    let told = store.pieces(&Principal::local(), at, Position::START, 1).await.expect("reads");
    let id = row.worker.filter(|_| !told.is_empty())?;
    workers.iter().position(|worker| worker.id == id)
}

async fn speeches(name: &str, place: Place, folder: &Path, pace_ms: u64) {
    let site = Site {
        database: place,
        folder: folder.to_owned(),
        pace_ms,
        step_ms: 5,
        attempts_max: u32::MAX,
    };
    let store = site.database.open();
    let mut workers = vec![Worker::start(&site), Worker::start(&site)];
    let runtime = speech(&site).await;
    let kills = if full() { 100 } else { 4 };
    let at = accept(&store, SPEAKS, "speech", "0").await;
    let killing = async {
        let mut random = Random::new(7);
        for _ in 0..kills {
            let speaks = loop {
                match speaker(&*store, &at, &workers).await {
                    Some(worker) => break worker,
                    None => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            };
            tokio::time::sleep(Duration::from_millis(random.below(600) as u64)).await;
            workers.swap_remove(speaks).kill();
            workers.push(Worker::start(&site));
        }
    };
    let listening = async {
        let mut listener = Listener::default();
        while !listener.done {
            let watched = runtime.follow_run(&Principal::local(), &at).await.expect("is there");
            let watched = watched.after(listener.at.into()).into_handle();
            let some = 1 + listener.returns % 5;
            let events: Vec<_> = watched.events.take(some).collect().await;
            events.into_iter().for_each(|event| listener.hear(event));
            listener.returns += 1;
        }
        listener
    };
    let ((), listener) = tokio::join!(killing, listening);
    // One that died before a word of its own was saved made nobody's words void.
    assert!((1..=kills).contains(&listener.resets), "{} resets", listener.resets);
    let left = store.pieces(&Principal::local(), &at, Position::START, 1).await;
    assert_eq!(left, Ok(Vec::new()));
    let returns = listener.returns;
    report(
        name,
        &format!(
            "{kills} kills of workers that spoke, {returns} looks from where the one before ended: \
             0 words twice, 0 left out, {} attempts void",
            listener.resets
        ),
    );
}

#[tokio::test]
async fn speakers_killed_on_sqlite_are_heard_exactly() {
    let folder = tempfile::tempdir().expect("a folder");
    speeches("speech-sqlite", Place::sqlite(folder.path()), folder.path(), 500).await;
}

#[tokio::test]
async fn speakers_killed_on_postgres_are_heard_exactly() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(place) = Place::postgres("speech") else { return };
    speeches("speech-postgres", place, folder.path(), 100).await;
}
