//! Server-sent events, read from bytes as they come.
//!
//! Source: the HTML standard, section "Interpreting an event stream".

/// The longest event, in bytes.
pub(crate) const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// An event was longer than [`EVENT_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Turns bytes into the data of events. Names, ids and retry times are not used by any protocol
/// here and are dropped.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    /// The line being read, without its end. It is decoded when it is whole, so a character may
    /// be split between pieces.
    line: Vec<u8>,
    /// The data lines of the event being read, each followed by a newline.
    data: String,
    /// The last line ended with a carriage return: a newline that follows belongs to it.
    after_return: bool,
    /// Whether the first line was read: a byte order mark may stand before it.
    started: bool,
}

impl SseParser {
    /// Reads a piece and hands the data of every event that ended in it to `out`.
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
