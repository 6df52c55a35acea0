//! Code that is made to do harm.

use crate::{body, run, script};
use serde_json::{Value, json};
use weftwork_sandbox::SandboxLimits;
use weftwork_sandbox::{LimitKind, NoHost, SandboxError, Script};

/// An end of code that is made to do harm.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Contained {
    /// There is no such thing: the engine refuses it, or it has no effect.
    Engine(&'static str),
    Limit(LimitKind),
    NeverEnds,
    Thrown(&'static str),
}

use Contained::{Engine, Limit, NeverEnds, Thrown};

/// The end of code that names what does not exist.
const NOTHING: Contained = Engine(r#""undefined""#);

/// Code that is made to do harm, and its end; a value is JSON.
const ATTACKS: &[(&str, &str, Contained)] = &[
    ("an endless loop", "for (;;) {}", Limit(LimitKind::Time)),
    ("an endless chain of promises", "for (;;) await null", Limit(LimitKind::Time)),
    (
        "an endless reaction",
        "await Promise.resolve().then(() => { for (;;) {} })",
        Limit(LimitKind::Time),
    ),
    ("an endless getter", "return { get x() { for (;;) {} } }", Limit(LimitKind::Time)),
    ("an endless toJSON", "return { toJSON() { for (;;) {} } }", Limit(LimitKind::Time)),
    ("a loop that catches", "for (;;) { try { for (;;) {} } catch {} }", Limit(LimitKind::Time)),
    ("a loop in finally", "try { for (;;) {} } finally { for (;;) {} }", Limit(LimitKind::Time)),
    ("a slow expression", "return /^(a+)+$/.test('a'.repeat(64) + 'b')", Limit(LimitKind::Time)),
    ("a slow sort", "return [1, 2, 3].sort(() => { for (;;) {} })", Limit(LimitKind::Time)),
    (
        "a list without end",
        "const a = []; for (;;) a.push(new Array(1000).fill(1))",
        Limit(LimitKind::Memory),
    ),
    (
        "a text without end",
        "let s = 'x'.repeat(1000); for (;;) s += s + s",
        Thrown("string too long"),
    ),
    ("a text of four gigabytes", "return 'x'.repeat(2 ** 32)", Thrown("RangeError")),
    ("an array of all indices", "return new Array(2 ** 32 - 1).fill(0)", Limit(LimitKind::Memory)),
    (
        "a map without end",
        "const m = new Map(); for (let i = 0;; i++) m.set(i, 'x'.repeat(100))",
        Limit(LimitKind::Memory),
    ),
    ("closures without end", "const a = []; for (;;) a.push(() => a)", Limit(LimitKind::Memory)),
    ("deep recursion", "const f = () => f(); return f()", Limit(LimitKind::Stack)),
    ("deep JSON", "return JSON.parse('['.repeat(100000))", Limit(LimitKind::Stack)),
    (
        "a deep result",
        "let x = 1; for (let i = 0; i < 1000; i++) x = [x]; return x",
        Thrown("recursion"),
    ),
    ("a promise without end", "await new Promise(() => {})", NeverEnds),
    ("a thenable without end", "return { then() {} }", NeverEnds),
    ("require", "return typeof require", NOTHING),
    ("process", "return typeof process", NOTHING),
    ("fetch", "return typeof fetch", NOTHING),
    (
        "std and os of the engine",
        "return typeof std + typeof os",
        Engine(r#""undefinedundefined""#),
    ),
    ("workers", "return typeof Worker", NOTHING),
    ("timers", "return typeof setTimeout", NOTHING),
    (
        "shared memory",
        "return typeof SharedArrayBuffer + typeof Atomics",
        Engine(r#""undefinedundefined""#),
    ),
    (
        "typed arrays",
        "return typeof ArrayBuffer + typeof Uint8Array",
        Engine(r#""undefinedundefined""#),
    ),
    ("proxies", "return typeof Proxy", NOTHING),
    (
        "weak references",
        "return typeof WeakRef + typeof FinalizationRegistry",
        Engine(r#""undefinedundefined""#),
    ),
    (
        "dynamic import",
        "return import('std').then(() => 'loaded', (error) => typeof error.message)",
        Engine(r#""string""#),
    ),
    (
        "dynamic import of a file",
        "return import('/etc/passwd').then(() => 'loaded', () => 'refused')",
        Engine(r#""refused""#),
    ),
    (
        "the constructor of functions",
        "return (() => {}).constructor.constructor('return typeof process')()",
        NOTHING,
    ),
    (
        "the global object",
        "return Object.keys(globalThis).filter((name) => name !== 'handler')",
        Engine(r#"[]"#),
    ),
    (
        "paths in an error",
        "try { null.x } catch (error) { return /home|root|crates|\\/src/.test(error.stack) }",
        Engine(r#"false"#),
    ),
    (
        "a changed prototype",
        "Object.prototype.kind = 'done'; Object.prototype.value = 1; return { x: 1 }",
        Engine(r#"{"x": 1}"#),
    ),
    (
        "a changed list",
        "Array.prototype.toJSON = () => 'changed'; return { x: [1] }",
        Engine(r#"{"x": "changed"}"#),
    ),
    (
        "a changed JSON",
        "JSON.stringify = () => 'x'; JSON.parse = () => 1; return { x: 1 }",
        Engine(r#"{"x": 1}"#),
    ),
    (
        "a changed promise",
        "Promise.prototype.then = () => 1; Promise = null; return 2",
        Engine(r#"2"#),
    ),
    (
        "a proto in the result",
        "return JSON.parse('{\"__proto__\": {\"x\": 1}}')",
        Engine(r#"{"__proto__": {"x": 1}}"#),
    ),
    (
        "a message of the protocol",
        "return { kind: 'call', id: 0, member: 'tools', args: [] }",
        Engine(r#"{"kind": "call", "id": 0, "member": "tools", "args": []}"#),
    ),
    ("eval", "return eval('typeof process')", NOTHING),
    ("large numbers", "return (2n ** 1000000n).toString().length > 1e7", Engine(r#"false"#)),
];

#[tokio::test]
async fn each_attack_is_contained_and_the_next_call_is_not_disturbed() {
    assert!(ATTACKS.len() >= 40, "{}", ATTACKS.len());
    let mut wrong = Vec::new();
    for (what, code, expected) in ATTACKS.iter().copied() {
        // Of what never ends little time and memory are used up.
        let timeout_ms = if expected == Contained::Limit(LimitKind::Time) { 300 } else { 20_000 };
        let limits =
            SandboxLimits { timeout_ms, memory_bytes: 16 << 20, ..SandboxLimits::default() };
        let attack = script(format!("async function handler(input, ctx) {{ {code} }}"));
        let found = match run(&Script { limits, ..attack }, &NoHost).await {
            Ok(value) => match expected {
                Engine(json) if value == json.parse::<Value>().expect("JSON") => expected,
                _ => {
                    wrong.push(format!("{what}: {value}"));
                    continue;
                }
            },
            Err(SandboxError::Limit { limit }) => Contained::Limit(limit),
            Err(SandboxError::NeverEnds) => Contained::NeverEnds,
            Err(SandboxError::Thrown { message, .. }) => match &expected {
                Contained::Thrown(part) if message.contains(part) => expected,
                _ => {
                    wrong.push(format!("{what}: {message}"));
                    continue;
                }
            },
            Err(error) => panic!("{what}: {error}"),
        };
        if found != expected {
            wrong.push(format!("{what}: {found:?}"));
        }
        let next = body("return 1 + 1").await.expect("runs");
        assert_eq!(next, json!(2), "after {what}");
    }
    assert_eq!(wrong, [""; 0]);
}

#[tokio::test]
async fn code_that_runs_before_the_function_has_the_same_limits() {
    let limits = SandboxLimits { timeout_ms: 300, ..SandboxLimits::default() };
    let endless = Script { limits, ..script("for (;;) {}") };
    let late = run(&endless, &NoHost).await.expect_err("is stopped");
    assert!(matches!(late, SandboxError::Limit { limit: LimitKind::Time }), "{late}");
    let large = run(&script("const a = []; for (;;) a.push('x'.repeat(1e6))"), &NoHost).await;
    let large = large.expect_err("is stopped");
    assert!(matches!(large, SandboxError::Limit { limit: LimitKind::Memory }), "{large}");
}

#[tokio::test]
async fn a_program_that_is_no_sandbox_is_refused() {
    let clock = weftwork_graph::SystemClock::new();
    let other = weftwork_sandbox::Sandbox::new("/bin/true", [""; 0]);
    let error = other.run(&script(""), &NoHost, &clock).await.expect_err("is none");
    assert_eq!(error.code().0, "W1054");
    let missing = weftwork_sandbox::Sandbox::new("/no/such/program", [""; 0]);
    let error = missing.run(&script(""), &NoHost, &clock).await.expect_err("is none");
    assert!(matches!(error, SandboxError::Start(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_200_calls_at_once_half_misbehave_and_the_others_do_not_notice() {
    let limits =
        SandboxLimits { timeout_ms: 60_000, memory_bytes: 4 << 20, ..SandboxLimits::default() };
    let calls = (0..200).map(async |n: u32| {
        let code = match n % 4 {
            0 => "function handler() { const a = []; for (;;) a.push('x'.repeat(1e5)) }".to_owned(),
            1 => "function handler() { const f = () => f(); return f() }".to_owned(),
            _ => format!("function handler() {{ return {n} * 2 }}"),
        };
        (n, run(&Script { limits, ..script(code) }, &NoHost).await)
    });
    for (n, ended) in futures_util::future::join_all(calls).await {
        match (n % 4, ended) {
            (0, Err(SandboxError::Limit { limit: LimitKind::Memory })) => {}
            (1, Err(SandboxError::Limit { limit: LimitKind::Stack })) => {}
            (2 | 3, Ok(value)) => assert_eq!(value, json!(n * 2)),
            (_, other) => panic!("{n}: {other:?}"),
        }
    }
}
