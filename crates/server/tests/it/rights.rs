//! Rights of principals: a table of all operations, and requests whose body decides which right they
//! need.
//!
//! `tests/rights.txt` is written anew with `WEFT_WRITE=1`.

use crate::chat::desk;
use crate::client::{Answer, Client};
use crate::errors::{NOBODY, check_file, operations, with_ids};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use std::fmt::Write;
use weftwork::prelude::*;
use weftwork_server::Server;
use weftwork_types::{Principal, Right, Rights};

/// Routes that are not described to clients, and need a right.
const UNDESCRIBED: &[(&str, &str)] = &[
    ("GET", "/threads/search"),
    ("PATCH", "/threads/count"),
    ("DELETE", "/threads/prune"),
    ("GET", "/unknown"),
    ("PUT", "/threads/{thread_id}"),
];

/// All sets of rights.
fn sets() -> impl Iterator<Item = Rights> {
    let chosen = |set: usize| {
        let rights = Right::ALL.into_iter().enumerate();
        let rights = rights.filter(move |(at, _)| set >> at & 1 == 1);
        rights.map(|(_, right)| right).collect::<Vec<_>>()
    };
    (0..1 << Right::ALL.len()).map(move |set| Rights::from(chosen(set)))
}

fn token_with(rights: Rights) -> String {
    format!("token-with-the-rights-{rights}")
}

/// A server with a token for each set of rights.
struct Keyed(Client);

impl Keyed {
    fn over(runtime: Runtime) -> Self {
        let server = sets().fold(Server::new(runtime.clone()), |server, rights| {
            let who = Principal::local().with_rights(rights);
            server.token(token_with(rights), who).expect("valid")
        });
        Self(Client::of(server, runtime))
    }

    async fn send(&self, rights: Rights, request: (&str, &str), body: &Value) -> Answer {
        let (method, path) = request;
        let builder = Request::builder().method(method).uri(path).header("host", "localhost");
        let builder = builder.header("x-api-key", token_with(rights));
        self.0.send(builder.body(Body::from(body.to_string())).expect("a request")).await
    }
}

/// Returns `true` if a request was refused for a right.
fn lacks(answer: &Answer) -> bool {
    let lacks = answer.body.contains("needs the right");
    assert_eq!(lacks && answer.status != 200, answer.status == 403 && lacks, "{}", answer.body);
    lacks
}

#[tokio::test]
async fn each_operation_needs_the_listed_right() {
    let client = Client::new().await;
    let mut operations: Vec<_> =
        operations(&client).await.into_iter().map(|(method, path, _)| (method, path)).collect();
    let more = UNDESCRIBED.iter().map(|(method, path)| ((*method).to_owned(), (*path).to_owned()));
    operations.extend(more);
    let keyed = Keyed::over(client.runtime.clone());
    let body = json!({"assistant_id": "echo", "input": {}, "version": 1});
    let mut table = String::from("# Rights of which one is enough for each operation.\n\n");
    for (method, path) in operations {
        let at = with_ids(&path, NOBODY);
        let mut enough = Vec::new();
        for right in Right::ALL {
            let answer = keyed.send(Rights::of(&[right]), (&method, &at), &body).await;
            if !lacks(&answer) {
                enough.push(right.name());
            }
        }
        let none = keyed.send(Rights::NONE, (&method, &at), &body).await;
        let all = keyed.send(Rights::ALL, (&method, &at), &body).await;
        assert!(!lacks(&all), "{method} {path}: {}", all.body);
        let is_open = ["/ok", "/health"].contains(&path.as_str());
        let is_none =
            [StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED].contains(&none.status);
        assert!(lacks(&none) || is_open || is_none, "{method} {path}: {}", none.body);
        let enough = match lacks(&none) {
            true => enough.join(" or "),
            false => format!("{} without a right", none.status.as_u16()),
        };
        writeln!(table, "{method} {path}: {enough}").expect("a text");
    }
    check_file("tests/rights.txt", &table);
}

/// A request with the rights that it needs: method and path, body, and names of rights. `ASKED` is a
/// thread that waits for an approval, `CALL` the approval, `RUN` its run, and `NEW` no thread yet.
type AnswerRoute = (&'static str, &'static str, &'static [Right]);

const RUN: &[Right] = &[Right::Run];
const READ: &[Right] = &[Right::Read];
const APPROVE: &[Right] = &[Right::Approve];
const BOTH: &[Right] = &[Right::Run, Right::Approve];

#[rustfmt::skip]
const ANSWER_ROUTES: &[AnswerRoute] = &[
    ("POST /interrupts/ASKED.CALL/respond", r#"{"type": "approve"}"#, APPROVE),
    ("POST /threads/ASKED/runs/wait", r#"{"assistant_id": "desk", "command": {"resume": {"decisions": [{"type": "approve"}]}}}"#, BOTH),
    ("POST /threads/ASKED/runs/stream", r#"{"assistant_id": "desk", "command": {"resume": {"CALL": {"type": "approve"}}}}"#, BOTH),
    ("POST /threads/ASKED/runs", r#"{"assistant_id": "desk", "command": {"resume": {"decisions": [{"type": "approve"}]}}}"#, BOTH),
    ("POST /chat/desk", r#"{"threadId": "ASKED", "messages": [RESULT]}"#, APPROVE),
    ("POST /chat/desk", r#"{"id": "ASKED", "messages": [{"id": "m", "role": "assistant", "parts": [{"type": "tool-request_approval", "toolCallId": "CALL", "state": "output-available", "input": {}, "output": {"type": "approve"}}]}]}"#, APPROVE),
    ("POST /chat/desk", r#"{"threadId": "NEW", "messages": [{"role": "user", "content": "Refund order A1002, amount 40."}]}"#, RUN),
    ("POST /chat/desk", r#"{"threadId": "ASKED", "trigger": "regenerate-message", "messages": [{"role": "user", "content": "Refund order A1002, amount 40."}]}"#, RUN),
    ("POST /threads/ASKED/commands", r#"{"id": 1, "method": "input.respond", "params": {"interrupt_id": "CALL", "response": {"type": "approve"}}}"#, APPROVE),
    ("POST /threads/ASKED/commands", r#"{"id": 1, "method": "input.respond", "params": {"interrupt_id": "CALL", "response": {"type": "approve"}, "update": {"messages": []}}}"#, BOTH),
    ("POST /threads/ASKED/commands", r#"{"id": 1, "method": "run.start", "params": {"assistant_id": "desk", "input": {"decisions": [{"type": "approve"}]}}}"#, BOTH),
    ("POST /threads/NEW/commands", r#"{"id": 1, "method": "run.start", "params": {"assistant_id": "desk", "input": {"messages": []}}}"#, RUN),
    ("POST /threads/ASKED/commands", r#"{"id": 1, "method": "input.inject", "params": {"message": {"role": "user", "content": "Hello?"}}}"#, RUN),
    ("POST /threads/ASKED/commands", r#"{"id": 1, "method": "state.get"}"#, READ),
    ("POST /threads/ASKED/commands", r#"{"id": 1, "method": "state.listCheckpoints"}"#, READ),
    ("GET /threads/ASKED/runs/RUN/stream?cancel_on_disconnect=false", "{}", READ),
    ("GET /threads/ASKED/runs/RUN/stream?cancel_on_disconnect=true", "{}", &[Right::Read, Right::Run]),
];

/// The result that approves a call, as front ends send it.
const RESULT: &str = r#"{"role": "tool", "content": [{"type": "tool-result", "toolCallId": "CALL",
    "toolName": "request_approval", "output": {"type": "json", "value": {"type": "approve"}}}]}"#;

#[tokio::test]
async fn answers_need_the_right_to_approve_and_runs_that_to_run_by_every_route() {
    for (request, body, needed) in ANSWER_ROUTES {
        let runtime = Runtime::in_memory().graph("desk", desk::desk().expect("sound")).open().await;
        let keyed = Keyed::over(runtime.expect("opens"));
        // Exactly those that are needed, and all others with all but one of them.
        let without = |right: &Right| {
            let others = Right::ALL.into_iter().filter(|other| other != right);
            Rights::from(others.collect::<Vec<_>>())
        };
        let sets = needed.iter().map(without).chain([Rights::of(needed)]);
        for rights in sets {
            let thread = uuid::Uuid::new_v4().to_string();
            let said = json!({"role": "user", "content": "Refund order A1002, amount 40."});
            let said = json!({"threadId": thread, "messages": [said]});
            let asked = keyed.send(Rights::ALL, ("POST", "/chat/desk"), &said).await;
            let place = asked.headers["content-location"].to_str().expect("text").to_owned();
            let run = place.rsplit('/').next().expect("an id");
            let listed = keyed.send(Rights::ALL, ("GET", "/interrupts"), &said).await.json();
            let listed = listed.as_array().expect("a list").clone();
            let question = listed.into_iter().find(|one| one["thread_id"] == *thread);
            let question = question.expect("a question");
            let call = question["interrupt_id"].as_str().expect("an id");
            let new = uuid::Uuid::new_v4().to_string();
            let filled = |text: &str| {
                let text = text.replace("RESULT", RESULT).replace("ASKED", &thread);
                text.replace("CALL", call).replace("RUN", run).replace("NEW", &new)
            };
            let address = filled(request);
            let address = address.split_once(' ').expect("a method and a path");
            let sent: Value = serde_json::from_str(&filled(body)).expect("JSON");
            let answer = keyed.send(rights, address, &sent).await;
            let has = needed.iter().all(|right| rights.has(*right));
            let shown = format!("{request} {body} with {rights}: {}", answer.body);
            // A command is refused by its answer.
            let refused = answer.body.contains("needs the right");
            assert_eq!(refused, !has, "{shown}");
            assert!(answer.status.is_success() || answer.status == 403 && !has, "{shown}");
            assert!(
                !refused || answer.status == 403 || answer.body.contains("permission_denied"),
                "{shown}"
            );
            let state =
                keyed.send(Rights::ALL, ("GET", &format!("/threads/{thread}")), &said).await;
            let waits = state.json()["status"] == "interrupted";
            assert!(has || waits, "a refused request changes nothing: {shown}");
        }
    }
}

#[tokio::test]
async fn rights_are_those_of_the_token_in_every_header_and_by_every_spelling_of_a_path() {
    let runtime = Client::new().await.runtime;
    let read = Rights::of(&[Right::Read]);
    let who = Principal::local().with_rights(read);
    let server = Server::new(runtime.clone()).token(token_with(read), who).expect("valid");
    let client = Client::of(server, runtime);
    let token = token_with(read);
    let send = async |headers: &[(&str, &str)], method: &str, path: &str, body: Value| {
        let mut builder = Request::builder().method(method).uri(path).header("host", "localhost");
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        client.send(builder.body(Body::from(body.to_string())).expect("a request")).await
    };
    let origin = ("origin", "http://localhost");
    let session = send(&[origin], "POST", "/ui/session", json!({"token": token})).await;
    let cookie = session.headers["set-cookie"].to_str().expect("text").to_owned();
    let cookie = cookie.split(';').next().expect("a pair");
    let bearer = format!("Bearer {token}");
    let basic = [("authorization", "Basic eDp5"), ("x-api-key", token.as_str())];
    for headers in [
        &[("x-api-key", token.as_str())][..],
        &[("authorization", bearer.as_str())],
        &[("cookie", cookie), origin],
        &basic,
    ] {
        let found = send(headers, "POST", "/threads/search", json!({})).await;
        assert_eq!(found.status, StatusCode::OK, "{headers:?}: {}", found.body);
        for path in ["/threads", "/runs", "/assistants", "/threads/prune", "/runs/batch"] {
            let refused = send(headers, "POST", path, json!({})).await;
            assert!(lacks(&refused), "{headers:?} {path}: {}", refused.body);
            assert!(!refused.body.contains(&token), "{}", refused.body);
        }
        // Paths that look like others are those, or none.
        for path in
            ["/threads/", "//threads", "/threads/%70rune", "/threads/search/../prune", "/THREADS"]
        {
            let answer = send(headers, "POST", path, json!({"thread_ids": []})).await;
            assert!(answer.status.is_client_error(), "{path}: {} {}", answer.status, answer.body);
        }
        let head = send(headers, "HEAD", "/threads/search", json!({})).await;
        assert!(!head.status.is_success(), "no thread has that id");
    }
}
