//! A parser for server-sent events.
//!
//! Source: the HTML standard, section "Interpreting an event stream".

/// Maximum size of an event, in bytes.
pub(crate) const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// The error for an event longer than [`EVENT_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Parses bytes into the data of events. Event names, ids and retry times are dropped, because no
/// protocol here uses them.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    /// The current line without its end. It is decoded when complete, because a chunk may end
    /// inside a character.
    line: Vec<u8>,
    /// The data lines of the current event, each followed by a newline.
    data: String,
    /// `true` if the last line ended with a carriage return; a newline that follows is part of it.
    after_return: bool,
    /// `true` once the first line was read, which may start with a byte order mark.
    started: bool,
}

impl SseParser {
    /// Parses a chunk and appends the data of every event that ended in it to `out`.
    pub(crate) fn push(&mut self, piece: &[u8], out: &mut Vec<String>) -> Result<(), TooLong> {
        for &byte in piece {
            let after_return = std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if after_return => {}
                b'\n' => self.end_line(out),
                b'\r' => {
                    self.after_return = true;
                    self.end_line(out);
                }
                other => self.line.push(other),
            }
            if self.line.len() + self.data.len() > EVENT_BYTES_MAX {
                return Err(TooLong);
            }
        }
        Ok(())
    }

    fn end_line(&mut self, out: &mut Vec<String>) {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if !std::mem::replace(&mut self.started, true) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            let mut data = std::mem::take(&mut self.data);
            if data.pop().is_some() {
                out.push(data);
            }
            return;
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &[][..]),
        };
        if field == b"data" {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            self.data.push_str(&String::from_utf8_lossy(value));
            self.data.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let (mut parser, mut out) = (SseParser::default(), Vec::new());
        for piece in pieces {
            parser.push(piece, &mut out).expect("short enough");
        }
        out
    }

    #[test]
    fn events_end_at_empty_lines_of_any_kind() {
        for end in ["\n", "\r\n", "\r"] {
            let text =
                format!("data: a{end}{end}: comment{end}event: x{end}data:b{end}data{end}{end}");
            assert_eq!(read(&[text.as_bytes()]), ["a", "b\n"], "{end:?}");
        }
    }

    #[test]
    fn an_event_that_does_not_end_is_not_one() {
        assert!(read(&[b"data: a\n"]).is_empty());
        assert!(read(&[b"\n\n\nid: 1\n\n"]).is_empty());
    }

    #[test]
    fn a_byte_order_mark_and_a_split_character_are_read() {
        assert_eq!(read(&[b"\xef\xbb\xbfdata: \xc3", b"\xbc\r", b"\n\r\n"]), ["ü"]);
    }

    #[test]
    fn an_event_without_end_does_not_fill_the_memory() {
        let (mut parser, mut out) = (SseParser::default(), Vec::new());
        let piece = vec![b'x'; EVENT_BYTES_MAX];
        assert_eq!(parser.push(&piece, &mut out), Ok(()));
        assert_eq!(parser.push(b"x", &mut out), Err(TooLong));
        let mut parser = SseParser::default();
        let line = format!("data: {}\n", "x".repeat(1000));
        let result = (0..2000).try_for_each(|_| parser.push(line.as_bytes(), &mut out));
        assert_eq!((result, out.len()), (Err(TooLong), 0));
    }
}
