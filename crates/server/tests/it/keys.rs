//! Keys of a file: their callers, their sessions, and keys that are revoked while the server runs.

use crate::client::Client;
use crate::protocol::socket::{Served, Socket};
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use weftwork_server::{AccessKey, KeyFile, Server, TokenHash};
use weftwork_store::thread::CONVERSATION;
use weftwork_store::{IfExists, NewThread};
use weftwork_types::{
    BillingAccountId, OrgId, Principal, Right, Rights, RunId, ThreadId, Timestamp, VirtualKeyId,
};

const ORIGIN: (&str, &str) = ("origin", "http://localhost");

fn key(token: &str, subject: &str) -> AccessKey {
    let rights = Rights::of(&[Right::Read, Right::Run]);
    let org = OrgId::new("acme").expect("an id");
    AccessKey {
        hash: TokenHash::of(token),
        principal: Principal::new(org, subject).with_rights(rights),
        billing_account: BillingAccountId::new(format!("acct-{subject}")).expect("an id"),
        virtual_key: VirtualKeyId::new(format!("vk-{subject}")).expect("an id"),
    }
}

fn write(path: &Path, keys: &[&AccessKey]) {
    use std::os::unix::fs::PermissionsExt;
    let lines: String = keys.iter().map(|key| format!("{key}\n")).collect();
    std::fs::write(path, lines).expect("written");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("a mode");
}

async fn send(
    client: &Client,
    request: &str,
    headers: &[(&str, &str)],
    body: Value,
) -> crate::client::Answer {
    let (method, path) = request.split_once(' ').expect("a method and a path");
    let mut builder = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    client.send(builder.body(Body::from(body.to_string())).expect("a request")).await
}

#[tokio::test]
async fn runs_have_the_principal_the_account_and_the_virtual_key_of_the_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys");
    write(&path, &[&key("token-of-ada", "ada"), &key("token-of-bob", "bob")]);
    let runtime = Client::new().await.runtime;
    let server = Server::new(runtime.clone()).keys(KeyFile::new(&path)).expect("keys");
    let client = Client::of(server, runtime);
    let run = json!({"assistant_id": "echo", "input": {"msg": "a"}, "if_not_exists": "create"});
    let start = json!({"id": 1, "method": "run.start", "params": {"assistant_id": "echo", "input": {"msg": "b"}}});
    let state = json!({"values": {"msg": "c"}, "as_node": "echo"});
    for subject in ["ada", "bob"] {
        let token = format!("token-of-{subject}");
        let thread = format!("of-{subject}");
        let token = [("x-api-key", token.as_str())];
        for (request, body) in
            [("runs/wait", &run), ("commands", &start), ("runs/wait", &run), ("state", &state)]
        {
            let request = format!("POST /threads/{thread}/{request}");
            let answer = send(&client, &request, &token, body.clone()).await;
            assert_eq!(answer.status, StatusCode::OK, "{request}: {}", answer.body);
        }
        let who = key("x", subject).principal;
        let thread = ThreadId::new(&thread).expect("an id");
        let runs = client.runtime.store().runs(&who, &thread).await.expect("runs");
        assert_eq!(runs.len(), 4);
        for row in runs {
            let caller = &row.new.caller;
            assert_eq!(caller.billing_account.as_str(), format!("acct-{subject}"));
            assert_eq!(caller.virtual_key.as_str(), format!("vk-{subject}"));
            assert!(RunId::new(caller.request.as_str()).is_ok());
        }
    }
}

#[tokio::test]
async fn a_revoked_key_and_its_session_end_and_others_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys");
    let ada = key("token-of-ada", "ada");
    let bob = key("token-of-bob", "bob");
    write(&path, &[&ada, &bob]);
    let (runtime, clock) = crate::graphs::runtime_with_clock().await;
    let server = Server::new(runtime.clone()).keys(KeyFile::new(&path)).expect("keys");
    let server = server.token("token-of-the-program", Principal::local()).expect("valid");
    let client = Client::of(server, runtime);
    let by_key = async |token: &str| {
        send(&client, "GET /info", &[("x-api-key", token)], json!({})).await.status
    };
    let session = send(&client, "POST /ui/session", &[ORIGIN], json!({"token": "token-of-ada"}));
    let session = session.await;
    let cookie = session.headers[header::SET_COOKIE].to_str().expect("text").to_owned();
    let pair = ("cookie", cookie.split(';').next().expect("a pair"));
    let by_session = async || send(&client, "GET /info", &[pair, ORIGIN], json!({})).await.status;
    // The file alone is not enough for a session.
    let forged = format!("{}\n", ada.hash);
    let forged =
        send(&client, "POST /ui/session", &[ORIGIN], json!({"token": forged.trim()})).await;
    assert_eq!(forged.status, StatusCode::UNAUTHORIZED);
    for token in ["token-of-ada", "token-of-bob", "token-of-the-program"] {
        assert_eq!(by_key(token).await, StatusCode::OK, "{token}");
    }
    assert_eq!(by_session().await, StatusCode::OK);
    write(&path, &[&bob]);
    clock.advance(Duration::from_secs(1));
    assert_eq!(by_key("token-of-ada").await, StatusCode::UNAUTHORIZED);
    assert_eq!(by_session().await, StatusCode::UNAUTHORIZED);
    for token in ["token-of-bob", "token-of-the-program"] {
        assert_eq!(by_key(token).await, StatusCode::OK, "{token}");
    }
    // A broken file changes nothing.
    std::fs::write(&path, "broken\n").expect("written");
    clock.advance(Duration::from_secs(1));
    assert_eq!(by_key("token-of-bob").await, StatusCode::OK);
    assert_eq!(by_key("token-of-ada").await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn streams_and_sockets_of_a_revoked_key_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys");
    write(&path, &[&key("token-of-ada", "ada")]);
    let (runtime, clock) = crate::graphs::runtime_with_clock().await;
    let server = Server::new(runtime.clone()).keys(KeyFile::new(&path)).expect("keys");
    let served = Served::of(server).await;
    let thread = uuid::Uuid::new_v4().to_string();
    let mut socket = Socket::open_with(&served, &thread, "token-of-ada").await.expect("opens");
    let tree = json!({"id": 1, "method": "agent.getTree"});
    socket.send_text(tree.to_string()).await;
    assert_eq!(socket.next().await["id"], 1);
    let stream = TcpStream::connect(served.address).await.expect("connects");
    let mut stream = BufReader::new(stream);
    let body = json!({"channels": ["values"]}).to_string();
    let request = format!(
        "POST /threads/{thread}/stream/events HTTP/1.1\r\nhost: localhost\r\nx-api-key: \
         token-of-ada\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.get_mut().write_all(request.as_bytes()).await.expect("sent");
    let mut line = String::new();
    stream.read_line(&mut line).await.expect("a line");
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    write(&path, &[&key("token-of-bob", "bob")]);
    // Both wait for the clock, once they are polled.
    let ended = async {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.expect("the stream ends");
        socket.closed().await
    };
    let moves = async {
        loop {
            clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
    };
    let reason = tokio::select! {
        reason = tokio::time::timeout(Duration::from_secs(30), ended) => reason.expect("in time"),
        () = moves => unreachable!("it does not end"),
    };
    assert_eq!(reason, Some(1008));
}

/// The thread of a conversation is its subject's alone, whichever route names it.
#[tokio::test]
async fn the_conversation_of_another_subject_is_not_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys");
    write(&path, &[&key("token-of-ada", "ada"), &key("token-of-bob", "bob")]);
    let runtime = Client::new().await.runtime;
    let server = Server::new(runtime.clone()).keys(KeyFile::new(&path)).expect("keys");
    let client = Client::of(server, runtime);
    let ada = key("x", "ada").principal;
    let id = "7d444840-9dc0-8a11-b1d1-5ffdce74fad2";
    let described = json!({"id": "c", "subject": "ada", "title": "SECRET"});
    let new = NewThread {
        id: ThreadId::new(id).expect("an id"),
        graph: None,
        metadata: Map::from_iter([(CONVERSATION.to_owned(), described)]),
        created_at: Timestamp(1),
        if_exists: IfExists::Refuse,
    };
    client.runtime.store().create_thread(&ada, new).await.expect("is made");
    let run = json!({"assistant_id": "echo", "input": {"msg": "SECRET"}});
    let token = [("x-api-key", "token-of-ada")];
    let own = send(&client, &format!("POST /threads/{id}/runs/wait"), &token, run.clone()).await;
    assert_eq!(own.status, StatusCode::OK, "{}", own.body);

    let bob = [("x-api-key", "token-of-bob")];
    let nothing = || json!({});
    let requests = [
        ("GET", "", nothing()),
        ("PATCH", "", json!({"metadata": {"a": 1}})),
        ("GET", "/state", nothing()),
        ("POST", "/state", json!({"values": {"msg": "c"}, "as_node": "echo"})),
        ("GET", "/history", nothing()),
        ("POST", "/history", nothing()),
        ("POST", "/copy", nothing()),
        ("GET", "/runs", nothing()),
        ("POST", "/runs", run.clone()),
        ("POST", "/runs/wait", run.clone()),
        ("POST", "/runs/stream", run.clone()),
        ("DELETE", "", nothing()),
    ];
    for spelled in [id.to_owned(), id.to_uppercase(), id.replace('-', "")] {
        for (method, rest, body) in &requests {
            let request = format!("{method} /threads/{spelled}{rest}");
            let answer = send(&client, &request, &bob, body.clone()).await;
            assert_eq!(answer.status, StatusCode::NOT_FOUND, "{request}: {}", answer.body);
            assert!(!answer.body.contains("SECRET"), "{request}: {}", answer.body);
        }
    }
    let search = async |token| send(&client, "POST /threads/search", &[token], nothing()).await;
    assert_eq!(search(bob[0]).await.body, "[]");
    let found = search(token[0]).await.body;
    assert!(found.contains(id), "{found}");
    let runs = client.runtime.store().runs(&ada, &ThreadId::new(id).expect("an id")).await;
    assert_eq!(runs.expect("runs").len(), 1);
}
