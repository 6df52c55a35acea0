//! API keys that are never printed.

use std::fmt;
use std::sync::Arc;

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

    /// Replaces occurrences of the key in a text.
    pub(crate) fn hide_in(&self, text: &str) -> String {
        text.replace(&*self.0, "***")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
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
        assert_eq!(Secret::new(" \n"), None);
    }
}
