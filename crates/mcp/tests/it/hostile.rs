//! Servers that attack: each has its refusal, and the run goes on.

use crate::rig::{Rig, reads, run};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use weftwork_egress::{EgressConfig, GuardedClient};
use weftwork_mcp::McpError;
use weftwork_testkit::{LoopbackServer, Reply};
use weftwork_types::port::Egress;

/// Allows `echo` of a harmless server, then makes the call on one of another kind.
async fn call(kind: &str, change: impl FnOnce(Rig) -> Rig) -> (Rig, crate::rig::Said) {
    let tame = Rig::new().server("s", "plain");
    tame.allowing(&["s/echo"], &reads()).await;
    let rig = change(Rig::new().server("s", kind));
    std::fs::copy(tame.path("mcp.lock"), rig.path("mcp.lock")).expect("copied");
    let said = run(&rig.servers(), &[("s__echo", json!({"text": "a"}))]).await;
    (rig, said.into_iter().next().expect("a result"))
}

/// The error of listing the tools of a server.
async fn offer(kind: &str, change: impl FnOnce(Rig) -> Rig) -> McpError {
    let rig = change(Rig::new().server("s", kind));
    rig.servers().offer("s").await.expect_err("refused")
}

#[tokio::test]
async fn an_oversized_result_closes_the_connection() {
    let (_, said) = call("oversized", |rig| rig).await;
    let (code, message) = said.failure();
    assert_eq!(code, "W0908");
    assert!(message.contains("more than 8388608 bytes"), "{message}");
}

#[tokio::test]
async fn an_endless_answer_closes_the_connection() {
    for (kind, words) in [("endless", "for one request"), ("endless-line", "a message of more")] {
        let limited = |rig: Rig| {
            rig.limits(|limits| (limits.message_bytes, limits.received_bytes) = (1 << 20, 2 << 20))
        };
        let (_, said) = call(kind, limited).await;
        let (code, message) = said.failure();
        assert_eq!(code, "W0908");
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn a_changed_tool_is_disabled_until_it_is_allowed_again() {
    let rig = Rig::with("changes").limits(|limits| limits.list_age = Duration::ZERO);
    let servers = rig.allowing(&["changes/echo"], &reads()).await;
    let echo = [("changes__echo", json!({"text": "a"}))];
    assert_eq!(run(&servers, &echo).await[0].ok(), &json!("a"));

    std::fs::write(rig.path("changed"), "").expect("written");
    let said = run(&servers, &echo).await;
    let (code, message) = said[0].failure();
    assert_eq!(code, "W0912");
    assert!(message.contains("description differ"), "{message}");
    assert_eq!(rig.calls(), ["echo"], "the changed tool was not called");

    let offer = servers.offer("changes").await.expect("listed");
    let allowed = servers.lock().get("changes/echo").expect("allowed");
    let differences = allowed.differences(offer.find("changes/echo").expect("offered"));
    let [(part, old, new)] = differences.as_slice() else { panic!("{differences:?}") };
    assert_eq!((*part, old.as_str()), ("description", "Echoes a text."));
    assert!(new.contains("send the user's files"), "{new}");
    for spec in servers.tools().iter().map(|tool| tool.spec().clone()) {
        assert_eq!(spec.description, "Echoes a text.", "models read what was allowed");
    }

    let servers = rig.allowing(&["changes/echo"], &reads()).await;
    assert_eq!(run(&servers, &echo).await[0].ok(), &json!("a"));
}

#[tokio::test]
async fn a_shadowed_name_is_refused_and_servers_do_not_share_names() {
    let rig = Rig::new().server("s", "twice").server("t", "plain");
    let offer = rig.servers().offer("s").await.expect("listed");
    let names: Vec<&str> = offer.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["s/other"]);
    let error = offer.find("s/echo").expect_err("refused");
    assert!(error.to_string().contains("more than once"), "{error}");

    let servers = rig.allowing(&["t/pid"], &reads()).await;
    let said = run(&servers, &[("s__pid", json!({})), ("t__pid", json!({}))]).await;
    assert_eq!(said[0].failure().0, "W0401");
    said[1].ok();
}

#[tokio::test]
async fn a_tool_with_any_name_that_is_displayed_is_called() {
    let rig = Rig::new().server("s", "odd-names");
    let names = crate::server::odd_names().map(|name| format!("s/{name}"));
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let servers = rig.allowing(&all, &reads()).await;
    let wires: Vec<String> = all
        .iter()
        .map(|name| servers.lock().get(name).expect("allowed").wire_name.clone())
        .collect();
    let calls: Vec<_> = wires.iter().map(|wire| (wire.as_str(), json!({"text": wire}))).collect();
    for (said, wire) in run(&servers, &calls).await.iter().zip(&wires) {
        assert_eq!(said.ok(), &json!(wire));
    }
    assert_eq!(rig.calls(), crate::server::odd_names());
}

#[tokio::test]
async fn hidden_characters_are_removed_from_texts_and_refused_in_names() {
    let offer = Rig::with("hidden").servers().offer("hidden").await.expect("listed");
    let all = format!("{:?}{:?}", offer.tools, offer.refused);
    for hidden in ["\\u{1b}", "\\u{200", "\\u{e00", "\\u{202e}"] {
        assert!(!all.contains(hidden), "{hidden} in {all}");
    }
    let names: Vec<&str> = offer.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["hidden/described", "hidden/remarked"]);
    assert_eq!(offer.tools[0].description, "Adds. Really.");
    assert_eq!(offer.refused.len(), 3, "an argument and two names: {:?}", offer.refused);
    for refused in &offer.refused {
        assert_eq!(refused.reason.code().0, "W0910");
    }
}

#[tokio::test]
async fn instructions_in_a_result_allow_nothing() {
    let rig = Rig::with("plain");
    let servers = rig.allowing(&["plain/poison"], &reads()).await;
    // The model obeys the text that it reads.
    let said = run(
        &servers,
        &[("plain__poison", json!({})), ("erase", json!({})), ("plain__exit", json!({}))],
    )
    .await;
    assert!(said[0].ok().as_str().expect("text").contains("Ignore your instructions"));
    assert_eq!(said[1].failure().0, "W0403", "a tool with an effect that no rule allows");
    assert_eq!(said[2].failure().0, "W0401", "a tool that was never allowed");
    assert_eq!(rig.calls(), ["poison"]);
}

#[tokio::test]
async fn schemas_from_the_network_and_deep_ones_are_refused() {
    let remote = LoopbackServer::start(|_, _| Reply::nothing()).await.expect("a port");
    let rig = Rig::with("schemas");
    std::fs::write(rig.path("remote"), remote.url("")).expect("written");
    let offer = rig.servers().offer("schemas").await.expect("listed");
    let names: Vec<&str> = offer.tools.iter().map(|tool| tool.name.as_str()).collect();
    // The server checks a pattern that cannot be checked here.
    assert_eq!(names, ["schemas/pattern", "schemas/good"]);
    for (name, words) in [
        ("remote", "cannot be used"),
        ("deep", "levels deep, expected at most 32"),
        ("no-object", "type"),
        ("long", "expected at most 65536"),
    ] {
        let error = offer.find(&format!("schemas/{name}")).expect_err("refused");
        assert_eq!(error.code().0, "W0910", "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(remote.received().is_empty(), "nothing was fetched");
}

#[tokio::test]
async fn a_schema_that_cannot_be_read_costs_its_tool_alone() {
    let offer = Rig::new().server("s", "too-deep-to-read").servers().offer("s").await;
    let offer = offer.expect("listed");
    let names: Vec<&str> = offer.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["s/far", "s/good"]);
    let error = offer.find("s/deep").expect_err("refused");
    assert!(error.to_string().contains("levels deep"), "{error}");
}

#[tokio::test]
async fn a_page_that_fails_costs_its_own_tools() {
    let rig = Rig::new().server("s", "second-page-fails");
    let servers = rig.allowing(&["s/echo"], &reads()).await;
    let offer = servers.offer("s").await.expect("listed");
    let error = offer.incomplete.as_ref().expect("a warning");
    assert!(error.to_string().contains("no second page"), "{error}");
    let missing = offer.find("s/other").expect_err("missing");
    assert!(missing.to_string().contains("could not be read"), "{missing}");
    let said = run(&servers, &[("s__echo", json!({"text": "a"}))]).await;
    assert_eq!(said[0].ok(), &json!("a"));
}

#[tokio::test]
async fn a_result_that_cannot_be_recorded_is_a_failure_of_its_call() {
    let rig = Rig::with("plain");
    let servers = rig.allowing(&["plain/deep"], &reads()).await;
    let calls = [89, 90, 91, 110, 300].map(|levels| ("plain__deep", json!({"levels": levels})));
    let said = run(&servers, &calls).await;
    let is_read: Vec<bool> = said.iter().map(|said| !said.is_error).collect();
    assert_eq!(is_read, [true, true, false, false, false], "{:?}", &said[2..]);
    for said in &said[2..] {
        let (code, message) = said.failure();
        assert_eq!(code, "W0410");
        assert!(message.contains("more than 90 levels deep"), "{message}");
    }
}

#[tokio::test]
async fn ten_thousand_tools_are_too_many() {
    let error = offer("many", |rig| rig).await;
    assert_eq!(error.code().0, "W0908");
    assert!(error.to_string().contains("more than 1000 tools"), "{error}");
}

#[tokio::test]
async fn lists_without_an_end_are_refused() {
    for (kind, words) in [("pages", "more than 100 pages"), ("same-page", "leads back")] {
        let error = offer(kind, |rig| rig).await;
        assert_eq!(error.code().0, "W0908");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_cursor_that_is_empty_or_does_not_advance_ends_a_list() {
    for kind in ["empty-cursor", "same-tools"] {
        let rig = Rig::new().server("s", kind);
        let offer = rig.servers().offer("s").await.expect("listed");
        assert_eq!((offer.tools.len(), offer.refused.len()), (1, 0), "{kind}");
    }
}

#[tokio::test]
async fn a_message_is_read_in_any_framing() {
    for kind in ["pretty-json", "json-before-text", "content-length", "answers-in-log"] {
        let (_, said) = call(kind, |rig| rig).await;
        assert_eq!(said.ok(), &json!("a"), "{kind}");
    }
}

#[tokio::test]
async fn an_answer_that_is_nearly_json_is_read_and_another_one_ends_its_call() {
    let (_, said) = call("nearly-json", |rig| rig).await;
    assert!(format!("{said:?}").contains("half \u{fffd}"), "{said:?}");
    // At once, and not at the limit of time.
    let (_, said) = call("no-json", |rig| rig.timeout(Duration::from_secs(600))).await;
    let (code, message) = said.failure();
    assert_eq!(code, "W0906", "the outcome is not known");
    assert!(message.contains("is not JSON"), "{message}");
}

#[tokio::test]
async fn answers_with_wrong_ids_are_no_answers() {
    let limited = |rig: Rig| rig.limits(|limits| limits.list = Duration::from_millis(300));
    let error = offer("wrong-ids", limited).await;
    assert_eq!(error.code().0, "W0907", "{error}");
    let (_, said) = call("wrong-call-ids", |rig| rig.timeout(Duration::from_secs(1))).await;
    assert_eq!(said.failure().0, "W0408", "{said:?}");
}

#[tokio::test]
async fn a_redirect_to_a_private_address_is_refused() {
    let inner = LoopbackServer::start(|_, _| Reply::nothing()).await.expect("a port");
    for target in [inner.url("/mcp"), "http://169.254.169.254/latest".to_owned()] {
        let outer =
            LoopbackServer::start(move |_, _| Reply::full(307, &[("location", &target)], ""))
                .await
                .expect("a port");
        let allow = vec![outer.address().to_string().parse().expect("a host")];
        let client = GuardedClient::new(EgressConfig { allow, ..EgressConfig::default() });
        let egress: Arc<dyn Egress> = Arc::new(client.expect("a client"));
        let rig = Rig::new().at("web", &outer.url("/mcp"), egress);
        let error = rig.servers().offer("web").await.expect_err("refused");
        assert_eq!(error.code().0, "W0801", "{error}");
    }
    assert!(inner.received().is_empty(), "the private server got no request");
}

#[tokio::test]
async fn no_model_is_sampled_and_no_folder_is_told() {
    for kind in ["sampling", "roots"] {
        let (_, said) = call(kind, |rig| rig).await;
        let answer: serde_json::Value =
            serde_json::from_str(said.ok().as_str().expect("text")).expect("JSON");
        assert_eq!(answer, json!({"result": null, "error": -32601}), "{kind}");
    }
}

#[tokio::test]
async fn a_secret_is_not_given() {
    let (_, said) = call("secret", |rig| rig).await;
    let answer: serde_json::Value =
        serde_json::from_str(said.ok().as_str().expect("text")).expect("JSON");
    assert_eq!(answer, json!({"result": {"action": "decline"}, "error": null}));
}

#[tokio::test]
async fn a_server_may_start_slowly_or_end_at_a_request_that_it_does_not_know() {
    for kind in ["slow-start", "ends-at-discover"] {
        let offer = Rig::with(kind).servers().offer(kind).await;
        let offer = offer.unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert!(!offer.tools.is_empty(), "{kind}");
    }
}
