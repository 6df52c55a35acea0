//! The binding JSON-RPC.

use crate::error::{A2aError, Kind, Result, shorten};
use crate::operation::Operations;
use crate::routes::{A2aServer, read_params};
use crate::version::{check_version, of_older_method};
use crate::wire::StreamResponse;
use axum::Json;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use weftwork_server::{MountedClient, read_json};
use weftwork_types::BoxStream;

/// A request of JSON-RPC.
#[derive(Debug)]
struct Request {
    id: Value,
    method: String,
    params: Value,
}

/// The answer to a request.
enum Reply {
    Value(Value),
    Stream(BoxStream<'static, StreamResponse>),
}

impl Reply {
    fn of(value: impl serde::Serialize) -> Result<Self> {
        let value = serde_json::to_value(value);
        value.map(Self::Value).map_err(|error| {
            A2aError::new(
                Kind::InvalidAgentResponse,
                format!("the result has no JSON form: {error}"),
            )
        })
    }
}

/// An HTTP request.
#[derive(Debug)]
pub(crate) struct Call {
    /// Slug of the agent in the path; `None` at the address that all agents share.
    pub(crate) agent: Option<String>,
    pub(crate) headers: HeaderMap,
    pub(crate) query: Option<String>,
    pub(crate) body: Bytes,
}

/// Answers a request.
pub(crate) async fn answer(server: A2aServer, client: MountedClient, call: Call) -> Response {
    let (id, request) = match read_request(&call.body) {
        Ok(request) => (request.id.clone(), Ok(request)),
        Err(refused) => (refused.id, Err(refused.error)),
    };
    let replied = match request {
        Ok(request) => reply(&server, &client, &call, request).await,
        Err(error) => Err(error),
    };
    match replied {
        Ok(Reply::Value(result)) => {
            Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response()
        }
        Ok(Reply::Stream(events)) => client.stream(events.map(move |event| {
            let frame = json!({"jsonrpc": "2.0", "id": id, "result": event});
            Event::default().data(frame.to_string())
        })),
        Err(error) => {
            let body = json!({"jsonrpc": "2.0", "id": id, "error": error.json_rpc()});
            let status = error.json_rpc_status();
            let mut response = (status, Json(body)).into_response();
            error.add_retry_after(status, response.headers_mut());
            response
        }
    }
}

/// A request that was refused, with its id if that is known.
struct Refused {
    id: Value,
    error: A2aError,
}

fn read_request(body: &Bytes) -> Result<Request, Box<Refused>> {
    let refuse = |id: Value, kind, message: &str| {
        Box::new(Refused { id, error: A2aError::new(kind, message) })
    };
    let value = read_json(body).map_err(|refused| match refused.status {
        StatusCode::UNPROCESSABLE_ENTITY => refuse(
            Value::Null,
            Kind::ParseError,
            &format!("the body is no JSON: {}", refused.detail),
        ),
        _ => Box::new(Refused { id: Value::Null, error: refused.into() }),
    })?;
    let Value::Object(mut members) = value else {
        let message = "the body is no JSON object; a request is one, and batches are not taken";
        return Err(refuse(Value::Null, Kind::InvalidRequest, message));
    };
    let id = members.shift_remove("id").unwrap_or_default();
    if !(id.is_null() || id.is_string() || id.is_number()) {
        let message = "`id` is neither a text nor a number";
        return Err(refuse(Value::Null, Kind::InvalidRequest, message));
    }
    if members.get("jsonrpc") != Some(&json!("2.0")) {
        return Err(refuse(id, Kind::InvalidRequest, "`jsonrpc` is not \"2.0\""));
    }
    let Some(Value::String(method)) = members.shift_remove("method") else {
        return Err(refuse(id, Kind::InvalidRequest, "`method` is no text"));
    };
    match members.shift_remove("params").unwrap_or_default() {
        Value::Null => Ok(Request { id, method, params: Value::Object(Map::new()) }),
        params @ Value::Object(_) => Ok(Request { id, method, params }),
        _ => Err(refuse(id, Kind::InvalidParams, "`params` is no object")),
    }
}

async fn reply(
    server: &A2aServer,
    client: &MountedClient,
    call: &Call,
    request: Request,
) -> Result<Reply> {
    check_version(&call.headers, call.query.as_deref())?;
    let Request { method, params, .. } = request;
    let slug = tenant_of(call.agent.as_deref(), &params)?;
    let operations = Operations::open(server, client, &call.headers, &slug)?;
    match method.as_str() {
        "SendMessage" => Reply::of(operations.send(read_params(params)?).await?),
        "SendStreamingMessage" => Ok(Reply::Stream(operations.stream(read_params(params)?).await?)),
        "GetTask" => Reply::of(operations.get(read_params(params)?).await?),
        "ListTasks" => Reply::of(operations.list(read_params(params)?).await?),
        "CancelTask" => Reply::of(operations.cancel(read_params(params)?).await?),
        "SubscribeToTask" => Ok(Reply::Stream(operations.subscribe(read_params(params)?).await?)),
        "CreateTaskPushNotificationConfig" => {
            Reply::of(operations.create_config(read_params(params)?).await?)
        }
        "GetTaskPushNotificationConfig" => {
            Reply::of(operations.get_config(read_params(params)?).await?)
        }
        "ListTaskPushNotificationConfigs" => {
            Reply::of(operations.list_configs(read_params(params)?).await?)
        }
        "DeleteTaskPushNotificationConfig" => {
            operations.delete_config(read_params(params)?).await?;
            Ok(Reply::Value(json!({})))
        }
        "GetExtendedAgentCard" => Ok(Reply::Value(operations.card()?)),
        other => Err(of_older_method(other).unwrap_or_else(|| {
            let text = format!("the method `{}` does not exist", shorten(other));
            A2aError::new(Kind::MethodNotFound, text)
        })),
    }
}

/// Returns the slug of the agent: that of the path, or the tenant of the request.
fn tenant_of(agent: Option<&str>, params: &Value) -> Result<String> {
    let tenant = params["tenant"].as_str().unwrap_or_default();
    match (agent, tenant) {
        (None, "") => {
            let expected = "the slug of an agent, or its own address";
            Err(A2aError::wrong("tenant", "missing", expected))
        }
        (None, tenant) => Ok(tenant.to_owned()),
        (Some(agent), tenant) if tenant.is_empty() || tenant == agent => Ok(agent.to_owned()),
        (Some(_), _) => Err(A2aError::agent_missing()),
    }
}
