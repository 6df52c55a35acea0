//! Messages among the lines of a server: one a line, as the protocol says, one over several lines, or
//! one after a header with its length.

use std::mem::take;

/// Maximum size of a message over several lines or after a header, in bytes.
const MESSAGE_BYTES_MAX: usize = 8 << 20;
const LENGTH: &[u8] = b"content-length:";

/// The beginning of a message, or of a line.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    line: Vec<u8>,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Lines,
    /// A header has the length of the message after the next empty line.
    Header(usize),
    /// So many bytes of a message are missing.
    Body(usize),
    /// A message that began with a line of one bracket.
    Open(Vec<u8>),
}

impl Framer {
    /// Adds bytes, and returns the messages and other lines that are complete.
    pub(crate) fn add(&mut self, mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut complete = Vec::new();
        while !bytes.is_empty() {
            let length = match self.state {
                State::Body(missing) => missing.min(bytes.len()),
                _ => bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1),
            };
            let (piece, rest) = bytes.split_at(length);
            bytes = rest;
            self.line.extend_from_slice(piece);
            match self.state {
                State::Body(missing) if missing > length => {
                    self.state = State::Body(missing - length);
                }
                State::Body(_) => {
                    self.state = State::Lines;
                    complete.push(on_one_line(take(&mut self.line)));
                }
                _ if piece.ends_with(b"\n") => self.end_line(&mut complete),
                _ => {}
            }
        }
        complete
    }

    /// Returns what is left at the end of the server.
    pub(crate) fn end(&mut self) -> Vec<Vec<u8>> {
        let open = match take(&mut self.state) {
            State::Open(open) => open,
            _ => Vec::new(),
        };
        let line = take(&mut self.line);
        [on_one_line(open), line].into_iter().filter(|line| !line.is_empty()).collect()
    }

    fn end_line(&mut self, complete: &mut Vec<Vec<u8>>) {
        let line = take(&mut self.line);
        let text = line.trim_ascii();
        match take(&mut self.state) {
            State::Header(length) if text.is_empty() => self.state = State::Body(length),
            // Such as the type of the content.
            State::Header(length) if !text.starts_with(b"{") => self.state = State::Header(length),
            // A message on a line is no part of what began before, which was no message.
            State::Open(open) if !(line.starts_with(b"{") && text.len() > 1) => {
                self.add_line(open, &line, complete);
            }
            State::Open(open) => complete.extend([on_one_line(open), line]),
            _ => match length_of(text) {
                Some(length) => self.state = State::Header(length),
                None if matches!(text, b"{" | b"[") => self.state = State::Open(line),
                None => complete.push(line),
            },
        }
    }

    /// Adds a line to a message. Its last line begins with the other bracket.
    fn add_line(&mut self, mut open: Vec<u8>, line: &[u8], complete: &mut Vec<Vec<u8>>) {
        open.extend_from_slice(line);
        match line.starts_with(b"}") || line.starts_with(b"]") || open.len() > MESSAGE_BYTES_MAX {
            true => complete.push(on_one_line(open)),
            false => self.state = State::Open(open),
        }
    }
}

/// Returns the length that a header has.
fn length_of(text: &[u8]) -> Option<usize> {
    let name = text.get(..LENGTH.len()).filter(|name| name.eq_ignore_ascii_case(LENGTH))?;
    let value = str::from_utf8(text.get(name.len()..)?).ok()?.trim();
    value.parse().ok().filter(|length| (1..=MESSAGE_BYTES_MAX).contains(length))
}

/// Returns a message on one line. JSON has line breaks only where spaces are allowed.
fn on_one_line(mut message: Vec<u8>) -> Vec<u8> {
    for byte in &mut message {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    if !message.is_empty() {
        message.push(b'\n');
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_however_they_are_framed_and_arrive() {
        for (sent, expected) in [
            ("{\"id\":1}\n{\"id\":2}\n", vec!["{\"id\":1}", "{\"id\":2}"]),
            ("{\n  \"id\": 1\n}\n{\"id\":2}\n", vec!["{   \"id\": 1 }", "{\"id\":2}"]),
            ("[\r\n{\r\n\"a\":1}\r\n]\r\n", vec!["[  {  \"a\":1}  ]"]),
            // What a program writes of an object that is no message.
            ("{\n  a: 1,\n{\"id\":2}\n}\n", vec!["{   a: 1,", "{\"id\":2}", "}"]),
            ("Content-Length: 8\r\n\r\n{\"id\":1}{\"id\":2}\n", vec!["{\"id\":1}", "{\"id\":2}"]),
            (
                "content-length: 9\nContent-Type: x; charset=y\n\n{\"id\":\n1}Content-Length: 2\n\n{}",
                vec!["{\"id\": 1}", "{}"],
            ),
            ("Content-Length: 7\n{\"id\":1}\n", vec!["{\"id\":1}"]),
            ("Content-Length: 99999999999\nplain\n", vec!["Content-Length: 99999999999", "plain"]),
            ("{\n\"a\":", vec!["{", "\"a\":"]),
        ] {
            for size in [1, 2, 7, 1_000] {
                let mut framer = Framer::default();
                let mut found: Vec<Vec<u8>> =
                    sent.as_bytes().chunks(size).flat_map(|piece| framer.add(piece)).collect();
                found.extend(framer.end());
                let found: Vec<String> = found
                    .iter()
                    .map(|line| String::from_utf8_lossy(line).trim_end().to_owned())
                    .collect();
                assert_eq!(found, expected, "{sent:?} in pieces of {size}");
            }
        }
    }
}
