//! Answers in words: sentences about results, and plain conversation.

use super::ground::Ground;
use super::kit::Kind;
use super::turn::{self, Turn};
use super::{Audience, Chat, Outcome, Spent, WORDS_MAX, Waiting, Words, facts, plan, prompt};
use crate::Error;
use crate::engine::Engine;
use crate::writer::{End, Plan, Vocabulary};
use weftwork_models::{ChatRequest, FinishReason, ToolChoice};
use weftwork_types::message::ToolResult;
use weftwork_types::tool::{Effect, ToolSpec};

/// The beginning of an answer about a failed call.
const FAILURE: &str = "That did not work:";

impl Chat {
    /// Reports the result of each call in a sentence, and then what is missing.
    pub(super) fn report(
        &mut self,
        request: &ChatRequest,
        turn: &Turn<'_>,
        lack: Option<&str>,
        audience: &mut dyn Audience,
    ) -> Result<Outcome, Error> {
        let mut tokens = Spent::default();
        let mut reason = FinishReason::Stop;
        for (number, result) in turn.results.iter().enumerate() {
            if number > 0 {
                audience.words(" ");
            }
            let said = match result.is_error {
                true => Sentence::fixed(&self.engine, request, &failure(result)),
                false => match self.write_sentence(request, turn, result, audience)? {
                    Some(said) => said,
                    None => return Ok(Outcome { reason: None, ..tokens.ending(reason) }),
                },
            };
            audience.words(&said.text);
            tokens.add(said.tokens.input, said.tokens.output);
            if said.is_cut {
                reason = FinishReason::Length;
            }
        }
        if let Some(lack) = lack {
            let space = if turn.results.is_empty() { "" } else { " " };
            audience.words(&format!("{space}{lack}"));
            let read = self.engine.encode(&turn.request);
            let written = self.engine.encode(lack);
            tokens.add(read.len(), written.len());
        }
        Ok(tokens.ending(reason))
    }

    /// A sentence about the result of a call: the model's own if the result supports it, otherwise
    /// the values in a fixed form. `None` if the request was cancelled.
    fn write_sentence(
        &mut self,
        request: &ChatRequest,
        turn: &Turn<'_>,
        result: &ToolResult,
        audience: &mut dyn Audience,
    ) -> Result<Option<Sentence>, Error> {
        let tool = request.tools.iter().find(|tool| tool.wire_name() == result.name);
        let call = turn.made.iter().find(|call| call.id == result.tool_call_id);
        // The call as a request, if the example of the tool can be restated with its values.
        let asked = call
            .zip(tool)
            .and_then(|(call, tool)| plan::restated(&self.copier, tool, &call.args))
            .unwrap_or_else(|| turn.request.clone());
        let facts = facts::of(result);
        let question = prompt::question(&asked, &facts::line(&facts));
        let args = call.map(|call| &call.args);
        let several = turn.results.len() > 1;
        let ground = Ground::new(facts, tool, args, &turn.request, several);
        let kind = kind(tool);
        let kit = self.kits.get(&self.engine, &request.tools)?;
        let (mut session, mut prompt) = kit.summary(&self.engine, kind);
        prompt::turn(&self.engine, &mut prompt, "user", &question)?;
        prompt::open(&self.engine, &mut prompt)?;
        self.engine.prefill(&mut session, &prompt, &Waiting(audience))?;
        let words = ground.vocabulary();
        let vocabulary = match kind {
            Kind::Found => Vocabulary::Words(&words),
            Kind::Done => Vocabulary::Numbers(&question),
        };
        let plan = Plan { stop: &["\n"], vocabulary: Some(vocabulary), ..words_plan(request) };
        let answer = self.engine.generate(&mut session, &plan, &mut Waiting(audience))?;
        let mut said = match answer.end {
            End::Cancelled => return Ok(None),
            End::Complete if ground.supports(&answer.text) => {
                Sentence { text: answer.text, ..Sentence::default() }
            }
            End::Complete | End::Limit => {
                Sentence::fixed(&self.engine, request, &ground.statement())
            }
        };
        said.tokens.add(prompt.len(), answer.tokens);
        Ok(Some(said))
    }

    /// Answers a request without a call: in the model's words if the request allows no calls,
    /// otherwise with a sentence about the tools. Words of this model about anything else, also about
    /// a greeting, have no meaning.
    pub(super) fn reply(
        &mut self,
        request: &ChatRequest,
        turn: &Turn<'_>,
        audience: &mut dyn Audience,
    ) -> Result<Outcome, Error> {
        let may_call = !request.tools.is_empty() && request.tool_choice == ToolChoice::Auto;
        if !may_call {
            return self.converse(request, audience);
        }
        let said = Sentence::fixed(&self.engine, request, &turn::no_tool(&request.tools));
        audience.words(&said.text);
        let mut tokens = said.tokens;
        tokens.add(self.engine.encode(&turn.request).len(), 0);
        Ok(tokens.ending(if said.is_cut { FinishReason::Length } else { FinishReason::Stop }))
    }

    /// Continues the conversation in plain words. With tools, all numbers are from the results or
    /// from the person, and the answer is one sentence.
    pub(super) fn converse(
        &mut self,
        request: &ChatRequest,
        audience: &mut dyn Audience,
    ) -> Result<Outcome, Error> {
        let said: Vec<String> = request.messages.iter().map(prompt::said).collect();
        let said = said.join(" ");
        let has_tools = !request.tools.is_empty();
        let vocabulary = has_tools.then_some(Vocabulary::Numbers(&said));
        let one_sentence = has_tools;
        let plan = Plan { stop: &["\n\n"], vocabulary, one_sentence, ..words_plan(request) };
        self.say(request, &plan, audience)
    }

    pub(super) fn say(
        &mut self,
        request: &ChatRequest,
        plan: &Plan<'_>,
        audience: &mut dyn Audience,
    ) -> Result<Outcome, Error> {
        let prompt = prompt::conversation(&self.engine, &request.messages)?;
        self.engine.prefill(&mut self.talk, &prompt, &Waiting(audience))?;
        let answer = self.engine.generate(&mut self.talk, plan, &mut Words(audience))?;
        Ok(super::outcome(prompt.len(), &answer, FinishReason::Stop))
    }
}

/// A sentence of an answer.
#[derive(Debug, Default)]
struct Sentence {
    text: String,
    tokens: Spent,
    /// `true` if the limit of the request cut it.
    is_cut: bool,
}

impl Sentence {
    /// A sentence that the model does not write, within the limit of the request.
    fn fixed(engine: &Engine, request: &ChatRequest, text: &str) -> Self {
        let mut written = engine.encode(text);
        let limit = request.max_tokens.map_or(usize::MAX, |limit| limit as usize);
        let is_cut = written.len() > limit;
        written.truncate(limit);
        let text = if is_cut { engine.decode(&written) } else { text.to_owned() };
        Self { text, tokens: Spent { input: 0, output: written.len() }, is_cut }
    }
}

/// Settings for an answer in words.
pub(super) fn words_plan<'p>(request: &ChatRequest) -> Plan<'p> {
    Plan {
        temperature: request.temperature.unwrap_or(0.0),
        top_p: request.top_p.unwrap_or(1.0),
        seed: request.seed.unwrap_or_default(),
        ..Plan::words(request.max_tokens.map_or(WORDS_MAX, |n| n as usize))
    }
}

/// The sentence about a failed call.
fn failure(result: &ToolResult) -> String {
    let facts = facts::of(result);
    let texts: Vec<&str> = facts.iter().map(|fact| fact.text.as_str()).collect();
    let text = texts.join("; ");
    let end = if text.ends_with(['.', '!', '?', '…']) { "" } else { "." };
    match text.as_str() {
        "" => "That did not work.".to_owned(),
        text => format!("{FAILURE} {text}{end}"),
    }
}

/// The kind of the result of a tool.
fn kind(tool: Option<&ToolSpec>) -> Kind {
    match tool.map(|tool| tool.effect) {
        Some(Effect::StateChange | Effect::ExternalSideEffect) => Kind::Done,
        Some(Effect::ReadOnly) | None => Kind::Found,
    }
}
