//! Metrics of model attempts and runs.

use super::collector::Collector;
use super::desk::{self, Desk, Lab, settings};
use std::collections::BTreeMap;
use weftwork::telemetry::otlp::{self, Data, Value};

fn label(attributes: &[otlp::KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::Text(text) => Some(text.clone()),
        other => Some(format!("{other:?}")),
    }
}

fn distributions(metric: &otlp::Metric) -> &[otlp::HistogramPoint] {
    match &metric.data {
        Some(Data::Histogram(histogram)) => {
            assert_eq!(histogram.aggregation_temporality, otlp::Temporality::Cumulative as i32);
            &histogram.data_points
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn attempts_and_runs_are_counted_by_the_conventions() {
    let lab = Lab::start(1).await;
    let collector = Collector::start().await;
    let desk = Desk::open(desk::graph(&lab.model()), settings(&collector, &[])).await;
    desk.run("t", None).await;
    desk.run("u", None).await;
    desk.flush().await;
    let metrics = collector.metrics();
    let names: Vec<_> = metrics.keys().map(String::as_str).collect();
    let expected = ["gen_ai.client.operation.duration", "gen_ai.client.token.usage", "weft.runs"];
    assert_eq!(names, expected);
    let tokens = distributions(&metrics["gen_ai.client.token.usage"]);
    let sums: BTreeMap<_, _> = tokens
        .iter()
        .map(|point| (label(&point.attributes, "gen_ai.token.type"), (point.count, point.sum)))
        .collect();
    let of = |kind: &str| sums[&Some(kind.to_owned())];
    assert_eq!((of("input"), of("output")), ((12, Some(240.0)), (12, Some(96.0))));
    let input = &tokens[0];
    assert_eq!(input.explicit_bounds[..4], [1.0, 4.0, 16.0, 64.0]);
    assert_eq!((input.explicit_bounds.len(), input.bucket_counts.len()), (14, 15));
    assert_eq!(input.bucket_counts[3], 12, "20 tokens are in the bucket to 64");
    let durations = distributions(&metrics["gen_ai.client.operation.duration"]);
    let counts: BTreeMap<_, _> = durations
        .iter()
        .map(|point| (label(&point.attributes, "error.type"), point.count))
        .collect();
    assert_eq!(counts, [(None, 12), (Some("W0304".to_owned()), 1)].into(), "{durations:?}");
    let Some(Data::Sum(runs)) = &metrics["weft.runs"].data else { panic!("{metrics:?}") };
    let point = &runs.data_points[0];
    assert_eq!((point.as_int, runs.is_monotonic), (2, true));
    assert_eq!(label(&point.attributes, "weft.outcome").as_deref(), Some("completed"));
    desk.close().await;
}
