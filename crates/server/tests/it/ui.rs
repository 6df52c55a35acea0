//! The page: its files, its sessions, and that its files are those of its sources.

use crate::client::Client;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode, header};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use tower::ServiceExt;
use weftwork_server::Server;
use weftwork_types::Principal;

const TOKEN: &str = "0123456789abcdef";
const HOST: &str = "127.0.0.1:8123";
const ORIGIN: (&str, &str) = ("origin", "http://127.0.0.1:8123");
const GZIP: (&str, &str) = ("accept-encoding", "br, gzip;q=0.8");

/// Sends a request, and returns the status, the headers and the bytes of the response.
async fn send(
    client: &Client,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Value,
) -> (StatusCode, HeaderMap, Vec<u8>) {
    let mut request = Request::builder().method(method).uri(path).header("host", HOST);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body.to_string())).expect("a request");
    let response = client.router.clone().oneshot(request).await.expect("routes do not fail");
    let (head, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("a body");
    (head.status, head.headers, body.to_vec())
}

/// A server with a token, and a ticket of it.
async fn locked() -> (Client, String) {
    let runtime = Client::new().await.runtime;
    let server = Server::new(runtime.clone()).token(TOKEN, Principal::local()).expect("valid");
    let ticket = server.ticket().expect("a server with a token");
    (Client::of(server, runtime), ticket)
}

#[tokio::test]
async fn files_of_the_page_are_served_to_anyone_compressed_with_tags_and_a_policy() {
    let (client, _) = locked().await;
    let table = include_str!("../../ui/assets.in");
    let script = table.split('"').find(|text| text.ends_with(".js")).expect("a script");
    for (path, caching) in [("/ui/".to_owned(), "no-cache"), (format!("/ui/{script}"), "immutable")]
    {
        let (status, headers, body) = send(&client, "GET", &path, &[GZIP], json!({})).await;
        assert_eq!(status, StatusCode::OK, "{path}");
        assert_eq!(headers[header::CONTENT_ENCODING], "gzip");
        assert_eq!(body[..2], [0x1f, 0x8b], "{path} is compressed");
        assert!(headers[header::CACHE_CONTROL].to_str().expect("text").contains(caching));
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().expect("text");
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        let tag = headers[header::ETAG].to_str().expect("text");
        let known = [GZIP, ("if-none-match", tag)];
        let (status, _, body) = send(&client, "GET", &path, &known, json!({})).await;
        assert_eq!((status, body.len()), (StatusCode::NOT_MODIFIED, 0));
        let (status, ..) = send(&client, "GET", &path, &[], json!({})).await;
        assert_eq!(status, StatusCode::NOT_ACCEPTABLE);
    }
    let (status, ..) = send(&client, "GET", "/ui/other.js", &[GZIP], json!({})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (status, headers, _) = send(&client, "GET", "/ui", &[], json!({})).await;
    assert_eq!(
        (status, headers[header::LOCATION].as_bytes()),
        (StatusCode::PERMANENT_REDIRECT, &b"/ui/"[..])
    );
}

#[tokio::test]
async fn a_token_or_a_ticket_once_begins_a_session_of_the_page_alone() {
    let (client, ticket) = locked().await;
    let session = "/ui/session";
    for (headers, body, expected) in [
        (&[ORIGIN][..], json!({"token": "fedcba9876543210"}), StatusCode::UNAUTHORIZED),
        (&[], json!({"token": TOKEN}), StatusCode::FORBIDDEN),
        (&[("origin", "http://localhost:1")], json!({"token": TOKEN}), StatusCode::FORBIDDEN),
        (&[ORIGIN], json!({"token": TOKEN}), StatusCode::NO_CONTENT),
        (&[ORIGIN], json!({"ticket": ticket}), StatusCode::NO_CONTENT),
        (&[ORIGIN], json!({"ticket": ticket}), StatusCode::UNAUTHORIZED),
    ] {
        let (status, found, _) = send(&client, "POST", session, headers, body.clone()).await;
        assert_eq!(status, expected, "{headers:?} {body}");
        assert_eq!(found.contains_key(header::SET_COOKIE), status == StatusCode::NO_CONTENT);
    }
    let (_, headers, _) = send(&client, "POST", session, &[ORIGIN], json!({"token": TOKEN})).await;
    let cookie = headers[header::SET_COOKIE].to_str().expect("text");
    assert!(cookie.contains("; HttpOnly; SameSite=Strict") && !cookie.contains(TOKEN), "{cookie}");
    let pair = ("cookie", cookie.split(';').next().expect("a pair"));
    for (headers, expected) in [
        (&[pair, ORIGIN][..], StatusCode::OK),
        (&[pair, ("sec-fetch-site", "same-origin")], StatusCode::OK),
        // Other pages of this machine have the cookie, but are of another origin.
        (&[pair, ("origin", "http://127.0.0.1:3000")], StatusCode::UNAUTHORIZED),
        (&[pair, ("sec-fetch-site", "same-site")], StatusCode::UNAUTHORIZED),
        (&[pair], StatusCode::UNAUTHORIZED),
        (&[("cookie", "weft_session_8123=99999999999999.00"), ORIGIN], StatusCode::UNAUTHORIZED),
        (&[ORIGIN], StatusCode::UNAUTHORIZED),
    ] {
        let (status, ..) = send(&client, "POST", "/threads/search", headers, json!({})).await;
        assert_eq!(status, expected, "{headers:?}");
    }
}

/// Returns the files of a path, in folders too.
fn files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let entries = std::fs::read_dir(path).expect("a folder");
    entries.flat_map(|entry| files(&entry.expect("an entry").path())).collect()
}

#[test]
fn the_committed_page_is_built_from_the_committed_sources() {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    let hash = |bytes: &[u8]| {
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let sources = [
        "index.html",
        "package.json",
        "package-lock.json",
        "public",
        "scripts",
        "src",
        "tsconfig.json",
        "vite.config.ts",
    ];
    let files = sources.iter().flat_map(|name| files(&web.join(name)));
    let mut lines: Vec<_> = files
        .map(|file| {
            let name = file.strip_prefix(&web).expect("a file of the page").display().to_string();
            format!("{} {name}\n", hash(&std::fs::read(&file).expect("a file")))
        })
        .collect();
    lines.sort();
    let built = include_str!("../../ui/sources.sha256").trim();
    let found = hash(lines.concat().as_bytes());
    assert_eq!(
        found, built,
        "the sources of the page were changed; build it with `make web-check`"
    );
}
