//! JSON Schemas of a graph: of its state, its input and its output (ADR 0037).

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value as Json, json};
use std::marker::PhantomData;
use weftwork_engine::{ChannelIdx, Plan};

/// Function that makes the schema of a type with the definitions of a generator.
pub type TypeSchema = fn(&mut SchemaGenerator) -> Schema;

/// JSON Schema of the values of a channel.
#[derive(Debug, Clone)]
pub(crate) enum ChannelSchema {
    /// Schema of the value that the channel holds, as it was given. Writes may differ from it.
    Given(Json),
    /// Schema of the type of the values.
    Typed(TypeSchema),
}

/// Description of a channel for clients.
#[derive(Debug, Clone, Default)]
pub(crate) struct Described {
    pub(crate) schema: Option<ChannelSchema>,
    /// Documentation of the field.
    pub(crate) docs: Option<&'static str>,
    /// `true` for the channel that receives errors.
    pub(crate) of_errors: bool,
}

/// The schema of a type, for the expansion of `#[derive(State)]`: `SchemaOf::<T>::VALUE` is the
/// constant here if `T` has a schema, and that of [`NoSchema`] otherwise.
#[derive(Debug)]
pub struct SchemaOf<T>(PhantomData<fn() -> T>);

impl<T: JsonSchema> SchemaOf<T> {
    /// Schema of a value.
    pub const VALUE: Option<TypeSchema> = Some(|generator| generator.subschema_for::<T>());
    /// Schema of a list of values.
    pub const LIST: Option<TypeSchema> = Some(|generator| generator.subschema_for::<Vec<T>>());
}

/// The constants of types without a schema.
pub trait NoSchema {
    /// No schema.
    const VALUE: Option<TypeSchema> = None;
    /// No schema.
    const LIST: Option<TypeSchema> = None;
}

impl<T> NoSchema for SchemaOf<T> {}

/// Schema of a value that a person or a program gives, with all definitions in place.
pub(crate) fn answer_schema<T: JsonSchema>() -> Json {
    let settings = SchemaSettings::draft2020_12().for_deserialize().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// JSON Schemas of a graph (draft 2020-12), each an object with the members `title`, `type`,
/// `properties` with one schema for each channel, and `$defs` if the schemas refer to definitions.
///
/// A channel whose schema is not known may have any value: its schema is `{}`. A whole schema is
/// `None` if no schema of its channels is known. A channel of messages has the schema of an array
/// of [`Message`](weftwork_types::message::Message).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GraphSchemas {
    /// Values of all channels that hold state.
    pub state: Option<Json>,
    /// Values that input may write. Schemas that were given with
    /// [`with_schema`](crate::ChannelDef::with_schema) are not part of it, because they describe
    /// the state and not the writes.
    pub input: Option<Json>,
    /// Values of the channels of the output; without given schemas, as for the input.
    pub output: Option<Json>,
}

/// The parts of a graph from which its schemas are made.
pub(crate) struct Source<'a> {
    pub(crate) name: &'a str,
    pub(crate) plan: &'a Plan,
    /// Descriptions of the channels, in their order.
    pub(crate) described: &'a [Described],
}

impl Source<'_> {
    pub(crate) fn schemas(&self) -> GraphSchemas {
        let plan = self.plan;
        let inputs = plan.state_keys().filter(|index| plan.is_input(*index));
        let written = SchemaSettings::draft2020_12().for_deserialize();
        let read = || SchemaSettings::draft2020_12().for_serialize();
        GraphSchemas {
            state: self.object_schema("state", plan.state_keys(), read(), true),
            input: self.object_schema("input", inputs, written, false),
            output: self.object_schema("output", plan.output_keys(), read(), false),
        }
    }

    /// Returns the schema of an object with some channels; `None` if nothing is known of them.
    fn object_schema(
        &self,
        of: &str,
        channels: impl Iterator<Item = ChannelIdx>,
        settings: SchemaSettings,
        takes_given: bool,
    ) -> Option<Json> {
        let mut generator = settings.into_generator();
        let mut properties = Map::new();
        let mut is_known = false;
        for index in channels {
            let name = self.plan.channel_name(index);
            let described = self.described.get(index.0);
            let found = match described.and_then(|described| described.schema.as_ref()) {
                _ if self.plan.is_conversation(Some(index)) => Some(messages_schema()),
                Some(ChannelSchema::Typed(schema)) => Some(schema(&mut generator).to_value()),
                Some(ChannelSchema::Given(schema)) if takes_given => Some(schema.clone()),
                Some(ChannelSchema::Given(_)) | None => None,
            };
            is_known |= found.is_some();
            let mut found = found.unwrap_or_else(|| json!({}));
            let docs = described.and_then(|described| described.docs);
            if let (Json::Object(members), Some(docs)) = (&mut found, docs) {
                members.entry("description").or_insert_with(|| json!(docs));
            }
            properties.insert(name.to_owned(), found);
        }
        if !is_known {
            return None;
        }
        let title = format!("{}_{of}", self.name);
        let mut schema = json!({"properties": properties, "title": title, "type": "object"});
        let definitions = generator.take_definitions(true);
        if !definitions.is_empty() {
            schema["$defs"] = Json::Object(definitions);
        }
        Some(schema)
    }
}

/// Returns the schema of a channel of messages.
fn messages_schema() -> Json {
    let roles = ["system", "user", "assistant", "tool"];
    let part = json!({
        "type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"],
    });
    json!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "id": {"type": "string"},
                "role": {"enum": roles},
                "parts": {"type": "array", "items": part},
            },
            "required": ["id", "role", "parts"],
        },
    })
}

#[cfg(test)]
mod tests {
    use crate::channel::{LastValue, Messages};
    use crate::{ChannelDef, CompiledGraph, DynUpdate, Dynamic, Graph, List, START, State};
    use serde_json::{Value, json};
    use weftwork_schema::{Checker, Quotes};
    use weftwork_types::MessageId;
    use weftwork_types::message::{Message, Role};

    /// A type without a schema.
    #[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
    struct Opaque(u8);

    #[derive(Debug, Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    struct Person {
        name: String,
        #[serde(default)]
        friends: Vec<Person>,
    }

    #[derive(crate::State)]
    #[state(crate = crate)]
    struct All {
        #[channel(messages)]
        talk: List<Message>,
        /// Number of rounds.
        #[channel(reduce = |a, b| a + b, default)]
        rounds: u32,
        #[channel(append)]
        people: List<Person>,
        #[channel(append)]
        opaque: List<Opaque>,
        owner: Option<Person>,
        #[channel(last_value)]
        names: List<String>,
        any: Value,
    }

    fn graph() -> CompiledGraph {
        async fn node(_: State<All>) -> AllUpdate {
            AllUpdate::new()
        }
        let graph = Graph::<All>::new("all").node("node", node).edge(START, "node");
        graph.input(["talk", "people"]).output(["rounds"]).build().expect("sound")
    }

    #[test]
    fn the_schema_of_a_state_is_that_of_its_types() {
        let schema = graph().schemas().state.expect("known");
        let of = |name: &str| schema["properties"][name].clone();
        assert_eq!(schema["title"], "all_state");
        let rounds = json!({
            "type": "integer", "format": "uint32", "minimum": 0,
            "description": "Number of rounds.",
        });
        assert_eq!(of("rounds"), rounds);
        assert_eq!(of("people"), json!({"type": "array", "items": {"$ref": "#/$defs/Person"}}));
        assert_eq!(of("names"), json!({"type": "array", "items": {"type": "string"}}));
        assert_eq!((of("opaque"), of("any")), (json!({}), json!(true)));
        assert_eq!(schema["$defs"]["Person"]["properties"]["name"], json!({"type": "string"}));
        let checker = Checker::compile(&schema).expect("a schema");
        let message = Message::text(MessageId::new("m").expect("an id"), Role::User, "hi");
        let ada = json!({"name": "ada", "friends": [{"name": "bob", "friends": []}]});
        let good = json!({"talk": [message], "rounds": 1, "people": [ada], "opaque": [7],
            "owner": null, "names": ["x"], "any": 1});
        assert_eq!(checker.check(&good, Quotes::Values), Ok(()));
        for bad in [json!({"talk": ["hi"]}), json!({"rounds": -1}), json!({"people": [{}]})] {
            assert!(checker.check(&bad, Quotes::Values).is_err(), "{bad}");
        }
    }

    #[test]
    fn input_and_output_have_their_channels_and_what_may_be_left_out() {
        let schemas = graph().schemas();
        let names = |schema: &Value| {
            let properties = schema["properties"].as_object().expect("an object");
            properties.keys().cloned().collect::<Vec<_>>()
        };
        let input = schemas.input.expect("known");
        let output = schemas.output.expect("known");
        assert_eq!(
            (names(&input), names(&output)),
            (vec!["talk".to_owned(), "people".to_owned()], vec!["rounds".to_owned()],)
        );
        assert_eq!(input["$defs"]["Person"]["required"], json!(["name"]));
        let state = schemas.state.expect("known");
        assert_eq!(state["$defs"]["Person"]["required"], json!(["name", "friends"]));
    }

    #[test]
    fn a_dynamic_state_has_the_schemas_that_were_given() {
        async fn node(_: State<Dynamic>) -> DynUpdate {
            DynUpdate::new()
        }
        let build = |channels| {
            Graph::dynamic("dyn", channels).node("node", node).edge(START, "node").build()
        };
        let last = |name: &'static str| ChannelDef::new(name, LastValue::<Value>::new());
        let text = json!({"type": "string"});
        let given = build(vec![last("a").with_schema(text.clone()), last("b")]).expect("sound");
        let schemas = given.schemas();
        assert_eq!(schemas.state.expect("known")["properties"], json!({"a": text, "b": {}}));
        assert_eq!((schemas.input, schemas.output), (None, None));
        assert_eq!(build(vec![last("a")]).expect("sound").schemas().state, None);
        let typed = build(vec![last("a").with_schema_of::<bool>()]).expect("sound").schemas();
        assert_eq!(typed.input.expect("known")["properties"], json!({"a": {"type": "boolean"}}));
        let talk = build(vec![ChannelDef::new("talk", Messages)]).expect("sound");
        assert!(talk.schemas().input.is_some(), "messages have a type");
    }
}
