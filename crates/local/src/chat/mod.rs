//! Conversations on the engine: which tool, with which arguments, and what to say.
//!
//! A model this small cannot be asked all of that at once. It is asked one short question at a
//! time, each shown by examples:
//!
//! 1. **Which tool?** After "requests for the tool X" and X's own example, how likely is this
//!    request? The tool under which it is likeliest is taken. Asked this way round the order of
//!    the tools does not matter, and only tools that exist can be chosen.
//! 2. **Which arguments?** After the tool's examples, under a grammar made from its schema, and
//!    where the examples copy from the request, only from the words that are there.
//! 3. **What to say?** After a tool's result: one sentence from the facts in it.

mod copy;
mod facts;
mod kit;
mod model;
mod prompt;

pub use model::{LocalModel, Settings};

use crate::Error;
use crate::engine::{Engine, Session};
use crate::writer::{Answer, End, Listener, Plan, Vocabulary};
use copy::Copier;
use kit::{Kind, Kits};
use serde_json::Value;
use std::path::PathBuf;
use weftwork_models::{ChatRequest, FinishReason, ToolChoice};
use weftwork_types::message::{Message, Role};
use weftwork_types::tool::{Effect, ToolSpec};

/// Tokens of an answer in words, unless the request says otherwise.
const WORDS_MAX: usize = 120;
/// Tokens of a tool call's arguments before they are closed.
const ARGS_MAX: usize = 200;

/// Answers requests with an engine, one at a time, and keeps what it has read.
#[derive(Debug)]
pub(crate) struct Chat {
    engine: Engine,
    kits: Kits,
    copier: Copier,
    /// The conversation read last; the next one often goes on from it.
    talk: Session,
}

/// What happens while a request is answered.
pub(crate) trait Audience {
    /// A tool is called; its arguments follow.
    fn tool(&mut self, name: &str);
    /// More of the arguments' JSON text.
    fn args(&mut self, piece: &str);
    /// More words.
    fn words(&mut self, piece: &str);
    /// Whether anybody still listens.
    fn wanted(&self) -> bool;
}

/// How a request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Tokens of the prompts, whether read now or before.
    pub(crate) input: usize,
    /// Tokens written.
    pub(crate) output: usize,
    /// Why it ended; nothing when nobody listened any more.
    pub(crate) reason: Option<FinishReason>,
}

impl Chat {
    pub(crate) fn new(engine: Engine, snapshots: Option<PathBuf>) -> Self {
        let talk = engine.session();
        Self { engine, kits: Kits::new(snapshots), copier: Copier::new(), talk }
    }

    /// Forgets what it has read, after a panic may have left it half done.
    fn forget(&mut self) {
        self.kits.clear();
        self.talk = self.engine.session();
    }

    /// Answers a request.
    pub(crate) fn answer(
        &mut self,
        request: &ChatRequest,
        audience: &mut dyn Audience,
    ) -> Result<Outcome, Error> {
        let asked = request.messages.iter().rposition(|message| message.role == Role::User);
        let (before, after) = request.messages.split_at(asked.map_or(0, |at| at + 1));
        let answered = after.iter().any(|message| message.tool_results().next().is_some());
        if let Some(schema) = &request.response_schema {
            return self.structured(request, schema, audience);
        }
        if answered {
            return self.summarise(request, before, after, audience);
        }
        let chosen = match &request.tool_choice {
            _ if request.tools.is_empty() || asked.is_none() => None,
            ToolChoice::None => None,
            ToolChoice::Named(name) => request.tools.iter().position(|t| t.wire_name() == *name),
            ToolChoice::Required => self.choose(request, before, false)?,
            ToolChoice::Auto => self.choose(request, before, true)?,
        };
        match chosen {
            Some(index) => self.call(request, index, before, audience),
            None => self.converse(request, audience),
        }
    }

    /// Which tool the last request is for; none when plain words fit better.
    fn choose(
        &mut self,
        request: &ChatRequest,
        before: &[Message],
        or_words: bool,
    ) -> Result<Option<usize>, Error> {
        let kit = self.kits.get(&self.engine, &request.tools)?;
        let asked = last_text(before);
        let mut leads = kit.leads();
        if or_words {
            leads.retain(|(index, _)| {
                request.tools.get(*index).is_none_or(|tool| self.copier.is_possible(tool, &asked))
            });
        } else {
            leads.pop();
        }
        let text = prompt::tail(&self.engine, &asked, kit::text_tokens_max(leads.len()));
        let scores = self.engine.likelihoods(&mut kit.prefixes, &leads, &text);
        let best = leads.iter().zip(&scores).max_by(|a, b| a.1.total_cmp(b.1));
        Ok(best.map(|((index, _), _)| *index).filter(|index| *index < request.tools.len()))
    }

    /// Calls a tool: writes its arguments.
    fn call(
        &mut self,
        request: &ChatRequest,
        index: usize,
        before: &[Message],
        audience: &mut dyn Audience,
    ) -> Result<Outcome, Error> {
        let tool = &request.tools[index];
        let schema = self.copier.narrowed(tool, &texts(before));
        let subject = format!("tool `{}`", tool.wire_name());
        let grammar = self.engine.grammar(&subject, &schema)?;
        let kit = self.kits.get(&self.engine, &request.tools)?;
        let (mut session, mut prompt) = kit.args(&self.engine, index);
        prompt::turn(&self.engine, &mut prompt, "user", &last_text(before))?;
        prompt::open(&self.engine, &mut prompt)?;
        audience.tool(&tool.wire_name());
        self.engine.prefill(&mut session, &prompt, &Waiting(audience))?;
        let plan = Plan::within(&grammar, ARGS_MAX);
        let answer = self.engine.generate(&mut session, &plan, &mut Args(audience))?;
        Ok(outcome(prompt.len(), &answer, FinishReason::ToolCalls))
    }

    /// Says in a sentence what the tools brought.
    fn summarise(
        &mut self,
        request: &ChatRequest,
        before: &[Message],
        after: &[Message],
        audience: &mut dyn Audience,
    ) -> Result<Outcome, Error> {
        let kind = kind(&request.tools, after);
        let kit = self.kits.get(&self.engine, &request.tools)?;
        let (mut session, mut prompt) = kit.summary(&self.engine, kind);
        let question = prompt::question(&last_text(before), &facts::of(after));
        prompt::turn(&self.engine, &mut prompt, "user", &question)?;
        prompt::open(&self.engine, &mut prompt)?;
        self.engine.prefill(&mut session, &prompt, &Waiting(audience))?;
        let known = format!("{question} {}", kit::FAILURE);
        let vocabulary = match kind {
            Kind::Failed => Vocabulary::Words(&known),
            Kind::Found | Kind::Done => Vocabulary::Numbers(&question),
        };
        let plan = Plan { stop: &["\n"], vocabulary: Some(vocabulary), ..self.words_plan(request) };
        let answer = self.engine.generate(&mut session, &plan, &mut Words(audience))?;
        Ok(outcome(prompt.len(), &answer, FinishReason::Stop))
    }

    /// Goes on with the conversation in plain words.
    fn converse(
        &mut self,
        request: &ChatRequest,
        audience: &mut dyn Audience,
    ) -> Result<Outcome, Error> {
        let plan = Plan { stop: &["\n\n"], ..self.words_plan(request) };
        self.say(request, &plan, audience)
    }

    /// Answers within a schema.
    fn structured(
        &mut self,
        request: &ChatRequest,
        schema: &Value,
        audience: &mut dyn Audience,
    ) -> Result<Outcome, Error> {
        let grammar = self.engine.grammar("the response", schema)?;
        let tokens_max = request.max_tokens.map_or(ARGS_MAX, |n| n as usize);
        let plan = Plan { grammar: Some(&grammar), tokens_max, ..self.words_plan(request) };
        self.say(request, &plan, audience)
    }

    fn say(
        &mut self,
        request: &ChatRequest,
        plan: &Plan<'_>,
        audience: &mut dyn Audience,
    ) -> Result<Outcome, Error> {
        let prompt = prompt::conversation(&self.engine, &request.messages)?;
        self.engine.prefill(&mut self.talk, &prompt, &Waiting(audience))?;
        let answer = self.engine.generate(&mut self.talk, plan, &mut Words(audience))?;
        Ok(outcome(prompt.len(), &answer, FinishReason::Stop))
    }

    fn words_plan(&self, request: &ChatRequest) -> Plan<'static> {
        Plan {
            temperature: request.temperature.unwrap_or(0.0),
            ..Plan::words(request.max_tokens.map_or(WORDS_MAX, |n| n as usize))
        }
    }
}

fn outcome(input: usize, answer: &Answer, complete: FinishReason) -> Outcome {
    let reason = match answer.end {
        End::Complete => Some(complete),
        End::Limit => Some(FinishReason::Length),
        End::Cancelled => None,
    };
    Outcome { input, output: answer.tokens, reason }
}

/// What the last call came to.
fn kind(tools: &[ToolSpec], after: &[Message]) -> Kind {
    let Some(result) = after.iter().flat_map(Message::tool_results).last() else {
        return Kind::Found;
    };
    let tool = tools.iter().find(|tool| tool.wire_name() == result.name);
    match tool.map(|tool| tool.effect) {
        _ if result.is_error => Kind::Failed,
        Some(Effect::StateChange | Effect::ExternalSideEffect) => Kind::Done,
        Some(Effect::ReadOnly) | None => Kind::Found,
    }
}

fn last_text(before: &[Message]) -> String {
    before.last().map(Message::joined_text).unwrap_or_default()
}

/// The last request and then what was said and found before it, newest first.
fn texts(before: &[Message]) -> Vec<String> {
    before
        .iter()
        .rev()
        .filter(|message| matches!(message.role, Role::User | Role::Tool))
        .map(|message| match message.role {
            Role::User => message.joined_text(),
            _ => facts::of(std::slice::from_ref(message)),
        })
        .collect()
}

/// Only asks whether anybody still listens.
struct Waiting<'a>(&'a dyn Audience);

impl Listener for Waiting<'_> {
    fn wanted(&self) -> bool {
        self.0.wanted()
    }
}

struct Args<'a>(&'a mut dyn Audience);

impl Listener for Args<'_> {
    fn text(&mut self, piece: &str) {
        self.0.args(piece);
    }

    fn wanted(&self) -> bool {
        self.0.wanted()
    }
}

struct Words<'a>(&'a mut dyn Audience);

impl Listener for Words<'_> {
    fn text(&mut self, piece: &str) {
        self.0.words(piece);
    }

    fn wanted(&self) -> bool {
        self.0.wanted()
    }
}
