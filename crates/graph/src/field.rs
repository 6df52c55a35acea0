//! A single field of a typed state as an argument of a node.

use crate::error::NodeError;
use crate::extract::{BuildInfo, FromTask, Reads, TaskInput};
use crate::state::StateSpec;
use std::marker::PhantomData;
use std::ops::Deref;
use weftwork_engine::Value;

/// Names a field of a state, by type. `#[derive(State)]` makes one for each field: for a struct
/// `Chat` with a field `messages` it is `chat_fields::Messages`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` names no field of a state",
    label = "not the key of a field",
    note = "`#[derive(State)]` on `struct Chat {{ log: .. }}` makes the key `chat_fields::Log`: take `Field<chat_fields::Log>`"
)]
pub trait FieldKey: 'static {
    /// The state.
    type State: StateSpec;
    /// Type of the field's value.
    type Value: 'static;
    /// The field's name, which is the channel's.
    const NAME: &'static str;
    /// Its place among the fields.
    const INDEX: usize;
}

/// A field that has a value from the start.
#[diagnostic::on_unimplemented(
    message = "the field that `{Self}` names may have no value yet",
    label = "may be empty",
    note = "use `.get()`, or give the field a first value: `#[channel(default)]`"
)]
pub trait HasValue: FieldKey {}

/// A single field of the state at the start of the superstep. Borrows; copies nothing.
///
/// A node that takes fields instead of the whole [`State`](struct@crate::State) declares by its
/// type what it reads: its task's input shows only that, and its [`Cache`](crate::Cache) considers
/// only that.
///
/// A field that has a value from the start dereferences to it; [`get`](Self::get) works for all.
///
/// # Example
/// ```
/// use weftwork_graph::run_loop::{Host, Start};
/// use weftwork_graph::{Field, Graph, List, START, State};
///
/// #[derive(State)]
/// struct Talk {
///     topic: String,
///     #[channel(append)]
///     log: List<String>,
/// }
///
/// async fn speak(topic: Field<talk_fields::Topic>, log: Field<talk_fields::Log>) -> TalkUpdate {
///     let topic = topic.get().map_or("nothing", String::as_str);
///     TalkUpdate::new().log([format!("{}: {topic}", log.len())])
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let graph = Graph::<Talk>::new("talk").node("speak", speak).edge(START, "speak").build()?;
/// let start = Start::typed(TalkUpdate::new().topic("rain".to_owned()))?;
/// let ended = graph.run(&Host::new(), start).finish().await?;
/// assert_eq!(ended.outcome().output(), Some(serde_json::json!({"topic": "rain", "log": ["0: rain"]})));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Field<K: FieldKey> {
    value: Option<Value>,
    key: PhantomData<fn() -> K>,
}

impl<K: FieldKey> Field<K> {
    /// Its value, when it has one.
    #[must_use]
    pub fn get(&self) -> Option<&K::Value> {
        self.value.as_ref().and_then(Value::get)
    }
}

impl<K: FieldKey> Clone for Field<K> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), key: PhantomData }
    }
}

impl<K: HasValue> Deref for Field<K> {
    type Target = K::Value;
    fn deref(&self) -> &K::Value {
        #[expect(clippy::expect_used, reason = "such fields have a value from the start")]
        self.get().expect("a field has its first value")
    }
}

impl<K: FieldKey> FromTask for Field<K> {
    fn from_task(input: &TaskInput<'_>) -> Result<Self, NodeError> {
        Ok(Self { value: input.slots.get(K::INDEX).cloned(), key: PhantomData })
    }

    fn check(info: &BuildInfo<'_>) -> Option<(String, String)> {
        let name = K::NAME;
        let state = K::State::NAME;
        info.other_state::<K::State>(format_args!("the field `{name}` of `{state}`"))
    }

    fn reads() -> Reads {
        Reads::Channel(K::NAME)
    }
}
