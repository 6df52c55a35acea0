//! Cut of a context to a number of tokens.

use serde::{Deserialize, Serialize};

/// Number of bytes that count as one token.
const BYTES_PER_TOKEN: usize = 4;

/// A part of a context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    /// Name of its source.
    pub(crate) source: String,
    /// Heading.
    pub(crate) title: String,
    pub(crate) text: String,
    /// `true` if the end is worth more than the beginning, which is cut off then.
    #[serde(default)]
    pub(crate) newest_last: bool,
}

/// The use of a part, in tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Name of the source.
    pub(crate) source: String,
    /// Heading.
    pub(crate) title: String,
    /// Tokens that the part has.
    pub(crate) tokens: usize,
    /// Tokens of it that are in the context.
    pub(crate) kept: usize,
}

/// A context within its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fitted {
    pub(crate) text: String,
    pub(crate) kept: Vec<Kept>,
}

/// Returns the number of tokens of a text, by its bytes.
pub(crate) fn tokens(text: &str) -> usize {
    text.len().div_ceil(BYTES_PER_TOKEN)
}

/// Joins parts in their order. The part that exceeds the limit is cut, between lines if there are some
/// in the half that is cut into, and those behind it are left out.
pub(crate) fn fit(pieces: &[Piece], limit: usize) -> Fitted {
    let mut fitted = Fitted { text: String::new(), kept: Vec::new() };
    let mut left = limit;
    for piece in pieces {
        let heading = match piece.title.as_str() {
            "" => String::new(),
            title => format!("## {title}\n"),
        };
        let whole = format!("{heading}{}", piece.text);
        let part = if piece.newest_last && tokens(&whole) > left {
            let end = cut_start(&piece.text, left.saturating_sub(tokens(&heading)));
            if end.is_empty() { String::new() } else { format!("{heading}{end}") }
        } else {
            cut(&whole, left).to_owned()
        };
        let all = tokens(&whole);
        let kept = tokens(&part);
        left = if kept < all { 0 } else { left - kept };
        if !part.is_empty() {
            if !fitted.text.is_empty() {
                fitted.text.push_str("\n\n");
            }
            fitted.text.push_str(&part);
        }
        let Piece { source, title, .. } = piece.clone();
        fitted.kept.push(Kept { source, title, tokens: all, kept });
    }
    fitted
}

/// Returns the beginning of a text with at most this number of tokens.
fn cut(text: &str, limit: usize) -> &str {
    if tokens(text) <= limit {
        return text;
    }
    let end = text.floor_char_boundary(limit.saturating_mul(BYTES_PER_TOKEN).min(text.len()));
    let start = &text[..end];
    match start.rfind('\n') {
        Some(line) if line >= end / 2 => &start[..line],
        _ => start,
    }
}

/// Returns the end of a text with at most this number of tokens.
fn cut_start(text: &str, limit: usize) -> &str {
    let bytes = limit.saturating_mul(BYTES_PER_TOKEN);
    let start = text.ceil_char_boundary(text.len().saturating_sub(bytes));
    let end = &text[start..];
    match end.find('\n') {
        Some(line) if line < end.len() / 2 => &end[line + 1..],
        _ => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(source: &str, bytes: usize) -> Piece {
        let text = "0123456 é\n".chars().cycle().take(bytes).collect();
        Piece { source: source.to_owned(), title: String::new(), text, newest_last: false }
    }

    #[test]
    fn the_newest_messages_of_a_conversation_are_kept() {
        let lines: Vec<_> = (0..1_000).map(|at| format!("user: message {at}")).collect();
        let title = "Conversation".to_owned();
        let text = lines.join("\n");
        let piece = Piece { source: "history".to_owned(), title, text, newest_last: true };
        for limit in [0, 3, 10, 100, 2_000, 100_000] {
            let Fitted { text, kept } = fit(std::slice::from_ref(&piece), limit);
            assert!(kept[0].kept <= limit, "{limit}: {kept:?}");
            assert!(limit < 10 || text.ends_with("user: message 999"), "{limit}: {text}");
            assert!(limit < 10 || text.starts_with("## Conversation\n"), "{limit}: {text}");
        }
    }

    #[test]
    fn parts_are_kept_in_order_and_add_up() {
        let pieces = [piece("a", 1_000), piece("b", 9_000), piece("c", 40_000), piece("d", 10)];
        for limit in [0, 1, 500, 2_000, 8_000, 100_000] {
            let Fitted { text, kept } = fit(&pieces, limit);
            let used: usize = kept.iter().map(|one| one.kept).sum();
            assert!(used <= limit, "{limit}: {kept:?}");
            assert_eq!(kept.len(), pieces.len());
            let separators = 2 * kept.iter().filter(|one| one.kept > 0).count().saturating_sub(1);
            assert!(text.len() <= used * BYTES_PER_TOKEN + separators, "{limit}");
            // Nothing is kept behind a part that was cut.
            let first_cut = kept.iter().position(|one| one.kept < one.tokens);
            let behind = first_cut.map_or(&[][..], |first| &kept[first + 1..]);
            assert!(behind.iter().all(|one| one.kept == 0), "{limit}: {kept:?}");
        }
    }
}
