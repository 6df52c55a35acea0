//! A layer that records spans as a tree.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};
use weftwork::types::telemetry::TARGET;

/// Spans of one test, in the order in which they began.
#[derive(Clone, Default)]
pub(super) struct Recorder(Arc<Mutex<Vec<Span>>>);

struct Span {
    name: &'static str,
    parent: Option<usize>,
    fields: Vec<(&'static str, String)>,
    is_open: bool,
}

/// Place of a span in the recorder.
struct Place(usize);

impl Recorder {
    fn spans(&self) -> MutexGuard<'_, Vec<Span>> {
        self.0.lock().expect("no panic")
    }

    /// Runs a test on a runtime of which all threads record their spans here.
    pub(super) fn block_on(&self, test: impl Future<Output = ()>) {
        let targets = Targets::new().with_target(TARGET, Level::INFO);
        let spans = Registry::default().with(self.clone().with_filter(targets));
        let spans = tracing::Dispatch::new(spans);
        let here = spans.clone();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .on_thread_start(move || {
                std::mem::forget(tracing::dispatcher::set_default(&here));
            })
            .build()
            .expect("a runtime");
        let _recorded = tracing::dispatcher::set_default(&spans);
        runtime.block_on(test);
    }

    /// The trees of all spans. Ids are replaced by their numbers, in the order of the text.
    pub(super) fn tree(&self) -> String {
        let spans = self.spans();
        let mut text = String::new();
        let mut ids = Ids::default();
        for at in (0..spans.len()).filter(|at| spans[*at].parent.is_none()) {
            write_span(&mut text, &spans, at, 0, &mut ids);
        }
        text
    }

    /// All values of all fields, with the names of their fields.
    pub(super) fn values(&self) -> Vec<(&'static str, String)> {
        self.spans().iter().flat_map(|span| span.fields.clone()).collect()
    }
}

/// Numbers in place of ids.
#[derive(Default)]
struct Ids(BTreeMap<String, usize>);

impl Ids {
    fn number(&mut self, kind: &str, id: &str) -> String {
        let next = self.0.len() + 1;
        format!("{kind}-{}", self.0.entry(id.to_owned()).or_insert(next))
    }

    fn shown(&mut self, field: &str, value: &str) -> String {
        match field {
            "weft.run.id" => self.number("run", value),
            "weft.task.id" => self.number("task", value),
            "gen_ai.tool.call.id" => self.number("call", value),
            "weft.namespace" => {
                let steps = value.split('|').map(|step| match step.split_once(':') {
                    Some((node, task)) => format!("{node}:{}", self.number("task", task)),
                    None => step.to_owned(),
                });
                steps.collect::<Vec<_>>().join("|")
            }
            _ if value.contains(' ') => format!("\"{value}\""),
            _ => value.to_owned(),
        }
    }
}

fn write_span(text: &mut String, spans: &[Span], at: usize, depth: usize, ids: &mut Ids) {
    let span = &spans[at];
    let indent = "  ".repeat(depth);
    write!(text, "{indent}{}", span.name).expect("a text");
    for (field, value) in &span.fields {
        write!(text, " {field}={}", ids.shown(field, value)).expect("a text");
    }
    text.push_str(if span.is_open { " OPEN\n" } else { "\n" });
    for child in (0..spans.len()).filter(|child| spans[*child].parent == Some(at)) {
        write_span(text, spans, child, depth + 1, ids);
    }
}

/// Adds fields; one that is recorded again has its last value.
struct Fields<'a>(&'a mut Vec<(&'static str, String)>);

impl Fields<'_> {
    fn set(&mut self, field: &Field, value: String) {
        self.0.retain(|(name, _)| *name != field.name());
        self.0.push((field.name(), value));
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.set(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.to_owned());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, all: Context<'_, S>) {
        let found = all.span(id).expect("it is new");
        let parent = found.parent();
        let parent = parent.and_then(|parent| parent.extensions().get::<Place>().map(|at| at.0));
        let mut fields = Vec::new();
        span.record(&mut Fields(&mut fields));
        let mut spans = self.spans();
        spans.push(Span { name: span.metadata().name(), parent, fields, is_open: true });
        found.extensions_mut().insert(Place(spans.len() - 1));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, all: Context<'_, S>) {
        let found = all.span(id).expect("it is open");
        let at = found.extensions().get::<Place>().expect("it is ours").0;
        values.record(&mut Fields(&mut self.spans()[at].fields));
    }

    fn on_close(&self, id: Id, all: Context<'_, S>) {
        let found = all.span(&id).expect("it was open");
        let at = found.extensions().get::<Place>().expect("it is ours").0;
        self.spans()[at].is_open = false;
    }
}
