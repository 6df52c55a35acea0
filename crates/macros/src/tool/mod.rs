//! `#[tool]`: turns a function into a value that implements `Tool`.

mod attributes;
mod signature;

use attributes::{Attributes, Example};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use signature::{Parameter, Signature};
use syn::spanned::Spanned;
use syn::{ItemFn, Path, Result, parse2};

/// Expands the attribute. Mistakes become compile errors at their location.
pub(crate) fn expand(attributes: TokenStream, item: TokenStream, root: Path) -> TokenStream {
    try_expand(attributes, item, root).unwrap_or_else(|error| error.to_compile_error())
}

fn try_expand(attributes: TokenStream, item: TokenStream, root: Path) -> Result<TokenStream> {
    let function: ItemFn = parse2(item)?;
    let attributes: Attributes = parse2(attributes)?;
    let root = attributes.root.clone().unwrap_or(root);
    let signature = Signature::read(function, &attributes)?;
    let private = quote!(#root::__private);

    let struct_item = struct_item(&signature);
    let run = &signature.run;
    let vis = &signature.vis;
    let name = &signature.name;
    let args_struct = args_struct(&signature, &private);
    let build = build(&signature, &attributes, &root, &private);
    Ok(quote! {
        #struct_item

        impl #name {
            /// The function that the tool calls.
            #vis #run

            fn __tool() -> &'static #root::FnTool {
                #args_struct
                static TOOL: ::std::sync::OnceLock<#root::FnTool> = ::std::sync::OnceLock::new();
                TOOL.get_or_init(|| #build)
            }
        }

        impl #root::Tool for #name {
            fn spec(&self) -> &#private::ToolSpec {
                #root::Tool::spec(Self::__tool())
            }

            fn call(
                &self,
                args: #private::serde_json::Value,
                context: #root::ToolContext,
            ) -> #private::BoxFuture<
                'static,
                ::std::result::Result<#root::ToolOutput, #root::ToolError>,
            > {
                #root::Tool::call(Self::__tool(), args, context)
            }

            fn timeout(&self) -> ::std::time::Duration {
                #root::Tool::timeout(Self::__tool())
            }

            fn needs(&self) -> ::std::vec::Vec<#root::Need> {
                #root::Tool::needs(Self::__tool())
            }

            fn reconcile(&self) -> ::std::option::Option<&dyn #root::Reconcile> {
                #root::Tool::reconcile(Self::__tool())
            }
        }
    })
}

/// The struct whose value is the tool.
fn struct_item(signature: &Signature) -> TokenStream {
    let Signature { docs, vis, name, .. } = signature;
    quote! {
        #(#docs)*
        #[expect(non_camel_case_types, reason = "a tool is named like the function it is made of")]
        #[derive(Debug, Clone, Copy)]
        #vis struct #name;
    }
}

/// The struct of the arguments, from which schema and decoder are derived.
fn args_struct(signature: &Signature, private: &TokenStream) -> TokenStream {
    let serde = quote!(#private::serde).to_string().replace(' ', "");
    let schemars = quote!(#private::schemars).to_string().replace(' ', "");
    let fields = signature.parameters.iter().filter_map(|parameter| match parameter {
        Parameter::Argument { name, ty, attributes } => Some(quote!(#(#attributes)* #name: #ty,)),
        Parameter::Context { .. } => None,
    });
    quote! {
        #[derive(#private::serde::Deserialize, #private::schemars::JsonSchema)]
        #[serde(crate = #serde, deny_unknown_fields)]
        #[schemars(crate = #schemars)]
        struct __ToolArgs { #(#fields)* }
    }
}

/// The expression that creates the tool.
fn build(
    signature: &Signature,
    attributes: &Attributes,
    root: &Path,
    private: &TokenStream,
) -> TokenStream {
    let name = &signature.name;
    let wire = &signature.canonical;
    let description = &signature.description;
    let values = signature.parameters.iter().map(|parameter| match parameter {
        Parameter::Argument { name, .. } => quote!(args.#name),
        Parameter::Context { ty } => {
            quote_spanned!(ty.span()=> <#ty as #root::FromContext>::from_context(&context)?)
        }
    });
    let needs = signature.parameters.iter().filter_map(|parameter| match parameter {
        Parameter::Context { ty } => Some(quote!(<#ty as #root::FromContext>::need())),
        Parameter::Argument { .. } => None,
    });
    let value = if signature.is_async { quote!(returned.await) } else { quote!(returned) };
    let value = if signature.returns_result() { value } else { quote!(#private::Plain(#value)) };
    // Errors about a result or error type that cannot be used point at the return type.
    let at = signature.output.as_ref().map_or_else(|| name.span(), Spanned::span);
    let into_result = spanned(quote!(#private::ToolReturn::into_result), at);
    let new = spanned(quote!(#root::FnTool::new), at);
    let settings = settings(attributes, private);
    quote! {
        #new(
            #wire,
            #description,
            |args: __ToolArgs, context: #root::ToolContext| async move {
                // A function without arguments or context leaves one of the two unused.
                let _ = (&args, &context);
                let returned = #name::run(#(#values),*);
                #into_result(#value)
            },
        )
        .needs({
            let needs: ::std::vec::Vec<::std::option::Option<#root::Need>> =
                ::std::vec![#(#needs),*];
            needs.into_iter().flatten()
        })
        #settings
    }
}

fn settings(attributes: &Attributes, private: &TokenStream) -> TokenStream {
    let effect = attributes.effect.map(|effect| {
        let variant = effect.variant();
        quote!(.effect(#private::Effect::#variant))
    });
    let reconcile = attributes.reconcile.as_ref().map(|function| {
        quote! {
            .reconcile(|_: #private::serde_json::Value, context| #function(context))
        }
    });
    let on_unknown = attributes.on_unknown.map(|policy| {
        let variant = policy.variant();
        quote!(.on_unknown(#private::UnknownOutcome::#variant))
    });
    let shown = attributes.shown.as_ref().map(|members| quote!(.shown([#(#members),*])));
    let examples = attributes.examples.iter().map(
        |Example { request, args }| quote!(.example(#request, #private::serde_json::json!(#args))),
    );
    let timeout = attributes
        .timeout_ms
        .as_ref()
        .map(|ms| quote!(.timeout(::std::time::Duration::from_millis(#ms))));
    quote!(#effect #reconcile #on_unknown #shown #(#examples)* #timeout)
}

/// The same path, with its compile errors reported at another location.
fn spanned(path: TokenStream, at: Span) -> TokenStream {
    path.into_iter()
        .map(|mut token| {
            token.set_span(at);
            token
        })
        .collect()
}
