//! Headings and placeholders of texts.

/// Maximum length of the name of a placeholder in bytes.
const NAME_BYTES_MAX: usize = 100;

/// A heading of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Heading {
    /// Line, from 1.
    pub(super) line: usize,
    /// Text, without marks of the format.
    pub(super) text: String,
    /// Text for comparisons: without emphasis, in lower case.
    compared: String,
}

impl Heading {
    pub(super) fn new(line: usize, text: &str) -> Self {
        Self { line, text: text.trim().to_owned(), compared: normalized(text) }
    }
}

/// A heading that a text must have. A placeholder in it stands for any text.
#[derive(Debug)]
pub(super) struct Pattern {
    /// The heading as declared.
    pub(super) text: String,
    /// The fixed parts of the text for comparisons; between them is a placeholder.
    parts: Vec<String>,
}

impl Pattern {
    pub(super) fn of_heading(heading: &Heading) -> Self {
        let mut parts = vec![];
        let mut rest = heading.compared.as_str();
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((_, after)) = after.split_once("}}") else { break };
            parts.push(before.to_owned());
            rest = after;
        }
        parts.push(rest.to_owned());
        Self { text: heading.text.clone(), parts }
    }

    pub(super) fn of_text(text: &str) -> Self {
        let text = text.trim_start_matches('#');
        Self { text: text.trim().to_owned(), parts: vec![normalized(text)] }
    }

    /// Returns `true` if a heading has the fixed parts in their order, with a text in each place of
    /// a placeholder.
    pub(super) fn fits(&self, heading: &Heading) -> bool {
        let found = heading.compared.as_str();
        let [first, between @ .., last] = self.parts.as_slice() else {
            return self.parts.first().is_none_or(|text| text == found);
        };
        let Some(mut rest) = found.strip_prefix(first.as_str()) else { return false };
        for part in between {
            let after_one = rest.char_indices().nth(1).map_or(rest.len(), |(at, _)| at);
            let place = rest.get(after_one..).and_then(|rest| rest.find(part.as_str()));
            let Some(place) = place else { return false };
            rest = rest.get(after_one + place + part.len()..).unwrap_or_default();
        }
        rest.len() > last.len() && rest.ends_with(last.as_str())
    }
}

fn normalized(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !matches!(c, '*' | '`')).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// A fence of a block of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    /// Returns the fence that a line is, without what follows it.
    fn of(line: &str) -> Option<Self> {
        let text = unindented(line)?;
        let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let length = text.chars().take_while(|c| *c == mark).count();
        // Code within a line may begin it.
        let is_code = mark == '`' && text.trim_start_matches('`').contains('`');
        (length >= 3 && !is_code).then_some(Self { mark, length })
    }

    fn is_closed_by(self, line: &str) -> bool {
        let closing = Self::of(line).filter(|closing| closing.mark == self.mark);
        let rest = line.trim().trim_matches(self.mark);
        closing.is_some_and(|closing| closing.length >= self.length) && rest.is_empty()
    }
}

/// Returns the text of a line that is indented by less than four spaces.
fn unindented(line: &str) -> Option<&str> {
    let text = line.trim_start_matches(' ');
    (line.len() - text.len() < 4).then_some(text)
}

/// Returns the lines of a Markdown text that are no code, with their numbers.
fn lines_of_text(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut open: Option<Fence> = None;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if let Some(fence) = open {
            if fence.is_closed_by(line) {
                open = None;
            }
            return None;
        }
        open = Fence::of(line);
        open.is_none().then_some((index + 1, line))
    })
}

/// Returns the headings of a Markdown text.
pub(super) fn markdown_headings(text: &str) -> Vec<Heading> {
    let mut headings = Vec::new();
    let mut paragraph: Option<(usize, &str)> = None;
    for (number, line) in lines_of_text(text) {
        let Some(line) = unindented(line) else { continue };
        let content = line.trim();
        let marks = content.chars().take_while(|c| *c == '#').count();
        let after = content.trim_start_matches('#');
        if (1..=6).contains(&marks) && (after.is_empty() || after.starts_with([' ', '\t'])) {
            headings.push(Heading::new(number, without_closing_marks(after.trim())));
            paragraph = None;
            continue;
        }
        let is_underline = |mark| !content.is_empty() && content.chars().all(|c| c == mark);
        if let Some((at, before)) = paragraph.filter(|(at, _)| at + 1 == number)
            && (is_underline('=') || is_underline('-'))
        {
            headings.push(Heading::new(at, before));
            paragraph = None;
            continue;
        }
        let is_block = content.is_empty() || content.starts_with(['>', '-', '+', '|']);
        paragraph = (!is_block).then_some((number, content));
    }
    headings
}

/// Returns the text of a heading without the marks that may close it.
fn without_closing_marks(text: &str) -> &str {
    let opened = text.trim_end_matches('#');
    if opened.is_empty() || opened.ends_with([' ', '\t']) { opened.trim_end() } else { text }
}

/// A placeholder in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placeholder {
    /// Name, without white space at its ends.
    pub(super) name: String,
    /// Line, from 1.
    pub(super) line: usize,
}

/// Returns the placeholders of a text.
pub(super) fn placeholders(text: &str) -> impl Iterator<Item = Placeholder> {
    text.lines().enumerate().flat_map(|(index, line)| placeholders_of_line(index + 1, line))
}

/// Returns the placeholders of a text that are in no block of code.
pub(super) fn placeholders_of_text(text: &str) -> impl Iterator<Item = Placeholder> {
    lines_of_text(text).flat_map(|(number, line)| placeholders_of_line(number, line))
}

fn placeholders_of_line(line: usize, text: &str) -> impl Iterator<Item = Placeholder> {
    text.split("{{").skip(1).filter_map(move |part| {
        let name = part.split_once("}}")?.0.trim();
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ');
        let is_one = !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(is_name);
        is_one.then(|| Placeholder { name: name.to_owned(), line })
    })
}
