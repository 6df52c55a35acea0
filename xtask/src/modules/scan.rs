//! The paths and `use` declarations of a file.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use super::{Form, Modules, Written};
use crate::source::Source;

/// Adds the modules of a file to `modules`, and the paths of modules that only tests have to
/// `tests`.
pub(super) fn file(
    name: &str,
    module: &[String],
    source: &Source,
    file: &syn::File,
    modules: &mut Modules,
    tests: &mut BTreeSet<Vec<String>>,
) {
    let mut scan = Scan { name, source, path: module.to_vec(), modules, tests };
    scan.enter();
    scan.visit_file(file);
}

struct Scan<'a> {
    name: &'a str,
    source: &'a Source,
    path: Vec<String>,
    modules: &'a mut Modules,
    tests: &'a mut BTreeSet<Vec<String>>,
}

impl Scan<'_> {
    fn enter(&mut self) {
        let module = self.modules.all.entry(self.path.clone()).or_default();
        if module.file.is_empty() {
            self.name.clone_into(&mut module.file);
        }
    }

    fn add(&mut self, segments: Vec<String>, line: usize, form: Form, name: Option<String>) {
        if self.source.is_test_line(line) {
            return;
        }
        let written = Written { module: self.path.clone(), segments, line, form };
        let module = self.modules.all.entry(self.path.clone()).or_default();
        if let Some(name) = name {
            module.bound.insert(name, written.clone());
        }
        module.paths.push(written);
    }

    fn path(&mut self, segments: Vec<String>, line: usize) {
        if segments.len() > 1 {
            self.add(segments, line, Form::Expression, None);
        }
    }

    fn use_tree(&mut self, before: &[String], tree: &syn::UseTree, form: Form) {
        let line = tree.span().start().line;
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.use_tree(&with(&path.ident), &path.tree, form),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.use_tree(before, tree, form);
                }
            }
            syn::UseTree::Glob(_) => self.add(before.to_vec(), line, form, None),
            syn::UseTree::Name(name) if name.ident == "self" => {
                self.add(before.to_vec(), line, form, before.last().cloned());
            }
            syn::UseTree::Name(name) => {
                self.add(with(&name.ident), line, form, Some(name.ident.to_string()));
            }
            syn::UseTree::Rename(name) => {
                self.add(with(&name.ident), line, form, Some(name.rename.to_string()));
            }
        }
    }

    /// The paths in the arguments of a macro.
    fn tokens(&mut self, stream: TokenStream) {
        let mut chain: Vec<String> = Vec::new();
        let mut line = 0;
        let mut colons = 0;
        for tree in stream {
            match tree {
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(ident) if colons == 2 && !chain.is_empty() => {
                    chain.push(ident.to_string());
                }
                other => {
                    self.path(std::mem::take(&mut chain), line);
                    match other {
                        TokenTree::Ident(ident) => {
                            line = ident.span().start().line;
                            chain.push(ident.to_string());
                        }
                        TokenTree::Group(group) => self.tokens(group.stream()),
                        TokenTree::Punct(_) | TokenTree::Literal(_) => {}
                    }
                }
            }
            colons = 0;
        }
        self.path(chain, line);
    }
}

impl<'ast> Visit<'ast> for Scan<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.path.push(item.ident.to_string());
        if self.source.is_test_line(item.ident.span().start().line) {
            self.tests.insert(self.path.clone());
        } else if item.content.is_some() {
            self.enter();
            visit::visit_item_mod(self, item);
        }
        self.path.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let form = match item.vis {
            syn::Visibility::Inherited => Form::Import,
            _ => Form::ReExport,
        };
        self.use_tree(&[], &item.tree, form);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter().map(|segment| segment.ident.to_string());
        self.path(segments.collect(), path.span().start().line);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }

    /// The path of `pub(in path)` is not a use of the module.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    /// Attributes have doc comments, and paths of other crates.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}
