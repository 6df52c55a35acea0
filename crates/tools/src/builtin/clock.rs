//! The time.

use crate::{FnTool, ToolContext, ToolError};
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Serialize, JsonSchema)]
struct Now {
    /// Date and time in UTC, such as `2026-11-24T09:30:00Z`.
    utc: String,
    /// Day of the week in UTC.
    weekday: String,
    /// Milliseconds since the Unix epoch.
    unix_ms: i64,
}

pub(super) fn current_time() -> FnTool {
    let about = "Returns the current date and time in UTC.";
    FnTool::new("current_time", about, |_: Nothing, context: ToolContext| async move {
        let unix_ms = context.clock().now().0;
        let at = jiff::Timestamp::from_millisecond(unix_ms).map_err(ToolError::failed)?;
        let weekday = format!("{:?}", TimeZone::UTC.to_datetime(at).weekday());
        Ok::<_, ToolError>(Now { utc: at.to_string(), weekday, unix_ms })
    })
    .example("What day is it today?", json!({}))
}
