//! Bodies that a gateway compressed, over real connections.

use crate::desk::{Desk, request};
use crate::server::{model, server};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use std::io::Write as _;
use weftwork_models::{ChatResponse, ModelCallError, ModelCaller};
use weftwork_testkit::{ManualClock, Reply};

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).expect("writes");
    encoder.finish().expect("a body")
}

/// Returns the answer to a request, and the number of requests.
async fn answer(
    status: u16,
    encoding: &'static str,
    body: Vec<u8>,
) -> (Result<ChatResponse, ModelCallError>, usize) {
    let server = server(move |_, received| {
        assert_eq!(received.header("accept-encoding"), Some("identity"));
        let head = Reply::pieces(status, &[("content-encoding", encoding)]);
        body.chunks(7).fold(head, Reply::piece).end()
    });
    let server = server.await;
    let desk = Desk::new();
    let clock = ManualClock::moved_by_sleeps();
    let model = model(&server, "");
    let answer = ModelCaller::default().call(&*model, request("hi"), &desk.context(&clock)).await;
    (answer, server.received().len())
}

#[tokio::test]
async fn compressed_answers_and_errors_are_read() {
    let chunk = json!({"choices": [{"delta": {"content": "hello"}, "finish_reason": "stop"}]});
    let body = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    for encoding in ["gzip", "br"] {
        // A gateway may name another encoding than its own.
        let (answer, _) = answer(200, encoding, gzip(&body)).await;
        assert_eq!(answer.expect("an answer").message.joined_text(), "hello");
    }
    let error = json!({"error": {"message": "no such model", "code": "model_not_found"}});
    let (refused, requests) = answer(404, "gzip", gzip(&error.to_string())).await;
    let refused = refused.expect_err("refused").to_string();
    assert!(refused.contains("no such model"), "{refused}");
    assert_eq!(requests, 1);
}

#[tokio::test]
async fn an_encoding_that_is_not_read_is_named_once_and_a_damaged_body_is_asked_for_again() {
    let (error, requests) = answer(200, "br", vec![0x8b; 40]).await;
    let error = error.expect_err("refused");
    assert_eq!((error.code().0, requests), ("W0308", 1));
    assert!(error.to_string().contains("is compressed with `br`"), "{error}");
    let (error, _) = answer(401, "zstd", vec![0x8b; 40]).await;
    let error = error.expect_err("refused");
    assert_eq!(error.code().0, "W0303");
    assert!(error.to_string().contains("is compressed with `zstd`"), "{error}");

    let mut damaged = gzip("data: {\"choices\": []}\n\n");
    damaged[14..20].fill(0xff);
    let (error, requests) = answer(200, "gzip", damaged).await;
    let error = error.expect_err("damaged");
    assert_eq!((error.code().0, requests), ("W0308", 3), "{error}");
    assert!(error.to_string().contains("gzip cannot be decompressed"), "{error}");
}
