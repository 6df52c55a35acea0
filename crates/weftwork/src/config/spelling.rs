//! Guessing what somebody meant.

/// The name most like `found`, when one is like it at all.
#[must_use]
pub fn nearest<'a>(found: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let found = found.to_lowercase();
    let (distance, name) =
        names.map(|name| (distance(&found, &name.to_lowercase()), name)).min()?;
    // Two letters that changed places count as two that are wrong.
    let wrong_max = match found.chars().count() {
        0..=3 => 1,
        4..=8 => 2,
        longer => longer / 3,
    };
    (distance <= wrong_max).then_some(name)
}

/// How many letters have to be put in, taken out or changed to make one word of the other.
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
    fn a_slip_finds_its_word_and_another_word_finds_nothing() {
        let names = || ["model", "store", "egress"].into_iter();
        assert_eq!(nearest("modle", names()), Some("model"));
        assert_eq!(nearest("Stor", names()), Some("store"));
        assert_eq!(nearest("temperature", names()), None);
        assert_eq!(nearest("x", std::iter::empty()), None);
    }
}
