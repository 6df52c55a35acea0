//! Tests that all problems of tools are reported together before the first call.

use proptest::collection::btree_set;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weftwork_tools::{
    Need, Policy, SharedRules, Tool, ToolBox, ToolContext, ToolError, ToolOutput, ToolPattern,
    ToolRunner, WHOLE, tool,
};
use weftwork_types::BoxFuture;
use weftwork_types::tool::{Effect, ToolExample, ToolSpec, UnknownOutcome};

#[derive(Debug, Clone)]
struct Fake(ToolSpec, Vec<Need>);

impl Tool for Fake {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call(&self, _: Value, _: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async { Ok(ToolOutput::Value(Value::Null)) })
    }

    fn needs(&self) -> Vec<Need> {
        self.1.clone()
    }
}

fn fake(name: &str) -> Fake {
    let spec = ToolSpec {
        name: name.to_owned(),
        description: "Fake.".to_owned(),
        parameters: json!({"type": "object", "properties": {"a": {"type": "string"}}}),
        output: Some(json!({"type": "object", "properties": {"b": {}, "c": {}}})),
        effect: Effect::ReadOnly,
        on_unknown: UnknownOutcome::Idempotent,
        shown: Some(vec!["b".to_owned()]),
        examples: Vec::new(),
    };
    Fake(spec, Vec::new())
}

fn with(change: impl FnOnce(&mut Fake)) -> Fake {
    let mut tool = fake("good");
    change(&mut tool);
    tool
}

#[test]
fn each_mistake_has_its_code_and_says_what_was_expected() {
    let example = |args: Value| vec![ToolExample { request: "r".to_owned(), args }];
    for (tool, code, says) in [
        (with(|t| t.0.name = "Bad Name".to_owned()), "W0420", "lower snake case"),
        (with(|t| t.0.name = "ask_human".to_owned()), "W0421", "tools `ask_human` and `ask_human`"),
        (with(|t| t.0.parameters = json!({"type": "array"})), "W0422", "parameters schema"),
        (with(|t| t.0.output = Some(json!({"type": 3}))), "W0422", "output schema"),
        (with(|t| t.0.on_unknown = UnknownOutcome::Reconcile), "W0423", "no lookup"),
        (with(|t| t.1 = vec![Need::of::<std::path::PathBuf>()]), "W0424", "PathBuf"),
        (with(|t| t.0.examples = example(json!({"a": 1}))), "W0425", "example 1 of tool `good`"),
        (with(|t| t.0.shown = Some(vec!["d".to_owned()])), "W0426", "declared are: b, c"),
    ] {
        let errors = ToolRunner::new(ToolBox::new().with(tool), Policy::new()).expect_err(code);
        assert_eq!(errors.problems().len(), 1, "{errors}");
        assert_eq!(errors.code().0, code, "{errors}");
        assert!(errors.to_string().contains(says), "{errors}");
    }
    assert_eq!(Policy::new().allow("a*").expect_err("no pattern").code().0, "W0427");
}

#[test]
fn all_mistakes_are_reported_in_order() {
    let mut twice_wrong = fake("a__b");
    twice_wrong.0.on_unknown = UnknownOutcome::Reconcile;
    let tools = ToolBox::new()
        .with(fake("s/t"))
        .with(twice_wrong)
        .with(fake("s/t"))
        .with_ask_human()
        .with_ask_human();
    let errors = ToolRunner::new(tools, Policy::new()).expect_err("four mistakes");
    let codes: Vec<_> = errors.problems().iter().map(|p| p.code().0).collect();
    assert_eq!(codes, ["W0420", "W0423", "W0421", "W0421"]);
    assert_eq!(errors.to_string().lines().count(), 4);
}

#[test]
fn a_whole_result_may_always_be_declared_as_shown() {
    let tool = with(|t| t.0.shown = Some(vec![WHOLE.to_owned()]));
    assert!(ToolRunner::new(ToolBox::new().with(tool), Policy::new()).is_ok());
}

/// Adds.
#[tool]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

#[test]
fn specs_are_offered_in_the_order_of_the_tools() {
    let tools = ToolBox::new().with(fake("z")).with(add).with_ask_human().with(fake("s/a"));
    let runner = ToolRunner::new(tools, Policy::new()).expect("valid");
    let names: Vec<_> = runner.specs().iter().map(ToolSpec::wire_name).collect();
    assert_eq!(names, ["z", "add", "ask_human", "s__a"]);
}

#[test]
fn a_rule_needs_the_tool_that_it_names() {
    let tools = || ToolBox::new().with(fake("lookup_order")).with(fake("files/read"));
    let deny = |tool: &str| Policy::new().deny(tool, "no").expect("a pattern");
    for (tool, says) in [
        (
            "lookup_ordr",
            "policy rule for `lookup_ordr`: there is no such tool, did you mean `lookup_order`?",
        ),
        (
            "wipe",
            "policy rule for `wipe`: there is no such tool; correct the name, or remove the rule",
        ),
        (
            "ask_human",
            "policy rule for `ask_human`: there is no such tool; correct the name, or remove the rule",
        ),
    ] {
        let error = ToolRunner::new(tools(), deny(tool)).expect_err("no tool");
        assert_eq!((error.code().0, error.to_string().as_str()), ("W0427", says));
    }
    for tool in ["lookup_order", "files/read", "files/*", "mail/*", "*"] {
        ToolRunner::new(tools(), deny(tool)).expect(tool);
    }
    ToolRunner::new(tools().with_ask_human(), deny("ask_human")).expect("it is a tool");
}

#[test]
fn shared_rules_need_their_tools_in_one_of_the_agents() {
    let rules: Policy = serde_json::from_value(json!({"rules": [
        {"tool": "mail/*", "decision": "allow"},
        {"tool": "files/*", "decision": "allow"},
        {"tool": "wipe", "decision": "deny", "reason": "no"},
        {"tool": "read", "decision": "allow", "after": ["lok"]},
    ]}))
    .expect("rules");
    let rules = SharedRules::new(rules);
    let agent = |names: &[&str]| {
        let tools = names.iter().fold(ToolBox::new(), |tools, name| tools.with(fake(name)));
        // Rules of the agent's own need their tools there.
        let own = Policy::new().allow(names[0]).expect("a name");
        ToolRunner::new(tools, rules.policy().then(own)).expect("shared rules may lack tools here");
    };
    let problems = || rules.check(|_| false).expect_err("not all tools").problems().len();
    agent(&["read"]);
    assert_eq!(problems(), 2);
    agent(&["wipe", "files/read"]);
    assert_eq!(problems(), 1, "`lok` is required before `read`");
    assert_eq!(rules.patterns_without_tools(), [ToolPattern::Server("mail".to_owned())]);
    agent(&["lok", "mail/send"]);
    rules.check(|_| false).expect("all tools");
    assert_eq!(rules.patterns_without_tools(), []);
}

#[test]
fn names_of_servers_are_sent_in_snake_case_and_pairs_that_become_one_are_named() {
    let box_of =
        |names: &[&str]| names.iter().fold(ToolBox::new(), |all, name| all.with(fake(name)));
    let runner = ToolRunner::new(box_of(&["db/query-db", "db/printEnv"]), Policy::new());
    let specs = runner.expect("valid").specs();
    let names: Vec<_> = specs.iter().map(|spec| (spec.name.clone(), spec.wire_name())).collect();
    let expected = [("db/query-db", "db__query_db"), ("db/printEnv", "db__print_env")];
    assert_eq!(names, expected.map(|(name, wire)| (name.to_owned(), wire.to_owned())));

    let pair = ToolRunner::new(box_of(&["db/get-sum", "db/getSum"]), Policy::new());
    let error = pair.expect_err("a collision").to_string();
    assert!(error.contains("`db/get-sum` and `db/getSum` are both `db__get_sum`"), "{error}");
}

proptest! {
    /// The specs of a tool box map each wire name to one tool, and a further tool changes none.
    #[test]
    fn wire_names_lead_back_to_their_tools(
        names in btree_set("[A-Za-z0-9_.-]{0,9}[A-Za-z]/[A-Za-z0-9_.-]{0,80}[A-Za-z]", 1..8),
    ) {
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        let mut tools = ToolBox::new();
        for name in names {
            let next = tools.clone().with(fake(&name));
            let Ok(runner) = ToolRunner::new(next.clone(), Policy::new()) else {
                let wire = fake(&name).0.wire_name();
                prop_assert!(seen.contains_key(&wire), "{} was refused without a reason", name);
                continue;
            };
            let table: BTreeMap<String, String> =
                runner.specs().iter().map(|s| (s.wire_name(), s.name.clone())).collect();
            prop_assert_eq!(table.len(), seen.len() + 1);
            prop_assert!(seen.iter().all(|(wire, name)| table.get(wire) == Some(name)));
            prop_assert!(table.keys().all(|wire| wire.len() <= 64));
            seen = table;
            tools = next;
        }
    }
}
