use super::{Result, Service};
use weftwork_runtime::limits::{LimitLine, report_limits, subjects_of};
use weftwork_runtime::usage_report::{UsageQuery, UsageReport, report_usage};

impl Service {
    /// Returns the limits of the account and key of the client, with what is used of them.
    pub(crate) async fn report_limits(&self) -> Result<Vec<LimitLine>> {
        let Some(limits) = self.runtime().limits() else { return Ok(Vec::new()) };
        let subjects = subjects_of(&self.caller());
        Ok(report_limits(self.store().as_ref(), limits, &subjects, self.now()).await?)
    }

    /// Reports the usage of the organisation of the client.
    pub(crate) async fn report_usage(&self, query: &UsageQuery) -> Result<UsageReport> {
        Ok(report_usage(self.store().as_ref(), self.who(), query).await?)
    }
}
