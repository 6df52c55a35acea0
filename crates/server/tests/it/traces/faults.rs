//! Collectors that are down, slow, or answer anything.

use super::collector::Collector;
use super::content::Traced;
use super::desk::{Desk, WAIT, export, settings, settings_for};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use weftwork::prelude::*;
use weftwork::telemetry::otlp::Message as _;
use weftwork::telemetry::{ExportCounts, otlp};
use weftwork_store::{MemoryStore, Store};
use weftwork_testkit::Reply;
use weftwork_types::port::{Clock, ManualClock, RunObserver};

#[derive(State)]
struct Work {
    #[channel(append)]
    log: List<String>,
}

/// A graph of one node: its run has four spans.
fn graph() -> CompiledGraph {
    let node = async |_: State<Work>| WorkUpdate::new().log(["done".to_owned()]);
    let graph = Graph::<Work>::new("works").node("work", node);
    graph.edge(START, "work").build().expect("sound")
}

/// Spans of a run of the graph.
const SPANS: u64 = 3;

/// Runs the graph with a collector; returns the counts after the end of the process.
async fn counts_with(url: &str, longest: Duration) -> ExportCounts {
    let desk = Desk::open(graph(), settings_for(url, &[])).await;
    let telemetry = Arc::clone(&desk.telemetry);
    desk.post("t", None, json!({"input": {}})).await;
    telemetry.close(longest).await;
    telemetry.counts()
}

fn dropped(reason: &'static str, spans: u64) -> ExportCounts {
    ExportCounts { sent: 0, dropped: [(reason, spans)].into() }
}

#[tokio::test]
async fn what_a_collector_does_not_take_is_counted() {
    let down = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = down.local_addr().expect("an address");
    drop(down);
    assert_eq!(counts_with(&format!("http://{address}"), WAIT).await, dropped("unsent", SPANS));
    let answers: Vec<(&str, Reply, ExportCounts)> = vec![
        ("refuses", Reply::full(400, &[], "no"), dropped("unsent", SPANS)),
        ("knows no such path", Reply::full(404, &[], ""), dropped("unsent", SPANS)),
        ("is busy", Reply::full(503, &[("retry-after", "9999")], ""), dropped("unsent", SPANS)),
        ("closes", Reply::nothing(), dropped("unsent", SPANS)),
        ("is no server", Reply::nothing().raw("\u{1}garbage"), dropped("unsent", SPANS)),
        (
            "sends it elsewhere",
            Reply::full(307, &[("location", "http://169.254.169.254/")], ""),
            dropped("unsent", SPANS),
        ),
    ];
    for (what, reply, expected) in answers {
        let collector = Collector::answering(move |_, _| reply.clone()).await;
        assert_eq!(counts_with(&collector.url(), WAIT).await, expected, "{what}");
    }
}

#[tokio::test]
async fn an_answer_that_is_none_or_too_long_is_a_success() {
    let giant = "HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n";
    let chunk = vec![b'x'; 1 << 20];
    let refused = otlp::PartialSuccess { rejected: 2 };
    let refused = otlp::ExportResponse { partial_success: Some(refused) }.encode_to_vec();
    for (what, reply, refused) in [
        ("empty", Reply::full(200, &[], ""), 0),
        ("garbage", Reply::full(200, &[], [0xff; 100]), 0),
        ("a GiB", Reply::nothing().raw(giant).raw(&chunk).hang(), 0),
        ("without end", Reply::pieces(200, &[]).piece(&chunk).piece(&chunk).hang(), 0),
        ("a part", Reply::full(200, &[], refused), 2),
    ] {
        let collector = Collector::answering(move |_, _| reply.clone()).await;
        let found = counts_with(&collector.url(), WAIT).await;
        assert_eq!(found.sent, SPANS - refused, "{what}: {found:?}");
        assert_eq!(found.dropped.values().sum::<u64>(), refused, "{what}");
    }
}

#[tokio::test]
async fn a_collector_that_hangs_holds_up_neither_runs_nor_the_end() {
    let collector = Collector::answering(|_, _| Reply::nothing().hang()).await;
    let clock = weftwork::graph::SystemClock::new();
    let more = [("OTEL_BSP_MAX_QUEUE_SIZE", "2"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")];
    let desk = Desk::open(graph(), settings(&collector, &more)).await;
    for n in 0..6 {
        desk.post(&format!("t{n}"), None, json!({"input": {}})).await;
        // The first one is being sent when the others end.
        while collector.received().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let telemetry = Arc::clone(&desk.telemetry);
    let begun = clock.elapsed();
    telemetry.close(Duration::from_millis(50)).await;
    assert!(clock.elapsed() - begun < Duration::from_secs(5));
    let expected = ExportCounts { sent: 0, dropped: [("queue_full", 3), ("closed", 2)].into() };
    assert_eq!(telemetry.counts(), expected);
}

#[tokio::test]
async fn a_busy_collector_is_asked_again_when_it_says() {
    let busy = |number: usize, _: &weftwork_testkit::Received| match number {
        0 => Reply::full(503, &[("retry-after", "7")], ""),
        1 => Reply::full(429, &[], ""),
        _ => Reply::full(200, &[], ""),
    };
    let collector = Collector::answering(busy).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let clock = ManualClock::new();
    let settings = settings(&collector, &[("OTEL_METRICS_EXPORTER", "none")]);
    let telemetry = export(&store, Arc::new(clock.clone()), settings);
    let builder = Runtime::builder(Arc::clone(&store)).graph("desk", graph());
    let observer = Arc::clone(&telemetry) as Arc<dyn RunObserver>;
    let runtime = builder.observer(observer).open().await.expect("opens");
    let thread = runtime.thread("desk", "t").expect("an id");
    thread.start(json!({})).await.expect("ends").output().expect("completes");
    let requests = async |count: usize| {
        while collector.received().len() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // What was not received by now waits for the clock.
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(collector.received().len(), count);
    };
    let flushed = tokio::spawn({
        let telemetry = Arc::clone(&telemetry);
        async move { telemetry.flush(Duration::from_secs(3600)).await }
    });
    requests(1).await;
    clock.advance(Duration::from_millis(6_900));
    requests(1).await;
    clock.advance(Duration::from_millis(100));
    requests(2).await;
    // Then it waits twice as long as at first, and up to twice that.
    clock.advance(Duration::from_millis(1_900));
    requests(2).await;
    clock.advance(Duration::from_millis(2_100));
    requests(3).await;
    flushed.await.expect("is flushed");
    assert_eq!(telemetry.counts(), ExportCounts { sent: SPANS, dropped: [].into() });
    let spans = collector.spans();
    assert_eq!(spans.0.len(), 9, "the same spans each time");
    let ids: std::collections::BTreeSet<_> = spans.0.iter().map(|span| &span.span_id).collect();
    assert_eq!(ids.len(), 3);
}

#[tokio::test]
async fn dropped_spans_are_logged_once_a_minute() {
    let traced = Traced::default();
    let _logging = tracing::subscriber::set_default(traced.clone());
    let collector = Collector::answering(|_, _| Reply::full(400, &[], "quince-7719")).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let clock = ManualClock::new();
    let telemetry = export(&store, Arc::new(clock.clone()), settings(&collector, &[]));
    let builder = Runtime::builder(Arc::clone(&store)).graph("desk", graph());
    let observer = Arc::clone(&telemetry) as Arc<dyn RunObserver>;
    let runtime = builder.observer(observer).open().await.expect("opens");
    for (n, seconds) in [0, 30, 29, 1].into_iter().enumerate() {
        clock.advance(Duration::from_secs(seconds));
        let thread = runtime.thread("desk", format!("t{n}")).expect("an id");
        thread.start(json!({})).await.expect("ends").output().expect("completes");
        telemetry.flush(Duration::from_secs(3600)).await;
    }
    let text = traced.text();
    let lines: Vec<_> = text.lines().filter(|line| line.contains("spans were not")).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert_eq!(text.matches("metrics were not sent").count(), 1, "{text}");
    assert!(lines[0].contains("WARN") && lines[0].contains("dropped=3"), "{lines:?}");
    assert!(lines[1].contains("dropped=9") && lines[1].contains("status 400"), "{lines:?}");
    assert!(!text.contains("quince"), "{text}");
}
