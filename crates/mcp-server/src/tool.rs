//! Tools: agents, as this protocol shows them.

use crate::error::{McpError, Result};
use crate::message::Params;
use crate::peer::Era;
use serde_json::{Map, Value, json};
use weftwork_types::message::Message;
use weftwork_types::port::{AgentSummary, Says};
use weftwork_types::task::Mode;

/// Annotation of schemas that has clients copy arguments into headers. No header is read.
const HEADER_ANNOTATION: &str = "x-mcp-header";

/// An agent as a tool.
#[derive(Debug, Clone)]
pub(crate) struct Tool {
    agent: AgentSummary,
}

/// Arguments of a call, as an agent gets them.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) conversation: Option<String>,
    pub(crate) says: Says,
}

impl Tool {
    pub(crate) fn of(agent: AgentSummary) -> Self {
        Self { agent }
    }

    pub(crate) fn slug(&self) -> &str {
        &self.agent.slug
    }

    /// Returns the schema of the input, if the agent declares an object.
    fn declared_input(&self) -> Option<&Map<String, Value>> {
        let is_object =
            |schema: &&Map<String, Value>| schema.get("type").is_none_or(|kind| kind == "object");
        self.agent.input_schema.as_ref().filter(is_object)
    }

    /// Returns the schema of the arguments.
    fn input_schema(&self) -> Value {
        let Some(declared) = self.declared_input() else {
            return json!({
                "type": "object",
                "properties": {
                    "message": {"type": "string", "description": "Message to the agent"},
                    "conversation": {
                        "type": "string",
                        "description": "Id of a conversation to continue, from an earlier result",
                    },
                },
                "required": ["message"],
                "additionalProperties": false,
            });
        };
        let mut schema = Value::Object(declared.clone());
        remove_annotations(&mut schema);
        schema["type"] = "object".into();
        schema
    }

    /// Returns the schema of structured results: that of the agent, or of the answer with the id of its
    /// conversation. Older versions have schemas of objects only.
    pub(crate) fn output_schema(&self, era: Era) -> Option<Value> {
        let declared = self.agent.output_schema.as_ref().filter(|_| self.declares_output());
        let Some(declared) = declared else {
            return Some(json!({
                "type": "object",
                "properties": {
                    "answer": {"description": "Answer of the agent, or its question"},
                    "conversation": {
                        "type": "string",
                        "description": "Id of the conversation, for a further call",
                    },
                },
                "required": ["answer", "conversation"],
            }));
        };
        let is_object = declared.get("type").is_some_and(|kind| kind == "object");
        (era == Era::Modern || is_object).then(|| Value::Object(declared.clone()))
    }

    /// Returns `true` if the arguments are the declared input of the agent.
    pub(crate) fn declares_input(&self) -> bool {
        self.declared_input().is_some()
    }

    /// Returns `true` if results are the declared output of the agent, which builds have.
    pub(crate) fn declares_output(&self) -> bool {
        self.agent.output_schema.is_some() && self.agent.modes.contains(&Mode::Build)
    }

    /// Returns the mode of calls; `None` for the first one of the agent.
    pub(crate) fn mode(&self) -> Option<Mode> {
        self.declares_output().then_some(Mode::Build)
    }

    /// The tool as clients see it.
    pub(crate) fn to_json(&self, era: Era) -> Value {
        let AgentSummary { slug, name, description, .. } = &self.agent;
        let description = if description.is_empty() { name } else { description };
        let mut tool = json!({
            "name": slug,
            "title": name,
            "description": description,
            "inputSchema": self.input_schema(),
        });
        if let Some(schema) = self.output_schema(era) {
            tool["outputSchema"] = schema;
        }
        if era == Era::Legacy {
            tool["execution"] = json!({"taskSupport": "optional"});
        }
        tool
    }

    /// Reads the arguments of a call: the input of an agent that declares one, otherwise a message.
    ///
    /// # Errors
    /// The reason for which they do not fit, for a model that made them.
    pub(crate) fn read_arguments(&self, arguments: &Params) -> Result<Asked, String> {
        if self.declared_input().is_some() {
            let input = Value::Object(arguments.clone());
            let messages = vec![Message::user(input.to_string())];
            let says = Says::Messages { messages, input: Some(input) };
            return Ok(Asked { conversation: None, says });
        }
        let text = |name: &str| match arguments.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(format!("argument `{name}` is no text; expected a text")),
        };
        let is_known = |name: &&String| ["message", "conversation"].contains(&name.as_str());
        if let Some(other) = arguments.keys().find(|name| !is_known(name)) {
            let other = crate::error::shorten(other);
            return Err(format!(
                "unknown argument `{other}`; expected `message` and `conversation`"
            ));
        }
        let message = text("message")?.filter(|text| !text.trim().is_empty());
        let message = message.ok_or("argument `message` is missing; expected a text")?;
        let conversation = text("conversation")?.filter(|id| !id.is_empty());
        let messages = vec![Message::user(message)];
        let says = Says::Messages { messages, input: None };
        Ok(Asked { conversation: conversation.map(str::to_owned), says })
    }
}

/// Removes annotations that would have clients send headers.
fn remove_annotations(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.retain(|name, value| name != HEADER_ANNOTATION || !value.is_string());
            members.values_mut().for_each(remove_annotations);
        }
        Value::Array(list) => list.iter_mut().for_each(remove_annotations),
        _ => {}
    }
}

/// The parameters of a call.
#[derive(Debug, Clone)]
pub(crate) struct CallParams {
    pub(crate) name: String,
    pub(crate) arguments: Params,
    /// Token of the notifications of progress.
    pub(crate) progress: Option<Value>,
    /// Key by which a call that is sent again has the run of the first one.
    pub(crate) key: Option<String>,
    /// `true` if an older client asks for a task.
    pub(crate) as_task: bool,
    pub(crate) request_state: Option<String>,
    pub(crate) responses: Params,
}

/// Member of `_meta` with the idempotency key.
pub(crate) const KEY: &str = "weftwork/idempotencyKey";
/// Maximum length of an idempotency key in bytes.
const KEY_BYTES_MAX: usize = 255;

impl CallParams {
    /// Reads the parameters of a call.
    ///
    /// # Errors
    /// An error for a member that does not fit.
    pub(crate) fn read(params: &Params) -> Result<Self> {
        let name = crate::message::text_param(params, "name")?.to_owned();
        let object = |name: &str| match params.get(name) {
            None => Ok(Params::new()),
            Some(Value::Object(members)) => Ok(members.clone()),
            Some(_) => Err(McpError::invalid(format!("`params.{name}` is no object"))),
        };
        let meta = params.get("_meta");
        let progress = meta.and_then(|meta| meta.get("progressToken")).cloned();
        let progress = progress.filter(|token| token.is_string() || token.is_number());
        let request_state = match params.get("requestState") {
            None => None,
            Some(Value::String(state)) => Some(state.clone()),
            Some(_) => return Err(McpError::state_refused()),
        };
        Ok(Self {
            name,
            arguments: object("arguments")?,
            progress,
            key: meta.and_then(|meta| meta.get(KEY)).map(read_key).transpose()?,
            as_task: params.get("task").is_some_and(Value::is_object),
            request_state,
            responses: object("inputResponses")?,
        })
    }
}

fn read_key(key: &Value) -> Result<String> {
    let is_key = |key: &&str| (1..=KEY_BYTES_MAX).contains(&key.len());
    let key = key.as_str().filter(is_key).map(str::to_owned);
    key.ok_or_else(|| {
        let text = format!("`params._meta.{KEY}` is no text of 1 to {KEY_BYTES_MAX} bytes");
        McpError::invalid(text)
    })
}
