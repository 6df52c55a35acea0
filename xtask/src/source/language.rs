//! Constructs and names that the rule on language counts.

use proc_macro2::Ident;
use syn::visit::{self, Visit};

/// The lines (from 1) of constructs, and the names of fields and functions.
#[derive(Debug, Default)]
pub(crate) struct Language {
    /// Parameters of functions that are tuple patterns, such as `(a, b): (A, B)`.
    pub(crate) tuple_parameters: Vec<usize>,
    /// Statements such as `let (a, b) = (x, y);`.
    pub(crate) tuple_lets: Vec<usize>,
    /// Names and lines of fields and functions, also private ones.
    pub(crate) names: Vec<(String, usize)>,
}

impl Language {
    pub(super) fn of(file: &syn::File) -> Self {
        let mut found = Self::default();
        found.visit_file(file);
        found
    }

    fn name(&mut self, name: &Ident) {
        self.names.push((name.to_string(), name.span().start().line));
    }
}

impl<'ast> Visit<'ast> for Language {
    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.name(&signature.ident);
        for input in &signature.inputs {
            if let syn::FnArg::Typed(typed) = input
                && let Some(line) = tuple_line(&typed.pat)
            {
                self.tuple_parameters.push(line);
            }
        }
        visit::visit_signature(self, signature);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if let Some(name) = &field.ident {
            self.name(name);
        }
        visit::visit_field(self, field);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        // With an `else` it is a test of both parts.
        if let Some(init) = &local.init
            && init.diverge.is_none()
            && matches!(&*init.expr, syn::Expr::Tuple(_))
            && let Some(line) = tuple_line(&local.pat)
        {
            self.tuple_lets.push(line);
        }
        visit::visit_local(self, local);
    }
}

/// The line of a tuple pattern, with or without a type or a reference.
fn tuple_line(pat: &syn::Pat) -> Option<usize> {
    match pat {
        syn::Pat::Tuple(tuple) => Some(tuple.paren_token.span.open().start().line),
        syn::Pat::Type(typed) => tuple_line(&typed.pat),
        syn::Pat::Reference(reference) => tuple_line(&reference.pat),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Language;

    #[test]
    fn patterns_of_tuples_are_found_with_types_and_not_if_their_value_is_a_call() {
        let text = "struct A { told: u8 }\n\
                    fn f((a, b): (u8, u8), &(c, d): &(u8, u8), e: (u8, u8)) {\n\
                    let (a, b) = (1, 2);\n\
                    let (a, b): (u8, u8) = (1, 2);\n\
                    let (a, b) = f();\n\
                    let (Some(a), Some(b)) = (x, y) else { return };\n\
                    let g = |(a, b): (u8, u8)| a;\n}\n";
        let found = Language::of(&syn::parse_str(text).unwrap());
        assert_eq!(found.tuple_parameters, [2, 2]);
        assert_eq!(found.tuple_lets, [3, 4]);
        let names: Vec<&str> = found.names.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["told", "f"]);
    }
}
