//! A tool of a server, for tool boxes.

use crate::declared;
use crate::elicit::{self, Waiting};
use crate::file::Timeouts;
use crate::handler::Notice;
use crate::http::Repeatable;
use crate::lock::AllowedTool;
use crate::open_call::{Event, OpenCall};
use crate::progress::{self, ProgressTimer};
use crate::servers::{Live, McpServers};
use crate::{McpError, result};
use rmcp::model::{CallToolRequestParams, CallToolResponse};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use weftwork_tools::{
    Questions, Replies, Reply, Tool, ToolContext, ToolError, ToolOutput, WHOLE, code,
};
use weftwork_types::BoxFuture;
use weftwork_types::tool::{Effect, ToolSpec};

/// Maximum number of times that a server may ask for the same request again without a question that
/// a person can answer.
const REPEATS_MAX: usize = 4;

/// An allowed tool. Its server is started by the first call.
#[derive(Debug, Clone)]
pub(crate) struct McpTool {
    servers: McpServers,
    allowed: AllowedTool,
    spec: ToolSpec,
    timeouts: Timeouts,
}

/// A call of a tool.
struct Call {
    tool: McpTool,
    live: Arc<Live>,
    params: CallToolRequestParams,
    context: ToolContext,
    /// A recorded answer, with the hash of the request that it answers.
    recorded: Option<(String, Reply)>,
}

impl McpTool {
    pub(crate) fn new(servers: McpServers, name: &str, allowed: &AllowedTool) -> Self {
        let server = name.split_once('/').map_or("", |(server, _)| server);
        let timeouts = servers.timeouts(server);
        Self { servers, allowed: allowed.clone(), spec: allowed.spec(name), timeouts }
    }

    fn parts(&self) -> (&str, &str) {
        self.spec.name.split_once('/').unwrap_or(("", &self.spec.name))
    }

    /// Returns `true` if people may see all of its results.
    fn is_shown(&self) -> bool {
        self.allowed.shown.iter().any(|member| member == WHOLE)
    }

    async fn call(self, args: Value, mut context: ToolContext) -> Result<ToolOutput, ToolError> {
        let mut params = CallToolRequestParams::new(self.parts().1.to_owned());
        if let Value::Object(args) = args {
            params = params.with_arguments(args);
        }
        let live = self.servers.ready(&self.spec.name, &self.allowed).await;
        let live = live.map_err(McpError::into_tool_error)?;
        let replies = context.replies.take();
        let mut call = Call { tool: self, live, params, context, recorded: None };
        let Some(replies) = replies else { return call.make().await };
        match replies.state()? {
            Waiting::Required { keys, refused, request_state } => {
                let responses = elicit::responses_of(&keys, &replies.replies, &refused);
                call.params.input_responses = Some(responses);
                call.params.request_state = request_state;
                call.make().await
            }
            Waiting::Open { request } => call.continue_open_call(request, replies).await,
        }
    }
}

impl Call {
    /// Makes the request, until it has a result or a person must be asked.
    async fn make(mut self) -> Result<ToolOutput, ToolError> {
        for _ in 0..REPEATS_MAX {
            let repeatable = self.tool.spec.may_repeat().then_some(Repeatable);
            let caller = self.live.connection.caller();
            let open = OpenCall::start(caller, self.params.clone(), repeatable);
            if let Some(output) = self.follow_call(open).await? {
                return Ok(output);
            }
        }
        Err(ToolError::failed("the server requires input again and again"))
    }

    /// Passes the answer to the server that waits for it. If it does not wait any more, the call is
    /// made again, unless that could do its effect twice.
    async fn continue_open_call(
        mut self,
        request: String,
        replies: Replies,
    ) -> Result<ToolOutput, ToolError> {
        let reply = replies.replies.into_iter().next().unwrap_or(Reply::Cancel);
        if let Some(mut open) = self.live.parked.take(&self.context.idempotency_key)
            && open.answer(elicit::result_of_reply(&reply))
        {
            return match self.follow_call(open).await? {
                Some(output) => Ok(output),
                None => self.make().await,
            };
        }
        if !self.tool.spec.may_repeat() {
            let (server, _) = self.tool.parts();
            let error = McpError::Gone { server: server.to_owned() };
            return Err(error.into_tool_error());
        }
        self.recorded = Some((request, reply));
        self.make().await
    }

    /// Waits for the end of a call, or for a question; `None` if the request must be made again.
    async fn follow_call(&mut self, mut open: OpenCall) -> Result<Option<ToolOutput>, ToolError> {
        let server = self.tool.parts().0.to_owned();
        let limit = self.tool.timeouts.call;
        let mut timer = ProgressTimer::start(self.tool.servers.clock(), limit);
        loop {
            let event = tokio::select! {
                biased;
                event = open.next(&server) => event,
                () = timer.expired() => return Err(self.timed_out()),
            };
            let asked = match event {
                Event::Ended(Err(error)) => {
                    let McpTool { servers, spec, .. } = &self.tool;
                    if self.live.connection.is_closed() && matches!(error, McpError::Lost { .. }) {
                        servers.ended_in_call(&spec.name, &self.live).await;
                    }
                    return Err(error.after_sending());
                }
                Event::Ended(Ok(response)) => {
                    self.tool.servers.answered(&self.tool.spec.name);
                    return self.end_call(&server, response);
                }
                Event::Noticed(Notice::Progress(progress)) => {
                    timer.reset();
                    if timer.take_report() {
                        let report = progress::report_to_json(&progress, self.tool.is_shown());
                        self.context.progress(report);
                    }
                    continue;
                }
                Event::Noticed(Notice::Asked(asked)) => asked,
            };
            let request = elicit::fingerprint_request(&asked.request);
            let answer = match (elicit::question_of(&server, &asked.request), &self.recorded) {
                (None, _) => Reply::Decline,
                (Some(_), Some((known, reply))) if *known == request => reply.clone(),
                (Some(question), _) => {
                    open.wait_for(asked.answer);
                    let key = self.context.idempotency_key.clone();
                    self.live.parked.put(key, open, self.tool.servers.clock());
                    let waiting = json!(Waiting::Open { request });
                    let questions = Questions::new([question]).state(waiting);
                    let acted = self.tool.spec.effect != Effect::ReadOnly;
                    return Ok(Some(if acted { questions.acted() } else { questions }.into()));
                }
            };
            // A server that does not wait any more ends the call in its own way.
            asked.answer.send(elicit::result_of_reply(&answer)).ok();
        }
    }

    /// The error of a call whose time limit has passed. It is not known what the server did.
    fn timed_out(&self) -> ToolError {
        let error = ToolError::outcome_unknown(format_args!(
            "tool `{}` did not end within {} ms, and its server reported no progress in that time",
            self.tool.spec.name,
            self.tool.timeouts.call.as_millis()
        ));
        error.with_code(code::TOOL_TIMED_OUT)
    }

    fn end_call(
        &mut self,
        server: &str,
        response: CallToolResponse,
    ) -> Result<Option<ToolOutput>, ToolError> {
        match response {
            CallToolResponse::Complete(found) => {
                result::read_output(found, self.tool.allowed.output).map(Some)
            }
            CallToolResponse::InputRequired(found) => {
                let (questions, waiting) =
                    elicit::split_required(server, found).map_err(|what| {
                        ToolError::failed(format_args!(
                            "the server requires {what}, which it does not get"
                        ))
                    })?;
                if questions.is_empty() {
                    let Waiting::Required { refused, request_state, .. } = waiting else {
                        return Ok(None);
                    };
                    self.params.input_responses = Some(elicit::responses_of(&[], &[], &refused));
                    self.params.request_state = request_state;
                    return Ok(None);
                }
                Ok(Some(Questions::new(questions).state(json!(waiting)).into()))
            }
            _ => Err(ToolError::outcome_unknown(
                "the server answered with something else than a result",
            )),
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
        let is_shown = self.is_shown();
        let call = self.clone().call(args, context);
        Box::pin(async move {
            let ended = call.await;
            if is_shown { ended.map_err(ToolError::show_model_message) } else { ended }
        })
    }

    fn complete(&self, args: &mut Value) {
        declared::fill_defaults(&self.spec.parameters, args);
    }

    fn timeout(&self) -> Duration {
        self.timeouts.call_with_progress
    }
}
