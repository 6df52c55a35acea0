//! States: structs whose fields are channels.

use crate::error::NodeError;
use crate::extract::{BuildInfo, FromTask, TaskInput};
use crate::output::IntoOutput;
use crate::schema::{ChannelSchema, Described, SchemaOf, TypeSchema};
use schemars::JsonSchema;
use std::any::TypeId;
use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;
use weftwork_engine::{Channel, NodeIdx, Plan, Slots};

/// A struct whose fields are channels. `#[derive(State)]` implements it, and makes the types named
/// here; all of it can be written by hand.
pub trait StateSpec: Sized + Send + Sync + 'static {
    /// The struct's name, for messages.
    const NAME: &'static str;

    /// View that nodes read: one method per field, which borrows its value.
    type View: Clone + Send + Sync + 'static;

    /// Update that nodes write: one method per field.
    type Update: IntoOutput + Default + Send + 'static;

    /// The channels, in the order of the fields.
    fn channels() -> Vec<ChannelDef>;

    /// The view of a state in the slots of a graph with this plan.
    fn view(slots: Slots, plan: &Arc<Plan>) -> Self::View;

    /// The view that a node, or one of its routes, has.
    fn view_of(seen: Seen<'_>) -> Self::View {
        Self::view(seen.slots, seen.plan)
    }

    /// An update that writes every field once.
    fn into_update(self) -> Self::Update;
}

/// State as seen by a node or one of its routes.
#[derive(Debug)]
pub struct Seen<'a> {
    pub(crate) slots: Slots,
    pub(crate) plan: &'a Arc<Plan>,
    pub(crate) node: NodeIdx,
    /// For a route: what its node returned, when that was an object.
    pub(crate) returned: Option<&'a Arc<Members>>,
}

/// The members of an object.
pub(crate) type Members = serde_json::Map<String, serde_json::Value>;

/// A channel of a state.
#[derive(Debug, Clone)]
pub struct ChannelDef {
    /// Its name: the field's.
    pub name: Cow<'static, str>,
    /// Channel that applies the writes.
    pub channel: Arc<dyn Channel>,
    pub(crate) described: Described,
}

impl ChannelDef {
    /// A channel of a state.
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>, channel: impl Channel + 'static) -> Self {
        Self { name: name.into(), channel: Arc::new(channel), described: Described::default() }
    }

    /// Adds the JSON Schema of a type, that of the value and of the writes, for clients; values are
    /// not checked against it.
    #[must_use]
    pub fn with_schema_of<T: JsonSchema>(mut self) -> Self {
        self.described.schema = SchemaOf::<T>::VALUE.map(ChannelSchema::Typed);
        self
    }

    /// Adds the JSON Schema of the value that the channel holds, for clients; values are not checked
    /// against it.
    #[must_use]
    pub fn with_schema(mut self, schema: serde_json::Value) -> Self {
        self.described.schema = Some(ChannelSchema::Given(schema));
        self
    }

    /// Adds the schema of the type of the values, if it has one, and the documentation of the field.
    #[doc(hidden)]
    #[must_use]
    pub fn described(mut self, schema: Option<TypeSchema>, docs: Option<&'static str>) -> Self {
        let schema = schema.map(ChannelSchema::Typed);
        self.described = Described { schema, docs, ..self.described };
        self
    }

    /// Makes this the channel that receives the error of an activity which fails, as JSON, for
    /// instances of agents; see [`CompiledGraph::error_channel`](crate::CompiledGraph::error_channel).
    #[must_use]
    pub fn of_errors(mut self) -> Self {
        self.described.of_errors = true;
        self
    }
}

/// The state at the start of the superstep, as a node reads it. Borrows; copies nothing.
///
/// Its methods are those of the state's view: one per field.
///
/// ```
/// use weftwork_graph::{List, State};
///
/// #[derive(State)]
/// struct Order {
///     customer: String,
///     #[channel(append)]
///     items: List<String>,
/// }
///
/// async fn greet(order: State<Order>) -> OrderUpdate {
///     // A field without an attribute is empty until it is written.
///     let customer = order.customer().map_or("nobody", String::as_str);
///     OrderUpdate::new().items([format!("card for {customer}, item {}", order.items().len() + 1)])
/// }
/// ```
#[derive(Debug)]
pub struct State<S: StateSpec>(S::View);

impl<S: StateSpec> State<S> {
    /// The state in these slots, which must be those of a graph over `S`.
    #[must_use]
    pub(crate) fn over(seen: Seen<'_>) -> Self {
        Self(S::view_of(seen))
    }
}

impl<S: StateSpec> Clone for State<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: StateSpec> Deref for State<S> {
    type Target = S::View;
    fn deref(&self) -> &S::View {
        &self.0
    }
}

impl<S: StateSpec> FromTask for State<S> {
    fn from_task(input: &TaskInput<'_>) -> Result<Self, NodeError> {
        let slots = input.slots.clone();
        let plan = input.plan;
        let node = input.node;
        Ok(Self::over(Seen { slots, plan, node, returned: None }))
    }

    fn check(info: &BuildInfo<'_>) -> Option<(String, String)> {
        info.other_state::<S>(format_args!("`State<{}>`", S::NAME))
    }
}

impl BuildInfo<'_> {
    /// Returns the mismatch and its fix when the graph's state is another than `S`.
    #[must_use]
    pub fn other_state<S: StateSpec>(
        &self,
        what: impl std::fmt::Display,
    ) -> Option<(String, String)> {
        let other = self.state != TypeId::of::<S>();
        other.then(|| (what.to_string(), format!("the graph's state is `{}`", self.state_name)))
    }
}
