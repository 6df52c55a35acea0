//! Ids derived from what they identify, so that a restored run computes the same ids.

use std::fmt::Display;
use weftwork_types::canonical::first_128;
use weftwork_types::{CheckpointId, InterruptId, TaskId};

/// The id of a task, derived from the checkpoint that its superstep starts from, its node and its
/// path.
#[must_use]
pub fn task_id(
    checkpoint: CheckpointId,
    step: i64,
    node: impl Display,
    path: impl Display,
) -> TaskId {
    TaskId::derived(checkpoint, step, node, path)
}

/// The id of a task's question, derived from the task and the number of its earlier questions.
#[must_use]
pub fn interrupt_id(task: TaskId, index: u32) -> InterruptId {
    InterruptId(first_128(&format!("interrupt\u{0}{task}\u{0}{index}")))
}

/// The name in `known` that is closest to `name`, if it is similar enough to be a suggestion.
#[must_use]
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    known
        .into_iter()
        .map(|k| (edit_distance(name, k), k))
        .filter(|(d, k)| {
            *d < name.chars().count().max(k.chars().count()) && (*d <= 2 || *d * 3 <= k.len())
        })
        .min()
        .map(|(_, k)| k.to_owned())
}

/// A text shortened for an error message.
#[must_use]
pub fn cut(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Levenshtein distance in characters.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, cb) in row.iter_mut().skip(1).zip(&b) {
            let best = (diagonal + usize::from(ca != *cb)).min(left + 1).min(*cell + 1);
            diagonal = std::mem::replace(cell, best);
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_name_is_suggested_and_a_far_one_is_not() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(did_you_mean("mesages", ["log", "messages"]), Some("messages".to_owned()));
        assert_eq!(did_you_mean("zzzzzz", ["log", "messages"]), None);
        assert_eq!(did_you_mean("lgo", ["log"]), Some("log".to_owned()));
        assert_eq!(did_you_mean("zz", ["a", "b"]), None, "nothing of it is alike");
    }

    #[test]
    fn ids_depend_on_everything_they_name() {
        let c = CheckpointId(1);
        let base = task_id(c, 1, "a", "pull");
        assert_eq!(base, task_id(c, 1, "a", "pull"));
        for other in [
            task_id(CheckpointId(2), 1, "a", "pull"),
            task_id(c, 2, "a", "pull"),
            task_id(c, 1, "b", "pull"),
            task_id(c, 1, "a", "push:0"),
        ] {
            assert_ne!(base, other);
        }
        assert_ne!(interrupt_id(base, 0), interrupt_id(base, 1));
    }
}
