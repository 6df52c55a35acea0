//! Words of a user's request, for rules and for the choice of examples.

/// Stop words, which do not indicate a tool.
const EMPTY: [&str; 42] = [
    "a", "also", "am", "an", "and", "are", "as", "at", "be", "by", "can", "could", "do", "for",
    "from", "have", "i", "in", "is", "it", "me", "my", "need", "of", "on", "or", "please", "that",
    "the", "then", "this", "to", "was", "want", "we", "what", "which", "will", "with", "would",
    "you", "your",
];

/// The words of a text, without surrounding punctuation.
pub(crate) fn split(text: &str) -> Vec<&str> {
    text.split_whitespace().map(bare).filter(|word| !word.is_empty()).collect()
}

/// A word without surrounding punctuation. A minus sign before a number stays, and a multiplication
/// sign becomes a word.
fn bare(word: &str) -> &str {
    let inner = word.trim_matches(|c: char| !c.is_alphanumeric());
    if inner.is_empty() {
        return if matches!(word, "*" | "×") { "times" } else { "" };
    }
    let before = word.find(inner).unwrap_or_default();
    let signed = inner.starts_with(|c: char| c.is_ascii_digit()) && word[..before].ends_with('-');
    if signed { &word[before - 1..before + inner.len()] } else { inner }
}

/// The distinct stems of the words that are not stop words or values.
pub(crate) fn stems(text: &str) -> Vec<String> {
    let mut stems = Vec::new();
    for word in split(text) {
        let lower = word.to_lowercase();
        let stem = stem(&lower);
        if !EMPTY.contains(&lower.as_str()) && !is_value(word) && !stems.contains(&stem) {
            stems.push(stem);
        }
    }
    stems
}

/// A word without its ending: "refund", "refunds" and "refunded" have the same stem.
pub(crate) fn stem(word: &str) -> String {
    let word = word.to_lowercase();
    // In a product, as in "6 times 7", it is no form of "time".
    if word == "times" {
        return word;
    }
    let word = word.strip_suffix("'s").or(word.strip_suffix("’s")).unwrap_or(&word);
    let shorter = [("ing", 6), ("ed", 5), ("es", 5), ("s", 4), ("e", 4)]
        .iter()
        .find_map(|(ending, length)| word.strip_suffix(ending).filter(|_| word.len() >= *length));
    let base = shorter.filter(|base| !base.ends_with('s')).unwrap_or(word);
    match base.strip_suffix('y') {
        Some(front) => format!("{front}i"),
        None => base.strip_suffix('e').unwrap_or(base).to_owned(),
    }
}

/// Returns `true` if a word is a value: it contains a digit.
pub(crate) fn is_value(word: &str) -> bool {
    word.contains(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn punctuation_falls_off_and_values_stay_whole() {
        assert_eq!(
            split("Where's order “A1001”? It's -5.50, (really) 6 * 7!"),
            ["Where's", "order", "A1001", "It's", "-5.50", "really", "6", "times", "7"]
        );
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for forms in [
            ["refund", "refunds", "refunded"],
            ["multiply", "multiplied", "multiplies"],
            ["order", "orders", "ordering"],
        ] {
            assert!(forms.iter().all(|form| stem(form) == stem(forms[0])), "{forms:?}");
        }
        assert_ne!(stems("What is 6 times 7?"), stems("What time is it?"));
    }

    #[test]
    fn only_words_that_say_something_have_stems() {
        assert_eq!(stems("Please refund the order A1001, it is my order"), ["refund", "order"]);
    }
}
