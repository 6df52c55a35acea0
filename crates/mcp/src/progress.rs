//! Progress of a call: each notification begins its time limit anew, and some are reported to the
//! clients of the run.

use crate::text::short;
use rmcp::model::ProgressNotificationParam;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use weftwork_types::BoxFuture;
use weftwork_types::port::Clock;

/// Minimum time between two reports of a call. Each report is stored with the run.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of reports of a call.
const REPORTS_MAX: usize = 200;
/// Maximum length of a report's message, in characters.
const MESSAGE_CHARS_MAX: usize = 300;

/// The time limit of a call without progress, and the record of its reports.
pub(crate) struct ProgressTimer {
    clock: Arc<dyn Clock>,
    limit: Duration,
    sleep: BoxFuture<'static, ()>,
    reported_at: Option<Duration>,
    reports: usize,
}

impl ProgressTimer {
    pub(crate) fn start(clock: &Arc<dyn Clock>, limit: Duration) -> Self {
        let sleep = clock.sleep(limit);
        Self { clock: Arc::clone(clock), limit, sleep, reported_at: None, reports: 0 }
    }

    /// Waits until the limit has passed without progress. Cancel safe.
    pub(crate) async fn expired(&mut self) {
        (&mut self.sleep).await;
    }

    /// Begins the limit anew.
    pub(crate) fn reset(&mut self) {
        self.sleep = self.clock.sleep(self.limit);
    }

    /// Returns `true` if a report is due. A server may send thousands in a second.
    pub(crate) fn take_report(&mut self) -> bool {
        let now = self.clock.elapsed();
        let is_early = self.reported_at.is_some_and(|at| now.saturating_sub(at) < REPORT_INTERVAL);
        if is_early || self.reports == REPORTS_MAX {
            return false;
        }
        self.reported_at = Some(now);
        self.reports += 1;
        true
    }
}

/// The form of a report in events. Its text is that of the server, so it is shown only if whole results
/// are.
pub(crate) fn report_to_json(progress: &ProgressNotificationParam, with_message: bool) -> Value {
    let mut report = Map::new();
    report.insert("progress".to_owned(), json!(progress.progress));
    report.extend(progress.total.map(|total| ("total".to_owned(), json!(total))));
    let message = progress.message.as_deref().filter(|_| with_message);
    let message = message.map(|message| json!(short(message, MESSAGE_CHARS_MAX)));
    report.extend(message.map(|message| ("message".to_owned(), message)));
    Value::Object(report)
}
