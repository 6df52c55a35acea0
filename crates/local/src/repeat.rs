//! Sentences of answers, and their repetitions.

/// Minimum length in bytes of a repeated sentence.
const SENTENCE_MIN: usize = 8;
/// Maximum length in words of a phrase that is compared with the words before it.
const PHRASE_WORDS_MAX: usize = 12;
/// Maximum number of consecutive repetitions of a phrase.
const TIMES_MAX: usize = 3;

/// The position at which to cut an answer whose end is a repetition: a whole sentence, or a phrase
/// repeated several times.
pub(crate) fn cut(bytes: &[u8]) -> Option<usize> {
    let sentences = sentences(bytes);
    let (last, before) = sentences.split_last()?;
    let text = bytes[last.clone()].trim_ascii();
    let again = text.len() >= SENTENCE_MIN
        && ends(text)
        && before.iter().any(|at| bytes[at.clone()].trim_ascii() == text);
    if again {
        return Some(bytes[..last.start].trim_ascii_end().len());
    }
    phrase(bytes)
}

/// The end of the first sentence of an answer, once another one follows.
pub(crate) fn first_sentence(bytes: &[u8]) -> Option<usize> {
    let sentences = sentences(bytes);
    let (_, before) = sentences.split_last()?;
    // A greeting such as `Hello!` is part of the sentence after it.
    let first = before.iter().find(|at| bytes[..at.end].trim_ascii().len() >= SENTENCE_MIN)?;
    Some(first.end)
}

/// Number of bytes at the end of an answer that may still become a repetition.
pub(crate) fn held(bytes: &[u8]) -> usize {
    let sentences = sentences(bytes);
    let Some((last, before)) = sentences.split_last() else { return 0 };
    let text = bytes[last.clone()].trim_ascii();
    let may_become = before.iter().any(|at| bytes[at.clone()].trim_ascii().starts_with(text));
    if may_become { bytes.len() - bytes[..last.start].trim_ascii_end().len() } else { 0 }
}

/// The end of the first occurrence of a phrase that is repeated too often at the end.
fn phrase(bytes: &[u8]) -> Option<usize> {
    let words: Vec<&[u8]> =
        bytes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    (1..=PHRASE_WORDS_MAX).find_map(|length| {
        let start = words.len().checked_sub(length * (TIMES_MAX + 1))?;
        let mut phrases = words[start..].chunks_exact(length);
        let first = phrases.next()?;
        if !phrases.all(|phrase| phrase == first) {
            return None;
        }
        let end = first.last()?.as_ptr_range().end as usize - bytes.as_ptr() as usize;
        Some(end)
    })
}

/// The sentences of an answer; the last one may be incomplete.
fn sentences(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut out = Vec::new();
    let mut start = 0;
    for at in 1..bytes.len() {
        if bytes[at].is_ascii_whitespace() && ends(&bytes[..at]) {
            out.push(start..at);
            start = at;
        }
    }
    if start < bytes.len() {
        out.push(start..bytes.len());
    }
    out
}

fn ends(text: &[u8]) -> bool {
    matches!(text.last(), Some(b'.' | b'!' | b'?'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str) -> Option<&str> {
        cut(text.as_bytes()).map(|at| &text[..at])
    }

    #[test]
    fn a_sentence_that_was_there_before_is_cut() {
        let text = "It is sunny in Oslo. It is 7 degrees. It is sunny in Oslo.";
        assert_eq!(kept(text), Some("It is sunny in Oslo. It is 7 degrees."));
        assert_eq!(kept("It is sunny in Oslo. It is sunny in Rome."), None);
        assert_eq!(kept("Yes. Yes. No."), None, "short ones may come again");
    }

    #[test]
    fn a_phrase_that_follows_itself_again_and_again_is_cut() {
        assert_eq!(kept("the sun and the sun and the sun and the sun and"), Some("the sun and"));
        assert_eq!(kept("no, no, no"), None);
        assert_eq!(kept("ja ja ja ja"), Some("ja"));
    }

    #[test]
    fn the_first_sentence_ends_where_another_begins() {
        let first = |text: &str| first_sentence(text.as_bytes()).map(|at| text[..at].to_owned());
        assert_eq!(first("I am well. How are you"), Some("I am well.".to_owned()));
        assert_eq!(first("Hello! I am well. Are you?"), Some("Hello! I am well.".to_owned()));
        assert_eq!(first("I am well."), None);
        assert_eq!(first("Hello! I am"), None);
    }

    #[test]
    fn what_may_become_a_repetition_is_held_back() {
        assert_eq!(held(b"It is sunny in Oslo. It is"), " It is".len());
        assert_eq!(held(b"It is sunny in Oslo. It was"), 0);
        assert_eq!(held(b"It is sunny"), 0);
    }
}
