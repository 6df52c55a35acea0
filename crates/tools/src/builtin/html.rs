//! HTML as text, without a parser of documents: tags are dropped, blocks become lines.
//!
//! Each position of the text is visited a bounded number of times, whatever the markup.

/// Elements whose content is no text for a reader.
const DROPPED: [&str; 6] = ["script", "style", "noscript", "template", "svg", "iframe"];
/// Elements within a line; all others begin a line.
const INLINE: [&str; 14] = [
    "a", "abbr", "b", "code", "em", "i", "mark", "q", "s", "small", "span", "strong", "sub", "sup",
];

/// Returns the title of an HTML page, if it has one, and its text: without markup and scripts, each
/// block on a line of its own, without control characters.
#[must_use]
pub fn text_of(html: &str) -> (Option<String>, String) {
    let lower = html.to_ascii_lowercase();
    let mut out = Out::default();
    let mut title = None;
    let mut at = 0;
    while let Some(open) = html[at..].find('<').map(|found| at + found) {
        out.text(&html[at..open]);
        let rest = &lower[open..];
        let end = |mark: &str| rest.find(mark).map_or(html.len(), |at| open + at + mark.len());
        if rest.starts_with("<!--") {
            at = end("-->");
        } else if !rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || "/!?".contains(c)) {
            out.text("<");
            at = open + 1;
        } else {
            at = end(">");
            let name = rest[1..].trim_start_matches('/');
            let name: String = name.chars().take_while(char::is_ascii_alphanumeric).collect();
            if !INLINE.contains(&name.as_str()) {
                out.line();
            }
            let opens = rest[1..].starts_with(|c: char| c.is_ascii_alphabetic());
            let hidden = DROPPED.contains(&name.as_str());
            if opens && (hidden || name == "title") {
                let close = format!("</{name}");
                let inner = at..lower[at..].find(&close).map_or(html.len(), |found| at + found);
                at = inner.end;
                if !hidden && title.is_none() {
                    let mut text = Out::default();
                    text.text(&html[inner]);
                    title = Some(text.done()).filter(|text| !text.is_empty());
                }
            }
        }
    }
    out.text(&html[at.min(html.len())..]);
    (title, out.done())
}

/// Text with collapsed white space.
#[derive(Default)]
struct Out {
    text: String,
    space: bool,
    line: bool,
}

impl Out {
    fn line(&mut self) {
        self.line = true;
    }

    fn text(&mut self, raw: &str) {
        let mut rest = raw;
        while let Some(c) = rest.chars().next() {
            let (shown, bytes) = match c {
                '&' => entity(rest).unwrap_or(('&', 1)),
                c => (c, c.len_utf8()),
            };
            rest = &rest[bytes..];
            self.push(shown);
        }
    }

    fn push(&mut self, c: char) {
        if c.is_whitespace() {
            self.space = true;
        } else if !c.is_control() {
            if !self.text.is_empty() && (self.line || self.space) {
                self.text.push(if self.line { '\n' } else { ' ' });
            }
            self.line = false;
            self.space = false;
            self.text.push(c);
        }
    }

    fn done(self) -> String {
        self.text
    }
}

/// Returns the character of an entity at the start of a text, and the length of the entity.
fn entity(text: &str) -> Option<(char, usize)> {
    let end = text.bytes().take(12).position(|b| b == b';')?;
    let name = &text[1..end];
    let number = |digits: &str, radix| u32::from_str_radix(digits, radix).ok();
    let c = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "ndash" => '–',
        "mdash" => '—',
        "hellip" => '…',
        "copy" => '©',
        "euro" => '€',
        _ => {
            let digits = name.strip_prefix('#')?;
            let code = match digits.strip_prefix(['x', 'X']) {
                Some(hex) => number(hex, 16),
                None => number(digits, 10),
            };
            char::from_u32(code?)?
        }
    };
    Some((c, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn markup_is_dropped_and_blocks_become_lines() {
        let page = "<!doctype html><html><head><title>A &amp; B</title><style>p{}</style></head>\
            <body><h1>Head\n line</h1><p>One <b>two</b>&nbsp;three&#33;</p><!-- no > --><script>\
            if (a<b) alert('</p>')</script><ul><li>x<li>y</ul>1 < 2 &unknown; &#x1F600;</body>";
        let (title, text) = text_of(page);
        assert_eq!(title.as_deref(), Some("A & B"));
        assert_eq!(text, "Head line\nOne two three!\nx\ny\n1 < 2 &unknown; 😀");
    }

    #[test]
    fn broken_markup_ends_somewhere() {
        for (page, text) in [
            ("a<script>b", "a"),
            ("a<!-- b", "a"),
            ("a<b", "a"),
            ("<title>t", ""),
            ("a<", "a<"),
            ("a\u{1b}[31mb\u{0}", "a[31mb"),
            ("&#xD800;&#99999999999;&", "&#xD800;&#99999999999;&"),
        ] {
            assert_eq!(text_of(page).1, text, "{page}");
        }
    }

    proptest! {
        #[test]
        fn no_page_panics(page in "(<|>|/|!|--|&|#|;|script|title|p|é|\n| ){0,60}|.{0,60}") {
            let (_, text) = text_of(&page);
            prop_assert!(!text.contains("  ") && !text.contains('\u{0}'), "{text:?}");
        }
    }
}
