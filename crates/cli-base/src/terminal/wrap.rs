//! Breaking of streamed text into lines that fit the terminal, between words.

use super::terminal_columns;

/// Text that is broken between words at the width of the terminal, which is read for each part of
/// the text, so that a change of the size has an effect within an answer. Lines of code stay whole.
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
    /// Columns of the word.
    word_width: usize,
    /// `true` within an escape sequence of the word.
    is_escape: bool,
    /// `true` if the last part is code.
    is_code: bool,
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
            word_width: 0,
            is_escape: false,
            is_code: false,
        }
    }

    /// Adds a part of a line, styled, and returns the output that is complete.
    pub(crate) fn push(&mut self, styled: &str, is_code: bool) -> String {
        self.is_code = is_code;
        let Some(columns) = self.columns() else { return self.pass_unbroken(styled) };
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
                    self.write_word(columns, &mut out);
                    self.gap.clear();
                    self.column = 0;
                    out.push('\n');
                }
                ' ' => {
                    self.write_word(columns, &mut out);
                    self.gap.push(' ');
                }
                letter => self.add_letter(letter, columns, &mut out),
            }
        }
        out
    }

    /// Returns text for an output without a width, which breaks no line.
    fn pass_unbroken(&mut self, styled: &str) -> String {
        let mut out = String::new();
        if self.word_width == 0 {
            self.column += self.gap.len();
            out.push_str(&std::mem::take(&mut self.gap));
        }
        self.write_word(usize::MAX, &mut out);
        self.is_escape = false;
        out.push_str(styled);
        let line = styled.rsplit('\n').next().unwrap_or_default();
        let before = if line.len() == styled.len() { self.column } else { 0 };
        self.column = before + console::measure_text_width(line);
        out
    }

    fn add_letter(&mut self, letter: char, columns: usize, out: &mut String) {
        let width = match letter.is_ascii() {
            true => usize::from(!letter.is_ascii_control()),
            false => console::measure_text_width(letter.encode_utf8(&mut [0; 4])),
        };
        // Scripts with wide letters have no spaces between words.
        let is_wide = width > 1;
        if is_wide {
            self.write_word(columns, out);
        }
        self.word.push(letter);
        self.word_width += width;
        if is_wide || self.word_width >= columns {
            self.write_word(columns, out);
        }
    }

    fn columns(&self) -> Option<usize> {
        Some((self.width)()?.saturating_sub(self.margin).max(1))
    }

    /// Writes the word, on the next line if it does not fit on this one.
    fn write_word(&mut self, columns: usize, out: &mut String) {
        let width = std::mem::take(&mut self.word_width);
        if width == 0 {
            // Styles alone.
            out.push_str(&std::mem::take(&mut self.word));
            return;
        }
        let end = self.column + self.gap.len() + width;
        if end <= columns || self.is_code || self.column == 0 {
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
        self.write_word(self.columns().unwrap_or(usize::MAX), &mut out);
        *self = Self::new(self.width, self.margin);
        out
    }
}

/// Returns a wrap for standard output: at the width of the terminal, if it is one, for lines that
/// follow a margin.
pub(crate) fn for_output(is_terminal: bool, margin: usize) -> Wrap {
    Wrap::new(if is_terminal { terminal_columns } else { || None }, margin)
}

#[cfg(test)]
mod tests {
    use super::Wrap;
    use crate::terminal::markdown::Markdown;

    fn wrapped(text: &str) -> String {
        let whole = |size: usize| {
            let mut wrap = Wrap::new(|| Some(14), 4);
            let mut markdown = Markdown::new(false);
            let letters: Vec<char> = text.chars().collect();
            let mut out = String::new();
            for piece in letters.chunks(size) {
                let piece: String = piece.iter().collect();
                for line in piece.split_inclusive('\n') {
                    let styled = markdown.push(line);
                    out.push_str(&wrap.push(&styled, markdown.is_code()));
                }
            }
            out + &wrap.end()
        };
        let out = whole(1);
        assert_eq!(out, whole(usize::MAX), "independent of the chunk size");
        out
    }

    #[test]
    fn without_a_width_text_passes_as_it_is() {
        let mut wrap = Wrap::new(|| None, 0);
        for text in ["one two ", "three", " ", "\nfour  \x1b[1mfive\x1b[0m ", "six"] {
            assert_eq!(wrap.push(text, false), text);
        }
        assert_eq!(wrap.end(), "");
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
