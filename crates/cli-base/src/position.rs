//! The text form of positions in the events of a run: the number of the last durable event, then
//! `+` and the bytes of partial text since, if there are any.

use weftwork::types::event::Position;

/// Formats a position.
pub fn show(at: Position) -> String {
    match at.bytes {
        0 => at.seq.to_string(),
        bytes => format!("{}+{bytes}", at.seq),
    }
}

/// Parses a position.
pub fn parse(text: &str) -> Option<Position> {
    let (seq, bytes) = text.split_once('+').unwrap_or((text, "0"));
    Some(Position::in_text(seq.parse().ok()?, bytes.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{parse, show};
    use weftwork::types::event::Position;

    #[test]
    fn a_position_is_read_as_it_was_printed() {
        for (position, text) in [
            (Position::START, "0"),
            (Position::after(12), "12"),
            (Position::in_text(12, 340), "12+340"),
        ] {
            assert_eq!(show(position), text);
            assert_eq!(parse(text), Some(position));
        }
        for wrong in ["", "x", "1+", "+1", "-1", "1+2+3"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
