//! Messages of OTLP that are sent and received, as protobuf encodes them.
//!
//! Source: `opentelemetry-proto` 1.7, without the fields that are not used here.

pub use prost::Message;
use prost::{Enumeration, Oneof};

/// Request with spans, the body of `POST /v1/traces`.
#[derive(Clone, PartialEq, Message)]
pub struct TracesRequest {
    /// Spans by resource.
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

/// Spans of a resource.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceSpans {
    /// The resource.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// Spans by instrumentation.
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
}

/// The program that sends.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    /// Attributes of the program.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// Spans of an instrumentation.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeSpans {
    /// The instrumentation.
    #[prost(message, optional, tag = "1")]
    pub instrumentation: Option<Instrumentation>,
    /// The spans.
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

/// An instrumentation.
#[derive(Clone, PartialEq, Message)]
pub struct Instrumentation {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// A span.
#[derive(Clone, PartialEq, Message)]
pub struct Span {
    /// The trace, 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// The span, 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// The parent span, 8 bytes; empty for the root of a trace.
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    /// Name of the operation.
    #[prost(string, tag = "5")]
    pub name: String,
    /// Kind of the span.
    #[prost(enumeration = "SpanKind", tag = "6")]
    pub kind: i32,
    /// Start in nanoseconds since the Unix epoch.
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    /// End in nanoseconds since the Unix epoch.
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    /// Attributes.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    /// Status of the operation.
    #[prost(message, optional, tag = "15")]
    pub status: Option<Status>,
    /// Flags of the trace: the lowest bit is set for a sampled trace.
    #[prost(fixed32, tag = "16")]
    pub flags: u32,
}

/// Kind of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum SpanKind {
    /// Not stated.
    Unspecified = 0,
    /// An operation within the program.
    Internal = 1,
    /// A request that the program answers.
    Server = 2,
    /// A request of the program to another one.
    Client = 3,
}

/// Status of a span.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    /// Description of an error.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Code of the status.
    #[prost(enumeration = "StatusCode", tag = "3")]
    pub code: i32,
}

/// Code of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum StatusCode {
    /// Not stated.
    Unset = 0,
    /// The operation succeeded.
    Ok = 1,
    /// The operation failed.
    Error = 2,
}

/// An attribute.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// Its name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// A value.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    /// The value.
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5")]
    pub value: Option<Value>,
}

/// A value by its type.
#[derive(Clone, PartialEq, Oneof)]
pub enum Value {
    /// A text.
    #[prost(string, tag = "1")]
    Text(String),
    /// A truth value.
    #[prost(bool, tag = "2")]
    Flag(bool),
    /// An integer.
    #[prost(int64, tag = "3")]
    Integer(i64),
    /// A number.
    #[prost(double, tag = "4")]
    Number(f64),
    /// A list.
    #[prost(message, tag = "5")]
    List(ListValue),
}

/// A list of values.
#[derive(Clone, PartialEq, Message)]
pub struct ListValue {
    /// The values.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<AnyValue>,
}

/// Response to a request with spans or metrics.
#[derive(Clone, PartialEq, Message)]
pub struct ExportResponse {
    /// Part that the collector refused.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

/// Part of a request that a collector refused. Its message is not read.
#[derive(Clone, PartialEq, Message)]
pub struct PartialSuccess {
    /// Number of refused spans or points.
    #[prost(int64, tag = "1")]
    pub rejected: i64,
}

/// Request with metrics, the body of `POST /v1/metrics`.
#[derive(Clone, PartialEq, Message)]
pub struct MetricsRequest {
    /// Metrics by resource.
    #[prost(message, repeated, tag = "1")]
    pub resource_metrics: Vec<ResourceMetrics>,
}

/// Metrics of a resource.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceMetrics {
    /// The resource.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// Metrics by instrumentation.
    #[prost(message, repeated, tag = "2")]
    pub scope_metrics: Vec<ScopeMetrics>,
}

/// Metrics of an instrumentation.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeMetrics {
    /// The instrumentation.
    #[prost(message, optional, tag = "1")]
    pub instrumentation: Option<Instrumentation>,
    /// The metrics.
    #[prost(message, repeated, tag = "2")]
    pub metrics: Vec<Metric>,
}

/// A metric.
#[derive(Clone, PartialEq, Message)]
pub struct Metric {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its unit.
    #[prost(string, tag = "3")]
    pub unit: String,
    /// Its points.
    #[prost(oneof = "Data", tags = "7, 9")]
    pub data: Option<Data>,
}

/// Points of a metric.
#[derive(Clone, PartialEq, Oneof)]
pub enum Data {
    /// A count.
    #[prost(message, tag = "7")]
    Sum(Sum),
    /// A distribution.
    #[prost(message, tag = "9")]
    Histogram(Histogram),
}

/// A count.
#[derive(Clone, PartialEq, Message)]
pub struct Sum {
    /// Points by attributes.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<SumPoint>,
    /// Times to which the points apply.
    #[prost(enumeration = "Temporality", tag = "2")]
    pub aggregation_temporality: i32,
    /// `true` if the count never falls.
    #[prost(bool, tag = "3")]
    pub is_monotonic: bool,
}

/// A point of a count.
#[derive(Clone, PartialEq, Message)]
pub struct SumPoint {
    /// Attributes.
    #[prost(message, repeated, tag = "7")]
    pub attributes: Vec<KeyValue>,
    /// Start of the count in nanoseconds since the Unix epoch.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// Time of the point in nanoseconds since the Unix epoch.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// The count.
    #[prost(sfixed64, tag = "6")]
    pub as_int: i64,
}

/// A distribution.
#[derive(Clone, PartialEq, Message)]
pub struct Histogram {
    /// Points by attributes.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<HistogramPoint>,
    /// Times to which the points apply.
    #[prost(enumeration = "Temporality", tag = "2")]
    pub aggregation_temporality: i32,
}

/// A point of a distribution.
#[derive(Clone, PartialEq, Message)]
pub struct HistogramPoint {
    /// Attributes.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    /// Start of the distribution in nanoseconds since the Unix epoch.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// Time of the point in nanoseconds since the Unix epoch.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// Number of values.
    #[prost(fixed64, tag = "4")]
    pub count: u64,
    /// Sum of the values.
    #[prost(double, optional, tag = "5")]
    pub sum: Option<f64>,
    /// Number of values in each bucket: one more than bounds.
    #[prost(fixed64, repeated, tag = "6")]
    pub bucket_counts: Vec<u64>,
    /// Upper bounds of the buckets, but for the last one.
    #[prost(double, repeated, tag = "7")]
    pub explicit_bounds: Vec<f64>,
}

/// Times to which points apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum Temporality {
    /// Not stated.
    Unspecified = 0,
    /// Since the last point.
    Delta = 1,
    /// Since the start of the process.
    Cumulative = 2,
}
