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

fn decide(policy: &Policy, name: &str, effect: Effect) -> Decision {
    verdict(policy, &spec(name, effect), &json!({})).decision
}

fn verdict(policy: &Policy, spec: &ToolSpec, args: &Value) -> Ruling {
    policy.decide(PolicyCall { spec, args, principal: &Principal::local() })
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
        let decision = decide(&policy, name, effect);
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
        assert_eq!(decide(&policy, name, effect), expected, "{name}");
    }
    let other = decide(&policy, "filesystem/read", Effect::ReadOnly);
    assert!(matches!(other, Decision::Deny { .. }), "{other:?}");
}

#[test]
fn confirmations_ask_where_nothing_is_denied() {
    let rules = Policy::new()
        .deny("close", "closed")
        .and_then(|policy| policy.allow("open"))
        .and_then(|policy| policy.ask_human("doubt", "its own reason"));
    let asked = ["close", "open", "doubt", "unnamed"].into_iter();
    let questions = asked.fold(Policy::new(), |policy, tool| {
        policy.ask_human(tool, "the definition").expect("a pattern")
    });
    let policy = rules.expect("patterns").confirmed_by(questions);
    let ask = |reason: &str| Decision::AskHuman { reason: reason.to_owned() };
    for (name, expected) in [
        ("close", Decision::Deny { reason: "closed".to_owned() }),
        ("open", ask("the definition")),
        ("doubt", ask("its own reason")),
        ("unnamed", ask("the definition")),
    ] {
        assert_eq!(decide(&policy, name, Effect::ExternalSideEffect), expected, "{name}");
        let permission = policy.permission(&spec(name, Effect::ExternalSideEffect));
        let denied = matches!(expected, Decision::Deny { .. });
        assert_eq!(permission == Permission::Denied, denied, "{name}: {permission:?}");
    }
    let other = decide(&policy, "another", Effect::ExternalSideEffect);
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
        (json!({"tool": "a/b_*", "decision": "allow"}), "expected a tool's name"),
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

#[test]
fn conditions_see_the_call_and_deny_without_a_truth_value() {
    let policy = |when: &str| {
        let rule = json!({"tool": "pay", "when": when, "decision": "allow"});
        serde_json::from_value::<Policy>(json!({"version": 1, "rules": [rule]})).expect(when)
    };
    let args = json!({"amount": 50, "price": 9.5, "to": "a@b.example", "tags": ["x", "y"],
        "deep": {"n": 18_446_744_073_709_551_615_u64}, "none": null});
    for (when, expected) in [
        ("args.amount <= 50", Ok(true)),
        ("args.amount <= 49.5", Ok(false)),
        ("args.price < 10", Ok(true)),
        ("double(args.amount) / 2.0 == 25.0", Ok(true)),
        ("args.amount + 1 == 51", Ok(true)),
        ("args.to.endsWith('@b.example')", Ok(true)),
        ("'x' in args.tags && size(args.tags) == 2", Ok(true)),
        ("args.deep.n > 5u", Ok(true)),
        ("args.none == null", Ok(true)),
        ("has(args.missing)", Ok(false)),
        ("principal.subject == 'local' && principal.org == 'local'", Ok(true)),
        ("tool == 'pay' && server == '' && effect == 'external_side_effect'", Ok(true)),
        ("args.missing == 1", Err(())),
        ("args.to > 5", Err(())),
        ("args.amount", Err(())),
        ("args.amount / 0 == 1", Err(())),
        ("args.tags[7] == 'x'", Err(())),
    ] {
        let found = verdict(&policy(when), &spec("pay", Effect::ExternalSideEffect), &args);
        let found = match found.decision {
            Decision::Allow => Ok(true),
            Decision::Deny { reason } if reason.contains("no truth value") => Err(()),
            _ => Ok(false),
        };
        assert_eq!(found, expected, "{when}");
    }
}

#[test]
fn conditions_without_a_bound_are_refused_with_their_place() {
    let long = format!("args.a == '{}'", "x".repeat(2_000));
    let nested = format!("{}1{} == 1", "(".repeat(400), ")".repeat(400));
    let signs = format!("{}true", "!".repeat(900));
    let sums = format!("1{} == 1", "+1".repeat(400));
    let deep = format!("1{} == 1", "+1".repeat(90));
    for (when, says) in [
        ("args.tags.all(t, t == 'x')", "found a loop"),
        ("args.tags.exists(t, t == 'x')", "found a loop"),
        ("args.tags.map(t, t).size() > 0", "found a loop"),
        ("args.to.matches('(a+)+$')", "found `matches`"),
        ("other == 1", "expected one of args, tool, server, effect, principal, found `other`"),
        ("args.a ==", "expected a CEL expression, found `args.a ==`"),
        ("", "expected a CEL expression"),
        (long.as_str(), "at most 1024 bytes"),
        (nested.as_str(), "12 nested parts"),
        (signs.as_str(), "12 nested parts"),
        (sums.as_str(), "100 operators"),
        (deep.as_str(), "24 levels"),
    ] {
        let rule = json!({"tool": "a", "when": when, "decision": "allow"});
        let policy = json!({"rules": [{"tool": "b", "decision": "allow"}, rule]});
        let error = serde_json::from_value::<Policy>(policy).expect_err(when).to_string();
        assert!(error.contains("`rules[1].when`") && error.contains(says), "{when}: {error}");
    }
}

#[test]
fn rules_are_for_subjects_and_have_requirements() {
    let text = json!({"rules": [
        {"tool": "pay", "subject": "ada", "decision": "deny", "reason": "not she"},
        {"tool": "pay", "subject": "local", "decision": "allow", "calls_per_run": 2, "at_once": 1,
            "after": ["look", {"tool": "files/read", "same": ["path"]}]},
    ]});
    let policy: Policy = serde_json::from_value(text.clone()).expect("a policy");
    assert_eq!(json!(policy), text);
    let found = verdict(&policy, &spec("pay", Effect::StateChange), &json!({}));
    assert_eq!((found.decision, found.requires.calls_per_run), (Decision::Allow, Some(2)));
    assert_eq!(policy.compared_args("files/read"), Some(vec!["path"]));
    assert_eq!(policy.compared_args("look"), Some(Vec::new()));
    assert_eq!(policy.compared_args("pay"), None);
    for (other, says) in [
        (json!({"version": 2}), "`version`: expected 1, found 2"),
        (
            json!({"rules": [{"tool": "a", "decision": "allow", "at_once": 0}]}),
            "`rules[0].at_once`",
        ),
        (
            json!({"rules": [{"tool": "a", "decision": "allow", "after": ["b/*"]}]}),
            "`rules[0].after`: expected the name of one tool, found `b/*`",
        ),
        (
            json!({"rules": [{"tool": "a", "decision": "deny", "reason": "r", "calls_per_run": 1}]}),
            "`rules[0].decision`",
        ),
    ] {
        let error = serde_json::from_value::<Policy>(other).expect_err(says).to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_built_policy_is_the_one_of_its_file() {
    let retry = RetryPolicy {
        attempts_max: 3,
        backoff_first: Duration::from_millis(200),
        ..RetryPolicy::default()
    };
    let built = Policy::builder()
        .ask_human("refund", "it moves money")
        .when("args.euros > 50")
        .after("find_order")
        .after_same("find_order", ["order"])
        .expires_after(Duration::from_millis(59_001))
        .allow("refund")
        .subject("ada")
        .calls_per_run(2)
        .at_once(1)
        .allow("shop/*")
        .effect(Effect::ReadOnly)
        .retry(retry)
        .deny("*", "closed")
        .build()
        .expect("a policy");
    let file = json!({"rules": [
        {"tool": "refund", "when": "args.euros > 50", "decision": "ask_human",
            "reason": "it moves money", "expires_after_s": 60,
            "after": ["find_order", {"tool": "find_order", "same": ["order"]}]},
        {"tool": "refund", "subject": "ada", "decision": "allow", "calls_per_run": 2, "at_once": 1},
        {"tool": "shop/*", "effect": "read_only", "decision": "allow",
            "retry": {"attempts": 3, "backoff_ms": 200}},
        {"tool": "*", "decision": "deny", "reason": "closed"},
    ]});
    assert_eq!(json!(built), file);
    assert_eq!(serde_json::from_value::<Policy>(file).expect("a policy"), built);
    assert_eq!(Policy::builder().build(), Ok(Policy::new()));
}

#[test]
fn all_problems_of_a_built_policy_are_reported_with_their_places() {
    let problems = Policy::builder()
        .when("true")
        .allow("look")
        .allow("pay")
        .when("arg.euros > 50")
        .allow("pa*")
        .deny("pay", "never")
        .calls_per_run(1)
        .allow("pay")
        .expires_after(Duration::from_secs(1))
        .allow("pay")
        .after("a/*")
        .ask_human("pay", "it is much")
        .expires_after(Duration::ZERO)
        .build()
        .expect_err("refused");
    let found: Vec<String> = problems.problems().iter().map(ToString::to_string).collect();
    let expected = [
        "policy option `when` has no rule",
        "`rules[1].when`: expected one of args, tool, server, effect, principal, found `arg`",
        "`rules[2].tool`: expected a tool's name",
        "`rules[3].decision`: expected `after`",
        "`rules[4].expires_after_s`: expected only with `ask_human`",
        "`rules[5].after`: expected the name of one tool, found `a/*`",
        "`rules[6].expires_after_s`: expected 1 or more, found 0",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, says) in found.iter().zip(expected) {
        assert!(found.contains(says), "{found}");
    }
    assert!(problems.problems().iter().all(|problem| problem.code().0 == "W0427"));
}

#[test]
fn retries_of_a_file_are_a_retry_policy() {
    let read = |retry: Value| {
        let rule = json!({"tool": "look", "decision": "allow", "retry": retry});
        serde_json::from_value::<Policy>(json!({"rules": [rule]})).map_err(|e| e.to_string())
    };
    let all = json!({"attempts": 4, "backoff_ms": 5, "backoff_max_ms": 6, "retry_after_max_ms": 7});
    let policy = read(all.clone()).expect("a policy");
    let ms = Duration::from_millis;
    let expected = RetryPolicy {
        attempts_max: 4,
        backoff_first: ms(5),
        backoff_max: ms(6),
        retry_after_max: ms(7),
    };
    assert_eq!(policy.rules[0].retry.as_ref(), Some(&expected));
    assert_eq!(json!(policy)["rules"][0]["retry"], all);
    let short = read(json!({"attempts": 3})).expect("a policy");
    assert_eq!(short.rules[0].retry, Some(RetryPolicy::default()));
    for (retry, says) in [
        (json!({"attempts": 0}), "`rules[0].retry.attempts`: expected 1 or more, found 0"),
        (json!({"backoff_ms": 1}), "missing field `attempts`"),
        (json!({"attempts": 3, "backoff": 1}), "unknown field `backoff`"),
    ] {
        let error = read(retry.clone()).expect_err("refused");
        assert!(error.contains(says), "{retry}: {error}");
    }
    let denied = json!({"tool": "a", "decision": "deny", "reason": "r", "retry": {"attempts": 2}});
    let error = serde_json::from_value::<Policy>(json!({"rules": [denied]})).expect_err("refused");
    assert!(error.to_string().contains("`rules[0].retry`: expected only with `allow`"), "{error}");
}

#[test]
fn the_deepest_conditions_are_evaluated() {
    let nested = format!("{}args{} == 1", "(".repeat(12), ")".repeat(12));
    let lists = format!("{}1{} == []", "[".repeat(12), "]".repeat(12));
    let signs = format!("{}true", "!".repeat(12));
    let sums = format!("1{} == 1", "+1".repeat(21));
    let members = format!("args{}", ".a".repeat(22));
    let both = format!("{}1{}{} == 1", "(1+".repeat(12), ")".repeat(12), "+1".repeat(9));
    for when in [nested, lists, signs, sums, members, both] {
        let condition = Condition::new(&when).expect(&when);
        let spec = spec("pay", Effect::StateChange);
        let args = json!({});
        let principal = Principal::local();
        let call = PolicyCall { spec: &spec, args: &args, principal: &principal };
        assert!(condition.holds(&call) != Ok(true) || when.starts_with('!'), "{when}");
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_a_condition_or_refused(text in "[ a-z0-9.()!&|<>=+'\\[\\]{}?:,-]{0,60}") {
        if let Ok(condition) = Condition::new(&text) {
            let args = json!({"a": 1});
            let spec = spec("pay", Effect::StateChange);
            let principal = Principal::local();
            let call = PolicyCall { spec: &spec, args: &args, principal: &principal };
            assert_eq!(condition.holds(&call), condition.holds(&call));
        }
    }
}

#[test]
fn the_permission_of_a_tool_is_that_of_its_first_rule_unless_it_depends_on_the_call() {
    let policy = read(
        r#"
        rules = [
            { tool = "pay", decision = "ask_human", reason = "it moves money" },
            { tool = "save", when = "args.n > 1", decision = "allow" },
            { tool = "read", subject = "ada", decision = "allow" },
            { tool = "drop", decision = "deny", reason = "never" },
            { tool = "files/*", effect = "read_only", decision = "allow" },
        ]
        "#,
    )
    .expect("a policy");
    let asks = Permission::Asks { reason: "it moves money".to_owned() };
    for (name, effect, expected) in [
        ("pay", Effect::ExternalSideEffect, asks),
        ("save", Effect::StateChange, Permission::Depends),
        ("read", Effect::ReadOnly, Permission::Depends),
        ("drop", Effect::ReadOnly, Permission::Denied),
        ("files/read", Effect::ReadOnly, Permission::Allowed),
        ("files/write", Effect::StateChange, Permission::Denied),
        ("look", Effect::ReadOnly, Permission::Allowed),
        ("other", Effect::StateChange, Permission::Denied),
    ] {
        assert_eq!(policy.permission(&spec(name, effect)), expected, "{name}");
    }
}
