//! A parser for server-sent events, without I/O.
//!
//! Source: the HTML standard, section "Interpreting an event stream".

/// The error for an event longer than the limit of its parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a server-sent event is longer than {bytes_max} bytes")]
pub struct EventTooLong {
    /// The limit, in bytes.
    pub bytes_max: usize,
}

/// An event of a stream. Retry times are dropped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SseEvent {
    /// Name of the event; empty if it has none.
    pub name: String,
    /// Id of the event, if it has one of its own.
    pub id: Option<String>,
    /// Data of the event: its data lines, joined by newlines.
    pub data: String,
}

/// Parses bytes into events.
#[derive(Debug)]
pub struct SseParser {
    bytes_max: usize,
    /// The current line without its end. It is decoded when complete, because a chunk may end
    /// inside a character.
    line: Vec<u8>,
    /// The current event. Each of its data lines is followed by a newline.
    event: SseEvent,
    /// `true` if the last line ended with a carriage return; a newline that follows is part of it.
    after_return: bool,
    /// `true` once the first line was read, which may start with a byte order mark.
    started: bool,
}

impl SseParser {
    /// Creates a parser that refuses events of more than `bytes_max` bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            line: Vec::new(),
            event: SseEvent::default(),
            after_return: false,
            started: false,
        }
    }

    /// Parses a chunk and appends every event that ended in it to `out`. Events without data are
    /// dropped.
    ///
    /// # Errors
    /// [`EventTooLong`] if the current event exceeds the limit. The parser cannot be used after it.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<SseEvent>) -> Result<(), EventTooLong> {
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
            let id = self.event.id.as_ref().map_or(0, String::len);
            let event = self.event.data.len() + self.event.name.len() + id;
            if self.line.len() + event > self.bytes_max {
                return Err(EventTooLong { bytes_max: self.bytes_max });
            }
        }
        Ok(())
    }

    /// Appends the last event, if the stream ended without a blank line after it.
    pub fn finish(&mut self, out: &mut Vec<SseEvent>) {
        if !self.line.is_empty() {
            self.end_line(out);
        }
        self.end_line(out);
    }

    fn end_line(&mut self, out: &mut Vec<SseEvent>) {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if !std::mem::replace(&mut self.started, true) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            let mut event = std::mem::take(&mut self.event);
            if event.data.pop().is_some() {
                out.push(event);
            }
            return;
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &[][..]),
        };
        let value = String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value));
        match field {
            // Some servers report a failure in a field of its own, or in a line without a field.
            b"error" => {
                "error".clone_into(&mut self.event.name);
                self.event.data.push_str(&value);
                self.event.data.push('\n');
            }
            _ if line.starts_with(b"{") => {
                self.event.data.push_str(&String::from_utf8_lossy(line));
                self.event.data.push('\n');
            }
            b"data" => {
                self.event.data.push_str(&value);
                self.event.data.push('\n');
            }
            b"event" => self.event.name = value.into_owned(),
            b"id" if !value.contains('\0') => self.event.id = Some(value.into_owned()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT_BYTES_MAX: usize = 1 << 20;

    fn events(pieces: &[&[u8]]) -> Vec<SseEvent> {
        let mut parser = SseParser::new(EVENT_BYTES_MAX);
        let mut out = Vec::new();
        for piece in pieces {
            parser.push(piece, &mut out).expect("short enough");
        }
        out
    }

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        events(pieces).into_iter().map(|event| event.data).collect()
    }

    #[test]
    fn events_have_their_names_and_ids() {
        let text = "event: values|sub:1\ndata: {}\nid: 7-0\n\nretry: 5\ndata: x\n\n";
        let name = "values|sub:1".to_owned();
        let first = SseEvent { name, id: Some("7-0".to_owned()), data: "{}".to_owned() };
        let second = SseEvent { data: "x".to_owned(), ..SseEvent::default() };
        assert_eq!(events(&[text.as_bytes()]), [first, second]);
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
        let mut parser = SseParser::new(EVENT_BYTES_MAX);
        let mut out = Vec::new();
        let piece = vec![b'x'; EVENT_BYTES_MAX];
        assert_eq!(parser.push(&piece, &mut out), Ok(()));
        assert_eq!(parser.push(b"x", &mut out), Err(EventTooLong { bytes_max: EVENT_BYTES_MAX }));
        let mut parser = SseParser::new(EVENT_BYTES_MAX);
        let line = format!("data: {}\n", "x".repeat(1000));
        let result = (0..2000).try_for_each(|_| parser.push(line.as_bytes(), &mut out));
        assert_eq!((result, out.len()), (Err(EventTooLong { bytes_max: EVENT_BYTES_MAX }), 0));
    }
}
