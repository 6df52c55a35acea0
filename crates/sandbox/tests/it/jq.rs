//! Programs of jq.

use crate::{body, run, script};
use serde_json::{Value, json};
use weftwork_sandbox::{CodeKind, LimitKind, NoHost, SandboxError, SandboxLimits, Script};

/// An end of a program.
#[derive(Debug, Clone, Copy)]
enum End {
    /// A value, as JSON.
    Value(&'static str),
    /// A part of an error of the program.
    Thrown(&'static str),
    /// A part of the reason why it is no program.
    Invalid(&'static str),
    Limit(LimitKind),
}

use End::{Invalid, Limit, Thrown};

const TIME: End = Limit(LimitKind::Time);
const MEMORY: End = Limit(LimitKind::MemoryOrStack);
const OUTPUT: End = Limit(LimitKind::Output);

/// Programs that are made to do harm, and their ends.
const BOMBS: &[(&str, &str, End)] = &[
    ("an infinite range", "[range(0; infinite)]", MEMORY),
    ("a range of step zero", "[range(0; 1; 0)]", MEMORY),
    ("a range without a list", "range(0; infinite) | empty", TIME),
    ("a function that calls itself", "def f: f; f", TIME),
    ("a function that calls itself twice", "def f: [f, f]; f", MEMORY),
    ("arguments that nest", "def f(g): f(f(g)); f(.)", MEMORY),
    ("repeat", "[repeat(1)]", MEMORY),
    ("repeat without outputs", "repeat(.) | empty", TIME),
    ("recurse", "[recurse([.])]", MEMORY),
    ("until", "until(false; .)", TIME),
    ("until of a value that nests", "until(false; [.])", MEMORY),
    ("while", "last(while(true; .))", TIME),
    ("a limit of what has no end", "limit(1000000000000000000; repeat(1)) | empty", TIME),
    ("a list up to an infinite limit", "[limit(infinite; repeat(1))]", MEMORY),
    ("skip of what has no end", "skip(1000000000000000000; repeat(1))", TIME),
    ("a test of what has no output", "isempty(repeat(.) | empty)", TIME),
    ("reduce of what has no end", "reduce repeat(1) as $x (0; . + 1)", TIME),
    (
        "a label that is never left",
        "label $out | repeat(1) | if . == 2 then break $out else empty end",
        TIME,
    ),
    ("a text that doubles", "\"x\" | until(false; . + .)", MEMORY),
    ("a text times a large number", "\"x\" * 1000000000000", MEMORY),
    (
        "a text times more than there are bytes",
        "\"xx\" * 9223372036854775807",
        Thrown("capacity overflow"),
    ),
    ("a list that doubles", "[1] | until(false; . + .)", MEMORY),
    ("an object without end", "reduce range(1000000000) as $i ({}; .[\"k\\($i)\"] = $i)", MEMORY),
    ("a number without end", "2 | until(. < 0; . * .)", MEMORY),
    ("@json of a text without end", "\"\\\"\" | until(false; @json)", MEMORY),
    ("@base64 without end", "\"x\" | until(false; @base64)", MEMORY),
    ("@json of a deep value", "reduce range(1000000) as $i (1; [.]) | @json | length", MEMORY),
    ("equality of deep values", "reduce range(1000000) as $i (1; [.]) | . == .", MEMORY),
    ("an error with a deep value", "reduce range(1000000) as $i (1; [.]) | error", MEMORY),
    ("a text that is a deep value", "\"[\" * 1000000 | fromjson", MEMORY),
    ("a path that is deep", "[range(1000000) | \"a\"] as $path | {} | setpath($path; 1)", MEMORY),
    ("paths of paths", "[range(10000)] | [paths] | [.[] as $a | .[] as $b | [$a, $b]]", MEMORY),
    ("combinations", "[range(10) | [range(10)]] | [combinations]", MEMORY),
    ("a large matrix", "[range(10000) | [range(10000)]] | transpose", MEMORY),
    ("implode", "[range(100000000) | 65] | implode", MEMORY),
    ("a sort by what has no end", "[1, 2] | sort_by(repeat(.))", MEMORY),
    (
        "ltrimstr of each letter",
        "\"x\" * 10000000 | until(. == \"\"; .[:-1] | ltrimstr(\"y\") | ltrimstr(\"\"))",
        TIME,
    ),
    ("an expression of nested numbers", "test(\"(((a{1,100}){1,100}){1,100}){1,100}\")", MEMORY),
    ("an expression that grows its text", "\"x\" | until(false; gsub(\"x\"; \"xx\"))", MEMORY),
    ("a width of a time", "0 | strftime(\"%999999999Y\")", Thrown("width")),
    ("a deep output", "reduce range(200) as $i (1; [.])", Thrown("recursion limit")),
    ("a large output", "\"x\" * 2000000", OUTPUT),
    ("a large error", "error(\"x\" * 2000000)", Thrown("xxx")),
];

/// Parts of programs that are repeated until the text of the program is a bomb.
const REPEATED: &[(&str, &str)] = &[
    ("parentheses", "("),
    ("lists", "["),
    ("objects", "{a:"),
    ("texts in texts", "\"\\("),
    ("pipes", ".|"),
    ("signs", "-"),
    ("definitions", "def f: "),
    ("conditions", "if . then "),
];

fn jq(program: impl Into<String>, input: Value) -> Script {
    Script { code_kind: CodeKind::Jq, input, ..script(program) }
}

/// Returns what is wrong with an end.
fn wrong(found: &Result<Value, SandboxError>, expected: End) -> Option<String> {
    let is_right = match (found, expected) {
        (Ok(value), End::Value(json)) => json.parse::<Value>().is_ok_and(|json| json == *value),
        (Err(SandboxError::Limit { limit }), Limit(expected)) => *limit == expected,
        (Err(SandboxError::Thrown { message, .. }), Thrown(part)) => message.contains(part),
        (Err(SandboxError::Invalid { reason }), Invalid(part)) => reason.contains(part),
        _ => false,
    };
    (!is_right).then(|| format!("{found:?}, and not {expected:?}"))
}

#[tokio::test]
async fn each_bomb_is_stopped_and_the_next_call_is_not_disturbed() {
    assert!(BOMBS.len() + REPEATED.len() >= 30);
    let bombs = BOMBS.iter().map(|(what, program, end)| (*what, (*program).to_owned(), *end));
    let repeated = REPEATED.iter().map(|(what, part)| (*what, part.repeat(200_000), MEMORY));
    let mut found = Vec::new();
    for (what, program, expected) in bombs.chain(repeated) {
        // Of what never ends little time and memory are used up.
        let is_late = matches!(expected, Limit(LimitKind::Time));
        let timeout_ms = if is_late { 300 } else { 60_000 };
        let limits =
            SandboxLimits { timeout_ms, memory_bytes: 16 << 20, ..SandboxLimits::default() };
        let ended = run(&Script { limits, ..jq(program, Value::Null) }, &NoHost).await;
        found.extend(wrong(&ended, expected).map(|wrong| format!("{what}: {wrong}")));
        let next = run(&jq(".n + 1", json!({"n": 1})), &NoHost).await.expect("runs");
        assert_eq!(next, json!(2), "after {what}");
    }
    assert_eq!(found, [""; 0]);
    assert_eq!(body("return 1 + 1").await.expect("runs"), json!(2));
}

/// Programs of an input that has a member for each.
const PROGRAMS: &[(&str, End)] = &[
    ("{id: .items[0].id, count: (.items | length)}", End::Value(r#"{"id": 7, "count": 2}"#)),
    (".items | map({(.name): .id}) | add", End::Value(r#"{"a": 7, "b": 8}"#)),
    (".none.deep", End::Value("null")),
    ("[.items[] | select(.id > 7) | .name | ascii_upcase]", End::Value(r#"["B"]"#)),
    ("\"\\(.items[1].name)-\\(.large)\"", End::Value(r#""b-5113603275375104668""#)),
    (".large + 1", End::Value("5113603275375104669")),
    (".text | capture(\"(?<year>[0-9]{4})\") | .year | tonumber", End::Value("2024")),
    (".text | @base64 | @base64d | ltrimstr(\"on \")", End::Value(r#""2024-05-06""#)),
    ("1714953600 | todate", End::Value(r#""2024-05-06T00:00:00Z""#)),
    ("to_entries | map(.key)", End::Value(r#"["items", "large", "text"]"#)),
    ("try error(\"x\") catch .", End::Value(r#""x""#)),
    ("error({code: 7})", Thrown(r#"{"code":7}"#)),
    ("error(\"it is closed\")", Thrown("it is closed")),
    (".items + 1", Thrown("cannot calculate")),
    ("nan", Thrown("no JSON")),
    ("{(1): 2}", Thrown("no JSON")),
    (".[", Invalid("line 1, column 3: found the end, expected closing bracket")),
    (".items\n| ]", Invalid("line 2, column 3: found `]`")),
    ("if . then", Invalid("line 1, column 10: found the end, expected term")),
    (".items | mpa(.)", Invalid("line 1, column 10: filter `mpa` does not exist")),
    ("", Invalid("line 1, column 1: found the end")),
    // It has one output.
    (".items[].id", Thrown("more than one output")),
    ("empty", Thrown("no output")),
    ("1, error(\"late\")", Thrown("late")),
    // Nothing of the machine, and no further input.
    ("env", Invalid("filter `env` does not exist")),
    ("$ENV", Invalid("variable `$ENV` does not exist")),
    ("{env}", End::Value(r#"{"env": null}"#)),
    ("input", Invalid("filter `input`")),
    ("[inputs]", Invalid("filter `inputs`")),
    ("now", Invalid("filter `now`")),
    ("halt", Invalid("filter `halt`")),
    ("halt(0)", Invalid("filter `halt`")),
    ("halt_error", Invalid("filter `halt_error`")),
    ("debug", Invalid("filter `debug`")),
    ("stderr", Invalid("filter `stderr`")),
    ("input_filename", Invalid("filter `input_filename`")),
    ("localtime", Invalid("filter `localtime`")),
    ("strflocaltime(\"%Y\")", Invalid("filter `strflocaltime`")),
    ("$__prog_args", Invalid("variable `$__prog_args`")),
    ("$__loc__", Invalid("variable `$__loc__`")),
    ("import \"a\" as a; a::b", Invalid("not supported")),
    ("import \"/etc/passwd\" as $data; $data", Invalid("cannot be imported")),
    ("include \"a\"; .", Invalid("not supported")),
    ("\"2020 Europe/Paris\" | strptime(\"%Y %Q\")", Thrown("time zone")),
];

#[tokio::test]
async fn programs_have_one_output_and_read_nothing_but_their_input() {
    let input = json!({
        "items": [{"id": 7, "name": "a"}, {"id": 8, "name": "b"}],
        "large": 5_113_603_275_375_104_668_u64,
        "text": "on 2024-05-06",
    });
    let mut found = Vec::new();
    for (program, expected) in PROGRAMS {
        let call = jq(*program, input.clone());
        let ended = run(&call, &NoHost).await;
        found.extend(wrong(&ended, *expected).map(|wrong| format!("{program}: {wrong}")));
        // A node that runs again gets the same.
        let again = run(&call, &NoHost).await;
        assert_eq!(format!("{ended:?}"), format!("{again:?}"), "{program}");
        // What is no program is found without executing it.
        let check = Script { code_kind: CodeKind::JqCheck, ..call };
        let expected = match expected {
            Invalid(_) => *expected,
            _ => End::Value("null"),
        };
        let checked = run(&check, &NoHost).await;
        found.extend(wrong(&checked, expected).map(|wrong| format!("check of {program}: {wrong}")));
    }
    assert_eq!(found, [""; 0]);
}

/// Programs that hung, crashed or betrayed other programs, as their users reported.
#[tokio::test]
async fn programs_that_users_of_jq_reported() {
    let path = "[range(65000) | 0] as $path | getpath($path)";
    let cases = [
        // A worker hangs in an expression without end (open-forms 2744).
        ("[1] | last(repeat(.))", TIME),
        // The environment of the server is read in the process (langflow 15203).
        ("$ENV.PATH", Invalid("variable `$ENV` does not exist")),
        ("{token: env.TOKEN}", Invalid("filter `env` does not exist")),
        // A transform with several results silently has the first (open-workflow-specification 1181).
        ("[1, 2, 3][]", Thrown("more than one output")),
        // The last digits of a large number become zeros (jq 3074, n8n 26925).
        ("{id: 7615917337495251231}", End::Value(r#"{"id": 7615917337495251231}"#)),
        // The position of an empty text takes all memory (jq 1815).
        ("\"\" | index(\"\")", End::Value("null")),
        // A long match ends the process (jq 1370).
        ("\"a\" * 200 | match(\".{1,159}\") | .length", End::Value("159")),
        // A long path ends the process (CVE-2026-33947).
        (path, End::Value("null")),
        // A text is longer than its length can say (CVE-2026-32316).
        ("\"x\" * 2147483647 | . + .", MEMORY),
        // Large index (CVE-2024-23337).
        ("[] | .[2147483647] = 1", Thrown("out of bounds")),
    ];
    let mut found = Vec::new();
    for (program, expected) in cases {
        let limits = SandboxLimits { timeout_ms: 1_000, ..SandboxLimits::default() };
        let ended = run(&Script { limits, ..jq(program, Value::Null) }, &NoHost).await;
        found.extend(wrong(&ended, expected).map(|wrong| format!("{program}: {wrong}")));
    }
    assert_eq!(found, [""; 0]);
}

/// A program that was killed ends no process: the system does, after the processor time of the call.
#[cfg(target_os = "linux")]
#[test]
fn a_process_that_nobody_ends_ends_by_itself() {
    use std::io::Write;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};
    const SIGKILL: i32 = 9;
    let limits = SandboxLimits { timeout_ms: 0, ..SandboxLimits::default() };
    let script = Script { limits, ..jq("def f: f; f", Value::Null) };
    let mut message = json!(script);
    message["kind"] = json!("script");
    let message = message.to_string();
    let length = u32::try_from(message.len()).expect("short").to_le_bytes();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft-sandbox"));
    command.arg(format!("bounds=+{},1", limits.memory_bytes)).env_clear();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(&[&length, message.as_bytes()].concat()).expect("written");
    assert_eq!(child.wait().expect("ends").signal(), Some(SIGKILL));
}
