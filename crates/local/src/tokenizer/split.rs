//! Splitting of text into pieces that are merged separately.

use regex::Regex;

/// Words with the preceding space, single digits, runs of punctuation, runs of space.
#[derive(Debug)]
pub(super) struct Splitter {
    pattern: Regex,
}

// GPT-2's pattern without its look-ahead `\s+(?!\S)`, which `split` implements.
const PATTERN: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+";

impl Splitter {
    #[expect(clippy::expect_used, reason = "the pattern is a constant and a test compiles it")]
    pub(super) fn new() -> Self {
        Self { pattern: Regex::new(PATTERN).expect("the pattern is valid") }
    }

    /// Splits a text; the concatenated pieces are the text.
    pub(super) fn split<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let mut out = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if first.is_numeric() {
                let (digit, after) = rest.split_at(first.len_utf8());
                out.push(digit);
                rest = after;
                continue;
            }
            let end = rest.find(char::is_numeric).unwrap_or(rest.len());
            let (run, after) = rest.split_at(end);
            self.split_run(run, &mut out);
            rest = after;
        }
        out
    }

    /// Splits a run without digits.
    fn split_run<'t>(&self, run: &'t str, out: &mut Vec<&'t str>) {
        let mut at = 0;
        while let Some(found) = self.pattern.find_at(run, at) {
            let mut end = found.end();
            let is_space = found.as_str().chars().all(char::is_whitespace);
            if is_space && end < run.len() {
                // The last space of a run belongs to the word after it.
                let last = found.as_str().chars().next_back().map_or(0, char::len_utf8);
                if last < found.len() {
                    end -= last;
                }
            }
            if end == at {
                break;
            }
            out.push(&run[at..end]);
            at = end;
        }
        if at < run.len() {
            out.push(&run[at..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<&str> {
        Splitter::new().split(text)
    }

    #[test]
    fn words_keep_the_space_before_them() {
        assert_eq!(split("Hello, big world"), ["Hello", ",", " big", " world"]);
        assert_eq!(split("it's  two\n\n end "), ["it", "'s", " ", " two", "\n\n", " end", " "]);
    }

    #[test]
    fn digits_stand_alone() {
        assert_eq!(split("A1001 x 25"), ["A", "1", "0", "0", "1", " x", " ", "2", "5"]);
    }

    #[test]
    fn nothing_is_lost() {
        for text in ["", " ", "  \t x", "naïve – ça 🎉🎉", "a\u{301}b ٣٤", "日本 語\r\n"]
        {
            assert_eq!(split(text).concat(), text);
        }
    }
}
