//! Texts as words of a shell, in commands that people copy.

use std::borrow::Cow;
use weftwork::types::ThreadId;

/// Returns the id of a thread as one word of a shell.
pub fn quote_thread(id: &ThreadId) -> Cow<'_, str> {
    quote_word(id.as_str())
}

/// Returns a text as one word of a shell: quoted if it has characters that a shell reads.
pub fn quote_word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.:/@%+=,".contains(c);
    if text.chars().all(is_plain) && !text.starts_with('-') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use weftwork::types::ThreadId;

    #[test]
    fn ids_with_characters_of_shells_are_quoted() {
        for (id, word) in [
            ("lamp", "lamp"),
            ("19:a@thread.v2", "19:a@thread.v2"),
            ("order 7", "'order 7'"),
            ("call|fc", "'call|fc'"),
            ("Ada's", r"'Ada'\''s'"),
            ("-x", "'-x'"),
        ] {
            assert_eq!(super::quote_thread(&ThreadId::new(id).expect("an id")), word);
        }
    }
}
