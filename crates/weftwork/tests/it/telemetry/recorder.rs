//! A subscriber that records spans as a tree.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Current, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use weftwork::types::telemetry::TARGET;

/// Spans of one test, in the order in which they began.
#[derive(Clone, Default)]
pub(super) struct Recorder(Arc<Mutex<Vec<Span>>>);

struct Span {
    metadata: &'static Metadata<'static>,
    parent: Option<usize>,
    fields: Vec<(&'static str, String)>,
    handles: usize,
}

thread_local! {
    /// Spans that are entered on this thread, outermost first.
    static ENTERED: RefCell<Vec<Id>> = const { RefCell::new(Vec::new()) };
}

fn index(id: &Id) -> usize {
    usize::try_from(id.into_u64() - 1).expect("an index")
}

fn id(index: usize) -> Id {
    Id::from_u64(index as u64 + 1)
}

impl Recorder {
    fn spans(&self) -> MutexGuard<'_, Vec<Span>> {
        self.0.lock().expect("no panic")
    }

    /// Runs a test on a runtime of which all threads record their spans here.
    pub(super) fn block_on(&self, test: impl Future<Output = ()>) {
        let here = self.clone();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .on_thread_start(move || {
                std::mem::forget(tracing::subscriber::set_default(here.clone()));
            })
            .build()
            .expect("a runtime");
        let _recorded = tracing::subscriber::set_default(self.clone());
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
        format!("{kind} {}", self.0.entry(id.to_owned()).or_insert(next))
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
            _ => value.to_owned(),
        }
    }
}

fn write_span(text: &mut String, spans: &[Span], at: usize, depth: usize, ids: &mut Ids) {
    let span = &spans[at];
    let indent = "  ".repeat(depth);
    write!(text, "{indent}{}", span.metadata.name()).expect("a text");
    for (field, value) in &span.fields {
        write!(text, " {field}={}", ids.shown(field, value)).expect("a text");
    }
    text.push_str(if span.handles > 0 { " OPEN\n" } else { "\n" });
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

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == TARGET
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let entered = ENTERED.with_borrow(|entered| entered.last().cloned());
        let parent = match span.parent() {
            Some(parent) => Some(parent.clone()),
            None => entered.filter(|_| span.is_contextual()),
        };
        let mut fields = Vec::new();
        span.record(&mut Fields(&mut fields));
        let parent = parent.as_ref().map(index);
        let mut spans = self.spans();
        spans.push(Span { metadata: span.metadata(), parent, fields, handles: 1 });
        id(spans.len() - 1)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(&mut Fields(&mut self.spans()[index(span)].fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, span: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(span.clone()));
    }

    fn exit(&self, span: &Id) {
        let last = ENTERED.with_borrow_mut(Vec::pop);
        assert_eq!(last.as_ref(), Some(span), "spans are left in the order of their entry");
    }

    fn clone_span(&self, span: &Id) -> Id {
        self.spans()[index(span)].handles += 1;
        span.clone()
    }

    fn try_close(&self, span: Id) -> bool {
        let mut spans = self.spans();
        let span = &mut spans[index(&span)];
        span.handles = span.handles.checked_sub(1).expect("a span is closed once");
        span.handles == 0
    }

    fn current_span(&self) -> Current {
        let Some(last) = ENTERED.with_borrow(|entered| entered.last().cloned()) else {
            return Current::none();
        };
        let metadata = self.spans()[index(&last)].metadata;
        Current::new(last, metadata)
    }
}
