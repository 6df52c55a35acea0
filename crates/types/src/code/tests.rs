use super::*;
use serde_json::json;

/// An error with any source.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Layer {
    text: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

fn layer(text: &str, source: impl Error + Send + Sync + 'static) -> Layer {
    Layer { text: text.to_owned(), source: Some(Box::new(source)) }
}

fn leaf(text: &str) -> Layer {
    Layer { text: text.to_owned(), source: None }
}

fn fault(error: &Layer) -> Fault {
    Fault::new(ErrorCode("W0109"), error.to_string()).with_sources_of(error)
}

fn chain(fault: &Fault) -> Vec<(Option<&str>, &str)> {
    fault.causes().map(|cause| (cause.code.as_deref(), cause.message.as_str())).collect()
}

#[test]
fn a_fault_without_cause_is_stored_as_before() {
    let plain = json!({"code": "W0109", "message": "no luck", "retriable": false});
    let fault = Fault::new(ErrorCode("W0109"), "no luck");
    assert_eq!(json!(fault), plain);
    assert_eq!(serde_json::from_value::<Fault>(plain).expect("an old record"), fault);
    assert!(fault.source().is_none());
}

#[test]
fn sources_become_causes_with_their_codes() {
    let full = EgressError::Broken { host: "h".to_owned(), reason: "reset".to_owned() };
    let inner = Fault::new(ErrorCode("W0204"), "the disk is full").of_kind("io");
    let stored = fault(&layer("the order was not stored", layer("no commit", inner)));
    assert_eq!(chain(&stored), [(None, "no commit"), (Some("W0204"), "the disk is full")]);
    assert_eq!(stored.causes().last().and_then(|cause| cause.kind.as_deref()), Some("io"));
    let reached = fault(&layer("no answer", full));
    assert_eq!(chain(&reached), [(Some("W0805"), "the connection to `h` broke: reset")]);

    // A stored fault is a source like any other.
    let again = fault(&layer("outer", stored.clone()));
    assert_eq!(again.causes().count(), 3);
    assert_eq!(chain(&again)[0], (Some("W0109"), "the order was not stored"));
    let read: Fault = serde_json::from_value(json!(again)).expect("a new record");
    assert_eq!(read, again);
    assert_eq!(
        json!(stored)["cause"],
        json!({"message": "no commit", "cause": {
            "code": "W0204", "kind": "io", "message": "the disk is full",
        }})
    );
}

#[test]
fn the_details_are_those_of_the_first_source_that_is_a_fault() {
    let delay = Duration::from_millis(20);
    let first = Fault::new(ErrorCode("W0304"), "slow down").in_phase(Phase::Model).at_attempt(2);
    let first = first.with_retry_after(delay);
    let second = Fault::new(ErrorCode("W0109"), "no plan").with_sources_of(&layer("x", first));
    let stored = fault(&layer("no trip", Box::new(second)));
    let details = stored.details.as_deref().expect("details");
    assert_eq!((details.phase, details.attempt), (Some(Phase::Model), Some(2)));
    assert_eq!(details.retry_after_ms, Some(20));
    let known = Fault::new(ErrorCode("W0109"), "late").at_attempt(7).with_sources_of(&stored);
    assert_eq!(known.details.and_then(|details| details.attempt), Some(7));
}

#[test]
fn a_source_that_its_error_quotes_is_left_out() {
    let quoted = layer("cannot read the file: it is gone", leaf("it is gone"));
    assert_eq!(chain(&fault(&quoted)), []);
}

#[test]
fn depth_and_size_are_bounded() {
    let deep = (0..20).fold(leaf("0"), |inner, n| layer(&format!("layer {n}"), inner));
    assert_eq!(fault(&deep).causes().count(), CAUSES_MAX);
    let long = fault(&layer("short", leaf(&"ä".repeat(5_000))));
    let message = chain(&long)[0].1;
    assert_eq!((message.chars().count(), message.ends_with('…')), (CAUSE_CHARS_MAX + 1, true));
}

#[test]
fn details_are_typed_and_the_first_phase_counts() {
    let usage = Usage::tool_call();
    let fault = Fault::new(ErrorCode("W0305"), "busy").in_phase(Phase::Model).at_attempt(3);
    let fault = fault.with_usage(usage).in_phase(Phase::Node).at_attempt(1);
    let details = FaultDetails {
        phase: Some(Phase::Model),
        attempt: Some(3),
        usage: Some(usage),
        retry_after_ms: None,
        limit: None,
        agent_failures: Vec::new(),
    };
    assert_eq!(fault.details.as_deref(), Some(&details));
    assert_eq!(json!(fault)["details"]["phase"], "model");
    let newer: FaultDetails =
        serde_json::from_value(json!({"phase": "packing", "weather": "fair"})).expect("reads");
    assert_eq!(newer.phase, Some(Phase::Other));
}
