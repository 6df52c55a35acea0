//! Conversations on the engine: selection of tools, arguments, and answers.
//!
//! A model of this size cannot do all of this in one prompt. It answers one short question at a
//! time, each with examples:
//!
//! 1. **Selection of the tool.** A tool whose name is in the request, otherwise the tool under which
//!    the request is the likeliest continuation of "requests for the tool X" and X's own example.
//!    So the order of the tools does not matter, and only existing tools can be selected.
//! 2. **Arguments.** After the tool's examples, constrained by a grammar of its schema, and for
//!    arguments that the examples copy from the request, by the words of the person. The person is
//!    asked for missing values.
//! 3. **Further calls.** After a result the request is examined again: a value that no call used,
//!    or words of a tool that was not called, lead to the next call.
//! 4. **Answer.** After the results: a sentence for each, from the values in it. A sentence that
//!    does not follow from the result is replaced by the values in a fixed form. A request that no
//!    tool is for is answered in one sentence.

mod copy;
mod facts;
mod ground;
mod kit;
mod model;
mod plan;
mod prompt;
mod report;
mod shape;
mod turn;
mod words;

pub use model::{LocalModel, Settings, WAITING_MAX};

use crate::Error;
use crate::engine::{Engine, Session};
use crate::writer::{Answer, End, Listener, Plan};
use copy::{Copier, Form};
use kit::Kits;
use plan::{Desk, Rest};
use serde_json::{Value, json};
use std::path::PathBuf;
use turn::Turn;
use weftwork_models::{ChatRequest, FinishReason, ToolChoice};
use weftwork_types::tool::ToolSpec;

/// Default limit of tokens of an answer in words.
const WORDS_MAX: usize = 120;
/// Limit of tokens of a tool call's arguments, after which they are closed.
const ARGS_MAX: usize = 200;

/// Answers requests with an engine, one at a time, and caches processed prompts.
#[derive(Debug)]
pub(crate) struct Chat {
    engine: Engine,
    kits: Kits,
    copier: Copier,
    /// The conversation processed last; the next one often continues it.
    talk: Session,
}

/// A receiver of the events that occur while a request is answered.
pub(crate) trait Audience {
    /// The start of a tool call; its arguments follow.
    fn tool(&mut self, name: &str);
    /// The JSON text of the arguments.
    fn args(&mut self, piece: &str);
    /// Text of the answer.
    fn words(&mut self, piece: &str);
    /// Returns `true` until the answer is cancelled.
    fn wanted(&self) -> bool;
}

/// The outcome of a request: token counts and the reason it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Tokens of the prompts, including cached ones.
    pub(crate) input: usize,
    /// Generated tokens.
    pub(crate) output: usize,
    /// The reason for the end; `None` if the request was cancelled.
    pub(crate) reason: Option<FinishReason>,
}

impl Chat {
    pub(crate) fn new(engine: Engine, snapshots: Option<PathBuf>) -> Self {
        let talk = engine.session();
        Self { engine, kits: Kits::new(snapshots), copier: Copier::new(), talk }
    }

    /// Clears the caches, which a panic may have left incomplete.
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
        if let Some(schema) = &request.response_schema {
            return self.write_structured(request, schema, audience);
        }
        let Some(turn) = Turn::of(request) else { return self.converse(request, audience) };
        match self.next(request, &turn, audience)? {
            NextStep::Call { index, args, tokens } => {
                audience.tool(&request.tools[index].wire_name());
                audience.args(&args.to_string());
                Ok(tokens.ending(FinishReason::ToolCalls))
            }
            NextStep::Lack(text) => self.report(request, &turn, Some(&text), audience),
            NextStep::Words if turn.results.is_empty() => self.reply(request, &turn, audience),
            NextStep::Words => self.report(request, &turn, None, audience),
            NextStep::Nobody => Ok(Outcome { input: 0, output: 0, reason: None }),
        }
    }

    /// Decides the next step of a request.
    fn next(
        &mut self,
        request: &ChatRequest,
        turn: &Turn<'_>,
        audience: &mut dyn Audience,
    ) -> Result<NextStep, Error> {
        let tools = &request.tools;
        let (must, chosen) = match &request.tool_choice {
            _ if tools.is_empty() => return Ok(NextStep::Words),
            ToolChoice::None => return Ok(NextStep::Words),
            ToolChoice::Named(name) => {
                let named = tools.iter().position(|tool| tool.wire_name() == *name);
                (true, named.map(|index| (index, None)))
            }
            ToolChoice::Required => {
                let open = self.open_tool(request, turn)?;
                let any = |chat: &mut Self| chat.choose(request, &turn.request, false);
                (true, open.map_or_else(|| Ok(any(self)?.map(|at| (at, None))), |o| Ok(Some(o)))?)
            }
            ToolChoice::Auto => (false, self.open_tool(request, turn)?),
        };
        let Some((index, rest)) = chosen else { return Ok(NextStep::Words) };
        let desk = Desk::new(tools, &self.copier);
        let said = match &rest {
            Some(rest) => desk.said_in(index, rest, turn),
            None => desk.said(index, turn),
        };
        let mut form = self.copier.form(&tools[index], &said);
        if must && !turn.made.is_empty() && form.missing().next().is_some() {
            // The call is repeated: values that other calls used may be used again.
            form = self.copier.form(&tools[index], &turn.said(&tools[index]));
        }
        let next = self.fill_arguments(request, index, form, turn, audience)?;
        Ok(match next {
            NextStep::Call { index, ref args, .. }
                if !must && turn.has_made(&tools[index], args) =>
            {
                NextStep::Words
            }
            next => next,
        })
    }

    /// The tool that the request needs and that was not called yet, and the part of the request it
    /// is for.
    fn open_tool(
        &mut self,
        request: &ChatRequest,
        turn: &Turn<'_>,
    ) -> Result<Option<(usize, Option<Rest>)>, Error> {
        if let Some(index) = turn.waiting(&request.tools) {
            return Ok(Some((index, None)));
        }
        if turn.made.is_empty() {
            let or_words = request.tool_choice == ToolChoice::Auto;
            return Ok(self.choose(request, &turn.request, or_words)?.map(|index| (index, None)));
        }
        let desk = Desk::new(&request.tools, &self.copier);
        if let Some(index) = desk.listed(turn) {
            return Ok(Some((index, None)));
        }
        for rest in desk.rests(turn) {
            let index = self.choose(request, &turn.request[rest.part.clone()], true)?;
            let desk = Desk::new(&request.tools, &self.copier);
            if let Some(index) = index.filter(|index| desk.answers(*index, &rest, turn)) {
                return Ok(Some((index, Some(rest))));
            }
        }
        Ok(None)
    }

    /// Selects the tool for a text; `None` if plain words fit better.
    fn choose(
        &mut self,
        request: &ChatRequest,
        text: &str,
        or_words: bool,
    ) -> Result<Option<usize>, Error> {
        let tools = &request.tools;
        let desk = Desk::new(tools, &self.copier);
        let named = desk.named(text);
        if let Some((index, true)) = named {
            return Ok(Some(index));
        }
        let kit = self.kits.get(&self.engine, tools)?;
        let mut leads = kit.leads();
        let is_tool = |lead: &(usize, u32)| lead.0 < tools.len();
        let possible = |lead: &(usize, u32)| desk.is_possible(lead.0, text);
        if or_words || leads.iter().any(|lead| is_tool(lead) && possible(lead)) {
            leads.retain(possible);
        }
        if let Some((index, _)) = named {
            leads.retain(|lead| !is_tool(lead) || lead.0 == index);
        }
        if !or_words {
            leads.retain(is_tool);
            // Missing values are requested from the person; the tool for questions is not an
            // alternative to a call.
            let asks = |lead: &(usize, u32)| turn::asks(&tools[lead.0]);
            if !leads.iter().all(asks) {
                leads.retain(|lead| !asks(lead));
            }
        }
        let text = prompt::tail(&self.engine, text, kit::text_tokens_max(leads.len()));
        let scores = self.engine.likelihoods(&mut kit.prefixes, &leads, &text);
        let best = leads.iter().zip(&scores).max_by(|a, b| a.1.total_cmp(b.1));
        Ok(best.map(|((index, _), _)| *index).filter(|index| *index < tools.len()))
    }

    /// Generates the arguments of a call. If a copied argument has no value, the person is asked
    /// for it or informed.
    fn fill_arguments(
        &mut self,
        request: &ChatRequest,
        index: usize,
        mut form: Form,
        turn: &Turn<'_>,
        audience: &mut dyn Audience,
    ) -> Result<NextStep, Error> {
        let tool = &request.tools[index];
        let mut tokens = Spent::default();
        loop {
            if let Some(missing) = form.missing().next() {
                return Ok(self.ask_for_argument(request, tool, missing, &form, turn));
            }
            let subject = format!("tool `{}`", tool.wire_name());
            let grammar = self.engine.grammar(&subject, &form.schema())?;
            let kit = self.kits.get(&self.engine, &request.tools)?;
            let (mut session, mut prompt) = kit.args(&self.engine, index);
            prompt::turn(&self.engine, &mut prompt, "user", &turn.request)?;
            prompt::open(&self.engine, &mut prompt)?;
            self.engine.prefill(&mut session, &prompt, &Waiting(audience))?;
            let plan = Plan::within(&grammar, ARGS_MAX);
            let answer = self.engine.generate(&mut session, &plan, &mut Waiting(audience))?;
            tokens.add(prompt.len(), answer.tokens);
            if answer.end == End::Cancelled {
                return Ok(NextStep::Nobody);
            }
            let args: Value = serde_json::from_str(&answer.text).map_err(|error| {
                Error::Grammar { subject, reason: format!("it allowed `{}`: {error}", answer.text) }
            })?;
            if !form.part(&args) {
                return Ok(NextStep::Call { index, args, tokens });
            }
        }
    }

    /// Asks the person for an argument if that is possible, otherwise reports what is missing.
    fn ask_for_argument(
        &self,
        request: &ChatRequest,
        tool: &ToolSpec,
        missing: &str,
        form: &Form,
        turn: &Turn<'_>,
    ) -> NextStep {
        let question = turn::question(tool, missing);
        let named = matches!(request.tool_choice, ToolChoice::Named(_));
        match request.tools.iter().position(turn::asks) {
            Some(index) if !named && turn.may_ask(&question) => {
                let mut tokens = Spent::default();
                tokens.add(
                    self.engine.encode(&turn.request).len(),
                    self.engine.encode(&question).len(),
                );
                NextStep::Call { index, args: json!({ "question": question }), tokens }
            }
            _ => NextStep::Lack(turn::lack(tool, form.missing())),
        }
    }

    /// Generates an answer that satisfies a schema.
    fn write_structured(
        &mut self,
        request: &ChatRequest,
        schema: &Value,
        audience: &mut dyn Audience,
    ) -> Result<Outcome, Error> {
        let grammar = self.engine.grammar("the response", schema)?;
        let tokens_max = request.max_tokens.map_or(ARGS_MAX, |n| n as usize);
        let plan = Plan { grammar: Some(&grammar), tokens_max, ..report::words_plan(request) };
        self.say(request, &plan, audience)
    }
}

/// The next step of a request.
enum NextStep {
    /// A call with its arguments.
    Call { index: usize, args: Value, tokens: Spent },
    /// A sentence about the missing values of a call.
    Lack(String),
    /// Plain words.
    Words,
    /// No step: the request was cancelled.
    Nobody,
}

/// Tokens of prompts and answers.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    input: usize,
    output: usize,
}

impl Spent {
    fn add(&mut self, input: usize, output: usize) {
        self.input += input;
        self.output += output;
    }

    fn ending(self, reason: FinishReason) -> Outcome {
        Outcome { input: self.input, output: self.output, reason: Some(reason) }
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

/// A receiver that ignores events and only reports cancellation.
struct Waiting<'a>(&'a dyn Audience);

impl Listener for Waiting<'_> {
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
