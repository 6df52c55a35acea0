//! The rule that arguments of tool calls are structured: nothing reads them out of prose.

use super::{House, Offence};
use crate::source::{Role, role};

/// Files that make tool calls, from the fields of a protocol or of code. A call that is made
/// elsewhere may have been read out of a text.
const HOMES: [&str; 8] = [
    "crates/agents/src/calls.rs",
    "crates/agents/src/calls/outside.rs",
    "crates/cli/src/command/mcp/call.rs",
    "crates/models/src/collect.rs",
    "crates/runtime/src/hosted/left_behind.rs",
    "crates/types/src/message/langchain.rs",
    "crates/types/src/message/written.rs",
    // It declares a variant of this name.
    "crates/types/src/port/budget.rs",
];

/// Files that make the parts of calls that models stream: the protocols of providers, whose fields have
/// the arguments, the scripted model, and the embedded one, which decodes them within the tool's schema
/// and may copy a value from the words of the person.
const DELTA_HOMES: [&str; 7] = [
    "crates/local/src/chat/model.rs",
    "crates/models/src/form.rs",
    "crates/models/src/protocol/anthropic/stream.rs",
    "crates/models/src/protocol/gemini/stream.rs",
    "crates/models/src/protocol/openai/stream.rs",
    "crates/models/src/protocol/responses/stream.rs",
    "crates/models/src/scripted/steps.rs",
];

/// Operations that search a text; a file that makes calls has none.
const SEARCHES: [&str; 8] = [
    "Regex",
    ".split(",
    ".split_once(",
    ".rsplit",
    ".splitn(",
    ".find('",
    ".find(\"",
    ".match_indices(",
];

pub(super) fn check(house: &House<'_>) -> Vec<Offence> {
    let mut offences = Vec::new();
    for (path, source) in house.sources.iter().filter(|(path, _)| role(path) == Role::Code) {
        let home = HOMES.contains(path);
        let text = house.tree.text(path).unwrap_or_default();
        for (number, line) in (1..).zip(text.lines()) {
            if source.is_test_line(number) {
                continue;
            }
            let in_code =
                |column: usize| !source.in_comment(number, line[..column].chars().count());
            if !home && made_call(line).is_some_and(in_code) {
                let message = "makes a tool call; arguments come from the fields of a protocol, in \
                    a file that `xtask/src/tidy/prose.rs` lists";
                offences.push(Offence::at(path, number, message));
            }
            let makes_delta = line.find(concat!("ChatEvent::ToolCall", "Delta {"));
            let is_pattern = line.contains("=>") || line.contains("if let");
            if !is_pattern && !DELTA_HOMES.contains(path) && makes_delta.is_some_and(in_code) {
                let message = "makes a part of a tool call; arguments come from the fields of a \
                    protocol, in a file that `xtask/src/tidy/prose.rs` lists";
                offences.push(Offence::at(path, number, message));
            }
            let search = SEARCHES.iter().find(|word| line.find(*word).is_some_and(in_code));
            if let Some(word) = search.filter(|_| home) {
                let message = format!(
                    "`{word}` searches a text where tool calls are made; arguments are not read out of prose"
                );
                offences.push(Offence::at(path, number, message));
            }
        }
    }
    offences
}

/// The column of a literal of `ToolCall` in a line, in bytes.
fn made_call(line: &str) -> Option<usize> {
    let at = line.find(concat!("ToolCall", " {"))?;
    let before = &line[..at];
    let is_other = before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
    let declares = ["struct ", "impl ", "for ", "-> "].iter().any(|word| before.ends_with(word));
    (!is_other && !declares).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::made_call;

    #[test]
    fn a_literal_is_told_from_declarations_and_variants() {
        assert_eq!(made_call("Some(ToolCall { id })"), Some(5));
        for other in [
            "pub struct ToolCall {",
            "impl ToolCall {",
            "fn f() -> ToolCall {",
            "Demand::ToolCall {",
            "NewToolCall {",
        ] {
            assert_eq!(made_call(other), None, "{other}");
        }
    }
}
