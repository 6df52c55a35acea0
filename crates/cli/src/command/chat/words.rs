//! Commands of a chat: lines that begin with a slash.

/// The names of the commands, for completion.
pub(super) const NAMES: [&str; 6] = ["/help", "/inbox", "/model", "/open", "/quit", "/threads"];

/// The text of `/help`.
pub(super) const HELP: &str = "\
/threads       list threads, the newest first
/open [ID]     continue another thread, by its id or its number in the last list;
               without an id, begin a new one
/inbox         list what waits for a person, in all threads
/model [NAME]  show the model, or use another one for further messages
/quit          leave; Ctrl-D does the same
/help          this list

Enter sends. Alt-Enter, or a backslash before Enter, begins another line. Arrow up and Ctrl-R find
earlier messages. Ctrl-C stops an answer or discards a line; twice at an empty prompt it leaves.
A message that begins with a space is never a command.";

/// A command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Word<'a> {
    Help,
    Threads,
    Open(Option<&'a str>),
    Model(Option<&'a str>),
    Inbox,
    Quit,
    Unknown(&'a str),
}

/// Reads a line as a command; `None` if it is a message. Paths are messages.
pub(super) fn read_word(line: &str) -> Option<Word<'_>> {
    let line = line.trim_end();
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let letters = name.strip_prefix('/')?;
    if letters.is_empty() || !letters.chars().all(|letter| letter.is_ascii_lowercase()) {
        return None;
    }
    let rest = Some(rest.trim()).filter(|rest| !rest.is_empty());
    Some(match (letters, rest) {
        ("help", _) => Word::Help,
        ("threads", _) => Word::Threads,
        ("open", id) => Word::Open(id),
        ("model", name) => Word::Model(name),
        ("inbox", _) => Word::Inbox,
        ("quit" | "exit", _) => Word::Quit,
        _ => Word::Unknown(name),
    })
}

#[cfg(test)]
mod tests {
    use super::{HELP, NAMES, Word, read_word};

    #[test]
    fn commands_are_words_after_a_slash() {
        for (line, expected) in [
            ("/help", Some(Word::Help)),
            ("/open", Some(Word::Open(None))),
            ("/open  t-1 ", Some(Word::Open(Some("t-1")))),
            ("/model openai:gpt-4o-mini", Some(Word::Model(Some("openai:gpt-4o-mini")))),
            ("/quit", Some(Word::Quit)),
            ("/halp me", Some(Word::Unknown("/halp"))),
            ("/etc/passwd is a file", None),
            (" /help", None),
            ("/", None),
            ("1/2", None),
        ] {
            assert_eq!(read_word(line), expected, "{line}");
        }
        for name in NAMES {
            assert!(!matches!(read_word(name), None | Some(Word::Unknown(_))), "{name}");
            assert!(HELP.contains(name), "{name}");
        }
    }
}
