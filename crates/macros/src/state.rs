//! `#[derive(State)]`: a struct whose fields are channels.

use crate::fields::{all, keys};
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Expr, Field, Fields, Ident, Path, Result, Type};

/// The effect of writes to a field.
enum Kind {
    LastValue {
        default: bool,
    },
    Append {
        item: Box<Type>,
    },
    Messages,
    Reduce {
        with: Box<Expr>,
    },
    /// `any`, `ephemeral` or `untracked`: a value that may be absent.
    Passing(&'static str),
    Topic {
        item: Box<Type>,
    },
}

pub(crate) struct Channel {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    docs: Vec<syn::Attribute>,
    kind: Kind,
    /// `true` for the field that receives errors.
    of_errors: bool,
}

impl Channel {
    /// Returns `true` if the field may have no value.
    pub(crate) fn may_be_gone(&self) -> bool {
        matches!(
            self.kind,
            Kind::LastValue { default: false } | Kind::Passing(_) | Kind::Topic { .. }
        )
    }
}

pub(crate) fn expand(input: TokenStream, default_path: Path) -> TokenStream {
    syn::parse2(input)
        .and_then(|input| derive(&input, default_path))
        .unwrap_or_else(|error| error.to_compile_error())
}

fn derive(input: &DeriveInput, default_path: Path) -> Result<TokenStream> {
    let krate = crate_path(input, default_path)?;
    let channels = all(fields(input)?.iter().map(channel))?;
    if let Some(second) = channels.iter().filter(|channel| channel.of_errors).nth(1) {
        return Err(Error::new(second.name.span(), "a state has one field for errors"));
    }
    let name = &input.ident;
    let vis = &input.vis;
    // Of the place of the derive: a type of the program with such a name is reported with it.
    let view = format_ident!("{name}View", span = Span::call_site());
    let update = format_ident!("{name}Update", span = Span::call_site());
    let defs = channels.iter().map(|c| definition(c, &krate));
    let readers = channels.iter().enumerate().map(|(i, c)| reader(i, c, &krate));
    let writers = channels.iter().enumerate().map(|(i, c)| writer(i, c, &krate));
    let whole = channels.iter().map(whole);
    let keys = keys(name, vis, &channels, &krate);
    let conversation = conversation(name, &channels, &krate);
    let view_doc =
        format!("The state [`{name}`] as nodes read it: one method per channel that borrows.");
    let update_doc = format!("An update of the state [`{name}`]: one method per channel.");
    let text = name.to_string();
    Ok(quote! {
        #[automatically_derived]
        impl #krate::StateSpec for #name {
            const NAME: &'static str = #text;
            type View = #view;
            type Update = #update;
            fn channels() -> ::std::vec::Vec<#krate::ChannelDef> {
                // Not used if all types have a schema.
                #[allow(unused_imports)]
                use #krate::__private::NoSchema as _;
                ::std::vec![#(#defs),*]
            }
            fn view(
                slots: #krate::__private::Slots,
                _: &::std::sync::Arc<#krate::__private::Plan>,
            ) -> #view {
                #view(slots)
            }
            fn into_update(self) -> #update {
                #update::new()#(#whole)*
            }
        }

        #[doc = #view_doc]
        #[derive(Debug, Clone)]
        #vis struct #view(#krate::__private::Slots);

        impl #view {
            #(#readers)*
        }

        #[doc = #update_doc]
        #[derive(Debug, Default)]
        #[must_use]
        #vis struct #update(#krate::__private::TaskOutput);

        impl #update {
            /// Creates an update without writes.
            pub fn new() -> Self {
                <Self as ::core::default::Default>::default()
            }
            #(#writers)*
        }

        impl #krate::IntoOutput for #update {
            fn into_output(self) -> #krate::NodeResult<#krate::__private::TaskOutput> {
                ::core::result::Result::Ok(self.0)
            }
            fn check(
                info: &#krate::BuildInfo<'_>,
            ) -> ::core::option::Option<(::std::string::String, ::std::string::String)> {
                info.other_state::<#name>(::core::concat!("`", #text, "Update`"))
            }
        }

        #conversation

        #keys
    })
}

/// The conversation of a state that has a channel of messages under the name that agents use.
fn conversation(state: &Ident, channels: &[Channel], krate: &Path) -> Option<TokenStream> {
    let is_conversation =
        |channel: &&Channel| matches!(channel.kind, Kind::Messages) && channel.name == "messages";
    channels.iter().find(is_conversation)?;
    Some(quote! {
        #[automatically_derived]
        impl #krate::Conversation for #state {
            fn conversation(
                state: &#krate::State<Self>,
            ) -> &#krate::__private::List<#krate::__private::Message> {
                state.messages()
            }
            fn say(message: #krate::__private::Message) -> Self::Update {
                <Self as #krate::StateSpec>::Update::new().messages([message])
            }
        }
    })
}

/// The crate that the expansion refers to: `#[state(crate = path)]`, or the default.
fn crate_path(input: &DeriveInput, default_path: Path) -> Result<Path> {
    let mut path = default_path;
    for attribute in input.attrs.iter().filter(|a| a.path().is_ident("state")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("crate") {
                path = meta.value()?.parse()?;
                return Ok(());
            }
            Err(meta.error("unknown option; expected `crate = path`"))
        })?;
    }
    Ok(path)
}

fn fields(input: &DeriveInput) -> Result<Vec<Field>> {
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(&input.generics, "a state cannot be generic"));
    }
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => Ok(fields.named.iter().cloned().collect()),
            _ => Err(Error::new_spanned(
                &input.ident,
                "a state is a struct with named fields; each field is a channel",
            )),
        },
        _ => Err(Error::new_spanned(
            &input.ident,
            "a state is a struct with named fields; each field is a channel",
        )),
    }
}

fn channel(field: &Field) -> Result<Channel> {
    let name =
        field.ident.clone().ok_or_else(|| Error::new(field.span(), "a channel has a name"))?;
    let mut kind = Kind::LastValue { default: false };
    let mut said = false;
    let mut of_errors = false;
    for attribute in field.attrs.iter().filter(|a| a.path().is_ident("channel")) {
        attribute.parse_nested_meta(|meta| {
            let first = !std::mem::replace(&mut said, true);
            if meta.path.is_ident("default") {
                if let Kind::LastValue { default } = &mut kind {
                    *default = true;
                }
                return Ok(());
            }
            if meta.path.is_ident("error") {
                of_errors = true;
                return Ok(());
            }
            if !first && !matches!(kind, Kind::LastValue { .. }) {
                return Err(meta.error("a channel takes writes in one way only"));
            }
            kind = if meta.path.is_ident("last_value") {
                Kind::LastValue { default: false }
            } else if meta.path.is_ident("append") {
                Kind::Append { item: Box::new(list_item(&field.ty)?) }
            } else if meta.path.is_ident("messages") {
                list_item(&field.ty)?;
                Kind::Messages
            } else if meta.path.is_ident("topic") {
                Kind::Topic { item: Box::new(list_item(&field.ty)?) }
            } else if let Some(kind) = passing(&meta.path) {
                Kind::Passing(kind)
            } else if meta.path.is_ident("reduce") {
                Kind::Reduce { with: Box::new(meta.value()?.parse()?) }
            } else {
                return Err(meta.error(
                    "unknown kind of channel; expected `append`, `messages`, `reduce = function`, `last_value`, `default`, `error`, `any`, `ephemeral`, `untracked` or `topic`",
                ));
            };
            Ok(())
        })?;
    }
    if of_errors && !matches!(kind, Kind::LastValue { .. }) {
        return Err(Error::new(
            name.span(),
            "a field for errors holds its last value: write `#[channel(error)] name: Option<AgentRuntimeError>`",
        ));
    }
    if is_vec(&field.ty) {
        return Err(Error::new_spanned(
            &field.ty,
            "a list in a state is a `List<T>`, which grows without being copied: write `#[channel(append)] name: List<T>`",
        ));
    }
    if !said && list_item(&field.ty).is_ok() {
        return Err(Error::new_spanned(
            &field.ty,
            "say how this list takes writes: `#[channel(append)]`, `#[channel(messages)]`, or `#[channel(last_value)]` to replace it each time",
        ));
    }
    let docs = field.attrs.iter().filter(|a| a.path().is_ident("doc")).cloned().collect();
    Ok(Channel { name, ty: field.ty.clone(), docs, kind, of_errors })
}

fn passing(path: &Path) -> Option<&'static str> {
    ["any", "ephemeral", "untracked"].into_iter().find(|kind| path.is_ident(kind))
}

fn last_segment(ty: &Type) -> Option<&syn::PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}

fn is_vec(ty: &Type) -> bool {
    last_segment(ty).is_some_and(|segment| segment.ident == "Vec")
}

fn list_item(ty: &Type) -> Result<Type> {
    let wrong = || Error::new_spanned(ty, "this kind of channel holds a `List<T>`");
    let segment = last_segment(ty).filter(|s| s.ident == "List").ok_or_else(wrong)?;
    match &segment.arguments {
        syn::PathArguments::AngleBracketed(args) => match args.args.first() {
            Some(syn::GenericArgument::Type(item)) => Ok(item.clone()),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

fn definition(channel: &Channel, krate: &Path) -> TokenStream {
    let name = channel.name.to_string();
    let ty = &channel.ty;
    // What the type lacks is reported at the field, if all tokens are of its place.
    let at = ty.span();
    let schema = schema(channel, krate);
    let docs = description(channel);
    let krate: TokenStream = quote!(#krate)
        .into_iter()
        .map(|mut token| {
            token.set_span(at);
            token
        })
        .collect();
    let made = match &channel.kind {
        Kind::LastValue { default: false } => quote_spanned!(at=> LastValue::<#ty>::new()),
        Kind::LastValue { default: true } => {
            quote_spanned!(at=> LastValue::<#ty>::starting_with(<#ty as ::core::default::Default>::default))
        }
        Kind::Append { item } => quote_spanned!(at=> Append::<#item>::new()),
        Kind::Messages => quote_spanned!(at=> Messages),
        Kind::Topic { item } => quote_spanned!(at=> Topic::<#item>::new()),
        Kind::Passing("any") => quote_spanned!(at=> Ephemeral::<#ty>::any()),
        Kind::Passing("ephemeral") => quote_spanned!(at=> Ephemeral::<#ty>::one()),
        Kind::Passing(_) => quote_spanned!(at=> Untracked::<#ty>::new()),
        Kind::Reduce { with } => {
            quote_spanned!(at=> Reduce::<#ty>::new(<#ty as ::core::default::Default>::default, #with))
        }
    };
    let of_errors = channel.of_errors.then(|| quote!(.of_errors()));
    quote_spanned! { at=>
        #krate::ChannelDef::new(#name, #krate::__private::#made)
            .described(#schema, #docs) #of_errors
    }
}

/// The schema of the values of a channel, which their type may not have.
fn schema(channel: &Channel, krate: &Path) -> TokenStream {
    let of = |ty: &Type, form: TokenStream| quote!(#krate::__private::SchemaOf::<#ty>::#form);
    match &channel.kind {
        // The graph knows it.
        Kind::Messages => quote!(::core::option::Option::None),
        Kind::Append { item } | Kind::Topic { item } => of(item, quote!(LIST)),
        Kind::LastValue { .. } | Kind::Passing(_) | Kind::Reduce { .. } => {
            match list_item(&channel.ty) {
                Ok(item) => of(&item, quote!(LIST)),
                Err(_) => of(&channel.ty, quote!(VALUE)),
            }
        }
    }
}

/// The documentation of a field as one text.
fn description(channel: &Channel) -> TokenStream {
    let line = |attribute: &syn::Attribute| match &attribute.meta {
        syn::Meta::NameValue(syn::MetaNameValue {
            value: Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }),
            ..
        }) => Some(text.value().trim().to_owned()),
        _ => None,
    };
    let lines: Vec<String> = channel.docs.iter().filter_map(line).collect();
    if lines.is_empty() {
        return quote!(::core::option::Option::None);
    }
    let text = lines.join("\n");
    quote!(::core::option::Option::Some(#text))
}

fn reader(index: usize, channel: &Channel, krate: &Path) -> TokenStream {
    let name = &channel.name;
    let ty = &channel.ty;
    let docs = docs(channel, "The value of");
    if channel.may_be_gone() {
        return quote! {
            #docs
            #[must_use]
            pub fn #name(&self) -> ::core::option::Option<&#ty> {
                self.0.get(#index).and_then(|value| value.get::<#ty>())
            }
        };
    }
    quote! {
        #docs
        #[must_use]
        pub fn #name(&self) -> &#ty {
            #krate::__private::present(&self.0, #index)
        }
    }
}

fn writer(index: usize, channel: &Channel, krate: &Path) -> TokenStream {
    let name = &channel.name;
    let ty = &channel.ty;
    let docs = docs(channel, "Writes");
    let private = quote!(#krate::__private);
    let (arg, value) = match &channel.kind {
        Kind::LastValue { .. } | Kind::Reduce { .. } | Kind::Passing(_) => {
            (quote!(value: #ty), quote!(value))
        }
        Kind::Append { item } | Kind::Topic { item } => (
            quote!(items: impl ::core::iter::IntoIterator<Item = impl ::core::convert::Into<#item>>),
            quote! {
                items.into_iter().map(::core::convert::Into::into)
                    .collect::<#private::Items<#item>>()
            },
        ),
        Kind::Messages => (
            quote!(items: impl ::core::iter::IntoIterator<
                Item = impl ::core::convert::Into<#private::MessageWrite>,
            >),
            quote! {
                items.into_iter().map(::core::convert::Into::into)
                    .collect::<#private::Items<#private::MessageWrite>>()
            },
        ),
    };
    quote! {
        #docs
        pub fn #name(mut self, #arg) -> Self {
            let write = #private::Write::typed(#value);
            self.0.write(#private::ChannelIdx(#index), write);
            self
        }
    }
}

/// The call that writes a field's whole value.
fn whole(channel: &Channel) -> TokenStream {
    let name = &channel.name;
    match channel.kind {
        Kind::LastValue { .. } | Kind::Reduce { .. } | Kind::Passing(_) => {
            quote!(.#name(self.#name))
        }
        Kind::Append { .. } | Kind::Topic { .. } | Kind::Messages => {
            quote!(.#name(self.#name.iter().cloned()))
        }
    }
}

/// The field's own documentation, or a line with its name.
fn docs(channel: &Channel, verb: &str) -> TokenStream {
    if channel.docs.is_empty() {
        let line = format!("{verb} channel `{}`.", channel.name);
        return quote!(#[doc = #line]);
    }
    let docs = &channel.docs;
    quote!(#(#docs)*)
}
