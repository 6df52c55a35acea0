//! Sound definitions.

use proptest::prelude::*;
use serde_json::json;
use weftwork_platform::{AgentType, Location, read_definition, schema};
use weftwork_types::task::Mode;

/// The five examples of the format's first description. What they leave open is a name for a
/// mapping: `{ /* mapping */ }`, and three dots for an expression.
const EXAMPLES: [&str; 5] = [
    r"{
  type: 'context',
  context: '# Golf Rules Expert\nYou are an expert in golf rules...',
  yaml: {
    agent_card: {
      modes: ['converse', 'plan', 'build']
    }
  }
}",
    r"{
  type: 'tool',
  yaml: {
    tools: ['supabase/query-db', 'supabase/execute-sql'],
    tool_mode: 'sequential',
    agent_card: {
      modes: ['build']
    }
  }
}",
    r"{
  type: 'api',
  transport: {
    kind: 'api',
    api: {
      endpoint: 'https://api.stripe.com/v1/charges',
      method: 'POST',
      authentication: { type: 'bearer' }
    }
  },
  yaml: {
    request_transform: { amount: payload.amount },
    response_transform: { content: id }
  }
}",
    r"{
  type: 'external',
  transport: {
    kind: 'external',
    external: {
      endpoint: 'https://partner.com/agent-to-agent/tasks',
      protocol: 'a2a',
      healthCheck: { endpoint: '/health' }
    }
  }
}",
    r"{
  type: 'function',
  function_code: '
    async function handler(input, ctx) {
      return { result: 1 };
    }
  ',
  transport: {
    kind: 'function',
    function: {
      timeout_ms: 20000
    }
  }
}",
];

#[test]
fn the_examples_of_the_five_types_are_read() {
    let types = [
        AgentType::Context,
        AgentType::Tool,
        AgentType::Api,
        AgentType::External,
        AgentType::Function,
    ];
    for (text, of) in EXAMPLES.into_iter().zip(types) {
        let definition = read_definition(text).unwrap_or_else(|found| panic!("{of:?}: {found:#?}"));
        assert_eq!(definition.agent_type, of);
        let modes = definition.modes();
        assert!(modes.contains(&Mode::Build), "{of:?}");
        assert_eq!(modes.len(), if of == AgentType::Context { 3 } else { 1 }, "{of:?}");
        let written = serde_json::to_string(&definition).expect("has a form");
        assert_eq!(read_definition(&written), Ok(definition), "{of:?}: JSON is YAML");
    }
}

#[test]
fn members_of_yaml_are_those_of_the_definition() {
    let top = read_definition("type: tool\ntools: [a/b]\nmetadata: {a: 1}\n");
    let mapping = read_definition("type: tool\nyaml:\n  tools: [a/b]\n  metadata: {a: 1}\n");
    let text = read_definition("type: tool\nyaml: |\n  tools: [a/b]\n  metadata: {a: 1}\n");
    let quoted = read_definition("type: tool\nyaml: \"tools: [a/b]\\nmetadata: {a: 1}\"\n");
    assert!(top.is_ok(), "{top:?}");
    assert_eq!([&mapping, &text, &quoted], [&top; 3]);
    // A key without a value is as one that is not there.
    let empty = read_definition("type: context\nllm:\nyaml:\n");
    assert_eq!(empty, read_definition("type: context\n"));
}

#[test]
fn words_are_texts() {
    let text = "type: context\nmetadata: {a: no, b: y, c: on, d: 010, e: 1e3, f: 0x1F, g: ~, h: 12:30, i: 1_000}\n";
    let definition = read_definition(text).expect("sound");
    let metadata = serde_json::Value::from(definition.metadata);
    assert_eq!([&metadata["a"], &metadata["b"], &metadata["c"]], ["no", "y", "on"]);
    insta::assert_json_snapshot!(metadata);
}

#[test]
fn anchors_save_repetitions() {
    let text = "type: context\nmetadata:\n  a: &form {b: 1}\n  c: *form\n  d: &other {<<: *form, b: 2}\n  e: {<<: [*form, *other], f: 3}\n";
    let definition = read_definition(text).expect("sound");
    let expected = json!({"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 2}, "e": {"b": 1, "f": 3}});
    assert_eq!(serde_json::Value::from(definition.metadata), expected);
}

#[test]
fn braces_and_variables_in_a_text_are_left_alone() {
    let text = "type: context\ncontext: |\n  {{name}}, {x}, ${HOME}, %s and {% if %}\n";
    let definition = read_definition(text).expect("sound");
    let expected = "{{name}}, {x}, ${HOME}, %s and {% if %}\n";
    assert_eq!(definition.context.as_deref(), Some(expected));
}

#[test]
fn the_schema_describes_each_key() {
    let schema = schema();
    let properties = schema["properties"].as_object().expect("has keys");
    for (key, of) in properties {
        assert!(of["description"].is_string(), "{key}");
    }
    let text = schema.to_string();
    assert!(!text.contains("\"null\""), "a key that may be absent is not null");
    assert_eq!(schema["additionalProperties"], json!(false));
    let of_type = &properties["type"]["enum"];
    assert_eq!(of_type, &json!(["context", "tool", "api", "external", "function", "graph"]));
    insta::assert_json_snapshot!(properties.keys().collect::<Vec<_>>());
}

proptest! {
    /// Whatever a file has, it is read or refused with places that it has.
    #[test]
    fn any_text_is_read_or_refused(lines in prop::collection::vec(
        prop_oneof![
            Just("type: context".to_owned()),
            Just("yaml: |".to_owned()),
            Just("  tools: [a/b]".to_owned()),
            Just("llm:".to_owned()),
            Just("  model: é".to_owned()),
            "[ -~äß\t]{0,24}",
        ],
        0..12,
    )) {
        let text = lines.join("\n");
        if let Err(problems) = read_definition(&text) {
            prop_assert!(!problems.is_empty());
            for problem in problems {
                let Location { line, .. } = problem.location;
                let last = text.lines().count().max(1) as u64 + 1;
                prop_assert!(line <= last, "{problem} in {text:?}");
            }
        }
    }
}

/// A definition that is written and read again is the same.
#[test]
fn a_definition_is_written_as_it_was_read() {
    let text = "type: context
slug: golf
version: 1.2.0
context: |
  # Golf
    indented: \"x\" {{date}}

  last
agent_card:
  modes: [converse, build]
  skills: [{id: a, tags: ['yes', '1.0']}]
metadata: {\"a b\": [1, 2.5, null, true], no: 'line\\n', \"1\": \"\"}
";
    let folder = crate::bench::agent("golf", text);
    let written = folder.to_yaml();
    let again = crate::bench::agent("golf", &written);
    assert_eq!(again.definition, folder.definition, "{written}");
    assert!(written.contains("context: |\n  # Golf\n    indented"), "{written}");
    let other = crate::bench::agent("golf", &text.replace("last", "other"));
    let lines = weftwork_platform::diff_lines(&written, &other.to_yaml());
    assert!(lines.contains(&"-   last".to_owned()), "{lines:?}");
    assert!(lines.contains(&"+   other".to_owned()), "{lines:?}");
}
