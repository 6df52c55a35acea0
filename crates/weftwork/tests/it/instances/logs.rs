//! The log of failures.

use super::failures::{graph, state};
use super::{Place, close, does, open, options};
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use weftwork::types::run::RunRetry;

/// Warnings and errors of this thread, as text.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{event:?}"));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The runs of this test are executed by the thread of the test.
#[tokio::test]
async fn a_failure_is_logged_once() {
    let lines = Lines::default();
    let _logged = tracing::subscriber::set_default(lines.clone());
    let agents = open(&Place::memory("")).await;
    let retry = RunRetry { retries: 2, backoff_ms: 1, backoff_max_ms: 2 };
    let options = options().error_channel("error").retry(retry);
    let instance = agents.create_graph_agent(&graph(), state(), options).await.expect("created");
    for (payload, cause) in [("fail", "no disk"), ("deep", "no disk"), ("busy", "busy")] {
        does(&agents, &instance, json!(payload)).await.expect_err("fails");
        let logged = lines.take();
        assert_eq!(logged.len(), 1, "{payload}: {logged:?}");
        assert!(logged[0].contains(cause) && logged[0].contains("i-1"), "{logged:?}");
    }
    does(&agents, &instance, json!("panic")).await.expect_err("fails");
    assert_eq!(lines.take().len(), 1);
    does(&agents, &instance, json!("flaky")).await.expect("succeeds");
    assert_eq!(lines.take(), Vec::<String>::new());
    close(agents).await;
}
