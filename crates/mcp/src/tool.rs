//! A tool of a server, for tool boxes.

use crate::lock::AllowedTool;
use crate::servers::McpServers;
use crate::{McpError, result};
use rmcp::model::{CallToolRequestParams, CallToolResponse};
use serde_json::Value;
use std::time::Duration;
use weftwork_tools::{DEFAULT_TIMEOUT, Tool, ToolContext, ToolError};
use weftwork_types::BoxFuture;
use weftwork_types::tool::ToolSpec;

/// An allowed tool. Its server is started by the first call.
#[derive(Debug, Clone)]
pub(crate) struct McpTool {
    servers: McpServers,
    allowed: AllowedTool,
    spec: ToolSpec,
    timeout: Duration,
}

impl McpTool {
    pub(crate) fn new(servers: McpServers, name: &str, allowed: &AllowedTool) -> Self {
        let server = name.split_once('/').map_or("", |(server, _)| server);
        let timeout = servers.timeout(server).unwrap_or(DEFAULT_TIMEOUT);
        Self { servers, allowed: allowed.clone(), spec: allowed.spec(name), timeout }
    }

    async fn call(self, args: Value) -> Result<Value, ToolError> {
        let name = self.spec.name.clone();
        let (_, own) = name.split_once('/').unwrap_or(("", &name));
        let live = self.servers.ready(&name, &self.allowed).await;
        let live = live.map_err(McpError::into_tool_error)?;
        let mut params = CallToolRequestParams::new(own.to_owned());
        if let Value::Object(args) = args {
            params = params.with_arguments(args);
        }
        let answer = live.connection.call(params).await.map_err(McpError::into_tool_error)?;
        match answer {
            CallToolResponse::Complete(found) => result::value(found, self.allowed.output),
            _ => Err(ToolError::failed("the server answered with something else than a result")),
        }
    }
}

impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, args: Value, _: ToolContext) -> BoxFuture<'static, Result<Value, ToolError>> {
        Box::pin(self.clone().call(args))
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }
}
