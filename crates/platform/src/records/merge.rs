//! Three-way merges of contents.

use super::json_merge::merge_json;
use super::version::ContentFormat;
use serde::Serialize;
use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::fmt;

/// Maximum number of lines, of both texts, in the part in which they differ that are compared line
/// by line. A larger part counts as changed as a whole.
const COMPARED_LINES_MAX: usize = 20_000;

/// A part that both versions changed in different ways.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MergeConflict {
    /// Place of the part.
    #[serde(flatten)]
    pub location: ConflictLocation,
    /// The part in the version from which both come; `None` if it has no such part.
    pub base: Option<String>,
    /// The part in the first version; `None` if it was deleted there.
    pub a: Option<String>,
    /// The part in the second version; `None` if it was deleted there.
    pub b: Option<String>,
}

/// The place of a conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ConflictLocation {
    /// Lines of the version from which both come.
    Lines {
        /// First line, from 1.
        first: usize,
        /// Last line. One less than the first one if lines were added before it.
        last: usize,
    },
    /// A JSON pointer.
    Path(String),
}

impl fmt::Display for ConflictLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lines { first, last } if last < first => {
                write!(f, "the text before line {first}")
            }
            Self::Lines { first, last } if last == first => write!(f, "line {first}"),
            Self::Lines { first, last } => write!(f, "lines {first} to {last}"),
            Self::Path(path) if path.is_empty() => f.write_str("the whole value"),
            Self::Path(path) => write!(f, "`{path}`"),
        }
    }
}

/// Merges two contents that come from a third one. Texts are merged by lines, JSON by members.
/// A content that did not change, or changed in the same way, gives the other one unchanged.
///
/// ```
/// use weftwork_platform::records::{ContentFormat, merge_contents};
///
/// let base = Some("one\ntwo\nthree\n");
/// let merged =
///     merge_contents(ContentFormat::Markdown, base, "ONE\ntwo\nthree\n", "one\ntwo\nTHREE\n");
/// assert_eq!(merged.as_deref(), Ok("ONE\ntwo\nTHREE\n"));
/// ```
///
/// # Errors
/// The parts that both changed in different ways.
pub fn merge_contents(
    format: ContentFormat,
    base: Option<&str>,
    a: &str,
    b: &str,
) -> Result<String, Vec<MergeConflict>> {
    if a == b || base == Some(b) {
        return Ok(a.to_owned());
    }
    if base == Some(a) {
        return Ok(b.to_owned());
    }
    match format {
        ContentFormat::Json => merge_json(base, a, b),
        _ => merge_lines(base.unwrap_or_default(), a, b),
    }
}

/// A position in the three texts, in lines.
#[derive(Clone, Copy)]
struct Position {
    base: usize,
    a: usize,
    b: usize,
}

fn merge_lines(base: &str, a: &str, b: &str) -> Result<String, Vec<MergeConflict>> {
    let base: Vec<&str> = base.split_inclusive('\n').collect();
    let a: Vec<&str> = a.split_inclusive('\n').collect();
    let b: Vec<&str> = b.split_inclusive('\n').collect();
    let in_a = matches(&base, &a);
    let in_b = matches(&base, &b);
    let end = Position { base: base.len(), a: a.len(), b: b.len() };
    let mut at = Position { base: 0, a: 0, b: 0 };
    let mut merged = String::new();
    let mut conflicts = Vec::new();
    loop {
        // Lines that are the same in all three texts.
        while at.base < end.base && in_a[at.base] == Some(at.a) && in_b[at.base] == Some(at.b) {
            merged.push_str(base[at.base]);
            at = Position { base: at.base + 1, a: at.a + 1, b: at.b + 1 };
        }
        if at.base == end.base && at.a == end.a && at.b == end.b {
            break;
        }
        // Up to the next one of them, a text was changed.
        let common = (at.base..end.base)
            .find_map(|base| Some(Position { base, a: in_a[base]?, b: in_b[base]? }));
        let next = common.unwrap_or(end);
        let of_base = base[at.base..next.base].concat();
        let of_a = a[at.a..next.a].concat();
        let of_b = b[at.b..next.b].concat();
        if of_a == of_b || of_b == of_base {
            merged.push_str(&of_a);
        } else if of_a == of_base {
            merged.push_str(&of_b);
        } else {
            conflicts.push(MergeConflict {
                location: ConflictLocation::Lines { first: at.base + 1, last: next.base },
                base: some_text(of_base),
                a: some_text(of_a),
                b: some_text(of_b),
            });
        }
        at = next;
    }
    if conflicts.is_empty() { Ok(merged) } else { Err(conflicts) }
}

fn some_text(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// Returns for each line of a text the number of the same line in a changed text, in ascending
/// order.
fn matches(base: &[&str], changed: &[&str]) -> Vec<Option<usize>> {
    let is_same = |(a, b): &(&&str, &&str)| a == b;
    let before = base.iter().zip(changed).take_while(is_same).count();
    let rest = base.len().min(changed.len()) - before;
    let ends = base.iter().rev().zip(changed.iter().rev()).take(rest);
    let after = ends.take_while(is_same).count();
    let mut found = vec![None; base.len()];
    for (line, place) in found.iter_mut().take(before).enumerate() {
        *place = Some(line);
    }
    for (line, place) in found.iter_mut().rev().take(after).enumerate() {
        *place = Some(changed.len() - 1 - line);
    }
    let base = &base[before..base.len() - after];
    let changed = &changed[before..changed.len() - after];
    if base.len() + changed.len() > COMPARED_LINES_MAX {
        return found;
    }
    for op in capture_diff_slices(Algorithm::Myers, base, changed) {
        if let DiffOp::Equal { old_index, new_index, len } = op {
            for line in 0..len {
                found[before + old_index + line] = Some(before + new_index + line);
            }
        }
    }
    found
}
