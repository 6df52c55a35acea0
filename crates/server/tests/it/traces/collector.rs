//! A collector on this machine: it decodes what it receives.

use std::collections::BTreeMap;
use std::io::Read;
use weftwork::telemetry::otlp;
use weftwork::telemetry::otlp::Message;
use weftwork::telemetry::otlp::Value;
use weftwork_testkit::{LoopbackServer, Received, Reply};

/// The collector.
pub(crate) struct Collector(LoopbackServer);

impl Collector {
    /// Starts a collector that takes everything.
    pub(crate) async fn start() -> Self {
        Self::answering(|_, _| Reply::full(200, &[], "")).await
    }

    pub(crate) async fn answering(
        answer: impl Fn(usize, &Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self(LoopbackServer::start(answer).await.expect("a server"))
    }

    pub(crate) fn url(&self) -> String {
        self.0.url("")
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.0.received()
    }

    fn bodies(&self, path: &str) -> Vec<Vec<u8>> {
        let received = self.0.received();
        let of_path = received.iter().filter(|request| request.path == path);
        of_path.map(body_of).collect()
    }

    pub(crate) fn requests(&self) -> Vec<otlp::TracesRequest> {
        let bodies = self.bodies("/v1/traces").into_iter();
        bodies.map(|body| otlp::TracesRequest::decode(&*body).expect("spans")).collect()
    }

    pub(crate) fn spans(&self) -> Spans {
        let resources = self.requests().into_iter().flat_map(|request| request.resource_spans);
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        Spans(scopes.flat_map(|scope| scope.spans).collect())
    }

    /// The metrics of the last request, by name.
    pub(crate) fn metrics(&self) -> BTreeMap<String, otlp::Metric> {
        let body = self.bodies("/v1/metrics").pop().unwrap_or_default();
        let request = otlp::MetricsRequest::decode(&*body).expect("metrics");
        let resources = request.resource_metrics.into_iter();
        let scopes = resources.flat_map(|resource| resource.scope_metrics);
        let metrics = scopes.flat_map(|scope| scope.metrics);
        metrics.map(|metric| (metric.name.clone(), metric)).collect()
    }

    /// All bytes that were received, as text.
    pub(crate) fn text(&self) -> String {
        let received = self.0.received();
        let texts = received.iter().map(|request| {
            let body = String::from_utf8_lossy(&body_of(request)).into_owned();
            format!("{} {body}", request.path)
        });
        texts.collect()
    }
}

fn body_of(request: &Received) -> Vec<u8> {
    match request.header("content-encoding") {
        Some("gzip") => {
            let mut body = Vec::new();
            let mut gzip = flate2::read::GzDecoder::new(&*request.body);
            gzip.read_to_end(&mut body).expect("gzip");
            body
        }
        _ => request.body.clone(),
    }
}

/// Spans that were received.
pub(crate) struct Spans(pub(crate) Vec<otlp::Span>);

impl Spans {
    /// The only span of a name.
    #[track_caller]
    pub(crate) fn named(&self, name: &str) -> &otlp::Span {
        let found: Vec<_> = self.0.iter().filter(|span| span.name == name).collect();
        assert_eq!(found.len(), 1, "spans `{name}` in\n{}", self.tree());
        found[0]
    }

    /// The ids of spans that were received more than once.
    pub(crate) fn doubled(&self) -> Vec<String> {
        let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
        self.0.iter().for_each(|span| *counts.entry(&span.span_id).or_default() += 1);
        let doubled = self.0.iter().filter(|span| counts[&*span.span_id] > 1);
        doubled.map(|span| span.name.clone()).collect()
    }

    /// Spans whose parent was not received, with the ids of these parents.
    pub(crate) fn roots(&self) -> Vec<&otlp::Span> {
        let is_there = |id: &[u8]| self.0.iter().any(|span| span.span_id == id);
        self.0.iter().filter(|span| !is_there(&span.parent_span_id)).collect()
    }

    /// The tree, a line for each span, without ids and times, in an order that does not depend on which
    /// of two tasks beside each other ends first. Checks that each span is within the time of its parent.
    pub(crate) fn tree(&self) -> String {
        self.roots().into_iter().map(|root| self.subtree(root, 0)).collect()
    }

    fn subtree(&self, span: &otlp::Span, depth: usize) -> String {
        let mut attributes: Vec<_> = span.attributes.iter().map(shown).collect();
        attributes.retain(|shown| !shown.is_empty());
        let status = span.status.as_ref().map(|status| format!(" status={}", status.code));
        let indent = "  ".repeat(depth);
        let kind = if span.kind == otlp::SpanKind::Client as i32 { " client" } else { "" };
        let status = status.unwrap_or_default();
        let line = format!("{indent}{}{kind}{status} {}\n", span.name, attributes.join(" "));
        let within = self.0.iter().filter(|other| other.parent_span_id == span.span_id);
        let mut within: Vec<_> = within
            .map(|other| {
                assert!(other.start_time_unix_nano >= span.start_time_unix_nano, "{}", other.name);
                assert!(other.end_time_unix_nano <= span.end_time_unix_nano, "{}", other.name);
                let order = (other.name.starts_with("chat"), other.name.clone(), attempt(other));
                (order, self.subtree(other, depth + 1))
            })
            .collect();
        within.sort();
        within.into_iter().fold(line, |text, (_, subtree)| text + &subtree)
    }
}

fn attempt(span: &otlp::Span) -> Option<i64> {
    match value(span, "weft.attempt") {
        Some(Value::Integer(attempt)) => Some(*attempt),
        _ => None,
    }
}

pub(crate) fn value<'a>(span: &'a otlp::Span, key: &str) -> Option<&'a Value> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    found.value.as_ref()?.value.as_ref()
}

pub(crate) fn text<'a>(span: &'a otlp::Span, key: &str) -> Option<&'a str> {
    match value(span, key) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

/// An attribute without what differs each time.
fn shown(attribute: &otlp::KeyValue) -> String {
    let key = &*attribute.key;
    let differs = ["weft.task.id", "weft.run.id", "user.id", "session.id", "gen_ai.tool.call.id"];
    if differs.contains(&key) {
        return String::new();
    }
    let value = attribute.value.as_ref().and_then(|value| value.value.as_ref());
    let value = match value.expect("a value") {
        Value::Text(text) if key == "weft.namespace" => {
            let parts = text.split('|').map(|part| part.split(':').next().unwrap_or_default());
            let is_name = |part: &&str| !part.bytes().all(|byte| byte.is_ascii_digit());
            parts.filter(is_name).collect::<Vec<_>>().join("|")
        }
        Value::Number(_) => "…".to_owned(),
        Value::Text(text) => text.clone(),
        Value::Flag(flag) => flag.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::List(list) => {
            let items = list.values.iter().map(|item| match &item.value {
                Some(Value::Text(text)) => text.clone(),
                other => format!("{other:?}"),
            });
            format!("[{}]", items.collect::<Vec<_>>().join(","))
        }
    };
    format!("{key}={value}")
}
