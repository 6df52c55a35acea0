//! The methods of both eras.

use crate::call::{Called, Calling};
use crate::call_stream::{About, CallStream};
use crate::error::{Kind, McpError, Result, shorten};
use crate::message::{Params, Request, response, text_param};
use crate::peer::{Era, LEGACY, MODERN, Peer, TASKS, negotiate, new_session, supported};
use crate::source::Source;
use crate::task::{Tasks, created};
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use weftwork_server::MountedClient;
use weftwork_types::{BoxStream, Right};

/// Time for which a list is valid, in milliseconds. Agents change when an operator says so.
const FRESH_MS: u64 = 60_000;
/// Member of `_meta` with the name of the server.
const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// The answer to a request.
pub(crate) enum Reply {
    Response(Value),
    /// A response that begins a session.
    Begins {
        response: Value,
        session: String,
    },
    /// Messages of which the last one is the response.
    Messages(BoxStream<'static, Value>),
}

/// A request of a client.
pub(crate) struct Exchange<'a> {
    pub(crate) source: &'a Source,
    pub(crate) client: &'a MountedClient,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) peer: Peer,
    pub(crate) request: Request,
}

impl Exchange<'_> {
    /// Answers the request.
    ///
    /// # Errors
    /// Those of the request; nothing was begun.
    pub(crate) async fn answer(&self) -> Result<Reply> {
        let params = &self.request.params;
        let Self { source, client, peer, .. } = self;
        let tasks = Tasks { source, client, peer };
        match (peer.era, self.request.method.as_str()) {
            (Era::Modern, "server/discover") => Ok(self.reply(discover())),
            (Era::Legacy, "initialize") => self.initialize(params),
            (Era::Legacy, "ping") => Ok(self.reply(json!({}))),
            (_, "tools/list") => Ok(self.reply(self.list(params)?)),
            (_, "tools/call") => self.call().await,
            (_, "tasks/get") => Ok(self.reply(tasks.get(params).await?)),
            (_, "tasks/cancel") => Ok(self.reply(tasks.cancel(params).await?)),
            (Era::Modern, "tasks/update") => Ok(self.reply(tasks.update(params).await?)),
            (Era::Legacy, "tasks/result") => self.task_result(&tasks).await,
            (era, other) => Err(missing(era, other)),
        }
    }

    fn reply(&self, result: Value) -> Reply {
        let result = complete(result, self.peer.era);
        Reply::Response(response(&self.request.id, &result))
    }

    fn initialize(&self, params: &Params) -> Result<Reply> {
        let version = negotiate(text_param(params, "protocolVersion")?);
        let [newest, ..] = LEGACY;
        let mut capabilities = json!({"tools": {}});
        if version == newest {
            capabilities["tasks"] = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
        }
        let result = json!({
            "protocolVersion": version,
            "capabilities": capabilities,
            "serverInfo": server_info(),
        });
        let none = Value::Null;
        let session = new_session(params.get("capabilities").unwrap_or(&none));
        Ok(Reply::Begins { response: response(&self.request.id, &result), session })
    }

    fn list(&self, params: &Params) -> Result<Value> {
        if params.get("cursor").is_some_and(|cursor| !cursor.is_null()) {
            let text = "`params.cursor` is none of this server; all tools are on the first page";
            return Err(McpError::invalid(text));
        }
        self.client.require(Right::Read)?;
        let era = self.peer.era;
        let tools = self.source.tools(self.client.principal());
        let tools: Vec<_> = tools.iter().map(|tool| tool.to_json(era)).collect();
        let mut list = json!({"tools": tools});
        if era == Era::Modern {
            list["ttlMs"] = FRESH_MS.into();
            list["cacheScope"] = "private".into();
        }
        Ok(list)
    }

    fn calling(&self) -> Result<Calling> {
        let Self { source, client, peer, request, .. } = self;
        Calling::read((*source).clone(), (*client).clone(), peer.clone(), request)
    }

    async fn call(&self) -> Result<Reply> {
        let calling = self.calling()?;
        match calling.call(self.headers).await? {
            Called::Result(result) => Ok(self.reply(result)),
            Called::Runs { call, .. } if calling.params.as_task && self.peer.era == Era::Legacy => {
                Ok(self.reply(created(&call, &self.peer)))
            }
            Called::Runs { call, done } => {
                let stream = CallStream::new(calling, About::Call, call, done);
                Ok(Reply::Messages(stream.into_messages()))
            }
        }
    }

    /// Waits for the result of a task.
    async fn task_result(&self, tasks: &Tasks<'_>) -> Result<Reply> {
        self.client.require(Right::Read)?;
        let call = tasks.find(&self.request.params).await?;
        // The last run is followed from its beginning: it may have ended at questions.
        let done = call.chain.count() - 1;
        let mut request = self.request.clone();
        request.params.insert("name".to_owned(), call.first().agent.clone().into());
        request.params.shift_remove("task");
        let Self { source, client, peer, .. } = self;
        let calling = Calling::read((*source).clone(), (*client).clone(), peer.clone(), &request)?;
        let stream = CallStream::new(calling, About::Task, call, done);
        Ok(Reply::Messages(stream.into_messages()))
    }
}

/// Adds what all results of the newer version have.
pub(crate) fn complete(mut result: Value, era: Era) -> Value {
    if era == Era::Modern {
        if result.get("resultType").is_none() {
            result["resultType"] = "complete".into();
        }
        result["_meta"][SERVER] = server_info();
    }
    result
}

fn server_info() -> Value {
    json!({"name": "weftwork", "version": env!("CARGO_PKG_VERSION")})
}

fn discover() -> Value {
    json!({
        "supportedVersions": supported(),
        "capabilities": {"tools": {}, "extensions": {TASKS: {}}},
        "ttlMs": FRESH_MS,
        "cacheScope": "private",
    })
}

fn missing(era: Era, method: &str) -> McpError {
    let text = format!("the method `{}` does not exist", shorten(method));
    let error = McpError::new(Kind::MethodNotFound, text);
    match (era, method) {
        (Era::Modern, _) => error.with_status(StatusCode::NOT_FOUND),
        // A client of the newer version names it with its first request.
        (Era::Legacy, "server/discover") => {
            let text =
                format!("`server/discover` has no version; name {MODERN} in a header and `_meta`");
            McpError::bad_request(Kind::InvalidParams, text)
        }
        (Era::Legacy, _) => error,
    }
}
