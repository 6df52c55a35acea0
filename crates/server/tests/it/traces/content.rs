//! A generated text stands in prompts, keys, arguments, results and texts of errors. It is in no span,
//! metric or log unless content is shown, and its secret parts are in none of them at all.

use super::collector::Collector;
use super::desk::{self, Desk, Lab, canary, settings};
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The log and the spans of a test, a line each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Traced(Arc<Mutex<String>>);

impl Traced {
    pub(crate) fn text(&self) -> String {
        self.lines().clone()
    }

    fn lines(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Line<'a>(MutexGuard<'a, String>);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").expect("a text takes all");
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.0.push('\n');
    }
}

impl Subscriber for Traced {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        about.target().starts_with("weftwork")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Line(self.lines()));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Line(self.lines()));
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(self.lines());
        let about = event.metadata();
        write!(line.0, "{} {}", about.level(), about.target()).expect("a text takes all");
        event.record(&mut line);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Runs the desk; returns all that the collector received, and the log.
async fn sent(more: &[(&str, &str)]) -> (String, String) {
    let traced = Traced::default();
    let _logging = tracing::subscriber::set_default(traced.clone());
    let lab = Lab::start(1).await;
    let collector = Collector::start().await;
    let desk = Desk::open(desk::graph(&lab.model()), settings(&collector, more)).await;
    let body = serde_json::json!({
        "input": {"messages": [{"role": "user", "content": canary("input")}]},
        "config": {"tags": [canary("tag")]},
        "metadata": {"note": canary("metadata")},
    });
    desk.post("t", None, body).await;
    desk.flush().await;
    assert!(collector.spans().0.len() > 20, "{}", collector.spans().tree());
    desk.close().await;
    (collector.text(), traced.text())
}

#[tokio::test]
async fn nothing_that_is_sent_has_content() {
    let (sent, log) = sent(&[]).await;
    for text in [sent, log] {
        let at = text.find("quince").map(|at| &text[at.saturating_sub(200)..at + 20]);
        assert_eq!(at, None);
    }
}

#[tokio::test]
async fn content_that_is_shown_is_that_of_streams() {
    let on = ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
    let (sent, log) = sent(&[on]).await;
    for kind in ["input", "argument", "result", "answer", "error", "tag"] {
        assert!(sent.contains(&canary(kind)), "{kind}");
    }
    for kind in ["key", "pin", "hidden", "refusal", "metadata"] {
        assert!(!sent.contains(&canary(kind)), "{kind}");
    }
    assert!(sent.contains("[secret]"), "the secret argument is shown as one");
    assert!(!log.contains("quince"), "{log}");
}
