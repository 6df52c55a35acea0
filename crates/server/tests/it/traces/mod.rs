//! Tests of the export of traces and metrics.

mod app;
mod collector;
mod content;
mod desk;
mod faults;
mod killed;
mod metrics;
mod tree;
