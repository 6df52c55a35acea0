//! Rules on Rust sources.

use super::{House, Offence};

/// Attributes that the project does not use, and their replacements.
const FORBIDDEN: [(&str, &str); 3] = [
    ("allow", "write `#[expect(.., reason = \"..\")]`"),
    ("ignore", "run the test, or print `SKIPPED(reason): name` from it"),
    ("should_panic", "assert on the result"),
];
/// Words that announce later work.
const PROMISES: [&str; 2] = ["TODO", "FIXME"];
/// Module names without a meaning.
const EMPTY_NAMES: [&str; 2] = ["util", "utils"];

pub(super) fn readable(house: &House<'_>) -> Vec<Offence> {
    let copies = house.unreadable.iter();
    copies.map(|found| Offence::at(&found.path, found.line, found.message.as_str())).collect()
}

pub(super) fn attributes(house: &House<'_>) -> Vec<Offence> {
    let mut offences = Vec::new();
    for (path, source) in &house.sources {
        for attribute in &source.attributes {
            let conditional = attribute.path == "cfg_attr";
            let found = FORBIDDEN.iter().find(|(name, _)| {
                attribute.path == *name
                    || conditional && attribute.arguments.iter().any(|a| a == name)
            });
            if let Some((name, instead)) = found {
                let message = format!("no `#[{name}]`: {instead}");
                offences.push(Offence::at(path, attribute.line, message));
            }
        }
    }
    offences
}

pub(super) fn test_names(house: &House<'_>) -> Vec<Offence> {
    let mut offences = Vec::new();
    for (path, source) in &house.sources {
        for attribute in &source.attributes {
            let is_test = attribute.path.rsplit("::").next() == Some("test");
            let name = attribute.on_function.as_deref().filter(|_| is_test).unwrap_or_default();
            if name.starts_with("test_") {
                let message =
                    format!("test `{name}` describes the tested behaviour, without `test_`");
                offences.push(Offence::at(path, attribute.line, message));
            }
        }
    }
    offences
}

pub(super) fn modules(house: &House<'_>) -> Vec<Offence> {
    let mut offences = Vec::new();
    for (path, source) in &house.sources {
        for (name, line) in &source.modules {
            if EMPTY_NAMES.contains(&name.as_str()) {
                let message = format!("module `{name}`: name it after the noun it is about");
                offences.push(Offence::at(path, *line, message));
            }
        }
    }
    offences
}

pub(super) fn todos(house: &House<'_>) -> Vec<Offence> {
    let mut offences = Vec::new();
    for (path, source) in &house.sources {
        let text = house.tree.text(path).unwrap_or_default();
        for (index, line) in text.lines().enumerate() {
            for (word, column) in PROMISES.iter().filter_map(|word| promise(line, word)) {
                if source.in_comment(index + 1, column) {
                    let message = format!("{word} without an issue; write `{word}(#12)` or do it");
                    offences.push(Offence::at(path, index + 1, message));
                }
            }
        }
    }
    offences
}

/// The column, in characters, of a word of [`PROMISES`] without an issue number.
fn promise<'a>(line: &str, word: &'a str) -> Option<(&'a str, usize)> {
    let start = line.find(word)?;
    let before = &line[..start];
    let rest = &line[start + word.len()..];
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    if before.chars().next_back().is_some_and(is_word) || rest.starts_with(is_word) {
        return None;
    }
    let issue = rest.strip_prefix("(#").and_then(|rest| rest.split_once(')'));
    let named =
        issue.is_some_and(|(id, _)| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()));
    (!named).then(|| (word, before.chars().count()))
}

#[cfg(test)]
mod tests {
    use super::promise;

    #[test]
    fn a_promise_names_an_issue() {
        assert_eq!(promise("// ä TODO: later", "TODO"), Some(("TODO", 5)));
        assert_eq!(promise("// TODO(#): later", "TODO"), Some(("TODO", 3)));
        assert_eq!(promise("// TODO(#12): later", "TODO"), None);
        assert_eq!(promise("// TODOS", "TODO"), None);
    }
}
