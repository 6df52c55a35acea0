//! A parser for the parts of Markdown that the checks read: fenced blocks and tables.

/// A fenced code block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fence<'a> {
    /// Line of the opening fence, from 1.
    pub(crate) line: usize,
    /// The text after the opening backticks, such as `sh run`.
    pub(crate) info: &'a str,
    /// The lines between the fences.
    pub(crate) body: Vec<&'a str>,
}

/// Returns the fenced blocks of a document in order. An unclosed block extends to the end.
pub(crate) fn fences(text: &str) -> Vec<Fence<'_>> {
    fences_in(text.lines().enumerate().map(|(index, line)| (index + 1, line)))
}

/// Returns the fenced blocks in numbered lines, such as those of a doc comment.
pub(crate) fn fences_in<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Fence<'a>> {
    let mut found = Vec::new();
    let mut open: Option<(Fence<'a>, &'a str)> = None;
    for (number, line) in lines {
        let trimmed = line.trim_start();
        match &mut open {
            None => {
                if let Some(marker) = marker(trimmed) {
                    let info = trimmed.trim_start_matches(['`', '~']).trim();
                    open = Some((Fence { line: number, info, body: Vec::new() }, marker));
                }
            }
            Some((fence, marker)) => {
                let closes = trimmed.starts_with(*marker)
                    && trimmed.trim_end().chars().all(|c| marker.starts_with(c));
                if closes {
                    found.extend(open.take().map(|(fence, _)| fence));
                } else {
                    fence.body.push(line);
                }
            }
        }
    }
    found.extend(open.map(|(fence, _)| fence));
    found
}

/// The run of at least three backticks or tildes at the start of `line`.
fn marker(line: &str) -> Option<&str> {
    let first = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = line.chars().take_while(|c| *c == first).count();
    (length >= 3).then(|| &line[..length])
}

/// A table: its rows of trimmed cells, header first, with their line numbers from 1.
pub(crate) type Table<'a> = Vec<(usize, Vec<&'a str>)>;

/// Returns the tables of a document in order, without the rulers under the headers.
pub(crate) fn tables(text: &str) -> Vec<Table<'_>> {
    let mut found: Vec<Table<'_>> = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let row = line.strip_prefix('|').and_then(|rest| rest.strip_suffix('|'));
        let Some(row) = row else {
            inside = false;
            continue;
        };
        if !inside {
            found.push(Vec::new());
            inside = true;
        }
        let is_ruler = row.chars().all(|c| matches!(c, '-' | ':' | '|' | ' '));
        if let (false, Some(table)) = (is_ruler, found.last_mut()) {
            table.push((index + 1, row.split('|').map(str::trim).collect()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{fences, tables};

    #[test]
    fn finds_blocks_with_their_info_and_body() {
        let text = "a\n```sh run\nmake demo\n```\nb\n  ~~~\n```\n~~~\n";
        let found = fences(text);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].line, found[0].info), (2, "sh run"));
        assert_eq!(found[0].body, ["make demo"]);
        assert_eq!(found[1].body, ["```"]);
    }

    #[test]
    fn a_longer_fence_holds_a_shorter_one() {
        let found = fences("````md\n```sh\nx\n```\n````\n");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].body, ["```sh", "x", "```"]);
    }

    #[test]
    fn an_open_block_runs_to_the_end() {
        assert_eq!(fences("```\nx")[0].body, ["x"]);
    }

    #[test]
    fn finds_tables_with_line_numbers_and_without_rulers() {
        let text = "x\n| a | b |\n|---|:-:|\n| 1 | 2 |\n\n| c |\n";
        let found = tables(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], [(2, vec!["a", "b"]), (4, vec!["1", "2"])]);
        assert_eq!(found[1], [(6, vec!["c"])]);
    }
}
