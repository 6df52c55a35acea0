//! Keys of the fields of a state: one type per field.

use crate::state::Channel;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Error, Ident, Path, Result, Visibility, parse_quote};

/// Generates the module with a key for each field.
pub(crate) fn keys(
    state: &Ident,
    vis: &Visibility,
    channels: &[Channel],
    krate: &Path,
) -> TokenStream {
    let module = format_ident!("{}_fields", snake_case(&state.unraw().to_string()));
    let doc = format!("Keys of the fields of [`{state}`], for nodes that take a `Field`.");
    let within = within(vis);
    let names = channels.iter().map(|channel| camel_case(&channel.name));
    let docs = channels.iter().map(|channel| format!("The field `{}`.", channel.name.unraw()));
    let keys = channels.iter().enumerate().map(|(index, channel)| {
        let key = camel_case(&channel.name);
        let ty = &channel.ty;
        let name = channel.name.to_string();
        let has_value = (!channel.may_be_gone()).then(|| {
            quote! {
                #[automatically_derived]
                impl #krate::HasValue for #module::#key {}
            }
        });
        quote! {
            #[automatically_derived]
            impl #krate::FieldKey for #module::#key {
                type State = #state;
                type Value = #ty;
                const NAME: &'static str = #name;
                const INDEX: usize = #index;
            }
            #has_value
        }
    });
    quote! {
        #[doc = #doc]
        #vis mod #module {
            #(
                #[doc = #docs]
                #[derive(Debug, Clone, Copy)]
                #within struct #names;
            )*
        }
        #(#keys)*
    }
}

/// The visibility of the state, as written one module deeper.
fn within(vis: &Visibility) -> Visibility {
    match vis {
        Visibility::Inherited => parse_quote!(pub(super)),
        Visibility::Restricted(restricted) if restricted.path.is_ident("self") => {
            parse_quote!(pub(super))
        }
        Visibility::Restricted(restricted) if !restricted.path.is_ident("crate") => {
            let path = &restricted.path;
            if path.leading_colon.is_none()
                && path.segments.first().is_some_and(|s| s.ident == "super")
            {
                parse_quote!(pub(in super::#path))
            } else {
                parse_quote!(pub(in #path))
            }
        }
        other => other.clone(),
    }
}

/// Returns all results, or all errors together: a person corrects them at once.
pub(crate) fn all<T>(results: impl Iterator<Item = Result<T>>) -> Result<Vec<T>> {
    let mut found = Vec::new();
    let mut errors: Option<Error> = None;
    for result in results {
        match (result, &mut errors) {
            (Ok(value), _) => found.push(value),
            (Err(error), Some(errors)) => errors.combine(error),
            (Err(error), None) => errors = Some(error),
        }
    }
    errors.map_or(Ok(found), Err)
}

/// Converts a type name to snake case.
pub(crate) fn snake_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for (i, c) in name.chars().enumerate() {
        if c.is_uppercase() && i > 0 {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

fn camel_case(name: &Ident) -> Ident {
    let text = name.unraw().to_string();
    let words = text.split('_').filter(|word| !word.is_empty());
    let camel: String = words
        .flat_map(|word| {
            let mut chars = word.chars();
            let first = chars.next().into_iter().flat_map(char::to_uppercase);
            first.chain(chars).collect::<Vec<_>>()
        })
        .collect();
    Ident::new(&camel, name.span())
}
