//! Tests of limits of accounts and keys, over servers that use one store.

use crate::database;
use crate::home::{Home, PROGRAM};
use crate::serve::Served;
use serde_json::{Value, json};
use std::path::Path;

/// Limit of the key in tokens a day.
const LIMIT: u64 = 10_000;
/// Clients of each server. Each has one request at a time.
const CLIENTS: usize = 4;
/// Requests of each client.
const REQUESTS: usize = 6;

/// Adds a key, and returns its token.
fn add(home: &Home, key: &str) -> String {
    let args =
        ["keys", "add", "keys", "--subject", "ada", "--account", "acme", "--virtual-key", key];
    let came = home.weft(&args);
    assert_eq!(came.status, Some(0), "{came:?}");
    came.out.trim().to_owned()
}

fn serve(home: &Home) -> Served {
    let args = ["serve", "--listen", "127.0.0.1:0", "--keys", "keys"];
    Served::start(home, Path::new(PROGRAM), &args).0
}

fn ask(served: &Served, token: &str, thread: &str) -> (u16, Value) {
    let text = "Say something about lamps. ".repeat(40);
    let input = json!({"messages": [{"role": "user", "content": text}]});
    let body = json!({"assistant_id": "desk", "input": input, "if_not_exists": "create"});
    served.send(
        &format!("POST /threads/{thread}/runs/wait"),
        &format!("x-api-key: {token}\r\n"),
        &body,
    )
}

/// Returns what is used of the limit.
fn used(home: &Home) -> u64 {
    let lines = home.weft(&["usage", "--limits", "--json"]);
    assert_eq!(lines.status, Some(0), "{lines:?}");
    let lines = lines.out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let line = lines.into_iter().find(|line| line["key"] == "small").expect("the limit of the key");
    assert_eq!((&line["limit"], &line["max"]), (&json!("tokens_per_day"), &json!("10000")));
    line["used"].as_str().expect("a text").parse().expect("a number")
}

/// Returns `true` if a response was refused by the limit, at the door or in its run.
#[track_caller]
fn is_refused(answer: &(u16, Value)) -> bool {
    let (status, body) = answer;
    match status {
        200 => {
            let error = &body["__error__"];
            assert!(error.is_null() || error.to_string().contains("W0661"), "{body}");
            !error.is_null()
        }
        429 => {
            let detail = body["detail"].as_str().expect("a text");
            assert!(
                detail.starts_with("key `small` has the limit of 10000 tokens a day"),
                "{body}"
            );
            true
        }
        _ => panic!("{answer:?}"),
    }
}

#[expect(clippy::print_stdout, reason = "the overshoot is a measurement")]
fn a_key_is_limited_over_two_servers(home: &Home) {
    let token = add(home, "small");
    let other = add(home, "large");
    let servers = [serve(home), serve(home)];
    assert!(!is_refused(&ask(&servers[0], &token, "first")));
    let of_a_run = used(home);
    assert!(of_a_run > 200, "{of_a_run}");
    let refused: usize = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..2 * CLIENTS)
            .map(|client| {
                let served = &servers[client % 2];
                let token = &token;
                scope.spawn(move || {
                    let asked = (0..REQUESTS).map(|n| format!("t{client}-{n}"));
                    asked.filter(|thread| is_refused(&ask(served, token, thread))).count()
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().expect("no panic")).sum()
    });
    let made = 1 + 2 * CLIENTS * REQUESTS - refused;
    let used = used(home);
    let overshoot = used.saturating_sub(LIMIT);
    let in_flight = CLIENTS as u64 * of_a_run;
    println!(
        "limit {LIMIT} tokens, {made} runs made, {refused} refused, used {used}, overshoot \
         {overshoot}, at most {in_flight} in flight in the other server"
    );
    assert!(refused > 0 && used > LIMIT / 2, "{refused} {used}");
    assert!(overshoot <= in_flight, "{overshoot}");
    for served in &servers {
        assert!(!is_refused(&ask(served, &other, "of-another-key")), "another key");
    }
    // A thread of a refused run can be read, and nobody gets more once the limit is used up.
    let mut last = 0;
    while !is_refused(&ask(&servers[last % 2], &token, "last")) {
        last += 1;
    }
    for served in &servers {
        assert!(is_refused(&ask(served, &token, "last")), "what one server counts, both do");
        let state =
            served.send("GET /threads/first/state", &format!("x-api-key: {token}\r\n"), &json!({}));
        assert_eq!(state.0, 200, "{state:?}");
    }
}

fn home() -> Home {
    let limits = "model = \"scripted\"\n[limits]\nzone = \"Europe/Berlin\"\n[limits.keys.small]\ntokens_per_day = 10000\n";
    Home::new().config(limits)
}

#[test]
fn a_key_is_limited_over_two_servers_on_postgres() {
    let url = database::fresh();
    a_key_is_limited_over_two_servers(&home().set("WEFT_STORE", &url));
}

#[test]
fn a_key_is_limited_over_two_servers_on_sqlite() {
    a_key_is_limited_over_two_servers(&home());
}

#[test]
fn limits_are_shown_and_wrong_ones_name_their_line() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let none = home.weft(&["usage", "--limits"]);
    assert!(none.status == Some(0) && none.errors.contains("no limits"), "{none:?}");
    let home = home.config("[limits.accounts.\"*\"]\nusd_per_month = 2.5\nruns_per_day = 7\n");
    let said = ["run", "desk", "--thread", "t", "--input", "Hello"];
    assert_eq!(home.weft(&said).status, Some(0));
    let table = home.weft(&["usage", "--limits"]).out;
    let rows: Vec<Vec<_>> =
        table.lines().map(|line| line.split_whitespace().take(5).collect()).collect();
    assert_eq!(rows[0], ["OF", "LIMIT", "USED", "MAX", "UNTIL"], "{table}");
    assert_eq!(rows[1][..5], ["account", "local", "usd_per_month", "0", "2.5"], "{table}");
    assert_eq!(rows[2][..5], ["account", "local", "runs_per_day", "0", "7"], "{table}");
    let doctor = home.weft(&["doctor"]).out;
    assert!(doctor.contains("limits of 0 named accounts and keys, days in UTC"), "{doctor}");

    for (config, line, expected) in [
        (
            "[limits.keys.a]\ntokens_per_week = 5\n",
            2,
            "`tokens_per_week` is no limit; expected tokens",
        ),
        ("[limits]\nzones = \"UTC\"\n", 2, "unknown field `zones`"),
        ("[limits]\nzone = \"Mars\"\n", 2, "the time zone `Mars` is unknown"),
        ("[limits.key.a]\nruns_per_day = 5\n", 1, "unknown field `key`"),
        ("[limits.keys.\"\"]\nruns_per_day = 5\n", 1, "virtual key id `` is not valid"),
        ("[limits.accounts.\"a b\"]\nruns_per_day = 5\n", 1, "`a b` is not valid"),
        (
            "[limits.keys.a]\nruns_per_day = 5\n[limits.keys.a]\nruns_per_day = 6\n",
            3,
            "duplicate key",
        ),
        ("[limits.keys.a]\nruns_per_day = 5\nruns_per_day = 6\n", 3, "duplicate key"),
        (
            "[limits.keys.a]\nruns_per_day = -5\n",
            2,
            "integer `-5`, expected `runs_per_day` as a whole number from 0 to ",
        ),
        ("[limits.keys.a]\nruns_per_day = 1.5\n", 2, "`1.5`, expected `runs_per_day` as a whole"),
        (
            "[limits.keys.a]\ntokens_per_day = \"many\"\n",
            2,
            "string \"many\", expected `tokens_per_day` as a whole number",
        ),
        ("[limits.keys.a]\nusd_per_day = -1\n", 2, "expected `usd_per_day` in dollars, from 0"),
        ("[limits.keys.a]\nusd_per_day = nan\n", 2, "expected `usd_per_day` in dollars, from 0"),
        ("[limits.keys.a]\nusd_per_day = 0.0000001\n", 2, "in dollars, from 0.000001 to "),
        ("[limits]\nkeys = 5\n", 2, "invalid type"),
    ] {
        let home = Home::new().set("WEFT_MODEL", "scripted").config(config);
        let came = home.weft(&["usage", "--limits"]);
        let place = format!("line {line}: ");
        let found = came.errors.contains(expected) && came.errors.contains(&place);
        assert!(came.status == Some(2) && found, "{config}: {came:?}");
    }
}
