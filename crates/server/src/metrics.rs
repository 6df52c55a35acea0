//! Counts of requests, and the load of the runtime.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use weftwork_runtime::Load;
use weftwork_types::peer::PeerCounts;

/// Counts of one server.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Requests by method and status.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    /// Streams that are open.
    streams: Arc<AtomicUsize>,
}

/// An open stream. Dropping it ends the count.
#[derive(Debug)]
pub(crate) struct OpenStream(Arc<AtomicUsize>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counts {
    /// Counts a request. Methods without a route share a name, so that clients cannot add names.
    pub(crate) fn count(&self, method: &axum::http::Method, status: u16) {
        let known = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"];
        let name = known.into_iter().find(|name| *name == method.as_str()).unwrap_or("other");
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((name, status)).or_default() += 1;
    }

    pub(crate) fn open_stream(&self) -> OpenStream {
        self.streams.fetch_add(1, Ordering::Relaxed);
        OpenStream(Arc::clone(&self.streams))
    }

    pub(crate) fn with(&self, load: Load, peers: Option<PeerCounts>) -> Metrics {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Metrics { requests, streams: self.streams.load(Ordering::Relaxed), load, peers }
    }
}

/// The counts at one time.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: BTreeMap<(&'static str, u16), u64>,
    streams: usize,
    load: Load,
    /// Servers of other programs that agents ask; `None` for a server without such agents.
    peers: Option<PeerCounts>,
}

impl Metrics {
    /// Returns the load in the shape of LangGraph's server.
    pub(crate) fn json(&self) -> Value {
        let Load { executed, waiting, executed_max } = self.load;
        json!({
            "queue": {
                "n_pending": waiting,
                "pending_runs_wait_time_max_secs": null,
                "pending_runs_wait_time_med_secs": null,
                "pending_unblocked_runs_wait_time_max_secs": null,
                "n_running": executed,
            },
            "api": {"http_requests_total": []},
            "workers": {
                "max": executed_max,
                "active": executed,
                "available": executed_max.map(|max| max.saturating_sub(executed)),
            },
        })
    }

    /// Returns the counts as Prometheus reads them.
    pub(crate) fn prometheus(&self) -> String {
        let mut text = String::new();
        let mut metric = |name: &str, kind: &str, help: &str, values: &[(String, u64)]| {
            text += &format!("# HELP weft_{name} {help}\n# TYPE weft_{name} {kind}\n");
            for (labels, value) in values {
                text += &format!("weft_{name}{labels} {value}\n");
            }
        };
        let requests: Vec<_> = self
            .requests
            .iter()
            .map(|((method, status), n)| {
                (format!("{{method=\"{method}\",status=\"{status}\"}}"), *n)
            })
            .collect();
        metric("http_requests_total", "counter", "Answered requests.", &requests);
        let gauge = |value: usize| [(String::new(), u64::try_from(value).unwrap_or(u64::MAX))];
        let Load { executed, waiting, executed_max } = self.load;
        metric("http_streams", "gauge", "Open streams of runs.", &gauge(self.streams));
        metric("runs_executed", "gauge", "Runs that this process executes.", &gauge(executed));
        metric("runs_waiting", "gauge", "Runs that wait for a slot here.", &gauge(waiting));
        if let Some(max) = executed_max {
            metric("runs_executed_max", "gauge", "Runs that are executed at once.", &gauge(max));
        }
        if let Some(PeerCounts { closed, open, half_open }) = self.peers {
            let states = [("closed", closed), ("open", open), ("half_open", half_open)];
            let values = states.map(|(state, count)| {
                let count = u64::try_from(count).unwrap_or(u64::MAX);
                (format!("{{state=\"{state}\"}}"), count)
            });
            let help = "Servers that agents of this process ask, by the state of the circuit.";
            metric("peers", "gauge", help, &values);
        }
        text
    }
}
