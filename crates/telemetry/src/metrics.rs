//! Metrics of model attempts and runs, since the start of the process.

use crate::attributes::{self as keys, Attributes};
use crate::otlp;
use crate::run_trace::{ModelAttempt, RunTrace};
use crate::spans::{nanoseconds, provider_name, seconds};
use std::collections::BTreeMap;
use weftwork_types::usage::UsageStatus;
use weftwork_types::{Timestamp, telemetry};

/// Bounds of the buckets of tokens, as the conventions state them.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
/// Bounds of the buckets of durations in seconds, as the conventions state them.
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// Most points of a metric; values of further ones are counted in one point.
const POINTS_MAX: usize = 1_000;
/// Attribute of the point for the values of further ones.
const OVERFLOW: Label = Label { key: "otel.metric.overflow", value: String::new() };

/// An attribute of a point.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Label {
    key: &'static str,
    value: String,
}

fn label(key: &'static str, value: &str) -> Label {
    Label { key, value: keys::cut(value, 256) }
}

/// Points of a metric by their attributes.
#[derive(Debug)]
struct Points<T>(BTreeMap<Vec<Label>, T>);

impl<T> Default for Points<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Default> Points<T> {
    /// Returns the point with these attributes.
    fn at(&mut self, labels: Vec<Label>) -> &mut T {
        let has_room = self.0.len() < POINTS_MAX || self.0.contains_key(&labels);
        self.0.entry(if has_room { labels } else { vec![OVERFLOW] }).or_default()
    }
}

/// A distribution.
#[derive(Debug, Default)]
struct Distribution {
    count: u64,
    sum: f64,
    buckets: [u64; 15],
}

impl Distribution {
    /// Adds a value; the bounds of buckets are inclusive.
    fn add(&mut self, value: f64, bounds: &[f64; 14]) {
        self.count += 1;
        self.sum += value;
        let bucket = bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count += 1;
        }
    }
}

/// The metrics of a process.
#[derive(Debug)]
pub(crate) struct Metrics {
    started_at: Timestamp,
    tokens: Points<Distribution>,
    durations: Points<Distribution>,
    runs: Points<u64>,
}

impl Metrics {
    pub(crate) fn new(started_at: Timestamp) -> Self {
        let tokens = Points::default();
        Self { started_at, tokens, durations: Points::default(), runs: Points::default() }
    }

    /// Counts a run that has ended.
    pub(crate) fn count_run(&mut self, graph: &str, trace: &RunTrace) {
        if let Some(end) = trace.end {
            let labels =
                vec![label(telemetry::GRAPH, graph), label(telemetry::OUTCOME, end.status.name())];
            *self.runs.at(labels) += 1;
        }
        trace.attempts.iter().for_each(|attempt| self.count_attempt(attempt));
    }

    fn count_attempt(&mut self, attempt: &ModelAttempt) {
        let fact = &attempt.fact;
        let mut labels = vec![
            label(telemetry::OPERATION, telemetry::CHAT),
            label(telemetry::PROVIDER, provider_name(&fact.provider)),
            label(telemetry::REQUEST_MODEL, &fact.model),
        ];
        if fact.status == UsageStatus::Ok {
            labels.push(label(telemetry::RESPONSE_MODEL, &fact.model));
        }
        for (kind, tokens) in [("input", fact.tokens.input), ("output", fact.tokens.output)] {
            if fact.tokens.total() > 0 {
                let mut labels = labels.clone();
                labels.push(label(keys::TOKEN_TYPE, kind));
                #[expect(clippy::cast_precision_loss, reason = "counts of tokens are far smaller")]
                self.tokens.at(labels).add(tokens as f64, &TOKENS);
            }
        }
        if fact.status == UsageStatus::Error {
            let code = fact.error_code.as_deref().unwrap_or_default();
            labels.push(label(telemetry::ERROR_TYPE, &crate::spans::error_type(code)));
        }
        self.durations.at(labels).add(seconds(fact.latency_ms), &SECONDS);
    }

    /// Returns all metrics, with the numbers of parts of traces that were dropped by reason.
    pub(crate) fn at(
        &self,
        now: Timestamp,
        dropped: &BTreeMap<&'static str, u64>,
    ) -> Vec<otlp::Metric> {
        let times = Times { from: nanoseconds(self.started_at), to: nanoseconds(now) };
        let dropped = dropped.iter();
        let dropped =
            dropped.map(|(reason, count)| (vec![label(keys::REASON, reason)], *count)).collect();
        [
            times.histogram("gen_ai.client.token.usage", "{token}", &self.tokens, &TOKENS),
            times.histogram("gen_ai.client.operation.duration", "s", &self.durations, &SECONDS),
            times.sum("weft.runs", "{run}", &self.runs),
            times.sum("weft.telemetry.dropped", "{span}", &Points(dropped)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Times of points, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Times {
    from: u64,
    to: u64,
}

impl Times {
    /// Returns a distribution; `None` without points.
    fn histogram(
        self,
        name: &str,
        unit: &str,
        points: &Points<Distribution>,
        bounds: &[f64],
    ) -> Option<otlp::Metric> {
        let data_points = points.0.iter().map(|(labels, point)| otlp::HistogramPoint {
            attributes: attributes_of(labels),
            start_time_unix_nano: self.from,
            time_unix_nano: self.to,
            count: point.count,
            sum: Some(point.sum),
            bucket_counts: point.buckets.to_vec(),
            explicit_bounds: bounds.to_vec(),
        });
        let data_points: Vec<_> = data_points.collect();
        let aggregation_temporality = otlp::Temporality::Cumulative as i32;
        (!data_points.is_empty()).then(|| otlp::Metric {
            name: name.to_owned(),
            unit: unit.to_owned(),
            data: Some(otlp::Data::Histogram(otlp::Histogram {
                data_points,
                aggregation_temporality,
            })),
        })
    }

    /// Returns a count; `None` without points.
    fn sum(self, name: &str, unit: &str, points: &Points<u64>) -> Option<otlp::Metric> {
        let data_points = points.0.iter().map(|(labels, count)| otlp::SumPoint {
            attributes: attributes_of(labels),
            start_time_unix_nano: self.from,
            time_unix_nano: self.to,
            as_int: i64::try_from(*count).unwrap_or(i64::MAX),
        });
        let data_points: Vec<_> = data_points.collect();
        let aggregation_temporality = otlp::Temporality::Cumulative as i32;
        (!data_points.is_empty()).then(|| otlp::Metric {
            name: name.to_owned(),
            unit: unit.to_owned(),
            data: Some(otlp::Data::Sum(otlp::Sum {
                data_points,
                aggregation_temporality,
                is_monotonic: true,
            })),
        })
    }
}

fn attributes_of(labels: &[Label]) -> Vec<otlp::KeyValue> {
    let mut attributes = Attributes::default();
    for label in labels {
        match label.key == OVERFLOW.key {
            true => attributes.flag(label.key, true),
            false => attributes.text(label.key, &label.value),
        }
    }
    attributes.into_list()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_the_bucket_whose_bound_they_do_not_exceed() {
        let mut found = Distribution::default();
        for value in [0.0, 1.0, 1.5, 4.0, 1e9] {
            found.add(value, &TOKENS);
        }
        assert_eq!((found.count, found.buckets[..3].to_vec()), (5, vec![2, 2, 0]));
        assert_eq!(found.buckets[14], 1);
    }

    #[test]
    fn a_metric_has_a_bounded_number_of_points() {
        let mut points: Points<u64> = Points::default();
        for n in 0..2 * POINTS_MAX {
            *points.at(vec![label("model", &n.to_string())]) += 1;
        }
        assert_eq!(points.0.len(), POINTS_MAX + 1);
        assert_eq!(points.0[&vec![OVERFLOW]], u64::try_from(POINTS_MAX).expect("a count"));
    }
}
