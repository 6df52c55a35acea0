//! Parses `#[tool(...)]` and `#[arg(...)]`.

use proc_macro2::{Delimiter, Group, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Error, Ident, LitInt, LitStr, Path, Result, Token, parenthesized};

/// The arguments of `#[tool(...)]`.
#[derive(Default)]
pub(super) struct Attributes {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) effect: Option<Changes>,
    pub(super) on_unknown: Option<OnUnknown>,
    pub(super) reconcile: Option<Path>,
    pub(super) shown: Option<Vec<String>>,
    pub(super) examples: Vec<Example>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) root: Option<Path>,
}

/// An example for the model.
pub(super) struct Example {
    pub(super) request: LitStr,
    pub(super) args: Group,
}

/// Generates an enum with a keyword for each variant.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($word:literal => $variant:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(super) enum $name { $($variant,)* }

        impl $name {
            pub(super) fn variant(self) -> Ident {
                let name = match self { $(Self::$variant => stringify!($variant),)* };
                Ident::new(name, proc_macro2::Span::call_site())
            }
        }

        impl Parse for $name {
            fn parse(input: ParseStream<'_>) -> Result<Self> {
                let word: Ident = input.parse()?;
                match word.to_string().as_str() {
                    $($word => Ok(Self::$variant),)*
                    found => Err(Error::new(word.span(), format!(
                        "`{found}` is not known here; expected one of: {}",
                        [$($word),*].join(", "),
                    ))),
                }
            }
        }
    };
}

words! {
    /// The effect of the tool.
    Changes {
        "read_only" => ReadOnly,
        "state_change" => StateChange,
        "external_side_effect" => ExternalSideEffect,
    }
}

words! {
    /// The behaviour when a crash leaves the outcome unknown.
    OnUnknown {
        "idempotent" => Idempotent,
        "reconcile" => Reconcile,
        "ask" => Ask,
    }
}

impl Parse for Attributes {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut found = Self::default();
        let mut seen: Vec<String> = Vec::new();
        while !input.is_empty() {
            let key = input.call(Ident::parse_any)?;
            let word = key.to_string();
            if seen.contains(&word) && word != "example" {
                return Err(Error::new(key.span(), format!("`{word}` is given twice")));
            }
            found.read(&key, input)?;
            seen.push(word);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        found.check()?;
        Ok(found)
    }
}

impl Attributes {
    fn read(&mut self, key: &Ident, input: ParseStream<'_>) -> Result<()> {
        match key.to_string().as_str() {
            "name" => self.name = Some(value::<LitStr>(input)?.value()),
            "description" => self.description = Some(value::<LitStr>(input)?.value()),
            "effect" => self.effect = Some(value(input)?),
            "on_unknown" => self.on_unknown = Some(value(input)?),
            "reconcile" => self.reconcile = Some(value(input)?),
            "timeout_ms" => self.timeout_ms = Some(timeout(input)?),
            "crate" => {
                input.parse::<Token![=]>()?;
                self.root = Some(if input.peek(LitStr) {
                    input.parse::<LitStr>()?.parse()?
                } else {
                    input.call(Path::parse_mod_style)?
                });
            }
            "shown" => self.shown = Some(shown(input)?),
            "example" => self.examples.push(example(input)?),
            other => {
                return Err(Error::new(
                    key.span(),
                    format!(
                        "`{other}` is not known here; expected one of: name, description, effect, on_unknown, reconcile, shown, example, timeout_ms, crate"
                    ),
                ));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        match (self.on_unknown, &self.reconcile) {
            (Some(OnUnknown::Reconcile), None) => Err(Error::new(
                proc_macro2::Span::call_site(),
                "`on_unknown = reconcile` needs a lookup: add `reconcile = function`",
            )),
            (Some(other), Some(function)) if other != OnUnknown::Reconcile => {
                Err(Error::new_spanned(
                    function,
                    "a lookup is used only with `on_unknown = reconcile`; leave one of the two out",
                ))
            }
            _ => Ok(()),
        }
    }
}

fn value<T: Parse>(input: ParseStream<'_>) -> Result<T> {
    input.parse::<Token![=]>()?;
    input.parse()
}

fn timeout(input: ParseStream<'_>) -> Result<u64> {
    let number: LitInt = value(input)?;
    match number.base10_parse() {
        Ok(0) => Err(Error::new(number.span(), "a timeout is at least 1 ms")),
        other => other,
    }
}

fn shown(input: ParseStream<'_>) -> Result<Vec<String>> {
    let inner;
    parenthesized!(inner in input);
    let mut members = Vec::new();
    while !inner.is_empty() {
        members.push(if inner.peek(LitStr) {
            inner.parse::<LitStr>()?.value()
        } else {
            inner.call(Ident::parse_any)?.unraw().to_string()
        });
        if !inner.is_empty() {
            inner.parse::<Token![,]>()?;
        }
    }
    Ok(members)
}

fn example(input: ParseStream<'_>) -> Result<Example> {
    let inner;
    parenthesized!(inner in input);
    let mut request = None;
    let mut args = None;
    while !inner.is_empty() {
        let key: Ident = inner.parse()?;
        inner.parse::<Token![=]>()?;
        match key.to_string().as_str() {
            "request" => request = Some(inner.parse::<LitStr>()?),
            "args" => args = Some(json_object(&inner)?),
            other => {
                return Err(Error::new(
                    key.span(),
                    format!("`{other}` is not known here; expected `request` and `args`"),
                ));
            }
        }
        if !inner.is_empty() {
            inner.parse::<Token![,]>()?;
        }
    }
    match (request, args) {
        (Some(request), Some(args)) => Ok(Example { request, args }),
        _ => Err(inner.error("an example is `example(request = \"...\", args = {...})`")),
    }
}

fn json_object(input: ParseStream<'_>) -> Result<Group> {
    match input.parse()? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Ok(group),
        other => Err(Error::new(
            other.span(),
            "the arguments of an example are a JSON object, such as `{\"order_id\": \"A-1\"}`",
        )),
    }
}

/// The contents of `#[arg(description = "...", secret)]`.
pub(super) struct ArgAttribute {
    pub(super) description: Option<String>,
    pub(super) secret: bool,
}

/// Parses `#[arg(...)]`.
pub(super) fn arg(attribute: &Attribute) -> Result<ArgAttribute> {
    let mut found = ArgAttribute { description: None, secret: false };
    attribute.parse_nested_meta(|meta| {
        if meta.path.is_ident("description") {
            found.description = Some(meta.value()?.parse::<LitStr>()?.value());
            return Ok(());
        }
        if meta.path.is_ident("secret") {
            found.secret = true;
            return Ok(());
        }
        Err(meta.error("expected `description = \"...\"` or `secret`"))
    })?;
    if found.description.is_none() && !found.secret {
        return Err(Error::new_spanned(attribute, "expected `description = \"...\"` or `secret`"));
    }
    Ok(found)
}
