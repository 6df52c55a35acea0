//! API keys that are never printed.

use std::fmt;
use std::sync::Arc;

/// The text in place of a key.
const HIDDEN: &str = "***";
/// Number of characters at the beginning or the end of a key that identify it.
const SHARED_CHARS: usize = 4;

/// Returns `true` for characters that are not part of keys.
fn is_separator(letter: char) -> bool {
    letter.is_whitespace() || "\"'`()[]{}<>,;:=".contains(letter)
}

/// An API key. All formatting shows `***`; only [`Secret::expose`] returns the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Creates a key from a configured text, without surrounding white space such as a pasted
    /// newline. Returns `None` if nothing is left.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.into()))
    }

    /// The key itself, for the request that sends it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Replaces occurrences of the key in a text, and words that begin or end as the key does:
    /// providers quote keys with their middle masked.
    pub(crate) fn hide_in(&self, text: &str) -> String {
        let mut hidden = String::with_capacity(text.len());
        for piece in text.replace(&*self.0, HIDDEN).split_inclusive(is_separator) {
            let word = piece.trim_end_matches(is_separator);
            let end = &piece[word.len()..];
            hidden.push_str(if self.resembles(word) { HIDDEN } else { word });
            hidden.push_str(end);
        }
        hidden
    }

    /// Returns `true` if a word has the beginning or the end of the key.
    fn resembles(&self, word: &str) -> bool {
        let word = word.trim_end_matches(['.', '!', '?']);
        let same = |pairs: &mut dyn Iterator<Item = (char, char)>| {
            pairs.take_while(|(left, right)| left == right).count() >= SHARED_CHARS
        };
        same(&mut word.chars().zip(self.0.chars()))
            || same(&mut word.chars().rev().zip(self.0.chars().rev()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_printed() {
        let key = Secret::new(" sk-hunter2\n").expect("a key");
        assert_eq!(key.expose(), "sk-hunter2");
        assert_eq!(format!("{key} {key:?} {:?}", Some(&key)), "*** *** Some(***)");
        assert_eq!(key.hide_in("bad key sk-hunter2!"), "bad key ***!");
        for masked in ["sk-h***", "****ter2", "sk-hu…r2", "sk-h****ter2"] {
            let text = format!("key:\"{masked}\" ({masked}) is no key; sk- ter {masked}.");
            assert_eq!(key.hide_in(&text), "key:\"***\" (***) is no key; sk- ter ***");
        }
        assert_eq!(Secret::new(" \n"), None);
    }
}
