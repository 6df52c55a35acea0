//! Prompts in the ChatML form these models were trained on.

use super::facts;
use crate::Error;
use crate::engine::Engine;
use weftwork_types::message::{Message, Role};

/// Maximum number of tokens of a conversation in a prompt; older turns are left out.
const CONVERSATION_MAX: usize = 400;
/// Maximum number of tokens of instructions in a prompt.
const INSTRUCTIONS_MAX: usize = 200;

/// Adds a turn. Control tokens in the text are plain text, so it cannot start another turn.
pub(super) fn turn(
    engine: &Engine,
    out: &mut Vec<u32>,
    role: &str,
    text: &str,
) -> Result<(), Error> {
    out.push(engine.mark("<|im_start|>")?);
    out.extend(engine.encode(&format!("{role}\n{text}")));
    out.push(engine.mark("<|im_end|>")?);
    out.extend(engine.encode("\n"));
    Ok(())
}

/// Begins the model's turn.
pub(super) fn open(engine: &Engine, out: &mut Vec<u32>) -> Result<(), Error> {
    out.push(engine.mark("<|im_start|>")?);
    out.extend(engine.encode("assistant\n"));
    Ok(())
}

/// The end of a text after a dash, in a limited number of tokens.
pub(super) fn tail(engine: &Engine, text: &str, tokens_max: usize) -> Vec<u32> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut tokens = engine.encode(&format!(" {text}"));
    tokens.drain(..tokens.len().saturating_sub(tokens_max));
    tokens
}

/// The question that the summary prompt ends with.
pub(super) fn question(request: &str, facts: &str) -> String {
    let request: String = request.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("Request: {request}\nFacts: {facts}")
}

/// The text of a message.
pub(super) fn said(message: &Message) -> String {
    match message.role {
        Role::Tool => {
            let facts: Vec<_> = message.tool_results().flat_map(facts::of).collect();
            facts::line(&facts)
        }
        _ => message.joined_text(),
    }
}

/// A conversation up to the model's next turn; its beginning is cut if it does not fit.
pub(super) fn conversation(engine: &Engine, messages: &[Message]) -> Result<Vec<u32>, Error> {
    let mut instructions: Vec<String> = Vec::new();
    let mut turns: Vec<Vec<u32>> = Vec::new();
    for message in messages {
        let text = said(message);
        let role = match message.role {
            Role::System => {
                instructions.push(text);
                continue;
            }
            Role::User | Role::Tool => "user",
            Role::Assistant => "assistant",
        };
        if !text.is_empty() {
            let mut tokens = Vec::new();
            turn(engine, &mut tokens, role, &text)?;
            turns.push(tokens);
        }
    }
    let mut out = Vec::new();
    let mut system = engine.encode(&instructions.join("\n"));
    system.truncate(INSTRUCTIONS_MAX);
    let system = match system.is_empty() {
        true => "You are a helpful assistant.".to_owned(),
        false => engine.decode(&system),
    };
    turn(engine, &mut out, "system", &system)?;
    let mut room = CONVERSATION_MAX;
    let fitting = turns
        .iter()
        .rev()
        .take_while(|tokens| {
            let fits = tokens.len() <= room;
            room = room.saturating_sub(tokens.len());
            fits
        })
        .count()
        .max(1)
        .min(turns.len());
    out.extend(turns[turns.len() - fitting..].iter().flatten());
    open(engine, &mut out)?;
    Ok(out)
}
