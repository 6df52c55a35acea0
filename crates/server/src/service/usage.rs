use super::{Result, Service};
use weftwork_runtime::usage_report::{UsageQuery, UsageReport, report_usage};

impl Service {
    /// Reports the usage of the organisation of the client.
    pub(crate) async fn report_usage(&self, query: &UsageQuery) -> Result<UsageReport> {
        Ok(report_usage(self.store().as_ref(), self.who(), query).await?)
    }
}
