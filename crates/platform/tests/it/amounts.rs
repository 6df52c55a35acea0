//! Numbers and times that are too small, too large, or no such thing, in every key that takes one.

use weftwork_platform::read_definition;

/// Keys of numbers, each in a definition with `#` in its place on the last line, and sound values.
const NUMBERS: &[(&str, &[&str])] = &[
    ("type: context\nweft: #", &["1"]),
    ("type: context\ncontext_tokens: #", &["1", "8000", "2.0"]),
    ("type: context\nexecution:\n  retries: #", &["0", "2", "2.0"]),
    ("type: context\nexecution:\n  concurrency: #", &["1", "4"]),
    ("type: context\nexecution:\n  budget:\n    tokens: #", &["1", "2000"]),
    ("type: context\nexecution:\n  budget:\n    calls: #", &["1"]),
    ("type: context\nexecution:\n  budget:\n    tools: #", &["0", "3"]),
    ("type: context\nexecution:\n  budget:\n    usd: #", &["0", "0.5", "2"]),
    ("type: tool\ntools: [a/b]\nexecution:\n  budget:\n    tools: #", &["1"]),
    ("type: tool\ntools: [a/b]\nexecution:\n  budget:\n    calls: #", &["0", "1"]),
    ("type: context\norchestration:\n  maxDepth: #", &["1", "16"]),
    (
        "type: context\norchestration:\n  availableAgents: [a]\n  planning:\n    steps_max: #",
        &["1", "8", "64", "8.0"],
    ),
    ("type: context\nsources:\n  - kind: history\n    limit: #", &["1", "1000"]),
    (
        "type: function\nfunction_code: x\ntransport:\n  kind: function\n  function:\n    timeout_ms: #",
        &["1"],
    ),
    (
        "type: api\ntransport:\n  kind: api\n  api:\n    endpoint: https://a.example\n    method: GET\nexecution:\n  budget:\n    tools: #",
        &["1"],
    ),
    (
        "type: api\ntransport:\n  kind: api\n  api:\n    endpoint: https://a.example\n    method: GET\n    timeout_ms: #",
        &["1"],
    ),
    (
        "type: api\ntransport:\n  kind: api\n  api:\n    endpoint: https://a.example\n    method: GET\n    retries: #",
        &["0"],
    ),
    (
        "type: external\ntransport:\n  kind: external\n  external:\n    endpoint: https://a.example\n    protocol: a2a\n    timeout_ms: #",
        &["1"],
    ),
    (
        "type: external\ntransport:\n  kind: external\n  external:\n    endpoint: https://a.example\n    protocol: a2a\n    retries: #",
        &["0"],
    ),
    (
        "type: external\ntransport:\n  kind: external\n  external:\n    endpoint: https://a.example\n    healthCheck:\n      endpoint: /health\n      thresholds:\n        failures: #",
        &["1"],
    ),
];

/// Values that no number of a definition has.
const NEVER: &[&str] = &[
    "-1",
    "-0.5",
    "1e30",
    "99999999999999999999",
    "18446744073709551615",
    "9223372036854775807",
    ".inf",
    "-.inf",
    ".nan",
    "'1'",
    "one",
    "true",
    "[1]",
    "{a: 1}",
    "0x",
];

/// Keys of times.
const TIMES: &[&str] = &[
    "type: context\nexecution:\n  timeout: #",
    "type: context\nsources:\n  - kind: history\n    deadline: #",
    "type: external\ntransport:\n  kind: external\n  external:\n    endpoint: https://a.example\n    healthCheck:\n      endpoint: /health\n      interval: #",
];

/// Checks that a value is sound, or that its line is that of the problem, which has an expected value.
fn check(template: &str, value: &str, is_sound: bool) {
    let text = template.replace('#', value);
    let line = text.lines().count() as u64;
    match read_definition(&text) {
        Ok(_) => assert!(is_sound, "{text}"),
        Err(problems) => {
            assert!(!is_sound, "{text}: {problems:?}");
            for problem in problems {
                assert_eq!(problem.location.line, line, "{text}: {problem}");
                assert!(problem.location.column > 1, "{text}: {problem}");
                let has_fix = !problem.expected.is_empty() || !problem.found.is_empty();
                assert!(has_fix, "{text}: {problem}");
            }
        }
    }
}

#[test]
fn numbers_are_in_their_range_or_refused_at_their_line() {
    for (template, sound) in NUMBERS {
        sound.iter().for_each(|value| check(template, value, true));
        NEVER.iter().for_each(|value| check(template, value, false));
        for value in ["0", "1.5"] {
            let is_sound = sound.contains(&value) || template.contains("usd") && value == "1.5";
            check(template, value, is_sound);
        }
    }
}

#[test]
fn times_are_from_a_millisecond_to_a_year_or_refused_at_their_line() {
    for template in TIMES {
        for value in ["1ms", "90s", "5m", "1h30m", "2d", "52w", "0h5m"] {
            check(template, value, true);
        }
        let wrong = [
            "0s",
            "0ms",
            "0h0m",
            "-1s",
            "1",
            "0",
            "90",
            "s",
            "1.5s",
            "1 s",
            "53w",
            "365d1ms1s",
            "99999999999999999999s",
            "18446744073709551615w",
            "9999999999999w9999999999999w",
            "''",
        ];
        wrong.iter().for_each(|value| check(template, value, false));
    }
}

#[test]
fn texts_without_content_are_refused_at_their_line() {
    for template in [
        "type: context\nslug: #",
        "type: context\norganization: #",
        "type: context\nversion: #",
        "type: context\nllm:\n  model: m\n  provider: #",
        "type: context\nllm:\n  provider: p\n  model: #",
        "type: context\nskills:\n  - #",
        "type: context\nrequires_confirmation:\n  - #",
        "type: context\nplan:\n  format: markdown\n  template: #",
        "type: context\ndeliverable:\n  format: markdown\n  type: #",
        "type: context\ndeliverable:\n  format: markdown\n  sections:\n    - #",
        "type: context\nsources:\n  - kind: files\n    paths:\n      - #",
        "type: context\nsources:\n  - kind: store\n    namespace:\n      - #",
        "type: context\nsources:\n  - kind: store\n    namespace: [a]\n    query: #",
        "type: tool\ntools:\n  - #",
    ] {
        check(template, "''", false);
    }
    // `*` stands for all organisations in the store.
    for org in ["'*'", "a/b", "'a b'"] {
        check("type: context\norganization: #", org, false);
    }
}
