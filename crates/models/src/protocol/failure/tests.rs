use super::*;
use crate::RetryPolicy;
use crate::protocol::Protocol;
use crate::protocol::tests::config;
use crate::retry::delay_after;
use futures_util::{StreamExt as _, stream};
use std::time::Duration;

fn source() -> Source {
    Source::of(&config(Protocol::Openai))
}

fn failed(status: u16, headers: &[(&str, &str)], body: &str) -> ModelError {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let response =
        EgressResponse { status, headers: headers.collect(), body: stream::empty().boxed() };
    from_response(&source(), &response, body.as_bytes())
}

#[test]
fn each_status_means_what_the_caller_can_do_about_it() {
    for (status, code, retriable) in [
        (400, "W0306", false),
        (401, "W0303", false),
        (402, "W0304", false),
        (403, "W0303", false),
        (404, "W0306", false),
        (408, "W0304", true),
        (409, "W0305", true),
        (413, "W0306", false),
        (422, "W0306", false),
        (429, "W0304", true),
        (500, "W0305", true),
        (502, "W0305", true),
        (503, "W0305", true),
        (529, "W0305", true),
        (304, "W0308", false),
    ] {
        let error = failed(status, &[], "{}");
        assert_eq!((error.code().0, error.is_retriable()), (code, retriable), "{status}");
    }
    let refused = failed(401, &[], "{}").to_string();
    assert_eq!(refused, "provider `p` refused the key (status 401): {}; check `P_KEY`");
}

#[test]
fn the_words_are_found_in_every_shape_cut_and_without_key_or_control_characters() {
    for body in [
        r#"{"error":{"message":"no such model","type":"x"}}"#,
        r#"{"error":"no such model"}"#,
        r#"{"message":"no such model"}"#,
        r#"{"detail":"no such model"}"#,
        r#"{"error":null,"message":"no such model"}"#,
        "no\nsuch\u{1b}   model",
    ] {
        let error = failed(404, &[], body).to_string();
        let expected = "provider `p` refused the request (status 404): no such model";
        assert_eq!(error, expected, "{body}");
    }
    let long = failed(500, &[], &format!("key sk-hunter2 {}", "x".repeat(2000))).to_string();
    assert!(long.contains("key *** xxx") && long.len() < 400, "{long}");
    assert!(failed(422, &[], r#"{"detail":[{"loc":["body"]}]}"#).to_string().contains("loc"));
}

#[test]
fn the_ends_of_a_masked_key_are_not_quoted() {
    let body = r#"{"error":{"message":"Incorrect API key provided: sk-h***ter2. See your keys."}}"#;
    let error = failed(401, &[], body).to_string();
    let expected = "(status 401): Incorrect API key provided: *** See your keys.; check `P_KEY`";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn waiting_times_are_read_in_seconds_milliseconds_and_as_dates() {
    let date = ("date", "Wed, 21 Oct 2026 07:28:00 GMT");
    for (headers, expected) in [
        (vec![("retry-after", "7")], Some(7_000)),
        (vec![("retry-after", "0.5")], Some(500)),
        (vec![("retry-after-ms", "250"), ("retry-after", "7")], Some(250)),
        (vec![("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT"), date], Some(30_000)),
        (vec![("retry-after", "Wed, 21 Oct 2026 07:27:00 GMT"), date], Some(0)),
        (vec![("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT")], None),
        (vec![("retry-after", "soon")], None),
        (vec![("retry-after", "-1")], None),
        (vec![("retry-after", "nan")], None),
        (vec![("retry-after", "1000000000000")], Some(1_000_000_000_000_000)),
        (vec![("retry-after", "100000000000000000000")], Some(u64::MAX)),
        (vec![("retry-after", "1e300")], Some(u64::MAX)),
        (vec![("retry-after-ms", "1e300")], Some(u64::MAX)),
        (vec![("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT"), date], Some(251_609_733_119_000)),
        (vec![], None),
    ] {
        let wait = failed(429, &headers, "{}").retry_after();
        assert_eq!(wait, expected.map(Duration::from_millis), "{headers:?}");
        assert_eq!(failed(503, &headers, "{}").retry_after(), wait);
    }
}

#[test]
fn a_wait_that_no_duration_has_is_too_long_for_a_call() {
    let google = r#"{"error":{"details":[{"retryDelay":"1e300s"}]}}"#;
    let spoken = format!(r#"{{"error":{{"message":"try again in {}h"}}}}"#, "9".repeat(300));
    let policy = RetryPolicy::default();
    for (headers, body) in [
        (vec![("retry-after", "1e300")], "{}"),
        (vec![("retry-after", "100000000000000000000")], "{}"),
        (vec![], google),
        (vec![], spoken.as_str()),
    ] {
        let error = failed(429, &headers, body);
        assert_eq!(delay_after(&policy, 1, &error, 0), None, "{headers:?} {body}");
        let details = error.fault().details.expect("the delay");
        assert_eq!(details.retry_after_ms, Some(u64::MAX), "{headers:?} {body}");
        assert!(error.to_string().contains("too long for a call"), "{error}");
    }
}

#[test]
fn a_used_up_quota_is_not_worth_waiting_for() {
    let body = r#"{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}"#;
    let error = failed(429, &[("retry-after", "1")], body);
    assert_eq!(error.refusal(), Some(RefusalKind::QuotaExhausted));
    assert!(!error.is_retriable());
}
