//! A defined agent as its nodes see it: its definition, and what they reach the outside with.

use crate::context::Template;
use crate::definition::{AgentType, Definition, FileText, Outline};
use crate::external::Peer;
use crate::mode::RequestError;
use crate::records::{
    Author, ContentFormat, Form, NewVersion, RecordId, RecordKind, RecordRef, Records,
    version_writes,
};
use crate::skills::Skill;
use crate::source::WeakAgents;
use crate::sub_agent::led_to;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use weftwork_agents::Model;
use weftwork_graph::{Ctx, NodeResult};
use weftwork_models::ChatModel;
use weftwork_sandbox::Sandbox;
use weftwork_schema::{Checker, Quotes};
use weftwork_store::thread::CONVERSATION;
use weftwork_store::{Store, StoreError};
use weftwork_types::code::Fault;
use weftwork_types::message::{Message, Role};
use weftwork_types::task::Mode;
use weftwork_types::{MessageId, Principal, RunId};

/// Number of times that a content which is not of the declared form goes back to the model.
const REPAIRS_MAX: u32 = 2;

/// A defined agent, as a dependency of its nodes.
pub(crate) struct Agent {
    /// Slug.
    pub(crate) slug: String,
    /// Hash of the definition, by which its versions are told apart.
    pub(crate) version: String,
    pub(crate) definition: Definition,
    /// Names of the tools that calls may name.
    pub(crate) tools: Vec<String>,
    /// Steps of its orchestration.
    pub(crate) outline: Outline,
    /// Its `context`, parsed.
    pub(crate) context: Option<Template>,
    /// Files that its sources name.
    pub(crate) files: Vec<FileText>,
    pub(crate) skills: Vec<Skill>,
    pub(crate) model: Arc<dyn ChatModel>,
    /// Checker of the input, if the definition has a schema of it.
    pub(crate) input: Option<Checker>,
    /// Checker of the content of builds, if the definition has a schema of it.
    pub(crate) output: Option<Checker>,
    /// Form of its plans.
    pub(crate) plan: Form,
    /// Form of its deliverables.
    pub(crate) deliverable: Form,
    pub(crate) store: Arc<dyn Store>,
    /// Where code is executed; `None` in a program without a sandbox.
    pub(crate) sandbox: Option<Sandbox>,
    /// Agent of another server, of an agent of the type `external`.
    pub(crate) peer: Option<Arc<Peer>>,
    /// The other agents of the program.
    pub(crate) others: WeakAgents,
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("slug", &self.slug).finish_non_exhaustive()
    }
}

/// A content that a model made, with the message that has it.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) message: Message,
    pub(crate) content: String,
}

/// A record that gets a version.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WrittenRecord<'a> {
    pub(crate) kind: RecordKind,
    /// Id; `None` for a new record.
    pub(crate) id: Option<&'a str>,
    pub(crate) form: &'a Form,
}

/// A version that was added to the commit of a node.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) at: RecordRef,
    pub(crate) title: String,
}

impl Agent {
    /// Name for people: that of the card, or the slug.
    pub(crate) fn name(&self) -> &str {
        self.definition.agent_card.name.as_deref().unwrap_or(&self.slug)
    }

    /// Name among agents that ask one another.
    pub(crate) fn id(&self) -> String {
        chain_name(&self.slug, &self.version)
    }

    /// Type.
    pub(crate) fn agent_type(&self) -> AgentType {
        self.definition.agent_type
    }

    /// Returns `true` if its model plans the steps of its orchestrations.
    pub(crate) fn plans_steps(&self) -> bool {
        self.definition.orchestration.as_ref().is_some_and(|of| of.planning.is_some())
    }

    /// Sends messages to the model, and returns its answer.
    pub(crate) async fn ask(&self, messages: Vec<Message>, ctx: &Ctx) -> NodeResult<Message> {
        Model::new(Arc::clone(&self.model), ctx).ask(messages).await
    }

    /// Sends messages to the model, and returns its answer, which is in no stream.
    pub(crate) async fn ask_quietly(
        &self,
        messages: Vec<Message>,
        ctx: &Ctx,
    ) -> NodeResult<Message> {
        Model::new(Arc::clone(&self.model), ctx).quiet().ask(messages).await
    }

    /// Sends messages to the model, and returns a value that satisfies the schema.
    pub(crate) async fn ask_value(
        &self,
        messages: Vec<Message>,
        schema: &Value,
        ctx: &Ctx,
    ) -> NodeResult<Value> {
        Model::new(Arc::clone(&self.model), ctx).quiet().ask_value(schema, messages).await
    }

    /// Sends messages and the schema of the answer to the model, and returns its answer unchecked.
    pub(crate) async fn ask_unchecked(
        &self,
        messages: Vec<Message>,
        schema: &Value,
        ctx: &Ctx,
    ) -> NodeResult<Message> {
        Model::new(Arc::clone(&self.model), ctx).quiet().ask_unchecked(schema, messages).await
    }

    /// Lets a model make a content of a form. A model that takes schemas gets that of a form in JSON. A
    /// content of another form goes back to it with its problems, at most twice.
    pub(crate) async fn make(
        &self,
        form: &Form,
        schema: Option<&Map<String, Value>>,
        mut messages: Vec<Message>,
        ctx: &Ctx,
    ) -> NodeResult<Made> {
        let schema = schema.filter(|schema| schema.contains_key("type"));
        if let Some(schema) = schema.filter(|_| form.format() == ContentFormat::Json) {
            let schema = Value::Object(schema.clone());
            let value = self.ask_value(messages, &schema, ctx).await?;
            let content = serde_json::to_string_pretty(&value)?;
            let message = Message::text(ctx.message_id(), Role::Assistant, content.clone());
            return Ok(Made { message, content });
        }
        let mut repairs = 0;
        loop {
            let message = self.ask(messages.clone(), ctx).await?;
            let content = content_in(form.format(), &message.joined_text());
            let problem = match form.check(&content) {
                Ok(()) => return Ok(Made { message, content }),
                Err(problem) => problem,
            };
            if repairs == REPAIRS_MAX {
                return Err(problem.fault().into());
            }
            repairs += 1;
            let text = format!("{problem}\nAnswer again with the whole corrected content only.");
            messages.push(message);
            messages.push(Message::text(ctx.message_id(), Role::User, text));
        }
    }

    /// Returns the principal whose records the run reads and writes: the subject of the conversation,
    /// also if another one has answered a question of it.
    pub(crate) async fn owner(&self, ctx: &Ctx) -> NodeResult<Principal> {
        let who = &ctx.calls().principal;
        let metadata = match self.store.thread(who, ctx.thread()).await {
            Ok(row) => row.metadata,
            Err(StoreError::NotFound { .. }) => return Ok(who.clone()),
            Err(error) => return Err(error.fault().into()),
        };
        let subject = metadata.get(CONVERSATION).and_then(|of| of.get("subject")?.as_str());
        let subject = subject.unwrap_or(&who.subject).to_owned();
        Ok(Principal { subject, ..who.clone() })
    }

    /// Returns the current versions of the plans and deliverables of the conversation, by kinds and ids.
    pub(crate) async fn current_versions(&self, ctx: &Ctx) -> NodeResult<BTreeMap<String, u64>> {
        let owner = self.owner(ctx).await?;
        let records = Records::new(&*self.store, &owner, ctx.calls().clock.now());
        let mut found = BTreeMap::new();
        for kind in [RecordKind::Plan, RecordKind::Deliverable] {
            let all = records.list(kind, ctx.thread()).await.map_err(|error| error.fault())?;
            found.extend(all.iter().map(|record| (version_key(&record.at), record.current)));
        }
        Ok(found)
    }

    /// Adds a version of a plan or deliverable to the commit of the node: a further version of the
    /// record with this id, or of a new one.
    pub(crate) async fn write(
        &self,
        kind: RecordKind,
        id: Option<&str>,
        new: NewVersion,
        ctx: &Ctx,
    ) -> NodeResult<Written> {
        let form = match kind {
            RecordKind::Plan => &self.plan,
            RecordKind::Deliverable => &self.deliverable,
        };
        self.write_formed(WrittenRecord { kind, id, form }, new, ctx).await
    }

    /// As [`write`](Self::write), for a record of another form than the definition declares.
    pub(crate) async fn write_formed(
        &self,
        of: WrittenRecord<'_>,
        new: NewVersion,
        ctx: &Ctx,
    ) -> NodeResult<Written> {
        let WrittenRecord { kind, id, form } = of;
        let calls = ctx.calls();
        let run = calls.origin.run().map(|caller| caller.run.clone());
        let own = run.as_ref().map(RunId::to_string).unwrap_or_default();
        // Several steps of a run may ask the same agent.
        let place = ctx.tool_call_id("record").to_string();
        let id = match id {
            Some(id) => RecordId::new(id)?,
            None => RecordId::derived(&[&own, &self.slug, &place]),
        };
        let at = RecordRef { kind, thread: ctx.thread().clone(), id };
        let unique = format!("{own}.{}.{place}", self.slug);
        let owner = self.owner(ctx).await?;
        let author = Author { subject: &owner.subject, at: calls.clock.now(), unique: &unique };
        let title = new.title.clone();
        let new = NewVersion { agent: Some(self.slug.clone()), run, ..new };
        for write in version_writes(&at, &new, form, author).map_err(|error| error.fault())? {
            ctx.write_record(write);
        }
        Ok(Written { at, title })
    }

    /// Checks that the content of a build satisfies the `output_schema` of the definition.
    pub(crate) fn check_output(&self, content: &Value) -> NodeResult<()> {
        let Some(output) = &self.output else { return Ok(()) };
        let checked = output.check(content, Quotes::Values);
        let wrong = |problem| RequestError::Output { agent: self.slug.clone(), problem };
        Ok(checked.map_err(|problem| wrong(problem).fault())?)
    }

    /// The answer of a run that completes without a content.
    pub(crate) fn failed_answer(&self, mode: Mode, fault: &Fault) -> Value {
        let mut answer = self.answer(mode, Value::Null, None);
        let Fault { code, message, retriable, .. } = fault;
        answer["error"] = json!({"code": code, "message": message, "retriable": retriable});
        let led = led_to(fault);
        if !led.is_empty() {
            answer["metadata"]["failures"] = json!(led);
        }
        answer
    }

    /// The answer of a run: its mode, its content, and the record that it wrote.
    pub(crate) fn answer(&self, mode: Mode, content: Value, written: Option<&Written>) -> Value {
        let mut metadata = Map::new();
        metadata.insert("agent".to_owned(), self.slug.clone().into());
        metadata.insert("agentType".to_owned(), self.agent_type().name().into());
        metadata.insert("version".to_owned(), self.version.clone().into());
        if let Some(Written { at, title }) = written {
            let record = json!({"id": at.id, "title": title});
            metadata.insert(at.kind.name().to_owned(), record);
        }
        json!({"mode": mode, "content": content, "metadata": metadata})
    }
}

/// Returns the name of a version of an agent among agents that ask one another.
pub(crate) fn chain_name(slug: &str, version: &str) -> String {
    format!("{slug}@{version}")
}

/// Returns the key of a plan or deliverable among current versions.
pub(crate) fn version_key(at: &RecordRef) -> String {
    format!("{}/{}", at.kind.name(), at.id)
}

/// Adds a warning to an answer.
pub(crate) fn warn(answer: &mut Value, text: impl Into<String>) {
    let warnings = &mut answer["metadata"]["warnings"];
    match warnings {
        Value::Array(all) => all.push(Value::String(text.into())),
        other => *other = json!([text.into()]),
    }
}

/// Warns of an answer of a model that is empty, or that its provider has ended early.
pub(crate) fn warn_about(answer: &mut Value, message: &Message) {
    if message.joined_text().trim().is_empty() {
        warn(answer, "the answer of the model has no text");
    }
    let metadata = message.extra.as_ref().map(|extra| &extra.response_metadata);
    match metadata.and_then(|of| of.get("finish_reason")?.as_str()) {
        Some("length") => warn(answer, "the answer of the model was cut at its limit of tokens"),
        Some("content_filter") => {
            warn(answer, "the answer of the model was cut by a content filter")
        }
        _ => {}
    }
}

/// A system message.
pub(crate) fn system(text: String) -> NodeResult<Message> {
    Ok(Message::text(MessageId::new("context")?, Role::System, text))
}

/// Returns the content in the text of an answer: models put a fence around JSON and YAML even if they
/// are asked for it alone.
pub(crate) fn content_in(format: ContentFormat, text: &str) -> String {
    let text = text.trim();
    let fenced = match format {
        ContentFormat::Json | ContentFormat::Yaml | ContentFormat::Html => {
            text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"))
        }
        _ => None,
    };
    let inner = fenced.and_then(|inner| inner.split_once('\n')).map(|(_, inner)| inner);
    inner.unwrap_or(text).trim().to_owned()
}
