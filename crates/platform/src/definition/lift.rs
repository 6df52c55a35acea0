//! Members of the key `yaml`, which are those of the definition.

use super::problem::{Location, Problem, ProblemKind};
use super::schema::describe;
use super::yaml::{Content, Entry, Node};
use serde_json::Value as Json;

/// Moves the members of `yaml` to the top level, and leaves out keys without a value.
///
/// # Errors
/// Keys that stand in both places, and the problems of a text.
pub(super) fn lift_members(node: Node, text: &str) -> Result<Node, Vec<Problem>> {
    let Content::Mapping(entries) = node.content else { return Ok(node) };
    let (of_yaml, mut members): (Vec<Entry>, Vec<Entry>) =
        entries.into_iter().partition(|entry| entry.key == "yaml");
    let mut problems = Vec::new();
    for entry in of_yaml {
        for lifted in members_of(entry.node, text)? {
            match members.iter().find(|member| member.key == lifted.key) {
                Some(first) => problems.push(
                    Problem::new(ProblemKind::Twice, lifted.location)
                        .path(format!("yaml.{}", lifted.key))
                        .expected("the key at the top level or in `yaml`, and not in both")
                        .other("", first.location),
                ),
                None => members.push(lifted),
            }
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    members.retain(|entry| entry.node.content != Content::Scalar(Json::Null));
    Ok(Node { location: node.location, content: Content::Mapping(members) })
}

/// Returns the members of the key's value: a mapping, or a text of one.
fn members_of(node: Node, text: &str) -> Result<Vec<Entry>, Vec<Problem>> {
    let refusal = |node: &Node, location| {
        let expected = "a mapping, or the text of one";
        vec![
            Problem::new(ProblemKind::WrongType, location)
                .path("yaml")
                .found(describe(node))
                .expected(expected),
        ]
    };
    match node.content {
        Content::Mapping(members) => Ok(members),
        Content::Scalar(Json::String(inner)) => {
            let lines = Lines::of(text, node.location, &inner);
            let read = Node::read(&inner).map_err(|mut problem| {
                problem.location = lines.outer(problem.location);
                vec![problem.path("yaml")]
            })?;
            let mut read = read;
            lines.move_places(&mut read);
            match read.content {
                Content::Mapping(members) => Ok(members),
                Content::Scalar(Json::Null) => Ok(Vec::new()),
                _ => Err(refusal(&read, node.location)),
            }
        }
        Content::Scalar(Json::Null) => Ok(Vec::new()),
        _ => Err(refusal(&node, node.location)),
    }
}

/// The location of an inner text in its document: that of its first line if it is a block, and else
/// only that of the text.
struct Lines {
    start: Location,
    /// Spaces before each line of a block; `None` for a text of another style.
    indent: Option<u64>,
}

impl Lines {
    fn of(text: &str, location: Location, inner: &str) -> Self {
        let first = usize::try_from(location.line).unwrap_or(usize::MAX).saturating_sub(1);
        let blank = inner.lines().take_while(|line| line.trim().is_empty()).count();
        // The location of a block is that of its first line with a text, or of its mark.
        let found = [first.saturating_sub(blank), first + 1].into_iter().find_map(|number| {
            let indent = indent_of_block(text.lines().skip(number), inner)?;
            Some(Self {
                start: Location { line: number as u64 + 1, column: 1 },
                indent: Some(indent),
            })
        });
        found.unwrap_or(Self { start: location, indent: None })
    }

    /// Returns the location in the document of a location in the inner text.
    fn outer(&self, inner: Location) -> Location {
        match self.indent {
            Some(indent) => {
                Location { line: self.start.line + inner.line - 1, column: inner.column + indent }
            }
            None => self.start,
        }
    }

    fn move_places(&self, node: &mut Node) {
        node.location = self.outer(node.location);
        match &mut node.content {
            Content::Scalar(_) => {}
            Content::List(nodes) => nodes.iter_mut().for_each(|node| self.move_places(node)),
            Content::Mapping(entries) => {
                for entry in entries {
                    entry.location = self.outer(entry.location);
                    self.move_places(&mut entry.node);
                }
            }
        }
    }
}

/// Returns the number of spaces before the lines of an inner text, if the outer lines are the same
/// but for them. Those of a folded text are not.
fn indent_of_block<'a>(mut outer: impl Iterator<Item = &'a str>, inner: &str) -> Option<u64> {
    let mut indent = None;
    for line in inner.lines() {
        let of_line = outer.next()?;
        if line.trim().is_empty() && of_line.trim().is_empty() {
            continue;
        }
        let spaces = of_line.strip_suffix(line)?;
        let is_block = spaces.chars().all(|c| c == ' ');
        let count = spaces.len() as u64;
        if !is_block || *indent.get_or_insert(count) != count {
            return None;
        }
    }
    indent
}
