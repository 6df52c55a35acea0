//! `#[derive(Routes)]`: an enum whose variants are targets of a route.

use crate::fields::{all, snake_case};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Path, Result, Variant};

pub(crate) fn expand(input: TokenStream, default_path: Path) -> TokenStream {
    syn::parse2(input)
        .and_then(|input| derive(&input, &default_path))
        .unwrap_or_else(|error| error.to_compile_error())
}

fn derive(input: &DeriveInput, krate: &Path) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "routes are an enum: one variant per target"));
    };
    let names = all(data.variants.iter().map(target))?;
    let variants = data.variants.iter().map(|v| &v.ident);
    let name = &input.ident;
    Ok(quote! {
        #[automatically_derived]
        impl #krate::Routes for #name {
            const TARGETS: &'static [&'static str] = &[#(#names),*];
            fn target(&self) -> &'static str {
                match self {
                    #(Self::#variants => #names,)*
                }
            }
        }
    })
}

/// The node of a variant: `#[route("name")]`, or the variant's name in snake case; `End` is the end
/// of the graph.
fn target(variant: &Variant) -> Result<String> {
    if !variant.fields.is_empty() {
        return Err(Error::new_spanned(
            variant,
            "a target of a route carries nothing; to send a value return a `Next` from `SendTo::to`",
        ));
    }
    if let Some(attribute) = variant.attrs.iter().find(|a| a.path().is_ident("route")) {
        return Ok(attribute.parse_args::<syn::LitStr>()?.value());
    }
    let name = variant.ident.to_string();
    Ok(if name == "End" { "END".to_owned() } else { snake_case(&name) })
}
