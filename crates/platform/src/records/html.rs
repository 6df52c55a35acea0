//! The structure of HTML: its elements are closed in the order in which they were opened.

use super::heading::Heading;

/// Maximum depth of nested elements.
const DEPTH_MAX: usize = 512;
/// Maximum length of the name of an element in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Elements without an end.
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];
/// Elements whose end may be left out.
const OPEN_ENDED: [&str; 19] = [
    "body", "caption", "colgroup", "dd", "dt", "head", "html", "li", "optgroup", "option", "p",
    "rp", "rt", "tbody", "td", "tfoot", "th", "thead", "tr",
];
/// Elements whose content is text.
const TEXTS: [&str; 4] = ["script", "style", "textarea", "title"];

/// A problem of the structure.
#[derive(Debug)]
pub(super) struct HtmlProblem {
    /// Line, from 1.
    pub(super) line: usize,
    /// Requirement.
    pub(super) expected: String,
    /// Content found instead.
    pub(super) found: String,
}

/// An element that is not closed yet.
#[derive(Debug)]
struct Element {
    name: String,
    at: usize,
}

/// Reads a document or a part of one, and returns its headings.
pub(super) fn read(text: &str) -> Result<Vec<Heading>, HtmlProblem> {
    let mut reader = Reader {
        text,
        at: 0,
        open: Vec::new(),
        heading: None,
        headings: Vec::new(),
        counted: Counted { at: 0, line: 1 },
    };
    let mut elements = 0_usize;
    while reader.advance_to_mark() {
        let rest = reader.rest();
        if rest.starts_with("<!--") {
            reader.skip_past("-->", "the end `-->` of the comment")?;
        } else if rest.starts_with("<!") || rest.starts_with("<?") {
            reader.skip_past(">", "the end `>` of the declaration")?;
        } else if let Some(name) = name_of(rest.strip_prefix("</").unwrap_or_default()) {
            let at = reader.at;
            reader.skip_past(">", "the end `>` of the tag")?;
            reader.close(&name, at)?;
        } else if let Some(name) = name_of(rest.strip_prefix('<').unwrap_or_default()) {
            elements += 1;
            reader.open(name)?;
        } else {
            // A mark that opens nothing is text.
            reader.take(1);
        }
    }
    reader.finish()?;
    match elements {
        0 => Err(HtmlProblem {
            line: 1,
            expected: "at least one element".to_owned(),
            found: "text without elements".to_owned(),
        }),
        _ => Ok(reader.headings),
    }
}

/// Returns the name at the beginning of a text, in lower case.
fn name_of(text: &str) -> Option<String> {
    let end = text.find(|c: char| c.is_whitespace() || matches!(c, '>' | '/' | '<'));
    let name = text.get(..end.unwrap_or(text.len()))?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic());
    (is_name && name.len() <= NAME_BYTES_MAX).then(|| name.to_ascii_lowercase())
}

/// A place up to which lines were counted.
struct Counted {
    at: usize,
    line: usize,
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    open: Vec<Element>,
    /// Start and text of the heading that is being read.
    heading: Option<(usize, String)>,
    headings: Vec<Heading>,
    counted: Counted,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn line(&self, at: usize) -> usize {
        self.text.get(..at).unwrap_or_default().matches('\n').count() + 1
    }

    fn problem(&self, at: usize, expected: String, found: String) -> HtmlProblem {
        HtmlProblem { line: self.line(at), expected, found }
    }

    /// Takes text, which may be that of a heading.
    fn take(&mut self, bytes: usize) {
        let taken = self.rest().get(..bytes).unwrap_or_default();
        if let Some((_, text)) = &mut self.heading {
            text.push_str(taken);
        }
        self.at += bytes;
    }

    fn advance_to_mark(&mut self) -> bool {
        let rest = self.rest();
        let found = rest.find('<');
        self.take(found.unwrap_or(rest.len()));
        found.is_some()
    }

    fn skip_past(&mut self, end: &str, expected: &str) -> Result<(), HtmlProblem> {
        let missing =
            || self.problem(self.at, expected.to_owned(), "the end of the text".to_owned());
        let found = self.rest().find(end).ok_or_else(missing)?;
        self.at += found + end.len();
        Ok(())
    }

    fn open(&mut self, name: String) -> Result<(), HtmlProblem> {
        let at = self.at;
        let missing = || {
            let expected = format!("the end `>` of the tag `<{name}`");
            self.problem(at, expected, "the end of the text".to_owned())
        };
        let length = tag_length(self.rest()).ok_or_else(missing)?;
        let is_closed = self.rest().get(..length).is_some_and(|tag| tag.ends_with("/>"));
        self.at += length;
        if is_closed || VOID.contains(&name.as_str()) {
            return Ok(());
        }
        if TEXTS.contains(&name.as_str()) {
            return self.skip_text(&name, at);
        }
        if self.open.len() >= DEPTH_MAX {
            let expected = format!("at most {DEPTH_MAX} nested elements");
            return Err(self.problem(at, expected, "more".to_owned()));
        }
        if is_heading(&name) {
            self.heading = Some((at, String::new()));
        }
        self.open.push(Element { name, at });
        Ok(())
    }

    /// Skips the content and the end of an element whose content is text.
    fn skip_text(&mut self, name: &str, at: usize) -> Result<(), HtmlProblem> {
        let is_end = |rest: &str| name_of(rest).is_some_and(|found| found == name);
        let end = self
            .rest()
            .match_indices("</")
            .find(|(place, mark)| self.rest().get(place + mark.len()..).is_some_and(is_end));
        let Some((end, _)) = end else {
            let found = "the end of the text".to_owned();
            return Err(self.problem(at, format!("`</{name}>`"), found));
        };
        self.at += end;
        self.skip_past(">", "the end `>` of the tag")
    }

    fn close(&mut self, name: &str, at: usize) -> Result<(), HtmlProblem> {
        if !self.open.iter().any(|element| element.name == name) {
            let expected = format!("`<{name}>` before it");
            return Err(self.problem(at, expected, format!("`</{name}>`")));
        }
        while let Some(element) = self.open.pop() {
            if element.name == name {
                break;
            }
            if !OPEN_ENDED.contains(&element.name.as_str()) {
                let line = self.line(element.at);
                let expected = format!("`</{0}>` for the `<{0}>` of line {line}", element.name);
                return Err(self.problem(at, expected, format!("`</{name}>`")));
            }
        }
        if is_heading(name)
            && let Some((at, text)) = self.heading.take()
        {
            // Headings follow each other, so that the lines before them are counted once.
            let between = self.text.get(self.counted.at..at).unwrap_or_default();
            let line = self.counted.line + between.matches('\n').count();
            self.counted = Counted { at, line };
            self.headings.push(Heading::new(line, &unescaped(&text)));
        }
        Ok(())
    }

    fn finish(&self) -> Result<(), HtmlProblem> {
        let is_needed = |element: &&Element| !OPEN_ENDED.contains(&element.name.as_str());
        match self.open.iter().rev().find(is_needed) {
            Some(element) => Err(self.problem(
                element.at,
                format!("`</{}>`", element.name),
                "the end of the text".to_owned(),
            )),
            None => Ok(()),
        }
    }
}

fn is_heading(name: &str) -> bool {
    matches!(name, "h1" | "h2" | "h3" | "h4" | "h5" | "h6")
}

/// Returns the length of the tag at the beginning of a text. A mark within quotes does not end it.
fn tag_length(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) if open == c => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None if c == '>' => return Some(at + 1),
            None => {}
        }
    }
    None
}

/// Replaces the entities that headings have most.
fn unescaped(text: &str) -> String {
    let entities = [
        ("&nbsp;", " "),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ];
    entities.iter().fold(text.to_owned(), |text, (entity, c)| text.replace(entity, c))
}
