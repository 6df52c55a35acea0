//! Breaking of streamed text into lines that fit the terminal, between words.

use super::columns;

/// Text that is broken between words at the width of the terminal, which is read for each word, so
/// that a change of the size has an effect within an answer. Lines of code between fences stay
/// whole.
#[derive(Debug)]
pub(crate) struct Wrap {
    /// Width in columns; `None` if lines are not broken.
    width: fn() -> Option<usize>,
    /// Columns before each line, which the width includes.
    margin: usize,
    /// Column after the written text.
    column: usize,
    /// Spaces that stand before the word if it fits on the line.
    gap: String,
    /// A word that may still grow, with its escape sequences.
    word: String,
    /// `true` within an escape sequence of the word.
    is_escape: bool,
    /// `true` between fences.
    is_code: bool,
    /// First characters of the line as the model wrote it.
    head: String,
}

impl Wrap {
    /// Creates a wrap at the width that a function returns.
    fn new(width: fn() -> Option<usize>, margin: usize) -> Self {
        Self {
            width,
            margin,
            column: 0,
            gap: String::new(),
            word: String::new(),
            is_escape: false,
            is_code: false,
            head: String::new(),
        }
    }

    /// Reads a part of a line of the text before it is styled, to find fences.
    pub(crate) fn source(&mut self, text: &str) {
        for letter in text.chars() {
            if letter == '\n' {
                self.is_code ^= self.is_fence();
                self.head.clear();
            } else if self.head.len() < 3 && !(self.head.is_empty() && letter == ' ') {
                self.head.push(letter);
            }
        }
    }

    fn is_fence(&self) -> bool {
        self.head == "```"
    }

    /// Adds styled text and returns the output that is complete.
    pub(crate) fn push(&mut self, styled: &str) -> String {
        let mut out = String::new();
        for letter in styled.chars() {
            match letter {
                _ if self.is_escape => {
                    self.word.push(letter);
                    self.is_escape = !letter.is_ascii_alphabetic();
                }
                '\x1b' => {
                    self.word.push(letter);
                    self.is_escape = true;
                }
                '\n' => {
                    self.flush(&mut out);
                    self.gap.clear();
                    self.column = 0;
                    out.push('\n');
                }
                ' ' => {
                    self.flush(&mut out);
                    self.gap.push(' ');
                }
                letter => self.letter(letter, &mut out),
            }
        }
        out
    }

    fn letter(&mut self, letter: char, out: &mut String) {
        let is_wide = console::measure_text_width(letter.encode_utf8(&mut [0; 4])) > 1;
        // Scripts with wide letters have no spaces between words.
        if is_wide {
            self.flush(out);
        }
        self.word.push(letter);
        let is_long = self.columns().is_some_and(|columns| self.word_width() >= columns);
        if is_wide || is_long {
            self.flush(out);
        }
    }

    fn columns(&self) -> Option<usize> {
        Some((self.width)()?.saturating_sub(self.margin).max(1))
    }

    fn word_width(&self) -> usize {
        console::measure_text_width(&self.word)
    }

    /// Writes the word, on the next line if it does not fit on this one.
    fn flush(&mut self, out: &mut String) {
        let width = self.word_width();
        if width == 0 {
            // Styles alone.
            out.push_str(&std::mem::take(&mut self.word));
            return;
        }
        let end = self.column + self.gap.len() + width;
        let is_whole = self.is_code || self.is_fence();
        let fits = self.columns().is_none_or(|columns| end <= columns);
        if fits || is_whole || self.column == 0 {
            out.push_str(&self.gap);
            self.column = end;
        } else {
            out.push('\n');
            self.column = width;
        }
        self.gap.clear();
        out.push_str(&std::mem::take(&mut self.word));
    }

    /// Returns the rest of the output. The next text begins a line.
    pub(crate) fn end(&mut self) -> String {
        let mut out = String::new();
        self.flush(&mut out);
        *self = Self::new(self.width, self.margin);
        out
    }
}

/// Returns a wrap for standard output: at the width of the terminal, if it is one, for lines that
/// follow a margin.
pub(crate) fn for_output(is_terminal: bool, margin: usize) -> Wrap {
    Wrap::new(if is_terminal { columns } else { || None }, margin)
}

#[cfg(test)]
mod tests {
    use super::Wrap;

    fn wrapped(text: &str) -> String {
        let whole = |size: usize| {
            let mut wrap = Wrap::new(|| Some(14), 4);
            let letters: Vec<char> = text.chars().collect();
            let mut out = String::new();
            for piece in letters.chunks(size) {
                let piece: String = piece.iter().collect();
                for line in piece.split_inclusive('\n') {
                    out.push_str(&wrap.push(line));
                    wrap.source(line);
                }
            }
            out + &wrap.end()
        };
        let out = whole(1);
        assert_eq!(out, whole(usize::MAX), "independent of the chunk size");
        out
    }

    #[test]
    fn lines_are_broken_between_words() {
        for (text, expected) in [
            ("short", "short"),
            ("one two three four", "one two\nthree four"),
            ("0123456789 a", "0123456789\na"),
            ("a 0123456789abc b", "a\n0123456789\nabc b"),
            ("\x1b[1mone two\x1b[0m three", "\x1b[1mone two\x1b[0m\nthree"),
            ("one\n  two three four", "one\n  two\nthree four"),
            (
                "```\nlet long_line = 1;\n```\none two three",
                "```\nlet long_line = 1;\n```\none two\nthree",
            ),
            ("漢字漢字漢字漢", "漢字漢字漢\n字漢"),
            ("end ", "end"),
        ] {
            assert_eq!(wrapped(text), expected, "{text:?}");
        }
    }
}
