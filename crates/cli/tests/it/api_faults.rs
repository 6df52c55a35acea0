//! API agents at services that fail, that answer too much, and that answer with other bodies than JSON.

use crate::apis::{Scene, answers, fails};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use weftwork_testkit::Reply;

const GET: &str = "endpoint: '{url}/x', method: GET, timeout_ms: 1000";
const POST: &str = "endpoint: '{url}/x', timeout_ms: 1000, authentication: {type: bearer}";

/// An answer of an API, and the end of the request.
struct Fault {
    name: &'static str,
    definition: &'static str,
    answer: fn(usize) -> Reply,
    /// Number of requests that reached the server.
    requests: usize,
    /// Code and a part of the text; nothing for a success.
    fails: Option<(&'static str, &'static str)>,
}

fn faults_of_status() -> Vec<Fault> {
    vec![
        Fault {
            name: "an answer",
            definition: GET,
            answer: |_| answers(200, &json!("done")),
            requests: 1,
            fails: None,
        },
        Fault {
            name: "429 with retry-after",
            definition: GET,
            answer: |number| match number {
                0 => fails(429, &[("retry-after", "1")]),
                _ => answers(200, &json!("done")),
            },
            requests: 2,
            fails: None,
        },
        Fault {
            name: "429 that asks for too long a delay",
            definition: GET,
            answer: |_| fails(429, &[("retry-after", "3600")]),
            requests: 1,
            fails: Some(("W1060", "status 429")),
        },
        Fault {
            name: "429 that asks for a delay until a date",
            definition: GET,
            answer: |_| {
                let until = ("retry-after", "Mon, 30 Nov 2026 09:00:00 GMT");
                fails(429, &[("date", "Mon, 30 Nov 2026 08:00:00 GMT"), until])
            },
            requests: 1,
            fails: Some(("W1060", "status 429")),
        },
        Fault {
            name: "500 thrice",
            definition: GET,
            answer: |_| fails(500, &[]),
            requests: 3,
            fails: Some(("W1060", "status 500: the reason")),
        },
        Fault {
            name: "400 of a request that repeats a secret",
            definition: POST,
            answer: |_| Reply::full(400, &[], "the reason, for CANARY"),
            requests: 1,
            fails: Some(("W1060", "the reason, for [secret]")),
        },
        Fault {
            name: "an answer that is no text",
            definition: GET,
            answer: |_| Reply::full(404, &[("content-type", "image/png")], [0x89, 0x50, 0xff]),
            requests: 1,
            fails: Some(("W1060", r#"status 404: {"media_type":"image/png","bytes":3}"#)),
        },
        Fault {
            name: "404",
            definition: GET,
            answer: |_| fails(404, &[]),
            requests: 1,
            fails: Some(("W1060", "status 404")),
        },
    ]
}

fn faults_of_connections() -> Vec<Fault> {
    vec![
        Fault {
            name: "a hang of what reads",
            definition: "endpoint: '{url}/x', method: GET, timeout_ms: 300, retries: 1",
            answer: |_| Reply::nothing().hang(),
            requests: 2,
            fails: Some(("W0804", "within 300 ms")),
        },
        Fault {
            name: "a cut body",
            definition: "endpoint: '{url}/x', method: GET, timeout_ms: 1000, retries: 0",
            answer: |_| Reply::pieces(200, &[("content-length", "100")]).piece("half"),
            requests: 1,
            fails: Some(("W0805", "broke")),
        },
        Fault {
            name: "a redirect to a private address",
            definition: GET,
            answer: |_| fails(302, &[("location", "http://169.254.169.254/latest")]),
            requests: 1,
            fails: Some(("W0801", "169.254.169.254")),
        },
        Fault {
            name: "a redirect of a request with a secret",
            definition: POST,
            answer: |_| fails(307, &[("location", "http://127.0.0.2/other")]),
            requests: 1,
            fails: Some(("W1060", "is not followed")),
        },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_of_a_service_has_its_end() {
    for fault in faults_of_status().into_iter().chain(faults_of_connections()) {
        let Fault { name, definition, answer, requests, fails } = fault;
        let scene = Scene::new(definition, "", move |number, _| answer(number)).await;
        let found = scene.ask(&["Go."]);
        assert_eq!(scene.server.received().len(), requests, "{name}: {found}");
        match fails {
            None => assert_eq!(found["content"], "done", "{name}"),
            Some((code, text)) => {
                assert_eq!(found["metadata"]["code"], code, "{name}: {found}");
                let error = found["error"].as_str().unwrap_or_default();
                assert!(error.contains(text), "{name}: {error}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_read_as_their_answers_say() {
    let of = |kind: &str, body: &[u8]| Reply::full(200, &[("content-type", kind)], body);
    let packed = [("content-type", "application/json"), ("content-encoding", "gzip")];
    let cases = [
        (of("application/json", b"\xef\xbb\xbf{\"a\": 1}"), json!({"a": 1})),
        (of("application/problem+json", b"[1]"), json!([1])),
        (of("application/json", b"{"), json!("{")),
        (of("application/json", b""), Value::Null),
        (of("text/plain; charset=\"ISO-8859-1\"", b"\xdcn\xef"), json!("\u{dc}n\u{ef}")),
        (of("text/csv", b"a\xff"), json!("a\u{fffd}")),
        (Reply::full(200, &[], b"plain"), json!("plain")),
        (of("image/png; q=1", b"\x89PNG\xff"), json!({"media_type": "image/png", "bytes": 5})),
        (
            Reply::full(200, &packed, b"\x1f\x8b"),
            json!({"media_type": "application/json", "bytes": 2}),
        ),
    ];
    for (reply, expected) in cases {
        let definition = "endpoint: '{url}/x', method: GET";
        let scene = Scene::new(definition, "", move |_, _| reply.clone()).await;
        assert_eq!(scene.ask(&["Go."])["content"], expected);
    }
}

/// Starts a server that answers with 1 GiB; returns its address and the number of bytes that it wrote.
fn serve_without_end() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.expect("a request");
            assert!(connection.read(&mut [0; 8 << 10]).expect("read") > 0, "a request");
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 1 << 30);
            connection.write_all(head.as_bytes()).expect("written");
            let piece = [b'x'; 64 << 10];
            while connection.write_all(&piece).is_ok() {
                count.fetch_add(piece.len(), Ordering::Relaxed);
            }
        }
    });
    (url, written)
}

/// The program stops reading where it holds as much as it may.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_end_is_not_held() {
    for (method, code) in [("GET", json!("W0809")), ("POST", Value::Null)] {
        let (url, written) = serve_without_end();
        let definition = format!("endpoint: '{url}/large', method: {method}");
        let scene = Scene::new(&definition, "", |_, _| fails(500, &[])).await;
        let found = scene.ask(&["Go."]);
        assert_eq!(found["metadata"]["code"], code, "{method}: {found}");
        // It may have had an effect.
        assert_eq!(found["metadata"]["status"] == "input_required", method == "POST", "{found}");
        let written = written.load(Ordering::Relaxed);
        assert!(written < 64 << 20, "{method}: {written} bytes were read");
    }
}
