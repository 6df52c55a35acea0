//! The traces of our crates in a test.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// All traces, a line each.
#[derive(Debug, Clone, Default)]
pub(super) struct Traced(Arc<Mutex<String>>);

impl Traced {
    pub(super) fn text(&self) -> String {
        self.lines().clone()
    }

    fn lines(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes fields at the end of a line.
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
        ["weftwork", "it"].iter().any(|ours| about.target().starts_with(ours))
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
