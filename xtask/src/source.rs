//! A parsed Rust file: its lines of code, docs and tests, the length of its functions, and its
//! attributes.

mod language;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use proc_macro2::{Delimiter, LineColumn, Span, TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

pub(crate) use language::Language;

/// The purpose of a file, derived from its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Part of a library or binary.
    Code,
    /// A test, a benchmark, or a module that only tests use.
    Test,
    /// A program under `examples/`.
    Example,
}

/// Derives the role of a file from its path.
pub(crate) fn role(path: &str) -> Role {
    let parts: Vec<&str> = path.split('/').collect();
    let (name, folders) = parts.split_last().unwrap_or((&"", &[]));
    if folders.contains(&"examples") {
        Role::Example
    } else if folders.iter().any(|folder| matches!(*folder, "tests" | "benches"))
        || *name == "tests.rs"
    {
        Role::Test
    } else {
        Role::Code
    }
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// Lines from signature to closing brace, without blank and comment lines.
    pub(crate) lines: usize,
    pub(crate) in_test: bool,
}

/// An attribute as written, such as `allow` or `tokio::test`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Attribute {
    pub(crate) path: String,
    /// Identifiers directly inside the parentheses.
    pub(crate) arguments: Vec<String>,
    pub(crate) line: usize,
    /// The name of the annotated function, if any.
    pub(crate) on_function: Option<String>,
}

/// A parsed file.
#[derive(Debug)]
pub(crate) struct Source {
    code: BTreeSet<usize>,
    docs: BTreeSet<usize>,
    tests: Vec<RangeInclusive<usize>>,
    tokens: Vec<(LineColumn, LineColumn)>,
    /// Number of doc comments.
    pub(crate) summaries: usize,
    /// Lines and first words of the doc comments that open with one of [`OPENERS`].
    pub(crate) openers: Vec<(usize, &'static str)>,
    pub(crate) functions: Vec<Function>,
    pub(crate) attributes: Vec<Attribute>,
    /// Names and lines of the modules that the file declares.
    pub(crate) modules: Vec<(String, usize)>,
    /// Names and lines of items and methods that are `pub` without restriction.
    pub(crate) public: Vec<(String, usize)>,
    pub(crate) language: Language,
}

impl Source {
    /// Parses a file; the error has the location of the syntax error.
    pub(crate) fn parse(text: &str) -> Result<Self, syn::Error> {
        let stream = text.parse::<TokenStream>()?;
        let file = syn::parse2::<syn::File>(stream.clone())?;
        let mut tokens = TokenScan { text_lines: text.lines().collect(), ..TokenScan::default() };
        tokens.scan(stream);
        let mut items = ItemScan::new(&tokens.code);
        items.visit_file(&file);
        let ItemScan { functions, modules, public, tests, .. } = items;
        let summaries = tokens.summaries();
        Ok(Self {
            summaries: summaries.len(),
            openers: summaries
                .iter()
                .filter_map(|line| Some((*line, opener(tokens.text_lines.get(line - 1)?)?)))
                .collect(),
            code: tokens.code,
            docs: tokens.docs,
            tests,
            tokens: tokens.leaves,
            functions,
            attributes: tokens.attributes,
            modules,
            public,
            language: Language::of(&file),
        })
    }

    /// Number of lines with code outside inline tests.
    pub(crate) fn code_lines(&self) -> usize {
        self.code.iter().filter(|line| !self.is_test_line(**line)).count()
    }

    /// Number of lines with code in inline tests.
    pub(crate) fn inline_test_lines(&self) -> usize {
        self.code.len() - self.code_lines()
    }

    /// Number of lines of doc comments.
    pub(crate) fn doc_lines(&self) -> usize {
        self.docs.len()
    }

    /// Returns `true` if the line (from 1) belongs to an item that is compiled only for tests.
    pub(crate) fn is_test_line(&self, line: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&line))
    }

    /// Returns `true` if the position (line from 1, column in characters from 0) is in a comment.
    pub(crate) fn in_comment(&self, line: usize, column: usize) -> bool {
        let place = LineColumn { line, column };
        !self.tokens.iter().any(|(start, end)| *start <= place && place < *end)
    }
}

/// First words of a summary line that hide its subject.
const OPENERS: [&str; 9] =
    ["What", "Whether", "Who", "Whoever", "How", "Those", "One", "That", "Of"];

/// The word of [`OPENERS`] that the summary line of a doc comment opens with.
fn opener(line: &str) -> Option<&'static str> {
    let text = line.trim_start().trim_start_matches(['/', '!', '*']).trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '-');
    let word = &text[..end.unwrap_or(text.len())];
    OPENERS.into_iter().find(|opener| *opener == word)
}

/// Macros that quote source code, whose attributes are not attributes of the file.
const QUOTES: [&str; 4] = ["quote", "quote_spanned", "parse_quote", "parse_quote_spanned"];

#[derive(Debug, Default)]
struct TokenScan<'a> {
    text_lines: Vec<&'a str>,
    code: BTreeSet<usize>,
    docs: BTreeSet<usize>,
    leaves: Vec<(LineColumn, LineColumn)>,
    attributes: Vec<Attribute>,
}

impl TokenScan<'_> {
    fn scan(&mut self, stream: TokenStream) {
        self.scan_in(stream, Attributes::Ours);
    }

    fn scan_in(&mut self, stream: TokenStream, attributes: Attributes) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        for (index, tree) in trees.iter().enumerate() {
            if self.is_doc_comment(tree.span()) {
                self.docs.extend(lines(tree.span()));
                continue;
            }
            let TokenTree::Group(group) = tree else {
                self.leaf(tree.span());
                continue;
            };
            self.leaf(group.span_open());
            self.leaf(group.span_close());
            let inner = if is_quote(&trees[..index]) { Attributes::Foreign } else { attributes };
            if inner == Attributes::Ours
                && let Some(attribute) = attribute(&trees, index)
            {
                self.attributes.push(attribute);
            }
            self.scan_in(group.stream(), inner);
        }
    }

    /// The first line of each doc comment.
    fn summaries(&self) -> Vec<usize> {
        let first = self.docs.iter().filter(|line| !self.docs.contains(&(*line - 1)));
        first.copied().collect()
    }

    fn leaf(&mut self, span: Span) {
        self.code.extend(lines(span));
        self.leaves.push((span.start(), span.end()));
    }

    /// A doc comment is tokenised as `#[doc = ".."]`, but its span starts with a slash.
    fn is_doc_comment(&self, span: Span) -> bool {
        let start = span.start();
        let line = self.text_lines.get(start.line - 1).copied().unwrap_or_default();
        let rest = line.chars().skip(start.column).take(2).collect::<String>();
        matches!(rest.as_str(), "//" | "/*")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attributes {
    Ours,
    Foreign,
}

fn lines(span: Span) -> RangeInclusive<usize> {
    span.start().line..=span.end().line
}

/// Returns `true` if the tokens end in one of [`QUOTES`] and `!`.
fn is_quote(before: &[TokenTree]) -> bool {
    let [.., TokenTree::Ident(name), TokenTree::Punct(bang)] = before else { return false };
    bang.as_char() == '!' && QUOTES.iter().any(|quote| name == quote)
}

/// The attribute with the brackets `trees[index]`, or `None` if they are not an attribute's.
fn attribute(trees: &[TokenTree], index: usize) -> Option<Attribute> {
    let TokenTree::Group(group) = &trees[index] else { return None };
    let is_punct = |tree: &TokenTree, wanted: char| matches!(tree, TokenTree::Punct(p) if p.as_char() == wanted);
    let hash = match &trees[..index] {
        [.., hash, bang] if is_punct(bang, '!') => hash,
        [.., hash] => hash,
        [] => return None,
    };
    if group.delimiter() != Delimiter::Bracket || !is_punct(hash, '#') {
        return None;
    }
    let mut path = String::new();
    let mut arguments = Vec::new();
    for tree in group.stream() {
        match tree {
            TokenTree::Ident(ident) => path.push_str(&ident.to_string()),
            TokenTree::Punct(punct) if punct.as_char() == ':' => path.push(':'),
            TokenTree::Group(inner) => {
                arguments = idents(inner.stream());
                break;
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => break,
        }
    }
    let line = group.span_open().start().line;
    Some(Attribute { path, arguments, line, on_function: function_after(&trees[index + 1..]) })
}

fn idents(stream: TokenStream) -> Vec<String> {
    let names = stream.into_iter().filter_map(|tree| match tree {
        TokenTree::Ident(ident) => Some(ident.to_string()),
        _ => None,
    });
    names.collect()
}

/// The name of the function that starts here, after further attributes and qualifiers.
fn function_after(trees: &[TokenTree]) -> Option<String> {
    let mut trees = trees.iter();
    while let Some(tree) = trees.next() {
        match tree {
            TokenTree::Ident(ident) if ident == "fn" => {
                return trees.next().map(ToString::to_string);
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return None,
            TokenTree::Punct(punct) if punct.as_char() == ';' => return None,
            _ => {}
        }
    }
    None
}

#[derive(Debug)]
struct ItemScan<'a> {
    code: &'a BTreeSet<usize>,
    test_depth: usize,
    functions: Vec<Function>,
    modules: Vec<(String, usize)>,
    public: Vec<(String, usize)>,
    tests: Vec<RangeInclusive<usize>>,
}

impl<'a> ItemScan<'a> {
    fn new(code: &'a BTreeSet<usize>) -> Self {
        let (functions, modules, public, tests) = Default::default();
        Self { code, test_depth: 0, functions, modules, public, tests }
    }

    fn function(&mut self, sig: &syn::Signature, body: &syn::Block) {
        let line = sig.span().start().line;
        let range = line..=body.span().end().line;
        self.functions.push(Function {
            name: sig.ident.to_string(),
            line,
            lines: self.code.range(range).count(),
            in_test: self.test_depth > 0,
        });
    }

    fn public(&mut self, visibility: &syn::Visibility, name: &syn::Ident) {
        if matches!(visibility, syn::Visibility::Public(_)) {
            self.public.push((name.to_string(), name.span().start().line));
        }
    }

    /// Visits a part of the file and records its lines if it is compiled only for tests.
    fn within(&mut self, attrs: &[syn::Attribute], span: Span, visit: impl FnOnce(&mut Self)) {
        let is_test = attrs.iter().any(is_test_only);
        if is_test {
            self.tests.push(lines(span));
            self.test_depth += 1;
        }
        visit(self);
        if is_test {
            self.test_depth -= 1;
        }
    }
}

impl<'ast> Visit<'ast> for ItemScan<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attrs: &[syn::Attribute] = match item {
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            syn::Item::Struct(item) => &item.attrs,
            syn::Item::Const(item) => &item.attrs,
            _ => &[],
        };
        match item {
            syn::Item::Const(item) => self.public(&item.vis, &item.ident),
            syn::Item::Enum(item) => self.public(&item.vis, &item.ident),
            syn::Item::Fn(item) => self.public(&item.vis, &item.sig.ident),
            syn::Item::Mod(item) => self.public(&item.vis, &item.ident),
            syn::Item::Static(item) => self.public(&item.vis, &item.ident),
            syn::Item::Struct(item) => self.public(&item.vis, &item.ident),
            syn::Item::Trait(item) => self.public(&item.vis, &item.ident),
            syn::Item::Type(item) => self.public(&item.vis, &item.ident),
            syn::Item::Union(item) => self.public(&item.vis, &item.ident),
            _ => {}
        }
        self.within(attrs, item.span(), |scan| visit::visit_item(scan, item));
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.modules.push((item.ident.to_string(), item.ident.span().start().line));
        visit::visit_item_mod(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.public(&item.vis, &item.sig.ident);
        self.within(&item.attrs, item.span(), |scan| {
            scan.function(&item.sig, &item.block);
            visit::visit_impl_item_fn(scan, item);
        });
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

/// Returns `true` for `#[cfg(test)]`, `#[cfg(all(test, ..))]`, and the attributes of test
/// functions.
fn is_test_only(attr: &syn::Attribute) -> bool {
    if attr.path().segments.last().is_some_and(|segment| segment.ident == "test") {
        return true;
    }
    let syn::Meta::List(list) = &attr.meta else { return false };
    if !list.path.is_ident("cfg") {
        return false;
    }
    let condition = list.tokens.to_string().replace(' ', "");
    condition == "test" || condition.starts_with("all(test,")
}

#[cfg(test)]
mod tests {
    use super::{Role, Source, role};

    const FILE: &str = r##"//! Module.

/// A doc comment.
#[derive(Debug)]
pub struct A; // plain comment

/* block */
fn long(
    a: u32,
) -> &'static str {

    // why
    "two
lines"
}

#[cfg(test)]
mod tests {
    #[test]
    fn works() {}
}
"##;

    #[test]
    fn counts_code_docs_and_inline_tests_apart() {
        let source = Source::parse(FILE).unwrap();
        assert_eq!(source.code_lines(), 8);
        assert_eq!(source.inline_test_lines(), 5);
        assert_eq!(source.doc_lines(), 2);
    }

    #[test]
    fn measures_functions_without_blank_and_comment_lines() {
        let source = Source::parse(FILE).unwrap();
        let found: Vec<_> = source
            .functions
            .iter()
            .map(|f| (f.name.as_str(), f.line, f.lines, f.in_test))
            .collect();
        assert_eq!(found, [("long", 8, 6, false), ("works", 20, 1, true)]);
    }

    #[test]
    fn finds_doc_comments_that_open_with_a_pronoun() {
        let text = "//! What it is.\n\n/// One-shot.\n/// That too.\nstruct A {\n    \
                    /// Whether\n    a: bool,\n    /** Of b's */\n    b: u8,\n}\n\
                    // What\nconst B: &str = \"\n/// What\n\";\n";
        let source = Source::parse(text).unwrap();
        assert_eq!(source.summaries, 4);
        assert_eq!(source.openers, [(1, "What"), (6, "Whether"), (8, "Of")]);
    }

    #[test]
    fn finds_public_items_and_methods() {
        let text = "pub struct A;\nimpl A {\n    pub fn b() {}\n    fn c() {}\n}\n\
                    pub(crate) fn d() {}\npub mod e {\n    pub const F: u8 = 1;\n}\n";
        let source = Source::parse(text).unwrap();
        let expected = [("A", 1), ("b", 3), ("e", 7), ("F", 8)];
        assert_eq!(source.public, expected.map(|(name, line)| (name.to_owned(), line)));
    }

    #[test]
    fn tells_comments_from_strings() {
        let source = Source::parse("// a TODO\nconst A: &str = \"TODO\"; // TODO\n").unwrap();
        assert!(source.in_comment(1, 5));
        assert!(!source.in_comment(2, 18));
        assert!(source.in_comment(2, 28));
    }

    #[test]
    fn finds_attributes_in_macros_but_not_in_quoted_code() {
        let text = "#![warn(x)]\nproptest! { #[tokio::test] async fn test_a() {} }\n\
                    fn f() { quote! { #[allow(y)] struct S; } }\n#[expect(z)] mod m;";
        let source = Source::parse(text).unwrap();
        let found: Vec<_> = source
            .attributes
            .iter()
            .map(|a| (a.path.as_str(), a.arguments.join(","), a.line, a.on_function.as_deref()))
            .collect();
        let expected = [
            ("warn", "x".to_owned(), 1, None),
            ("tokio::test", String::new(), 2, Some("test_a")),
            ("expect", "z".to_owned(), 4, None),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_broken_file_is_an_error() {
        assert!(Source::parse("fn (").is_err());
    }

    #[test]
    fn the_place_gives_the_role() {
        assert_eq!(role("crates/a/src/b.rs"), Role::Code);
        assert_eq!(role("crates/a/src/b/tests.rs"), Role::Test);
        assert_eq!(role("crates/a/tests/it/main.rs"), Role::Test);
        assert_eq!(role("crates/a/benches/b.rs"), Role::Test);
        assert_eq!(role("examples/b.rs"), Role::Example);
    }
}
