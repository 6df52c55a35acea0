//! Keys that are never printed.

use std::fmt;
use std::sync::Arc;

/// A key. Printing it in any way shows `***`; only [`Secret::expose`] gives the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Takes a key as configured; white space around it, a pasted newline say, is dropped.
    /// `None` when nothing is left.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.into()))
    }

    /// The key itself, for the one place that sends it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// A text without the key, should it hold it.
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
