//! Generated schemas with arguments that fit them by construction, and with arguments that one known
//! change made unfit. The construction is the oracle: it shares no code with the validator.

use crate::rig::{Rig, call, failure, runner, value};
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex};
use weftwork_testkit::fuzz::Random;
use weftwork_tools::{Policy, Tool, ToolBox, ToolContext, ToolError, ToolOutput};
use weftwork_types::BoxFuture;
use weftwork_types::tool::{Effect, ToolErrorKind, ToolSpec, UnknownOutcome};

/// Number of schemas; each has one fitting and four unfit arguments.
const SCHEMAS: u64 = 2_000;
const UNFIT: u64 = 4;

/// A part of a schema, and how a value of it is made.
#[derive(Debug, Clone)]
enum Shape {
    Text { min: usize, max: usize },
    Word,
    Choice(Vec<String>),
    Whole { min: i64, max: i64 },
    Flag,
    List { of: Box<Shape>, min: usize, max: usize },
    Object { members: Vec<(String, Shape, bool)> },
}

/// An argument that does not fit, with what the message must name.
#[derive(Debug)]
struct Unfit {
    value: Value,
    path: String,
    found: String,
    expected: String,
}

fn choose(random: &mut Random, from: usize, to: usize) -> usize {
    from + random.below(to - from + 1)
}

fn object(random: &mut Random, depth: usize) -> Shape {
    let names = ["a", "b", "size", "name", "größe", "to"];
    let count = choose(random, 1, names.len());
    let member = |name: &&str, random: &mut Random| {
        ((*name).to_owned(), shape(random, depth + 1), random.below(2) == 0)
    };
    Shape::Object { members: names[..count].iter().map(|name| member(name, random)).collect() }
}

fn shape(random: &mut Random, depth: usize) -> Shape {
    match random.below(if depth > 3 { 5 } else { 7 }) {
        0 => {
            let min = random.below(4);
            Shape::Text { min, max: min + random.below(5) }
        }
        1 => Shape::Word,
        2 => Shape::Choice((0..choose(random, 1, 4)).map(|n| format!("choice{n}")).collect()),
        3 => {
            let min = random.below(200) as i64 - 100;
            Shape::Whole { min, max: min + random.below(50) as i64 }
        }
        4 => Shape::Flag,
        5 => {
            let min = random.below(3);
            let of = Box::new(shape(random, depth + 1));
            Shape::List { of, min, max: min + random.below(3) }
        }
        _ => object(random, depth),
    }
}

impl Shape {
    fn schema(&self) -> Value {
        match self {
            Self::Text { min, max } => {
                json!({"type": "string", "minLength": min, "maxLength": max})
            }
            Self::Word => json!({"type": "string", "pattern": "^[a-z]{2,9}$"}),
            Self::Choice(names) => json!({"enum": names}),
            Self::Whole { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
            Self::Flag => json!({"type": "boolean"}),
            Self::List { of, min, max } => {
                json!({"type": "array", "items": of.schema(), "minItems": min, "maxItems": max})
            }
            Self::Object { members } => {
                let properties: Map<String, Value> =
                    members.iter().map(|(name, shape, _)| (name.clone(), shape.schema())).collect();
                let required: Vec<&String> =
                    members.iter().filter(|(.., must)| *must).map(|(name, ..)| name).collect();
                json!({
                    "type": "object",
                    "properties": properties,
                    "required": required,
                    "additionalProperties": false,
                })
            }
        }
    }

    fn fit(&self, random: &mut Random) -> Value {
        let letters = |count: usize, random: &mut Random| -> String {
            let letters: Vec<char> = ('a'..='z').collect();
            (0..count).map(|_| letters[random.below(letters.len())]).collect()
        };
        match self {
            Self::Text { min, max } => json!(letters(choose(random, *min, *max), random)),
            Self::Word => json!(letters(choose(random, 2, 9), random)),
            Self::Choice(names) => json!(names[random.below(names.len())]),
            Self::Whole { min, max } => json!(min + random.below((max - min + 1) as usize) as i64),
            Self::Flag => json!(random.below(2) == 0),
            Self::List { of, min, max } => {
                (0..choose(random, *min, *max)).map(|_| of.fit(random)).collect()
            }
            Self::Object { members } => {
                let mut fit = Map::new();
                for (name, shape, must) in members {
                    if *must || random.below(2) == 0 {
                        fit.insert(name.clone(), shape.fit(random));
                    }
                }
                Value::Object(fit)
            }
        }
    }

    /// Makes a fitting value unfit by one change, here or in a part of it.
    fn spoil(&self, value: &Value, path: &str, random: &mut Random) -> Unfit {
        match (self, value) {
            (Self::Object { members }, Value::Object(fit)) if !fit.is_empty() => {
                let present: Vec<_> =
                    members.iter().filter(|(name, ..)| fit.contains_key(name)).collect();
                let (name, shape, _) = present[random.below(present.len())];
                if random.below(4) > 0 {
                    let inner = shape.spoil(&fit[name], &format!("{path}/{name}"), random);
                    let mut value = value.clone();
                    value[name] = inner.value;
                    return Unfit { value, ..inner };
                }
            }
            (Self::List { of, .. }, Value::Array(items))
                if !items.is_empty() && random.below(3) > 0 =>
            {
                let index = random.below(items.len());
                let inner = of.spoil(&items[index], &format!("{path}/{index}"), random);
                let mut value = value.clone();
                value[index] = inner.value;
                return Unfit { value, ..inner };
            }
            _ => {}
        }
        let (value, found, expected) = self.break_here(value, random);
        let path = if path.is_empty() { "/".to_owned() } else { path.to_owned() };
        Unfit { value, path, found, expected }
    }

    /// Breaks one rule of this part: the new value, what was found, and what was expected.
    fn break_here(&self, value: &Value, random: &mut Random) -> (Value, String, String) {
        let plain = |value: Value, expected: String| (value.clone(), value.to_string(), expected);
        let text = |count: usize| "z".repeat(count);
        match self {
            Self::Text { min, max } => match random.below(3) {
                0 if *min > 0 => plain(json!(text(min - 1)), format!("{min} character")),
                1 => plain(json!(text(max + 1)), format!("{max} character")),
                _ => plain(json!(7), "\"string\"".to_owned()),
            },
            Self::Word => match random.below(2) {
                0 => plain(json!("UPPER"), "^[a-z]{2,9}$".to_owned()),
                _ => plain(json!(false), "\"string\"".to_owned()),
            },
            Self::Choice(names) => plain(json!("none"), names[0].clone()),
            Self::Whole { min, max } => match random.below(4) {
                0 => plain(json!(min - 1), min.to_string()),
                1 => plain(json!(max + 1), max.to_string()),
                2 => plain(json!("7"), "\"integer\"".to_owned()),
                _ => plain(json!(1.5), "\"integer\"".to_owned()),
            },
            Self::Flag => plain(json!("true"), "\"boolean\"".to_owned()),
            Self::List { of, min, max } => match (random.below(3), value) {
                (0, _) if *min > 0 => plain(json!([]), format!("{min} item")),
                (1, Value::Array(items)) => {
                    let mut items = items.clone();
                    items.resize_with(max + 1, || of.fit(random));
                    // The items may be longer than a message.
                    (Value::Array(items), "[".to_owned(), format!("{max} item"))
                }
                _ => plain(json!("a, b"), "\"array\"".to_owned()),
            },
            Self::Object { members } => {
                let must = members.iter().find(|(.., must)| *must).map(|(name, ..)| name);
                match (random.below(3), must) {
                    (0, Some(name)) => {
                        let mut value = value.clone();
                        let _removed = value.as_object_mut().and_then(|map| map.remove(name));
                        (value, String::new(), format!("\"{name}\" is a required"))
                    }
                    (1, _) => {
                        let mut value = value.clone();
                        value["surplus"] = json!(1);
                        (value, "surplus".to_owned(), "not allowed".to_owned())
                    }
                    // At the root an array or a text is no JSON object at all.
                    _ => plain(json!([1]), "object".to_owned()),
                }
            }
        }
    }
}

/// A tool that records the arguments that reach it.
#[derive(Debug)]
struct Recorder {
    spec: ToolSpec,
    reached: Arc<Mutex<Vec<Value>>>,
}

impl Tool for Recorder {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(
        &self,
        args: Value,
        _: ToolContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        self.reached.lock().expect("not poisoned").push(args);
        Box::pin(async { Ok(ToolOutput::Value(json!("done"))) })
    }
}

fn recorder(parameters: Value, reached: &Arc<Mutex<Vec<Value>>>) -> Recorder {
    let spec = ToolSpec {
        name: "record".to_owned(),
        description: "Records.".to_owned(),
        parameters,
        output: None,
        effect: Effect::ReadOnly,
        on_unknown: UnknownOutcome::Idempotent,
        shown: Some(vec![".".to_owned()]),
        examples: Vec::new(),
    };
    Recorder { spec, reached: Arc::clone(reached) }
}

#[test]
fn what_a_schema_refuses_never_reaches_its_tool_and_what_it_allows_does() {
    let mut pairs = 0;
    for seed in 0..SCHEMAS {
        let random = &mut Random::new(seed);
        let shape = object(random, 0);
        let rig = Rig::new();
        let reached = Arc::default();
        let tools = ToolBox::new().with(recorder(shape.schema(), &reached));
        let runner = runner(tools, Policy::new());
        let fit = shape.fit(random);
        let executed = rig.run(&runner, &call("fit", "record", fit.clone()));
        assert_eq!(value(executed), json!("done"), "seed {seed}: {} {fit}", shape.schema());
        pairs += 1;
        for round in 0..UNFIT {
            let Unfit { value: args, path, found, expected } = shape.spoil(&fit, "", random);
            let executed = rig.run(&runner, &call(&format!("u{round}"), "record", args.clone()));
            let (kind, code, message) = failure(executed);
            let at = format!("seed {seed}, {}: {args}\n{message}", shape.schema());
            assert_eq!((kind, code.as_str()), (ToolErrorKind::Validation, "W0402"), "{at}");
            if args.is_object() {
                assert!(message.contains(&format!("at {path}: ")), "no path {path}, {at}");
            }
            assert!(message.contains(&found), "not found: {found}, {at}");
            assert!(message.contains(&expected), "not expected: {expected}, {at}");
            pairs += 1;
        }
        let reached = reached.lock().expect("not poisoned");
        assert_eq!(*reached, [fit], "seed {seed}: only the fitting arguments, as they were");
    }
    assert_eq!(pairs, 10_000);
}
