use super::*;
use serde_json::{Value, json};
use weftwork_types::tool::UnknownOutcome;

fn spec(name: &str, effect: Effect) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        parameters: json!({"type": "object"}),
        output: None,
        effect,
        on_unknown: UnknownOutcome::Ask,
        shown: None,
        examples: Vec::new(),
    }
}

fn read(text: &str) -> Result<Policy, String> {
    toml::from_str(text).map_err(|e| e.to_string())
}

#[test]
fn without_rules_only_the_programs_own_reading_tools_run() {
    let policy = Policy::new();
    for (name, effect, allowed) in [
        ("look", Effect::ReadOnly, true),
        ("save", Effect::StateChange, false),
        ("pay", Effect::ExternalSideEffect, false),
        ("server/look", Effect::ReadOnly, false),
    ] {
        let decision = policy.decide(&spec(name, effect));
        assert_eq!(decision == Decision::Allow, allowed, "{name}: {decision:?}");
    }
}

#[test]
fn the_first_rule_that_fits_decides() {
    let policy = read(
        r#"
        rules = [
            { tool = "files/delete", decision = "deny", reason = "never" },
            { tool = "files/*", effect = "read_only", decision = "allow" },
            { tool = "files/*", decision = "ask_human", reason = "it writes" },
            { tool = "*", effect = "external_side_effect", decision = "ask_human", reason = "outside" },
        ]
        "#,
    )
    .expect("a policy");
    let ask = |reason: &str| Decision::AskHuman { reason: reason.to_owned() };
    for (name, effect, expected) in [
        ("files/delete", Effect::ReadOnly, Decision::Deny { reason: "never".to_owned() }),
        ("files/read", Effect::ReadOnly, Decision::Allow),
        ("files/write", Effect::StateChange, ask("it writes")),
        ("pay", Effect::ExternalSideEffect, ask("outside")),
        ("files", Effect::ReadOnly, Decision::Allow),
    ] {
        assert_eq!(policy.decide(&spec(name, effect)), expected, "{name}");
    }
    let other = policy.decide(&spec("filesystem/read", Effect::ReadOnly));
    assert!(matches!(other, Decision::Deny { .. }), "{other:?}");
}

#[test]
fn a_policy_is_written_as_it_is_read() {
    let policy = Policy::new()
        .allow("files/*")
        .and_then(|p| p.ask_human("pay", "it moves money"))
        .and_then(|p| p.deny("*", "closed"))
        .expect("valid patterns");
    let text = serde_json::to_value(&policy).expect("serialises");
    assert_eq!(
        text,
        json!({"rules": [
            {"tool": "files/*", "decision": "allow"},
            {"tool": "pay", "decision": "ask_human", "reason": "it moves money"},
            {"tool": "*", "decision": "deny", "reason": "closed"},
        ]})
    );
    assert_eq!(serde_json::from_value::<Policy>(text).expect("reads back"), policy);
}

#[test]
fn a_rule_that_could_mean_something_else_is_refused() {
    for (text, says) in [
        (json!({"tool": "a", "decision": "ask_human"}), "needs a `reason`"),
        (json!({"tool": "a", "decision": "deny"}), "needs a `reason`"),
        (json!({"tool": "a", "decision": "allow", "reason": "x"}), "takes no `reason`"),
        (json!({"tool": "a*", "decision": "allow"}), "expected a tool's name"),
        (json!({"tool": "*/a", "decision": "allow"}), "expected a tool's name"),
        (json!({"tool": "a/b/*", "decision": "allow"}), "expected a tool's name"),
        (json!({"tool": "A", "decision": "allow"}), "expected a tool's name"),
        (json!({"tool": "a", "decision": "perhaps"}), "unknown variant"),
        (json!({"tool": "a", "decision": "allow", "efect": "read_only"}), "unknown field"),
        (json!({"tool": "a", "effect": "none", "decision": "allow"}), "unknown variant"),
        (json!({"decision": "allow"}), "missing field"),
    ] {
        let error = serde_json::from_value::<Rule>(text.clone()).expect_err("refused").to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
    let error = serde_json::from_value::<Policy>(json!({"rule": []})).expect_err("refused");
    assert!(error.to_string().contains("unknown field"), "{error}");
    assert!(serde_json::from_value::<Policy>(Value::Null).is_err());
}
