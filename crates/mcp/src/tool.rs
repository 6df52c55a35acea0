//! A tool of a server, for tool boxes.

use crate::declared;
use crate::elicit::{self, Waiting};
use crate::lock::AllowedTool;
use crate::open_call::{Event, OpenCall};
use crate::servers::{Live, McpServers};
use crate::{McpError, result};
use rmcp::model::{CallToolRequestParams, CallToolResponse};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use weftwork_tools::{
    DEFAULT_TIMEOUT, Questions, Replies, Reply, Tool, ToolContext, ToolError, ToolOutput, WHOLE,
};
use weftwork_types::BoxFuture;
use weftwork_types::tool::{Effect, ToolSpec, UnknownOutcome};

/// Maximum number of times that a server may ask for the same request again without a question that
/// a person can answer.
const REPEATS_MAX: usize = 4;

/// An allowed tool. Its server is started by the first call.
#[derive(Debug, Clone)]
pub(crate) struct McpTool {
    servers: McpServers,
    allowed: AllowedTool,
    spec: ToolSpec,
    timeout: Duration,
}

/// A call of a tool.
struct Call {
    tool: McpTool,
    live: Arc<Live>,
    params: CallToolRequestParams,
    /// Equal in all rounds of the call.
    key: String,
    /// A recorded answer, with the hash of the request that it answers.
    recorded: Option<(String, Reply)>,
}

impl McpTool {
    pub(crate) fn new(servers: McpServers, name: &str, allowed: &AllowedTool) -> Self {
        let server = name.split_once('/').map_or("", |(server, _)| server);
        let timeout = servers.timeout(server).unwrap_or(DEFAULT_TIMEOUT);
        Self { servers, allowed: allowed.clone(), spec: allowed.spec(name), timeout }
    }

    fn parts(&self) -> (&str, &str) {
        self.spec.name.split_once('/').unwrap_or(("", &self.spec.name))
    }

    /// Returns `true` if a repeated call does no harm.
    fn may_repeat(&self) -> bool {
        self.spec.effect == Effect::ReadOnly || self.spec.on_unknown == UnknownOutcome::Idempotent
    }

    async fn call(self, args: Value, context: ToolContext) -> Result<ToolOutput, ToolError> {
        let mut params = CallToolRequestParams::new(self.parts().1.to_owned());
        if let Value::Object(args) = args {
            params = params.with_arguments(args);
        }
        let live = self.servers.ready(&self.spec.name, &self.allowed).await;
        let live = live.map_err(McpError::into_tool_error)?;
        let key = context.idempotency_key.clone();
        let mut call = Call { tool: self, live, params, key, recorded: None };
        let Some(replies) = context.replies else { return call.make().await };
        match replies.state()? {
            Waiting::Required { keys, refused, request_state } => {
                let responses = elicit::responses(&keys, &replies.replies, &refused);
                call.params.input_responses = Some(responses);
                call.params.request_state = request_state;
                call.make().await
            }
            Waiting::Open { request } => call.go_on(request, replies).await,
        }
    }
}

impl Call {
    /// Makes the request, until it has a result or a person must be asked.
    async fn make(mut self) -> Result<ToolOutput, ToolError> {
        for _ in 0..REPEATS_MAX {
            let (caller, params) = (self.live.connection.caller(), self.params.clone());
            let call = async move { caller.call(params).await };
            let open = OpenCall::start(self.live.connection.handler(), call);
            if let Some(output) = self.follow(open).await? {
                return Ok(output);
            }
        }
        Err(ToolError::failed("the server requires input again and again"))
    }

    /// Passes the answer to the server that waits for it. If it does not wait any more, the call is
    /// made again, unless that could do its effect twice.
    async fn go_on(mut self, request: String, replies: Replies) -> Result<ToolOutput, ToolError> {
        let reply = replies.replies.into_iter().next().unwrap_or(Reply::Cancel);
        if let Some(mut open) = self.live.parked.take(&self.key)
            && open.answer(elicit::reply(&reply))
        {
            return match self.follow(open).await? {
                Some(output) => Ok(output),
                None => self.make().await,
            };
        }
        if !self.tool.may_repeat() {
            let (server, _) = self.tool.parts();
            let error = McpError::Gone { server: server.to_owned() };
            return Err(error.into_tool_error());
        }
        self.recorded = Some((request, reply));
        self.make().await
    }

    /// Waits for the end of a call, or for a question; `None` if the request must be made again.
    async fn follow(&mut self, mut open: OpenCall) -> Result<Option<ToolOutput>, ToolError> {
        let server = self.tool.parts().0.to_owned();
        loop {
            let asked = match open.next(&server).await {
                Event::Ended(Err(error)) => {
                    let McpTool { servers, spec, .. } = &self.tool;
                    if self.live.connection.is_closed() && matches!(error, McpError::Lost { .. }) {
                        servers.ended_in_call(&spec.name, &self.live).await;
                    }
                    return Err(error.after_sending());
                }
                Event::Ended(Ok(response)) => {
                    self.tool.servers.answered(&self.tool.spec.name);
                    return self.end(&server, response);
                }
                Event::Asked(asked) => asked,
            };
            let request = elicit::fingerprint(&asked.request);
            let answer = match (elicit::question(&server, &asked.request), &self.recorded) {
                (None, _) => Reply::Decline,
                (Some(_), Some((known, reply))) if *known == request => reply.clone(),
                (Some(question), _) => {
                    open.wait_for(asked.answer);
                    self.live.parked.put(self.key.clone(), open, self.tool.servers.clock());
                    let waiting = json!(Waiting::Open { request });
                    let questions = Questions::new([question]).state(waiting);
                    let acted = self.tool.spec.effect != Effect::ReadOnly;
                    return Ok(Some(if acted { questions.acted() } else { questions }.into()));
                }
            };
            // A server that does not wait any more ends the call in its own way.
            asked.answer.send(elicit::reply(&answer)).ok();
        }
    }

    fn end(
        &mut self,
        server: &str,
        response: CallToolResponse,
    ) -> Result<Option<ToolOutput>, ToolError> {
        match response {
            CallToolResponse::Complete(found) => {
                let value = result::value(found, self.tool.allowed.output)?;
                Ok(Some(ToolOutput::Value(value)))
            }
            CallToolResponse::InputRequired(found) => {
                let (questions, waiting) = elicit::required(server, found).map_err(|what| {
                    ToolError::failed(format_args!(
                        "the server requires {what}, which it does not get"
                    ))
                })?;
                if questions.is_empty() {
                    let Waiting::Required { refused, request_state, .. } = waiting else {
                        return Ok(None);
                    };
                    self.params.input_responses = Some(elicit::responses(&[], &[], &refused));
                    self.params.request_state = request_state;
                    return Ok(None);
                }
                Ok(Some(Questions::new(questions).state(json!(waiting)).into()))
            }
            _ => Err(ToolError::failed("the server answered with something else than a result")),
        }
    }
}

impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(
        &self,
        args: Value,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let is_shown = self.allowed.shown.iter().any(|member| member == WHOLE);
        let call = self.clone().call(args, context);
        Box::pin(async move {
            let ended = call.await;
            if is_shown { ended.map_err(ToolError::show_model_message) } else { ended }
        })
    }

    fn complete(&self, args: &mut Value) {
        declared::fill(&self.spec.parameters, args);
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }
}
