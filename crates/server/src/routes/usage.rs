//! `/usage` and `/threads/{id}/usage`: usage and cost of model calls.

use crate::error::{ApiError, Result};
use crate::service::{AnswerUsage, Query, Service};
use axum::extract::Path;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use weftwork_runtime::limits::LimitLine;
use weftwork_runtime::usage_report::{UsageQuery, UsageQueryError, usage_members};
use weftwork_store::UsageSum;

pub(super) fn routes() -> Router<Service> {
    Router::new().route("/usage", get(report)).route("/threads/{id}/usage", get(report_thread))
}

#[derive(Debug, Deserialize)]
struct ReportQuery {
    by: Option<String>,
    zone: Option<String>,
    from: Option<String>,
    until: Option<String>,
    #[serde(default)]
    format: Format,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Json,
    Csv,
}

impl ReportQuery {
    fn to_query(&self) -> Result<UsageQuery, UsageQueryError> {
        let by = self.by.as_deref().unwrap_or("model").split(',');
        let by = by.filter(|name| !name.is_empty()).map(str::parse);
        let zone = self.zone.as_deref().unwrap_or("UTC");
        let mut query = UsageQuery::new(by.collect::<Result<_, _>>()?, zone)?;
        if let Some(day) = &self.from {
            query = query.from(day)?;
        }
        if let Some(day) = &self.until {
            query = query.until(day)?;
        }
        Ok(query)
    }
}

async fn report(service: Service, Query(asked): Query<ReportQuery>) -> Result<Response> {
    let query = asked.to_query().map_err(|error| ApiError::invalid(error.to_string()))?;
    let report = service.report_usage(&query).await?;
    Ok(match asked.format {
        Format::Csv => {
            ([(CONTENT_TYPE, "text/csv; charset=utf-8")], report.to_csv()).into_response()
        }
        Format::Json => {
            let limits = service.report_limits().await?;
            let limits: Vec<_> = limits.iter().map(LimitLine::to_json).collect();
            let total = members(&report.total);
            Json(json!({"rows": report.to_json(), "total": total, "limits": limits}))
                .into_response()
        }
    })
}

async fn report_thread(service: Service, Path(id): Path<String>) -> Result<Json<Value>> {
    let usage = service.thread_usage(&service.thread_id(&id).await?).await?;
    let rows: Vec<_> = usage.rows.iter().map(row_of_run).collect();
    Ok(Json(json!({"rows": rows, "total": members(&usage.total)})))
}

fn row_of_run(AnswerUsage { answer, usage }: &AnswerUsage) -> Map<String, Value> {
    let ids = [("run_id", json!(usage.run)), ("answer", json!(answer))];
    let ids = ids.into_iter().map(|(name, value)| (name.to_owned(), value));
    ids.chain(members(&usage.sum)).collect()
}

fn members(sum: &UsageSum) -> Map<String, Value> {
    usage_members(sum).into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
