//! Suggestions for misspelled names.

/// Returns the name most similar to `found`, or `None` if none is similar enough.
#[must_use]
pub fn nearest<'a>(found: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let found = found.to_lowercase();
    let (distance, name) =
        names.map(|name| (distance(&found, &name.to_lowercase()), name)).min()?;
    // Two transposed letters count as two errors.
    let wrong_max = match found.chars().count() {
        0..=3 => 1,
        4..=8 => 2,
        longer => longer / 3,
    };
    (distance <= wrong_max).then_some(name)
}

/// The Levenshtein distance of two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_misspelling_finds_its_word_and_another_word_finds_nothing() {
        let names = || ["model", "store", "egress"].into_iter();
        assert_eq!(nearest("modle", names()), Some("model"));
        assert_eq!(nearest("Stor", names()), Some("store"));
        assert_eq!(nearest("temperature", names()), None);
        assert_eq!(nearest("x", std::iter::empty()), None);
    }
}
