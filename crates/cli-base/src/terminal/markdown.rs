//! Incremental conversion of Markdown to terminal text: bold, code, lists, headings, fences. All
//! other text is passed through unchanged.

use super::PLAIN_AGAIN;

const BOLD: &str = "\x1b[1m";
const CODE: &str = "\x1b[36m";
const FENCE: &str = "```";

/// A converter from streamed Markdown to terminal text. Without colours, text is unchanged, and is
/// interpreted only to find fences.
#[derive(Debug, Default)]
pub(crate) struct Markdown {
    colour: bool,
    /// Text whose meaning is not known yet: the start of a line, or a sequence of marks.
    held: String,
    /// `true` after the start of the line has been interpreted.
    inside_line: bool,
    bold: bool,
    code: bool,
    heading: bool,
    fenced: bool,
}

impl Markdown {
    pub(crate) fn new(colour: bool) -> Self {
        Self { colour, ..Self::default() }
    }

    /// Adds text and returns the output that is complete.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let mut out = String::new();
        for letter in piece.chars() {
            self.add_letter(letter, &mut out);
        }
        if self.colour { out } else { piece.to_owned() }
    }

    /// Returns `true` between fences, and at the beginning of a line with a fence.
    pub(crate) fn is_code(&self) -> bool {
        let start = self.held.trim_start_matches(' ');
        self.fenced || !self.inside_line && start.starts_with(FENCE)
    }

    /// Returns the remaining output and closes open styles.
    pub(crate) fn end(&mut self) -> String {
        let mut out = String::new();
        if self.colour {
            self.write_held(&mut out);
            self.close_styles(&mut out);
        }
        *self = Self::new(self.colour);
        out
    }

    fn add_letter(&mut self, letter: char, out: &mut String) {
        if letter == '\n' {
            return self.line_end(out);
        }
        if !self.inside_line {
            self.held.push(letter);
            if !self.may_become_mark() {
                self.begin_line(out);
            }
            return;
        }
        if self.fenced {
            out.push(letter);
        } else if matches!(letter, '*' | '`') && self.held.chars().all(|held| held == letter) {
            self.held.push(letter);
        } else {
            self.write_held(out);
            match letter {
                '*' | '`' => self.held.push(letter),
                other => out.push(other),
            }
        }
    }

    /// Returns `true` while the start of a line may still become a mark.
    fn may_become_mark(&self) -> bool {
        let start = self.held.trim_start_matches(' ');
        let marks = ["- ", "* ", "+ "].iter().any(|mark| mark.starts_with(start));
        let fence = FENCE.starts_with(start) || start.starts_with(FENCE);
        fence || !self.fenced && (marks || start.chars().all(|letter| letter == '#'))
    }

    fn begin_line(&mut self, out: &mut String) {
        let held = std::mem::take(&mut self.held);
        self.inside_line = true;
        let start = held.trim_start_matches(' ');
        let indent = &held[..held.len() - start.len()];
        if self.fenced {
            out.push_str(&held);
            return;
        }
        if let Some(rest) = ["- ", "* ", "+ "].iter().find_map(|mark| start.strip_prefix(mark)) {
            out.push_str(&format!("{indent}• "));
            return rest.chars().for_each(|letter| self.add_letter(letter, out));
        }
        let marks = start.len() - start.trim_start_matches('#').len();
        if marks > 0 && start[marks..].starts_with(' ') {
            self.heading = true;
            out.push_str(BOLD);
            return start[marks + 1..].chars().for_each(|letter| self.add_letter(letter, out));
        }
        out.push_str(indent);
        start.chars().for_each(|letter| self.add_letter(letter, out));
    }

    fn line_end(&mut self, out: &mut String) {
        if !self.inside_line && self.held.trim_start_matches(' ').starts_with(FENCE) {
            self.fenced = !self.fenced;
            self.held.clear();
            return;
        }
        if !self.inside_line {
            self.begin_line(out);
        }
        self.write_held(out);
        self.close_styles(out);
        self.inside_line = false;
        out.push('\n');
    }

    /// Interprets the held marks and writes the result.
    fn write_held(&mut self, out: &mut String) {
        let held = std::mem::take(&mut self.held);
        match held.as_str() {
            "**" if !self.code => {
                self.bold = !self.bold;
                out.push_str(if self.bold { BOLD } else { PLAIN_AGAIN });
            }
            "`" => {
                self.code = !self.code;
                out.push_str(if self.code { CODE } else { PLAIN_AGAIN });
                if !self.code && self.bold {
                    out.push_str(BOLD);
                }
            }
            other => out.push_str(other),
        }
    }

    /// Closes open styles at the end of a line; marks do not extend over lines.
    fn close_styles(&mut self, out: &mut String) {
        if self.bold || self.code || self.heading {
            out.push_str(PLAIN_AGAIN);
        }
        self.bold = false;
        self.code = false;
        self.heading = false;
    }
}

#[cfg(test)]
mod tests {
    use super::Markdown;

    fn shown(text: &str) -> String {
        let whole = |size: usize| {
            let mut markdown = Markdown::new(true);
            let letters: Vec<char> = text.chars().collect();
            let pieces = letters.chunks(size).map(|piece| piece.iter().collect::<String>());
            let mut out: String = pieces.map(|piece| markdown.push(&piece)).collect();
            out.push_str(&markdown.end());
            out
        };
        let out = whole(1);
        assert_eq!(out, whole(usize::MAX), "independent of the chunk size");
        out.replace("\x1b[0m", "}").replace("\x1b[1m", "b{").replace("\x1b[36m", "c{")
    }

    #[test]
    fn marks_become_styles() {
        for (text, expected) in [
            ("plain 2 * 3 * 4", "plain 2 * 3 * 4"),
            ("a **bold** word", "a b{bold} word"),
            ("run `weft chat` now", "run c{weft chat} now"),
            ("**bold `code` bold**", "b{bold c{code}b{ bold}"),
            ("- one\n* two\n  - three", "• one\n• two\n  • three"),
            ("# Title\ntext", "b{Title}\ntext"),
            ("#1 is a number", "#1 is a number"),
            ("an open **mark\nnext", "an open b{mark}\nnext"),
            ("```rust\nlet a = **b;\n\n```\nend", "let a = **b;\n\nend"),
            ("-1 degrees\n\n2", "-1 degrees\n\n2"),
            ("`**`", "c{**}"),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }

    #[test]
    fn without_colours_nothing_changes() {
        assert_eq!(Markdown::new(false).push("a **b**\n- c"), "a **b**\n- c");
    }

    #[test]
    fn code_is_found_with_and_without_colours() {
        for colour in [true, false] {
            let mut markdown = Markdown::new(colour);
            for (piece, is_code) in [
                ("a ```b\n", false),
                ("``", false),
                ("`rust", true),
                ("\nlet a", true),
                ("\n```", true),
                ("\n", false),
                ("  ```\n", true),
            ] {
                markdown.push(piece);
                assert_eq!(markdown.is_code(), is_code, "{piece:?}");
            }
            markdown.end();
            assert!(!markdown.is_code(), "the next text begins anew");
        }
    }
}
