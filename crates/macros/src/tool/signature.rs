//! Parses the function under `#[tool]`.

use super::attributes::{ArgAttribute, Attributes, arg};
use quote::format_ident;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, GenericArgument, Ident, ItemFn, Lit, Meta, Pat,
    PatType, PathArguments, Result, ReturnType, Safety, Type, Visibility, parse_quote,
};

/// The parts of a function that `#[tool]` uses.
pub(super) struct Signature {
    pub(super) vis: Visibility,
    pub(super) name: Ident,
    pub(super) canonical: String,
    pub(super) description: String,
    pub(super) docs: Vec<Attribute>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) output: Option<Type>,
    pub(super) is_async: bool,
    /// The function itself, renamed to `run`.
    pub(super) run: ItemFn,
}

/// A parameter of the function.
pub(super) enum Parameter {
    /// An argument from the model.
    Argument { name: Ident, ty: Type, attributes: Vec<Attribute> },
    /// A value from the program.
    Context { ty: Type },
}

impl Signature {
    pub(super) fn read(mut function: ItemFn, attributes: &Attributes) -> Result<Self> {
        let mut problems = Problems::default();
        check_kind(&function, &mut problems);
        let name = function.sig.ident.clone();
        let (docs, others) = function.attrs.drain(..).partition(is_doc);
        let docs: Vec<Attribute> = docs;
        let description = attributes.description.clone().unwrap_or_else(|| doc_text(&docs));
        if description.is_empty() {
            problems.note(
                &name,
                "a tool needs a doc comment that says what it does: the model reads it",
            );
        }
        let canonical = attributes.name.clone().unwrap_or_else(|| name.to_string());
        if !is_snake(&name.to_string()) {
            problems.note(
                &name,
                "a tool's function is named in lower snake case, such as `lookup_order`",
            );
        }
        let mut parameters = Vec::new();
        for input in &mut function.sig.inputs {
            match input {
                FnArg::Receiver(receiver) => problems.note(
                    receiver,
                    "a tool is a free function; give it what it needs with `ToolBox::provide` and take that as a parameter `Deps<T>`",
                ),
                FnArg::Typed(input) => match parameter(input) {
                    Ok(parameter) => parameters.push(parameter),
                    Err(error) => problems.0.push(error),
                },
            }
        }
        problems.finish()?;
        let output = match &function.sig.output {
            ReturnType::Default => None,
            ReturnType::Type(_, ty) => Some((**ty).clone()),
        };
        function.sig.ident = format_ident!("run", span = name.span());
        function.attrs = others;
        let vis = std::mem::replace(&mut function.vis, Visibility::Inherited);
        let is_async = function.sig.asyncness.is_some();
        Ok(Self {
            vis,
            name,
            canonical,
            description,
            docs,
            parameters,
            output,
            is_async,
            run: function,
        })
    }

    /// Returns `true` if the return type is named `Result`; aliases are not resolved.
    pub(super) fn returns_result(&self) -> bool {
        self.output.as_ref().is_some_and(|ty| last_segment(ty).is_some_and(|s| s == "Result"))
    }
}

fn check_kind(function: &ItemFn, problems: &mut Problems) {
    let sig = &function.sig;
    if !sig.generics.params.is_empty() || sig.generics.where_clause.is_some() {
        problems
            .note(&sig.generics, "a tool cannot be generic: its schema is made of concrete types");
    }
    if let Some(word) = &sig.constness {
        problems.note(word, "a tool cannot be `const`");
    }
    if let Safety::Unsafe(word) = &sig.safety {
        problems.note(word, "a tool cannot be `unsafe`: a model decides when it is called");
    }
    if let Some(abi) = &sig.abi {
        problems.note(abi, "a tool cannot be `extern`");
    }
    if let Some(dots) = &sig.variadic {
        problems.note(dots, "a tool cannot take a variable number of arguments");
    }
}

fn parameter(input: &mut PatType) -> Result<Parameter> {
    if is_from_context(&input.ty) {
        if let Some(attribute) = input.attrs.first() {
            return Err(Error::new_spanned(
                attribute,
                "the model does not see this parameter: it comes from the program",
            ));
        }
        return Ok(Parameter::Context { ty: (*input.ty).clone() });
    }
    let name = match &*input.pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => pat.ident.clone(),
        other => {
            return Err(Error::new_spanned(
                other,
                "an argument needs a plain name: it is the name by which the model gives it",
            ));
        }
    };
    check_type(&input.ty)?;
    let mut attributes = Vec::new();
    for attribute in input.attrs.drain(..) {
        if attribute.path().is_ident("arg") {
            let ArgAttribute { description, secret } = arg(&attribute)?;
            attributes.extend(description.map(|text| parse_quote!(#[doc = #text])));
            if secret {
                attributes.push(parse_quote!(#[schemars(extend("x-secret" = true))]));
            }
        } else if is_doc(&attribute)
            || attribute.path().is_ident("serde")
            || attribute.path().is_ident("schemars")
        {
            attributes.push(attribute);
        } else {
            return Err(Error::new_spanned(
                attribute,
                "expected a doc comment, `#[arg(description = \"...\")]`, `#[serde(...)]` or `#[schemars(...)]`",
            ));
        }
    }
    Ok(Parameter::Argument { name, ty: (*input.ty).clone(), attributes })
}

fn check_type(ty: &Type) -> Result<()> {
    match ty {
        Type::Reference(_) => Err(Error::new_spanned(
            ty,
            "an argument is owned, because it is read from the model's JSON; take `String` for `&str`, `Vec<T>` for `&[T]`",
        )),
        Type::ImplTrait(_) => Err(Error::new_spanned(
            ty,
            "an argument needs a concrete type: its schema is made of it",
        )),
        Type::Path(path) => {
            if is_from_task(ty) {
                return Err(Error::new_spanned(
                    ty,
                    "only nodes of graphs take this; a tool takes its arguments, `ToolContext` for the call, and `Deps<T>` for values of the program",
                ));
            }
            // References inside generics, such as `Option<&str>`.
            let segments = path.path.segments.iter();
            for arguments in segments.map(|segment| &segment.arguments) {
                let PathArguments::AngleBracketed(arguments) = arguments else { continue };
                for argument in &arguments.args {
                    if let GenericArgument::Type(inner) = argument {
                        check_type(inner)?;
                    }
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Returns `true` for `Deps<T>`, `ToolContext` and `Option<Replies>`.
fn is_from_context(ty: &Type) -> bool {
    match last_segment(ty).as_deref() {
        Some("Deps" | "ToolContext") => true,
        Some("Option") => {
            inner(ty).is_some_and(|inner| last_segment(inner).is_some_and(|name| name == "Replies"))
        }
        _ => false,
    }
}

/// Returns `true` for `Ctx`, `State<S>`, `Arg<T>` and `Field<..>`, which are no data of a model. A type of
/// a program may have one of the last three names, without parameters.
fn is_from_task(ty: &Type) -> bool {
    match last_segment(ty).as_deref() {
        Some("Ctx") => true,
        Some("State" | "Arg" | "Field") => inner(ty).is_some(),
        _ => false,
    }
}

/// The only argument of a generic type.
fn inner(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else {
        return None;
    };
    match arguments.args.first()? {
        GenericArgument::Type(inner) => Some(inner),
        _ => None,
    }
}

fn last_segment(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        Type::Group(group) => last_segment(&group.elem),
        _ => None,
    }
}

fn is_snake(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

fn is_doc(attribute: &Attribute) -> bool {
    attribute.path().is_ident("doc")
}

/// The text of a doc comment: lines are joined, paragraphs stay separate.
fn doc_text(docs: &[Attribute]) -> String {
    let mut text = String::new();
    let mut paragraph = false;
    for line in docs.iter().filter_map(doc_line) {
        let line = line.trim();
        if line.is_empty() {
            paragraph = !text.is_empty();
            continue;
        }
        if !text.is_empty() {
            text.push_str(if paragraph { "\n\n" } else { " " });
        }
        text.push_str(line);
        paragraph = false;
    }
    text
}

fn doc_line(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(meta) => match &meta.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// All mistakes of a function, reported together.
#[derive(Default)]
struct Problems(Vec<Error>);

impl Problems {
    fn note(&mut self, at: &impl Spanned, message: &str) {
        self.0.push(Error::new(at.span(), message));
    }

    fn finish(self) -> Result<()> {
        match self.0.into_iter().reduce(|mut all, next| {
            all.combine(next);
            all
        }) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
