//! Refusals of providers, as documented, read through the protocol.

use crate::desk::request;
use crate::protocols::PROTOCOLS;
use crate::server::{configured, model, server, stream};
use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weftwork_models::{ModelError, RefusalKind};
use weftwork_testkit::Reply;

const CASES: &str = include_str!("../refusals.toml");
/// Longest message in the table of the guide, in characters.
const SHOWN_CHARS_MAX: usize = 64;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    provider: String,
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: String,
    /// `true` if the body is the error object of an event within an answer.
    #[serde(default)]
    streamed: bool,
    kind: RefusalKind,
    wait_ms: Option<u64>,
    source: String,
}

#[derive(Debug, Deserialize)]
struct Cases {
    case: Vec<Case>,
}

impl Case {
    fn all() -> Vec<Self> {
        toml::from_str::<Cases>(CASES).expect("a table").case
    }

    fn reply(&self) -> Reply {
        if self.streamed {
            let object: Value = serde_json::from_str(&self.body).expect("json");
            let error = object.get("error").unwrap_or(&object);
            return stream(&[serde_json::json!({ "type": "error", "error": error })]).end();
        }
        let headers: Vec<_> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        Reply::full(self.status, &headers, &self.body)
    }

    /// The message as the guide shows it.
    fn message(&self) -> String {
        let json: Option<Value> = serde_json::from_str(&self.body).ok();
        let object = json.as_ref().map(|json| json.get(0).unwrap_or(json));
        let inner = object.map(|object| object.get("error").unwrap_or(object));
        let found = inner.and_then(|inner| match inner {
            Value::String(text) => Some(text.clone()),
            other => Some(other.get("message").or(other.get("detail"))?.to_string()),
        });
        let text = found.unwrap_or_else(|| self.body.clone());
        let text: String = text.chars().filter(|c| !"`|\"\\<>".contains(*c)).collect();
        match text.char_indices().nth(SHOWN_CHARS_MAX) {
            Some((at, _)) => format!("{}…", text[..at].trim_end()),
            None => text,
        }
    }
}

#[tokio::test]
async fn documented_refusals_have_their_meaning() {
    let cases = Case::all();
    assert!(cases.len() >= 40, "{}", cases.len());
    let played = cases.clone();
    let server = server(move |number, _| played[number % played.len()].reply()).await;
    // Gateways pass the refusals of one provider on in the protocol of another.
    let played = PROTOCOLS.iter().flat_map(|one| cases.iter().map(move |case| (one, case)));
    for (protocol, case) in played {
        let model = configured(&server, &format!("protocol = \"{protocol}\""), 60_000);
        let mut answer = model.stream(Arc::new(request("hi")));
        let error = answer.next().await.expect("an item").expect_err("a refusal");
        assert_eq!(error.refusal(), Some(case.kind), "{protocol} {case:?}: {error}");
        assert_eq!(error.retry_after(), case.wait_ms.map(Duration::from_millis), "{case:?}");
        assert_eq!(error.is_retriable(), case.kind.is_retriable(), "{case:?}");
        let fault = error.fault();
        assert_eq!(fault.kind.as_deref(), Some(case.kind.name()), "{case:?}");
        let code = match case.kind {
            RefusalKind::Auth => "W0303",
            RefusalKind::RateLimit | RefusalKind::QuotaExhausted | RefusalKind::Timeout => "W0304",
            RefusalKind::Overloaded | RefusalKind::Unavailable => "W0305",
            _ => "W0306",
        };
        assert_eq!(fault.code, code, "{case:?}");
        assert!(case.source.starts_with("https://"), "{case:?}");
    }
    let kinds: BTreeSet<&str> = cases.iter().map(|case| case.kind.name()).collect();
    assert_eq!(kinds.len(), 10, "{kinds:?}");
    let providers: BTreeSet<&str> = cases.iter().map(|case| case.provider.as_str()).collect();
    assert!(providers.len() >= 13, "{providers:?}");
}

#[tokio::test]
async fn a_refusal_is_read_whole_however_odd_it_is() {
    let deep = format!("{}1{}", "[".repeat(2000), "]".repeat(2000));
    let bodies = [
        "".to_owned(),
        "null".to_owned(),
        "[]".to_owned(),
        r#"{"error":[]}"#.to_owned(),
        r#"{"error":{"code":1e300,"status":-1,"type":null}}"#.to_owned(),
        r#"{"error":{"code":99999,"details":[{"retryDelay":"-3s"},{"retryDelay":"1e400s"}]}}"#
            .to_owned(),
        deep,
    ];
    let played = bodies.clone();
    let server = server(move |number, _| Reply::full(418, &[], &played[number])).await;
    let model = model(&server, "");
    for body in bodies {
        let error = model.stream(Arc::new(request("hi"))).next().await.expect("an item");
        let error = error.expect_err("a refusal");
        assert!(matches!(error, ModelError::BadRequest { .. }), "{body}: {error}");
        assert_eq!(error.retry_after(), None, "{body}");
    }
}

#[test]
fn the_guide_has_the_refusals() {
    let mut table = String::from(
        "| Provider | Status | Message | Meaning | Described at |\n| --- | --- | --- | --- | --- |\n",
    );
    for case in Case::all() {
        let status =
            if case.streamed { "in the answer".to_owned() } else { case.status.to_string() };
        let host = case.source.trim_start_matches("https://").split('/').next().unwrap_or_default();
        table.push_str(&format!(
            "| {} | {status} | {} | `{}` | [{host}]({}) |\n",
            case.provider,
            case.message(),
            case.kind,
            case.source
        ));
    }
    in_the_guide("refusals", &table);
}

/// A row of the table of providers.
#[derive(Debug, Deserialize)]
struct Provider {
    url: String,
    key_env: Option<String>,
    #[serde(default)]
    key_optional: bool,
    protocol: String,
    source: String,
}

#[test]
fn the_guide_has_the_providers() {
    let providers: BTreeMap<String, Provider> =
        toml::from_str(include_str!("../../providers.toml")).expect("a table");
    assert!(providers.len() >= 25, "{}", providers.len());
    let mut table = String::from(
        "| Provider | Protocol | Key | Address | Described at |\n|---|---|---|---|---|\n",
    );
    for (name, row) in &providers {
        let key = match &row.key_env {
            Some(variable) if row.key_optional => format!("none, or `{variable}`"),
            Some(variable) => format!("`{variable}`"),
            None => "none".to_owned(),
        };
        let host = row.source.trim_start_matches("https://").split('/').next().unwrap_or_default();
        table.push_str(&format!(
            "| `{name}` | `{}` | {key} | `{}` | [{host}]({}) |\n",
            row.protocol, row.url, row.source
        ));
    }
    in_the_guide("providers", &table);
}

/// Checks a table of the guide between its marks, or writes it.
fn in_the_guide(name: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/models.md");
    let guide = std::fs::read_to_string(&path).expect("the guide");
    let begin = format!("<!-- {name}: begin -->\n");
    let end = format!("<!-- {name}: end -->\n");
    let (head, rest) = guide.split_once(&begin).expect("the begin of the table");
    let (shown, tail) = rest.split_once(&end).expect("the end of the table");
    if std::env::var_os("WEFT_UPDATE_DOCS").is_some() {
        std::fs::write(&path, [head, &begin, table, &end, tail].concat()).expect("written");
        return;
    }
    assert!(shown == table, "docs/guide/models.md: run this test alone with WEFT_UPDATE_DOCS=1");
}
