//! The tree of spans of a run, under the span of its client.

use super::collector::{Collector, text, value};
use super::desk::{self, Desk, Lab, SPAN, TRACE, sampled, settings};
use serde_json::json;
use weftwork::prelude::*;
use weftwork::telemetry::otlp::Value;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_run_is_one_tree_under_the_span_of_its_client() {
    let lab = Lab::start(1).await;
    let collector = Collector::start().await;
    let desk = Desk::open(desk::graph(&lab.model()), settings(&collector, &[])).await;
    desk.run("t", Some(&sampled())).await;
    desk.flush().await;
    let spans = collector.spans();
    let roots = spans.roots();
    assert_eq!(
        roots.len(),
        1,
        "{}\n{}",
        spans.tree(),
        desk::log_of(desk.runtime.store(), "t").await
    );
    assert_eq!(hex(&roots[0].parent_span_id), SPAN);
    assert!(spans.0.iter().all(|span| hex(&span.trace_id) == TRACE));
    assert!(spans.0.iter().all(|span| text(span, "session.id") == Some("t")));
    assert_eq!(spans.doubled(), Vec::<String>::new());
    insta::assert_snapshot!("tree", spans.tree());
    // The draft that was refused has a span for each attempt, and only one of them failed.
    let drafts = spans.0.iter().filter(|span| span.name == "chat tiny");
    assert_eq!(drafts.filter(|span| span.status.is_some()).count(), 1);
    desk.close().await;
}

#[tokio::test]
async fn a_client_that_does_not_record_its_trace_gets_no_spans_and_is_counted() {
    let lab = Lab::start(0).await;
    let collector = Collector::start().await;
    let desk = Desk::open(desk::graph(&lab.model()), settings(&collector, &[])).await;
    desk.run("t", Some(&format!("00-{TRACE}-{SPAN}-00"))).await;
    desk.flush().await;
    assert!(collector.spans().0.is_empty());
    assert!(collector.metrics().contains_key("weft.runs"));
    // Without a parent the sampler decides: by default all traces are sent.
    desk.run("u", None).await;
    desk.flush().await;
    let spans = collector.spans();
    let run = spans.named("invoke_agent app:desk");
    assert!(run.parent_span_id.is_empty());
    assert_eq!(text(run, "langfuse.trace.name"), Some("app:desk"));
    desk.close().await;
}

#[tokio::test]
async fn all_variables_have_an_effect() {
    let lab = Lab::start(0).await;
    let collector = Collector::start().await;
    let more = [
        ("OTEL_SERVICE_NAME", "desk"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=abc%20d"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "7"),
        ("OTEL_METRICS_EXPORTER", "none"),
    ];
    let desk = Desk::open(desk::graph(&lab.model()), settings(&collector, &more)).await;
    desk.run("t", None).await;
    desk.flush().await;
    let received = collector.received();
    assert!(received.len() > 2 && received.iter().all(|it| it.path == "/v1/traces"));
    assert!(received.iter().all(|it| it.header("x-key") == Some("abc d")));
    let requests = collector.requests();
    let sizes = requests.iter().map(|it| it.resource_spans[0].scope_spans[0].spans.len());
    assert!(sizes.max() <= Some(7));
    let resource = requests[0].resource_spans[0].resource.clone().expect("a resource");
    let resource = format!("{:?}", resource.attributes);
    assert!(resource.contains("\"desk\"") && resource.contains("\"test\""), "{resource}");
    assert_eq!(collector.spans().roots().len(), 1);
    desk.close().await;
}

#[derive(State)]
struct Work {
    #[channel(append)]
    log: List<String>,
}

/// A graph that asks a person.
fn asking() -> CompiledGraph {
    let node = async |ctx: Ctx| -> NodeResult<WorkUpdate> {
        let answer: serde_json::Value = ctx.interrupt(json!("Which?"))?;
        Ok(WorkUpdate::new().log([answer.to_string()]))
    };
    let graph = Graph::<Work>::new("asks").node("ask", node);
    graph.edge(START, "ask").build().expect("sound")
}

#[tokio::test]
async fn a_question_is_no_error_and_its_answer_is_within_the_span_of_who_answers() {
    let collector = Collector::start().await;
    let desk = Desk::open(asking(), settings(&collector, &[])).await;
    desk.post("t", Some(&sampled()), json!({"input": {}})).await;
    let answers = "11f067aa0ba902b7";
    let parent = format!("00-{TRACE}-{answers}-01");
    desk.post("t", Some(&parent), json!({"command": {"resume": "this"}})).await;
    // An answer of a client without a trace is in none of theirs.
    desk.post("u", Some(&sampled()), json!({"input": {}})).await;
    desk.post("u", None, json!({"command": {"resume": "that"}})).await;
    desk.flush().await;
    let spans = collector.spans();
    assert!(spans.0.iter().all(|span| span.status.is_none()), "{}", spans.tree());
    let runs = spans.roots();
    let outcome = |run: &weftwork::telemetry::otlp::Span| {
        let outcome = text(run, "weft.outcome").expect("an outcome").to_owned();
        (outcome, hex(&run.parent_span_id), hex(&run.trace_id) == TRACE)
    };
    let found: Vec<_> = runs.iter().map(|run| outcome(run)).collect();
    let expected = [
        ("interrupted", SPAN, true),
        ("completed", answers, true),
        ("interrupted", SPAN, true),
        ("completed", "", false),
    ];
    let expected = expected.map(|of| (of.0.to_owned(), of.1.to_owned(), of.2));
    assert_eq!(found, expected, "{}", spans.tree());
    assert_eq!(spans.doubled(), Vec::<String>::new());
    assert!(value(runs[1], "weft.run.continues").is_some());
    desk.close().await;
}

#[tokio::test]
async fn tokens_are_those_of_attempts_and_of_no_span_around_them() {
    let lab = Lab::start(1).await;
    let collector = Collector::start().await;
    let desk = Desk::open(desk::graph(&lab.model()), settings(&collector, &[])).await;
    desk.run("t", None).await;
    desk.flush().await;
    let spans = collector.spans();
    let tokens = |name: &str| {
        let values = spans.0.iter().filter_map(|span| value(span, name));
        let numbers = values.map(|value| match value {
            Value::Integer(number) => *number,
            other => panic!("{other:?}"),
        });
        numbers.sum::<i64>()
    };
    // Two drafts, and two answers of each agent.
    assert_eq!(tokens("gen_ai.usage.input_tokens"), 6 * 20, "{}", spans.tree());
    assert_eq!(tokens("llm.token_count.total"), 6 * 28);
    // The parts that Langfuse adds up have each token once.
    let details =
        spans.0.iter().filter_map(|span| text(span, "langfuse.observation.usage_details"));
    let sums = details.map(|details| {
        let details: serde_json::Value = serde_json::from_str(details).expect("JSON");
        let number = |name: &str| details[name].as_u64().unwrap_or_default();
        let parts = ["input", "input_cached_tokens", "output", "output_reasoning_tokens"];
        assert_eq!(parts.map(number).iter().sum::<u64>(), number("total"), "{details}");
        number("input_cached_tokens")
    });
    assert_eq!(sums.sum::<u64>(), 6 * 5);
    desk.close().await;
}

#[tokio::test]
async fn a_run_that_is_requeued_has_a_tree_for_each_time() {
    let collector = Collector::start().await;
    let tries = std::sync::atomic::AtomicUsize::new(0);
    let node = move |_: State<Work>| {
        let is_first = tries.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
        async move {
            match is_first {
                true => Err(weftwork::graph::NodeError::message("not yet")),
                false => Ok(WorkUpdate::new().log(["done".to_owned()])),
            }
        }
    };
    let graph = Graph::<Work>::new("tries").node("try", node).edge(START, "try");
    let graph = graph.build().expect("sound");
    let desk = Desk::open(graph, settings(&collector, &[])).await;
    let thread = desk.runtime.thread("desk", "t").expect("an id");
    let ended = thread.start(json!({})).await.expect("ends");
    assert!(ended.output().is_err());
    let who = weftwork_types::Principal::local();
    let again = desk.runtime.requeue(&who, ended.run()).await.expect("failed").await;
    again.output().expect("completes");
    desk.flush().await;
    let spans = collector.spans();
    assert_eq!(spans.doubled(), Vec::<String>::new());
    let runs = spans.roots();
    let outcomes: Vec<_> = runs.iter().map(|run| text(run, "weft.outcome")).collect();
    assert_eq!(outcomes, [Some("failed"), Some("completed")], "{}", spans.tree());
    let failed = spans.0.iter().filter(|span| text(span, "error.type").is_some());
    let failed: Vec<_> = failed.map(|span| span.name.clone()).collect();
    assert_eq!(failed, ["invoke_workflow app:desk", "task try"]);
    desk.close().await;
}
