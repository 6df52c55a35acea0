//! Traces and metrics of runs, by the conventions of OpenTelemetry for generative AI, sent to a
//! collector over OTLP.
//!
//! A trace is a projection of the log of a run, which is read once the run has ended: execution does
//! nothing for it, and a run that several processes executed has one tree of spans. The ids of spans
//! are derived from what they describe, so that a trace that is sent twice is the same trace
//! (ADR 0064).
//!
//! Spans have no content: no prompts, arguments, results or texts of errors, unless [`Settings`] allow
//! it.

mod attributes;
mod exporter;
mod ids;
mod metrics;
pub mod otlp;
mod resource;
mod run_trace;
mod sampler;
mod sender;
mod settings;
mod spans;

pub use exporter::{ExportCounts, Parts, Telemetry};
pub use settings::{Content, Endpoint, SettingError, Settings};
