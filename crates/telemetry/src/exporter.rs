//! The export: a queue of runs that have ended, and a task that reads their logs and sends spans and
//! metrics.

use crate::metrics::Metrics;
use crate::otlp;
use crate::resource::{instrumentation, resource_of};
use crate::run_trace::RunTrace;
use crate::sender::{Failure, Sender, Tries};
use crate::settings::Settings;
use crate::spans::TracedRun;
use futures_util::future::{Either, select};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use weftwork_store::{Store, StoreError};
use weftwork_types::port::{Clock, Egress, RunObserver};
use weftwork_types::run::RunRef;
use weftwork_types::{BoxFuture, Principal};

/// Events of a log that are read at once.
const EVENTS_AT_ONCE: usize = 256;
/// Shortest time between two warnings.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// Store, clock and client of an export.
#[derive(Debug, Clone)]
pub struct Parts {
    /// Store of the runs.
    pub store: Arc<dyn Store>,
    /// Clock of the runs.
    pub clock: Arc<dyn Clock>,
    /// Client that may reach the collector.
    pub egress: Arc<dyn Egress>,
}

/// Sends traces and metrics of the runs whose end this process records.
///
/// Runs wait in a queue of their ids. If a collector is down or slow, further ones are dropped as a
/// whole and counted; no run waits for it or fails.
#[derive(Debug)]
pub struct Telemetry {
    queue: mpsc::Sender<Job>,
    tally: Arc<Tally>,
    clock: Arc<dyn Clock>,
    closing: watch::Sender<bool>,
}

/// Numbers of spans since the start of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportCounts {
    /// Spans that the collector took.
    pub sent: u64,
    /// Spans that were dropped, by reason. A run whose log was not read counts as one.
    pub dropped: BTreeMap<&'static str, u64>,
}

/// Reason for which spans are dropped.
#[derive(Debug, Clone, Copy)]
enum Drop {
    /// Too many runs wait.
    QueueFull,
    /// The log of a run cannot be read.
    Unreadable,
    /// A run has too many parts.
    TooLarge,
    /// The collector refused them.
    Refused,
    /// The collector did not take the request.
    Unsent,
    /// The process ended before.
    Closed,
}

impl Drop {
    fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Unreadable => "unreadable",
            Self::TooLarge => "too_large",
            Self::Refused => "refused",
            Self::Unsent => "unsent",
            Self::Closed => "closed",
        }
    }
}

/// The counts, and the last warning about them.
#[derive(Debug, Default)]
struct Tally {
    state: Mutex<TallyState>,
}

#[derive(Debug, Default)]
struct TallyState {
    counts: ExportCounts,
    /// Number of dropped spans of which no warning was logged.
    unreported: u64,
    warned_at: Option<Duration>,
}

impl Tally {
    fn lock(&self) -> MutexGuard<'_, TallyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sent(&self, spans: u64) {
        self.lock().counts.sent += spans;
    }

    /// Counts dropped spans, and logs them, at most once a minute. `cause` has no content.
    fn dropped(&self, spans: u64, reason: Drop, cause: &str, clock: &dyn Clock) {
        if spans == 0 {
            return;
        }
        let mut state = self.lock();
        *state.counts.dropped.entry(reason.name()).or_default() += spans;
        state.unreported += spans;
        let now = clock.elapsed();
        if state.warned_at.is_none_or(|warned| now >= warned + WARN_EVERY) {
            state.warned_at = Some(now);
            let dropped = std::mem::take(&mut state.unreported);
            let reason = reason.name();
            tracing::warn!(dropped, reason, cause, "spans were not sent to the collector");
        }
    }
}

/// Work of the task.
#[derive(Debug)]
enum Job {
    /// A run that has ended.
    Run { who: Principal, at: RunRef },
    /// A request to send everything.
    Flush(oneshot::Sender<()>),
}

impl Telemetry {
    /// Starts the export, in a task of the current tokio runtime.
    #[must_use]
    pub fn start(settings: Settings, parts: Parts) -> Self {
        let Parts { store, clock, egress } = parts;
        let (queue, jobs) = mpsc::channel(settings.queue_runs);
        let (closing, closed) = watch::channel(false);
        let tally = Arc::new(Tally::default());
        let sender = Sender { egress, clock: Arc::clone(&clock), closing: closed };
        let exporter = Exporter {
            resource: resource_of(&settings, clock.unique()),
            metrics: Metrics::new(clock.now()),
            settings,
            store,
            clock: Arc::clone(&clock),
            sender,
            tally: Arc::clone(&tally),
            batch: Vec::new(),
            batch_due: None,
            metrics_sent: MetricsSent::Taken,
        };
        tokio::spawn(exporter.work(jobs));
        Self { queue, tally, clock, closing }
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> ExportCounts {
        self.tally.lock().counts.clone()
    }

    /// Sends everything that waits, at most for this time. What is left is sent later.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn flush(&self, longest: Duration) {
        let flushed = async {
            let (done, flushed) = oneshot::channel();
            if self.queue.send(Job::Flush(done)).await.is_ok() {
                // Fails only if the task has ended.
                flushed.await.unwrap_or_default();
            }
        };
        drop(select(pin!(flushed), self.clock.sleep(longest)).await);
    }
}

impl RunObserver for Telemetry {
    fn ended(&self, who: &Principal, run: &RunRef) {
        let job = Job::Run { who: who.clone(), at: run.clone() };
        if self.queue.try_send(job).is_err() {
            self.tally.dropped(1, Drop::QueueFull, "too many runs wait", &*self.clock);
        }
    }

    fn close(&self, longest: Duration) -> BoxFuture<'_, ()> {
        self.closing.send_replace(true);
        Box::pin(async move {
            self.flush(longest).await;
            let left = self.queue.max_capacity() - self.queue.capacity();
            let left = u64::try_from(left).unwrap_or(u64::MAX);
            self.tally.dropped(left, Drop::Closed, "the process ends", &*self.clock);
        })
    }
}

/// The task that reads and sends.
struct Exporter {
    settings: Settings,
    resource: otlp::Resource,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    sender: Sender,
    tally: Arc<Tally>,
    metrics: Metrics,
    /// Spans that wait for others.
    batch: Vec<otlp::Span>,
    /// Time at which they are sent.
    batch_due: Option<Duration>,
    /// Outcome of the last request with metrics.
    metrics_sent: MetricsSent,
}

/// Outcome of a request with metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MetricsSent {
    /// The collector took it, or there was none.
    Taken,
    /// The collector did not take it, which was logged.
    Failed,
}

impl Exporter {
    async fn work(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut metrics_due = self.clock.elapsed() + self.settings.interval;
        loop {
            let now = self.clock.elapsed();
            let due = self.batch_due.map_or(metrics_due, |batch| batch.min(metrics_due));
            let timer = self.clock.sleep(due.saturating_sub(now));
            let job = match select(pin!(jobs.recv()), timer).await {
                Either::Left((Some(job), _)) => Some(job),
                Either::Left((None, _)) => return self.send_all().await,
                Either::Right(_) => None,
            };
            match job {
                Some(Job::Run { who, at }) => self.add_run(&who, &at).await,
                Some(Job::Flush(done)) => {
                    self.send_all().await;
                    // Fails only if the caller has stopped waiting.
                    done.send(()).unwrap_or_default();
                }
                None => {}
            }
            let now = self.clock.elapsed();
            if self.batch_due.is_some_and(|due| due <= now) {
                self.send_batch().await;
            }
            if metrics_due <= now {
                self.send_metrics().await;
                metrics_due = self.clock.elapsed() + self.settings.interval;
            }
        }
    }

    async fn send_all(&mut self) {
        self.send_batch().await;
        self.send_metrics().await;
    }

    /// Reads a run, counts it, and adds its spans.
    async fn add_run(&mut self, who: &Principal, at: &RunRef) {
        match self.read_run(who, at).await {
            Ok(spans) => self.batch.extend(spans),
            Err(error) => {
                let code = error.code();
                self.tally.dropped(1, Drop::Unreadable, code.0, &*self.clock);
            }
        }
        if self.batch.len() >= self.settings.batch_spans {
            self.send_batch().await;
        } else if !self.batch.is_empty() {
            let due = self.clock.elapsed() + self.settings.delay;
            self.batch_due.get_or_insert(due);
        }
    }

    async fn read_run(
        &mut self,
        who: &Principal,
        at: &RunRef,
    ) -> Result<Vec<otlp::Span>, StoreError> {
        let row = self.store.run(who, at).await?;
        let trace = self.read_log(who, at).await?;
        self.metrics.count_run(&row.new.graph, &trace);
        let content = self.settings.content;
        let run = TracedRun { who, row: &row, trace: &trace, content };
        let is_sampled = self.settings.sampler.samples(run.trace_id(), run.parent());
        if self.settings.traces.is_none() || !is_sampled {
            return Ok(Vec::new());
        }
        self.tally.dropped(trace.left_out, Drop::TooLarge, "the run is too large", &*self.clock);
        Ok(run.spans())
    }

    async fn read_log(&self, who: &Principal, at: &RunRef) -> Result<RunTrace, StoreError> {
        let mut trace = RunTrace::new(self.settings.content);
        let mut after = 0;
        loop {
            let page = match self.store.events(who, at, after, EVENTS_AT_ONCE).await {
                // The trace of the rest is better than none.
                Err(StoreError::Dropped { oldest, .. }) => {
                    self.store.events(who, at, oldest.saturating_sub(1), EVENTS_AT_ONCE).await?
                }
                page => page?,
            };
            let Some(last) = page.last() else { return Ok(trace) };
            after = last.seq;
            page.into_iter().for_each(|stored| trace.read(stored.at, stored.event));
        }
    }

    async fn send_batch(&mut self) {
        self.batch_due = None;
        let Some(endpoint) = self.settings.traces.clone() else { return self.batch.clear() };
        let mut batch = std::mem::take(&mut self.batch);
        while !batch.is_empty() {
            let rest = batch.split_off(batch.len().min(self.settings.batch_spans));
            self.send_spans(&endpoint, std::mem::replace(&mut batch, rest)).await;
        }
    }

    async fn send_spans(&self, endpoint: &crate::Endpoint, spans: Vec<otlp::Span>) {
        let count = u64::try_from(spans.len()).unwrap_or(u64::MAX);
        let scope_spans =
            vec![otlp::ScopeSpans { instrumentation: Some(instrumentation()), spans }];
        let resource = Some(self.resource.clone());
        let resource_spans = vec![otlp::ResourceSpans { resource, scope_spans }];
        let request = otlp::TracesRequest { resource_spans };
        match self.sender.send(endpoint, &request, Tries::Repeated).await {
            Ok(refused) => {
                let refused = refused.min(count);
                self.tally.sent(count - refused);
                let cause = "the collector refused a part of a request";
                self.tally.dropped(refused, Drop::Refused, cause, &*self.clock);
            }
            Err(failure) => self.drop_unsent(count, &failure),
        }
    }

    fn drop_unsent(&self, spans: u64, failure: &Failure) {
        self.tally.dropped(spans, Drop::Unsent, &failure.to_string(), &*self.clock);
    }

    /// Sends the metrics, which are those since the start of the process: the next request has what this
    /// one had.
    async fn send_metrics(&mut self) {
        let Some(endpoint) = &self.settings.metrics else { return };
        let dropped = self.tally.lock().counts.dropped.clone();
        let metrics = self.metrics.at(self.clock.now(), &dropped);
        if metrics.is_empty() {
            return;
        }
        let scope_metrics =
            vec![otlp::ScopeMetrics { instrumentation: Some(instrumentation()), metrics }];
        let resource = Some(self.resource.clone());
        let resource_metrics = vec![otlp::ResourceMetrics { resource, scope_metrics }];
        let request = otlp::MetricsRequest { resource_metrics };
        let sent = self.sender.send(endpoint, &request, Tries::Once).await;
        self.metrics_sent = match sent {
            Ok(_) => MetricsSent::Taken,
            Err(failure) => {
                let hint = "set OTEL_METRICS_EXPORTER=none if the collector takes no metrics";
                if self.metrics_sent == MetricsSent::Taken {
                    tracing::warn!(%failure, hint, "metrics were not sent to the collector");
                }
                MetricsSent::Failed
            }
        };
    }
}
