//! Macros that take the boilerplate out of tools, states and routes.
//!
//! They are re-exported where they are used and documented there. Each has two entry points,
//! because what it expands to must name a crate that its user depends on: one for users of the
//! part (`weftwork-tools`), one for users of the whole (`weftwork`), which re-exports it under the
//! plain name. `crate = path` overrules both.

mod fields;
mod routes;
mod state;
mod tool;

use proc_macro::TokenStream;
use syn::parse_quote;

/// Makes a tool of a function: its name, description and schemas come from the function.
///
/// The function may be `async` or not. Its doc comment is what the model reads. Each parameter is
/// an argument, described by its own doc comment or by `#[arg(description = "...")]`;
/// `#[serde(...)]` and `#[schemars(...)]` on a parameter refine it, and an `Option` may be left
/// out. Parameters of the types `Deps<T>` and `ToolContext` come from the program instead. It
/// returns a value, or a `Result` whose error can be displayed.
///
/// The function's name becomes a value that is put into a `ToolBox`; the function itself stays
/// callable as `name::run(...)`.
///
/// | attribute | meaning | unless given |
/// |---|---|---|
/// | `name = "..."` | canonical name, `tool` or `server/tool` | the function's name |
/// | `description = "..."` | what the model reads | the doc comment |
/// | `effect = read_only`, `state_change` or `external_side_effect` | what it changes | `read_only` |
/// | `on_unknown = idempotent`, `reconcile` or `ask` | what to do when a crash leaves the outcome unknown | `ask` for effects |
/// | `reconcile = function` | the look-up: `async fn(ToolContext) -> Result<Option<T>, E>` | none |
/// | `shown(a, b)` or `shown(".")` | members of the result that may be shown; `.` is all of it | what the type declares |
/// | `example(request = "...", args = {...})` | an example for the model; may be repeated | none |
/// | `timeout_ms = 5000` | how long it may take | 60 seconds |
/// | `crate = path` | where to find the crate | `::weftwork_tools` |
#[proc_macro_attribute]
pub fn tool(attributes: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(attributes.into(), item.into(), parse_quote!(::weftwork_tools)).into()
}

/// [`macro@tool`] for users of the crate `weftwork`, which re-exports it as `tool`.
#[proc_macro_attribute]
pub fn facade_tool(attributes: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(attributes.into(), item.into(), parse_quote!(::weftwork::tools)).into()
}

/// Makes a state of a struct: each field is a channel.
///
/// | attribute of a field | how it takes writes | starts as |
/// |---|---|---|
/// | none | keeps the last value; one write per superstep | nothing |
/// | `#[channel(default)]` | the same | the type's default |
/// | `#[channel(append)]` on a `List<T>` | appends | empty |
/// | `#[channel(messages)]` on a `List<Message>` | appends; a known id replaces | empty |
/// | `#[channel(reduce = function)]` | folds with `fn(T, T) -> T` | the type's default |
/// | `#[channel(ephemeral)]` | keeps one write for the next superstep only | nothing |
/// | `#[channel(any)]` | the same with any number of writes; the last counts | nothing |
/// | `#[channel(topic)]` on a `List<T>` | collects the writes of one superstep for the next | nothing |
/// | `#[channel(untracked)]` | keeps the last value within a run, is never stored | nothing |
///
/// For a struct `Chat` it makes `ChatView` (what nodes read, through `State<Chat>`) and
/// `ChatUpdate` (what they write), with one method per field, and a module `chat_fields` with one
/// type per field, named in camel case, for nodes that read some fields only:
/// `Field<chat_fields::Messages>`. `#[state(crate = path)]` on the struct says where to find the
/// crate.
#[proc_macro_derive(State, attributes(channel, state))]
pub fn state(input: TokenStream) -> TokenStream {
    state::expand(input.into(), parse_quote!(::weftwork_graph)).into()
}

/// [`macro@State`] for users of the crate `weftwork`, which re-exports it as `State`.
#[proc_macro_derive(FacadeState, attributes(channel, state))]
pub fn facade_state(input: TokenStream) -> TokenStream {
    state::expand(input.into(), parse_quote!(::weftwork::graph)).into()
}

/// Makes an enum the result of a route: each variant is a node, named in snake case or by
/// `#[route("name")]`; a variant `End` is the end of the graph.
#[proc_macro_derive(Routes, attributes(route))]
pub fn routes(input: TokenStream) -> TokenStream {
    routes::expand(input.into(), parse_quote!(::weftwork_graph)).into()
}

/// [`macro@Routes`] for users of the crate `weftwork`, which re-exports it as `Routes`.
#[proc_macro_derive(FacadeRoutes, attributes(route))]
pub fn facade_routes(input: TokenStream) -> TokenStream {
    routes::expand(input.into(), parse_quote!(::weftwork::graph)).into()
}
