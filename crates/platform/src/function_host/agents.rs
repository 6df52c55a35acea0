//! `ctx.agents`: other agents, and drafts of definitions.

use super::{Answer, Args, FunctionHost, at_once};
use crate::rows::{NewRow, RowWriter};
use crate::sub_agent::{FailedRequest, NoInput, SubRequest, ask_agent};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use weftwork_graph::{NodeError, NodeResult, Once};
use weftwork_sandbox::HostError;
use weftwork_types::message::{Message, Role};
use weftwork_types::task::Mode;

/// A request of code to an agent.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum AgentRequest {
    Text(String),
    Whole(WholeRequest),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WholeRequest {
    message: Option<String>,
    mode: Option<Mode>,
    input: Option<Value>,
    payload: Option<Map<String, Value>>,
}

/// A definition that code proposes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DraftRequest {
    slug: String,
    /// Texts of the files by their names.
    files: BTreeMap<String, String>,
}

impl FunctionHost<'_> {
    pub(super) fn call_agent(&self, number: &str, mut args: Args) -> Answer<'_> {
        let request = (|| {
            let slug = args.text("ctx.agents.call", "the slug of an agent")?;
            self.check_available(&slug)?;
            let expected = "a text, or `{message, mode, input, payload}`";
            let request = match args.read("ctx.agents.call", expected)? {
                AgentRequest::Text(message) => {
                    WholeRequest { message: Some(message), ..WholeRequest::default() }
                }
                AgentRequest::Whole(request) => request,
            };
            Ok((slug, self.input_of(request)))
        })();
        // Nothing further begins once a person has to be asked.
        if self.stopped().is_some() {
            return Box::pin(std::future::pending());
        }
        let (slug, input) = match request {
            Ok(request) => request,
            Err(error) => return at_once(Err(error)),
        };
        let call = format!("ctx.agents.call/{number}");
        let asked = async move {
            let no_input = NoInput::Chat;
            let chain = self.chain.clone();
            let request = SubRequest { call: &call, slug: &slug, input, no_input, chain };
            let answer = ask_agent(self.agent, request, self.ctx).await;
            answer.map_err(|error| self.failed(&slug, error))
        };
        let asked = self.stopping(Box::pin(asked));
        Box::pin(async move {
            let mut answer = asked.await?;
            let mut member = |name| answer.get_mut(name).map(Value::take).unwrap_or_default();
            Ok(json!({"content": member("content"), "metadata": member("metadata")}))
        })
    }

    /// Notes the failure of an agent, which the code may catch.
    fn failed(&self, slug: &str, error: NodeError) -> NodeError {
        let request = FailedRequest { agent: slug, step: "ctx.agents.call", attempt: 1 };
        match request.fails_with(error, self.ctx).try_into_fault() {
            Ok(fault) => {
                let failures = fault.details.iter().flat_map(|details| &details.agent_failures);
                self.failures().extend(failures.cloned());
                fault.into()
            }
            Err(question) => question,
        }
    }

    fn check_available(&self, slug: &String) -> Result<(), HostError> {
        let orchestration = self.agent.definition.orchestration.as_ref();
        let available = orchestration.map(|of| of.available_agents.as_slice()).unwrap_or_default();
        if available.contains(slug) {
            return Ok(());
        }
        let known = available.join(", ");
        let message = format!(
            "agent {slug} is not one of `orchestration.availableAgents` of the definition: {known}"
        );
        Err(HostError { code: "W1055".to_owned(), message })
    }

    fn input_of(&self, request: WholeRequest) -> Map<String, Value> {
        let WholeRequest { message, mode, input, payload } = request;
        let message = message.map(|text| Message::text(self.ctx.message_id(), Role::User, text));
        let messages: Vec<Message> = message.into_iter().collect();
        let mut made = Map::from_iter([
            ("messages".to_owned(), json!(messages)),
            ("mode".to_owned(), json!(mode.unwrap_or(Mode::Build))),
        ]);
        made.extend(input.map(|input| ("input".to_owned(), input)));
        made.extend(payload.map(|payload| ("payload".to_owned(), Value::Object(payload))));
        made
    }

    pub(super) async fn draft_agent(&self, what: Once, args: Args) -> Result<Value, HostError> {
        let expected = "`{slug, files: {\"agent.yaml\": text}}`";
        let request: DraftRequest = args.read("ctx.agents.draft", expected)?;
        let draft = async {
            let DraftRequest { slug, files } = request;
            let by = RowWriter::Client(self.ctx.calls().principal.clone());
            let row = NewRow { slug: Some(slug), files, by, ..NewRow::default() };
            let ended = || NodeError::message("the program ends");
            let agents = self.agent.others.upgrade().ok_or_else(ended)?;
            let now = self.ctx.clock().now();
            let drafted = agents.put_draft(&*self.agent.store, &row, now).await;
            let folder = drafted.map_err(|error| error.fault())?;
            NodeResult::Ok(json!({"slug": folder.slug, "version": folder.version()}))
        };
        // A version is known by its content.
        self.seen(what.idempotent(), Box::pin(draft)).await
    }
}
