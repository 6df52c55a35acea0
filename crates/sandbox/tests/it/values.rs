//! Values that go in and come out.

use crate::{body, run, script};
use serde_json::{Value, json};
use weftwork_sandbox::{LimitKind, NoHost, SandboxError, SandboxLimits, Script};

#[tokio::test]
async fn a_handler_returns_values_and_promises_of_values() {
    let cases = [
        ("async function handler(input) { return input.n * 2; }", json!(42)),
        ("function handler(input) { return { n: input.n }; }", json!({"n": 21})),
        ("const handler = async () => 'text';", json!("text")),
        ("async function handler() {}", Value::Null),
        (
            "function handler() { return new Promise((end) => end([1, null, undefined])); }",
            json!([1, null, null]),
        ),
        ("function handler(input) { return input['__proto__']; }", json!({"x": 1})),
        ("function handler(_, ctx) { return ctx.results.sum.content; }", json!(42)),
        ("function handler() { return '\\u{1F600}\\ud800'; }", Value::Null),
    ];
    for (code, expected) in cases {
        let input = json!({"n": 21, "__proto__": {"x": 1}});
        let results = json!({"sum": {"status": "done", "content": 42}});
        let script = Script { input, results, ..script(code) };
        match (run(&script, &NoHost).await, expected) {
            (Ok(found), expected) => assert_eq!(found, expected, "{code}"),
            // A lone half of a pair is no text.
            (Err(error), Value::Null) => assert_eq!(error.code().0, "W1052", "{code}: {error}"),
            (Err(error), _) => panic!("{code}: {error}"),
        }
    }
}

/// Ids of many services have more digits than JavaScript has in a number.
#[tokio::test]
async fn a_whole_number_that_would_be_rounded_is_a_text() {
    let code = "async function handler(input, ctx) { return [input.ids, ctx.results.r]; }";
    let kept = [json!(9_007_199_254_740_991_i64), json!(-9_007_199_254_740_992_i64), json!(0.5)];
    // As JavaScript writes its own numbers.
    let written = [12_345_678_901_234_567_000_u64, 1_000_000_000_000_000_000];
    let ids = json!([9_007_199_254_740_993_i64, 7_960_607_143_101_464_576_i64, u64::MAX, i64::MIN]);
    let texts =
        ["9007199254740993", "7960607143101464576", "18446744073709551615", "-9223372036854775808"];
    let given = json!({"kept": kept, "written": written, "ids": {"deep": [ids]}});
    let expected = json!({"kept": kept, "written": written, "ids": {"deep": [texts]}});
    let results = json!({"r": given});
    let script = Script { input: json!({"ids": given}), results, ..script(code) };
    assert_eq!(run(&script, &NoHost).await.expect("runs"), json!([expected, expected]));
}

#[tokio::test]
async fn clock_and_random_numbers_are_those_of_the_call() {
    let text = "return [Date.now(), new Date().toISOString(), new Date(0).getTime(), typeof Date(), \
        new Date() instanceof Date, Date.length, [Math.random(), Math.random()], new Date().constructor === Date]";
    let code = format!("async function handler(input, ctx) {{ {text} }}");
    let of = async |seed| {
        let script = Script { seed, now_ms: 86_400_000, ..script(code.clone()) };
        run(&script, &NoHost).await.expect("runs")
    };
    let first = of(1).await;
    assert_eq!(first, of(1).await);
    assert_ne!(first[6], of(2).await[6]);
    let expected = json!([86_400_000, "1970-01-02T00:00:00.000Z", 0, "string", true, 7]);
    assert_eq!(Value::from(first.as_array().expect("a list")[..6].to_vec()), expected);
    assert_eq!(first[7], true);
    let numbers = first[6].as_array().expect("a list");
    assert!(numbers.iter().all(|n| (0.0..1.0).contains(&n.as_f64().expect("a number"))));
    assert_ne!(numbers[0], numbers[1]);
}

#[tokio::test]
async fn failures_say_what_failed_and_where() {
    let at = |error: &SandboxError| match error {
        SandboxError::Thrown { stack, .. } => stack.clone(),
        other => panic!("{other}"),
    };
    let thrown =
        run(&script("function handler() {\n  null.x;\n}"), &NoHost).await.expect_err("throws");
    assert!(thrown.to_string().contains("TypeError"), "{thrown}");
    assert!(at(&thrown).contains("function.js:2"), "{}", at(&thrown));
    let thrown = body("throw {code: 7}").await.expect_err("throws");
    assert!(thrown.to_string().contains(r#"{"code":7}"#), "{thrown}");
    let invalid = run(&script("function handler( {\n}"), &NoHost).await.expect_err("invalid");
    assert_eq!(invalid.code().0, "W1051");
    assert!(invalid.to_string().contains("function.js:2"), "{invalid}");
    let none = run(&script("const x = 1;"), &NoHost).await.expect_err("invalid");
    assert!(none.to_string().contains("`handler(input, ctx)`"), "{none}");
    let never = body("await new Promise(() => {})").await.expect_err("never ends");
    assert!(matches!(never, SandboxError::NeverEnds), "{never}");
    let large = body("return 'x'.repeat(2_000_000)").await.expect_err("too large");
    assert!(matches!(large, SandboxError::Limit { limit: LimitKind::Output }), "{large}");
    let cyclic = body("const x = {}; x.x = x; return x").await.expect_err("cyclic");
    assert!(cyclic.to_string().contains("circular"), "{cyclic}");
}

/// Code may throw any value, and the text says which.
#[tokio::test]
async fn each_kind_of_thrown_value_is_reported_as_what_it_is() {
    let cases = [
        ("null", "null"),
        ("undefined", "undefined"),
        ("false", "false"),
        ("0", "0"),
        ("-0.5", "-0.5"),
        ("NaN", "null"),
        ("''", r#""""#),
        ("'out of memory'", r#""out of memory""#),
        ("10n", "big_int"),
        ("Symbol('x')", "symbol"),
        ("() => 1", "function"),
        ("class A {}", "constructor"),
        ("[1, null]", "[1,null]"),
        ("{code: 7}", r#"{"code":7}"#),
        ("Object.create(null)", "{}"),
        ("{toJSON() { throw 1 }}", "object"),
        ("{toJSON() { return undefined }}", "null"),
        ("new Error('x')", "Error: x"),
        ("new TypeError('x')", "TypeError: x"),
        ("Object.assign(new Error('x'), {name: 'Own'})", "Own: x"),
        ("Object.assign(new Error(), {message: null})", "Error: "),
        ("new Date(0)", r#""1970-01-01T00:00:00.000Z""#),
    ];
    let ways = [
        "async function handler() { throw VALUE }",
        "function handler() { throw VALUE }",
        "function handler() { return Promise.reject(VALUE) }",
        "throw VALUE; function handler() {}",
        "function handler() { return { get x() { throw VALUE } } }",
    ];
    for (value, expected) in cases {
        for way in ways {
            let code = way.replace("VALUE", &format!("({value})"));
            match run(&script(code), &NoHost).await {
                Err(SandboxError::Thrown { message, .. }) => {
                    assert_eq!(message, expected, "{way}: {value}");
                }
                other => panic!("{way}: {value}: {other:?}"),
            }
        }
    }
    let limits = SandboxLimits { timeout_ms: 300, ..SandboxLimits::default() };
    let endless = "function handler() { throw {toJSON() { for (;;) {} }} }";
    let late = run(&Script { limits, ..script(endless) }, &NoHost).await.expect_err("is stopped");
    assert!(matches!(late, SandboxError::Limit { limit: LimitKind::Time }), "{late}");
}
