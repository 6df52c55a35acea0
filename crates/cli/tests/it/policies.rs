//! Tests of rules for tools, and of results that are stored by reference.

use crate::home::Home;

const SAY: &[&str] =
    &["run", "desk", "--thread", "t", "--json", "--input", "Where is order A1001?"];

const RULES: &str = r#"
version = 1

[[rules]]
tool = "lookup_order"
when = "args.order_id.startsWith('A')"
decision = "deny"
reason = "the office is closed"
"#;

#[test]
fn the_operators_rules_precede_those_of_the_agent() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    std::fs::write(home.path("rules.toml"), RULES).expect("written");
    let came = home.weft(&[SAY, &["--policy", "rules.toml"]].concat());
    assert!(
        came.out.contains("policy denies tool `lookup_order`: the office is closed"),
        "{came:?}"
    );
    let without: Vec<&str> =
        SAY.iter().map(|arg| if *arg == "t" { "other" } else { arg }).collect();
    let came = home.weft(&without);
    assert!(!came.out.contains("policy denies"), "{came:?}");

    let home = home.config("policy = \"rules.toml\"\n");
    let came = home.weft(&["doctor"]);
    let found = home.plain(&came.out);
    assert!(found.contains("1 rules for tools HOME/rules.toml"), "{found}");
    std::fs::write(home.path("rules.toml"), RULES.replace("args.order_id", "arg.x"))
        .expect("written");
    let came = home.weft(&["doctor"]);
    assert_eq!(came.status, Some(2), "{came:?}");
    let says =
        "`rules[0].when`: expected one of args, tool, server, effect, principal, found `arg`";
    assert!(came.errors.contains(says), "{came:?}");
}

#[test]
fn a_rule_without_a_tool_is_an_error_and_a_pattern_without_one_is_shown() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let rules = |tool: &str| {
        let rule = format!("[[rules]]\ntool = \"{tool}\"\ndecision = \"deny\"\nreason = \"no\"\n");
        std::fs::write(home.path("rules.toml"), rule).expect("written");
    };
    let policy = ["--policy", "rules.toml"];
    rules("lookup_ordr");
    for command in [SAY, &["chat"], &["serve"], &["worker"], &["doctor"]] {
        let came = home.weft(&[command, &policy].concat());
        assert_eq!(came.status, Some(2), "{command:?}: {came:?}");
        let says =
            "policy rule for `lookup_ordr`: there is no such tool, did you mean `lookup_order`?";
        assert!((came.errors + &came.out).contains(says), "{command:?}");
    }
    // Another agent has the tool.
    rules("divide");
    let came = home.weft(&[SAY, &policy].concat());
    assert_eq!(came.status, Some(0), "{came:?}");
    rules("files/*");
    let came = home.weft(&["doctor", "--policy", "rules.toml"]);
    assert!(came.out.contains("-- rules     the rule for `files/*` matches no tool"), "{came:?}");
    rules("*");
    let came = home.weft(&["doctor", "--policy", "rules.toml"]);
    assert!(came.out.contains("ok rules     each rule has a tool"), "{came:?}");
}

#[test]
fn artifacts_are_listed_and_missing_ones_are_reported() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    assert_eq!(home.weft(SAY).status, Some(0));
    let came = home.weft(&["artifacts", "list", "t"]);
    assert!(came.status == Some(0) && came.errors.contains("no artifacts"), "{came:?}");
    let came = home.weft(&["artifacts", "get", "t/0123"]);
    assert!(came.status == Some(2) && came.errors.contains("artifact `t/0123`"), "{came:?}");
    let came = home.weft(&["artifacts", "prune"]);
    assert!(came.errors.contains("deleted 0 lapsed artifacts"), "{came:?}");
}
