//! Macros that generate the boilerplate of tools, states and routes.
//!
//! They are re-exported and documented in the crates where they are used. Each macro has two entry
//! points, because its expansion must name a crate that the user depends on: one for users of a
//! part (`weftwork-tools`) and one for users of `weftwork`, which re-exports it under the plain
//! name. `crate = path` overrides both.

mod build_version;
mod fields;
mod routes;
mod state;
mod tool;

use proc_macro::TokenStream;
use syn::parse_quote;

/// Turns a function into a tool, with name, description and schemas derived from the function.
///
/// The function may be `async`. Its doc comment is the description for the model. Each parameter is
/// an argument, described by its own doc comment or by `#[arg(description = "...")]`;
/// `#[serde(...)]` and `#[schemars(...)]` attributes on a parameter refine it, and an `Option` may
/// be omitted. Parameters of the types `Deps<T>` and `ToolContext` come from the program instead.
/// The function returns a value, or a `Result` with an error that implements `Display`.
///
/// The function's name becomes a value to add to a `ToolBox`; the function itself can be called as
/// `name::run(...)`.
///
/// | attribute | meaning | default |
/// |---|---|---|
/// | `name = "..."` | canonical name, `tool` or `server/tool` | the function's name |
/// | `description = "..."` | description for the model | the doc comment |
/// | `effect = read_only`, `state_change` or `external_side_effect` | effect of the tool | `read_only` |
/// | `on_unknown = idempotent`, `reconcile` or `ask` | behaviour when a crash leaves the outcome unknown | `ask` for effects |
/// | `reconcile = function` | the lookup: `async fn(ToolContext) -> Result<Option<T>, E>` | none |
/// | `shown(a, b)` or `shown(".")` | members of the result that may be shown; `.` is the whole result | the members that the type declares |
/// | `example(request = "...", args = {...})` | an example for the model; may be repeated | none |
/// | `timeout_ms = 5000` | time limit | 60 seconds |
/// | `crate = path` | path of the crate | `::weftwork_tools` |
#[proc_macro_attribute]
pub fn tool(attributes: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(attributes.into(), item.into(), parse_quote!(::weftwork_tools)).into()
}

/// Like [`macro@tool`], for users of the crate `weftwork`, which re-exports it as `tool`.
#[proc_macro_attribute]
pub fn facade_tool(attributes: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(attributes.into(), item.into(), parse_quote!(::weftwork::tools)).into()
}

/// Turns a struct into a state, in which each field is a channel.
///
/// | attribute of a field | effect of a write | initial value |
/// |---|---|---|
/// | none | replaces the value; at most one write per superstep | none |
/// | `#[channel(default)]` | the same | the type's default |
/// | `#[channel(error)]` | the same; it receives the error of an activity that fails | none |
/// | `#[channel(append)]` on a `List<T>` | appends | empty |
/// | `#[channel(messages)]` on a `List<Message>` | appends; a message with a known id is replaced | empty |
/// | `#[channel(reduce = function)]` | folds with `fn(T, T) -> T` | the type's default |
/// | `#[channel(ephemeral)]` | sets the value for the next superstep only; at most one write per superstep | none |
/// | `#[channel(any)]` | the same with any number of writes, of which the last counts | none |
/// | `#[channel(topic)]` on a `List<T>` | collects the writes of one superstep for the next | none |
/// | `#[channel(untracked)]` | replaces the value within a run; never stored | none |
///
/// For a struct `Chat` it generates `ChatView` (read by nodes through `State<Chat>`), `ChatUpdate`
/// (written by nodes, with one method per field), and a module `chat_fields` with one type per
/// field, named in camel case, for nodes that read only some fields:
/// `Field<chat_fields::Messages>`. A field `messages` of the kind `messages` makes it a `Conversation`,
/// on which prebuilt agents work. `#[state(crate = path)]` on the struct sets the path of the
/// crate.
///
/// A module has no other items with these three names: a struct `ChatView` of your own beside `Chat`
/// is refused as defined twice (E0428), with the derive as the other definition. Rename it, or put
/// the state into a module of its own.
#[proc_macro_derive(State, attributes(channel, state))]
pub fn state(input: TokenStream) -> TokenStream {
    state::expand(input.into(), parse_quote!(::weftwork_graph)).into()
}

/// Like [`macro@State`], for users of the crate `weftwork`, which re-exports it as `State`.
#[proc_macro_derive(FacadeState, attributes(channel, state))]
pub fn facade_state(input: TokenStream) -> TokenStream {
    state::expand(input.into(), parse_quote!(::weftwork::graph)).into()
}

/// Makes an enum the result type of a route. Each variant is a node, named in snake case or by
/// `#[route("name")]`; a variant `End` is the end of the graph.
#[proc_macro_derive(Routes, attributes(route))]
pub fn routes(input: TokenStream) -> TokenStream {
    routes::expand(input.into(), parse_quote!(::weftwork_graph)).into()
}

/// Like [`macro@Routes`], for users of the crate `weftwork`, which re-exports it as `Routes`.
#[proc_macro_derive(FacadeRoutes, attributes(route))]
pub fn facade_routes(input: TokenStream) -> TokenStream {
    routes::expand(input.into(), parse_quote!(::weftwork::graph)).into()
}

/// The commit that a program is built from, as an `Option<&'static str>`: twelve digits, with `-dirty`
/// at the end if tracked files differ from it; `None` outside a git repository. The crate that calls this
/// is compiled again after each commit.
#[proc_macro]
pub fn build_version(_: TokenStream) -> TokenStream {
    build_version::expand().into()
}
