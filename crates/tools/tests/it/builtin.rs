//! Built-in tools through the runner: clock, calculator, items, knowledge, and pages of the web.

use crate::rig::{Rig, call};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weftwork_egress::{EgressConfig, GuardedClient};
use weftwork_store::MemoryItems;
use weftwork_testkit::{LoopbackServer, Reply};
use weftwork_tools::builtin::{
    Builtin, HITS_MAX, ItemKnowledge, Knowledge, PAGE_BYTES_MAX, PAGE_CHARS_MAX, tool_box,
};
use weftwork_tools::{Executed, Policy, Prepared, ToolRunner};
use weftwork_types::item::{ItemRef, ItemStore, Namespace, PutOptions};
use weftwork_types::port::CallContext;
use weftwork_types::tool::{ToolErrorKind, ToolOutcome};
use weftwork_types::{OrgId, Principal};

fn runner(tools: impl IntoIterator<Item = Builtin>) -> ToolRunner {
    let policy = Policy::new().allow("put_item").expect("a name");
    let tools = tool_box(tools);
    let policy = policy.for_tools(&tools);
    ToolRunner::new(tools, policy).expect("valid tools")
}

async fn outcome(
    runner: &ToolRunner,
    context: &CallContext,
    tool: &str,
    args: Value,
) -> ToolOutcome {
    // Calls of one id are one call in the journal.
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let id = format!("c-{}", CALLS.fetch_add(1, Ordering::SeqCst));
    let Prepared::Ready(ready) = runner.prepare(&call(&id, tool, args), context) else {
        panic!("no person is asked")
    };
    match runner.execute(ready).await.expect("no error") {
        Executed::Done(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

async fn value(runner: &ToolRunner, context: &CallContext, tool: &str, args: Value) -> Value {
    match outcome(runner, context, tool, args).await {
        ToolOutcome::Ok { value, .. } => value,
        ToolOutcome::Failed(failure) => panic!("{failure:?}"),
    }
}

async fn failure(
    runner: &ToolRunner,
    context: &CallContext,
    tool: &str,
    args: Value,
) -> (ToolErrorKind, String) {
    match outcome(runner, context, tool, args).await {
        ToolOutcome::Failed(failure) => (failure.error_code, failure.safe_message),
        ToolOutcome::Ok { value, .. } => panic!("it worked: {value}"),
    }
}

#[tokio::test]
async fn one_call_gives_the_chosen_tools() {
    let rig = Rig::new();
    rig.clock.advance(Duration::from_secs(1_000_000_000));
    let runner = runner([Builtin::Calculator, Builtin::Clock, Builtin::AskHuman]);
    let names: Vec<_> = runner.specs().into_iter().map(|spec| spec.name).collect();
    assert_eq!(names, ["calculate", "current_time", "ask_human"]);
    let context = rig.context();
    let now = value(&runner, &context, "current_time", json!({})).await;
    let unix_ms = now["unix_ms"].as_i64().expect("a time");
    assert_eq!(unix_ms, rig.context().clock.now().0, "the time is that of the port");
    let utc: jiff::Timestamp = now["utc"].as_str().and_then(|t| t.parse().ok()).expect("a time");
    assert_eq!(utc.as_millisecond(), unix_ms);
    let sum = value(&runner, &context, "calculate", json!({"expression": "(3 + 4) * 2.5"})).await;
    assert_eq!(sum, json!({"value": 17.5}));
    let (kind, text) =
        failure(&runner, &context, "calculate", json!({"expression": "1 +* 2"})).await;
    assert_eq!(kind, ToolErrorKind::Validation);
    assert!(text.contains("at character 4: found `*`, expected"), "{text}");
    let long = json!({"expression": "1".repeat(1_001)});
    assert_eq!(failure(&runner, &context, "calculate", long).await.0, ToolErrorKind::Validation);
}

fn namespace(labels: &[&str]) -> Namespace {
    Namespace::new(labels.iter().copied()).expect("a namespace")
}

#[tokio::test]
async fn items_belong_to_their_principal_and_their_namespace() {
    let rig = Rig::new();
    let items: Arc<dyn ItemStore> = Arc::new(MemoryItems::new(Arc::new(rig.clock.clone())));
    let runner = runner([Builtin::Items(Arc::clone(&items), namespace(&["notes"]))]);
    let mine = rig.context();
    let mut other = rig.context();
    other.principal = Principal::new(OrgId::new("other").expect("an id"), "x");
    let diet = json!({"key": "diet", "value": {"text": "no nuts"}});
    assert_eq!(value(&runner, &mine, "put_item", diet).await, json!({"key": "diet"}));
    let below = ItemRef::new(namespace(&["notes", "deep"]), "nuts").expect("a key");
    let text = json!({"text": "nuts below"});
    items.put(&mine.principal, &below, text, PutOptions::default()).await.expect("puts");

    let read = value(&runner, &mine, "get_item", json!({"key": "diet"})).await;
    assert_eq!(read, json!({"found": true, "key": "diet", "value": {"text": "no nuts"}}));
    let found = value(&runner, &mine, "search_items", json!({"query": "nuts"})).await;
    assert_eq!(found["items"], json!([{"key": "diet", "value": {"text": "no nuts"}}]));
    let absent = value(&runner, &other, "get_item", json!({"key": "diet"})).await;
    assert_eq!(absent, json!({"found": false, "key": "diet"}));
    let found = value(&runner, &other, "search_items", json!({"query": "nuts"})).await;
    assert_eq!(found["items"], json!([]));
    let found = value(&runner, &mine, "search_items", json!({"query": "...", "limit": 20})).await;
    assert_eq!(found["items"], json!([]), "no word selects no item");

    for key in ["", "a\0b", &"k".repeat(129)] {
        let (kind, _) = failure(&runner, &mine, "get_item", json!({"key": key})).await;
        assert_eq!(kind, ToolErrorKind::Validation, "{key:?}");
    }
    // A key is no path: it does not lead out of the namespace.
    let sly = value(&runner, &mine, "get_item", json!({"key": "../notes.deep/nuts"})).await;
    assert_eq!(sly["found"], json!(false));
    let put = json!({"key": "k", "value": {"text": "x".repeat(2_000_000)}});
    assert_eq!(failure(&runner, &mine, "put_item", put).await.0, ToolErrorKind::Execution);
    match outcome(&runner, &mine, "get_item", json!({"key": "diet"})).await {
        ToolOutcome::Ok { shown, .. } => {
            assert_eq!(shown, Some(json!({"found": true, "key": "diet"})), "values are not shown");
        }
        failed => panic!("{failed:?}"),
    }
}

#[tokio::test]
async fn storing_an_item_needs_a_rule() {
    let rig = Rig::new();
    let items: Arc<dyn ItemStore> = Arc::new(MemoryItems::new(Arc::new(rig.clock.clone())));
    let tools = tool_box([Builtin::Items(items, namespace(&["notes"]))]);
    let runner = ToolRunner::new(tools, Policy::new()).expect("valid tools");
    let put = json!({"key": "k", "value": {}});
    let (kind, _) = failure(&runner, &rig.context(), "put_item", put).await;
    assert_eq!(kind, ToolErrorKind::PolicyDenied);
}

#[tokio::test]
async fn knowledge_is_found_with_its_sources() {
    let rig = Rig::new();
    let items: Arc<dyn ItemStore> = Arc::new(MemoryItems::new(Arc::new(rig.clock.clone())));
    let context = rig.context();
    for n in 0..30 {
        let at = ItemRef::new(namespace(&["handbook", "pay"]), format!("p{n:02}")).expect("a key");
        let text = if n == 7 { "Suppliers are paid on Fridays." } else { "Suppliers are many." };
        let page = json!({"title": format!("Page {n}"), "text": text});
        items.put(&context.principal, &at, page, PutOptions::default()).await.expect("puts");
    }
    let knowledge: Arc<dyn Knowledge> =
        Arc::new(ItemKnowledge::new(Arc::clone(&items), namespace(&["handbook"])));
    let runner = runner([Builtin::Knowledge(knowledge)]);
    let query = json!({"query": "when are suppliers paid on", "limit": 2});
    let found = value(&runner, &context, "search_knowledge", query).await;
    let best = json!({
        "source": "handbook.pay/p07",
        "title": "Page 7",
        "text": "Suppliers are paid on Fridays.",
    });
    assert_eq!(
        (&found["passages"][0], found["passages"].as_array().map(Vec::len)),
        (&best, Some(2))
    );
    let most = json!({"query": "suppliers", "limit": HITS_MAX});
    let found = value(&runner, &context, "search_knowledge", most).await;
    assert_eq!(found["passages"].as_array().map(Vec::len), Some(HITS_MAX as usize));
    for args in [
        json!({"query": "suppliers", "limit": HITS_MAX + 1}),
        json!({"query": "suppliers", "limit": 0}),
        json!({"query": ""}),
        json!({"query": "x".repeat(1_001)}),
        json!({"query": "x", "namespace": "other"}),
    ] {
        let (kind, _) = failure(&runner, &context, "search_knowledge", args).await;
        assert_eq!(kind, ToolErrorKind::Validation);
    }
}

fn client(allowed: &[String]) -> Builtin {
    let allow = allowed.iter().map(|host| host.parse().expect("a host")).collect();
    let config = EgressConfig { allow, ..EgressConfig::default() };
    Builtin::WebFetch(Arc::new(GuardedClient::new(config).expect("a client")))
}

async fn site() -> LoopbackServer {
    LoopbackServer::start(|_, request| {
        let html = [("content-type", "text/html; charset=utf-8")];
        match request.path.as_str() {
            "/" => {
                Reply::full(200, &html, "<title>Home</title><p>Hello <b>you</b><script>x</script>")
            }
            "/plain" => Reply::full(200, &[("content-type", "text/plain")], "a\u{1b}[31m<b>"),
            "/json" => Reply::full(200, &[("content-type", "application/json")], "{\"a\": 1}"),
            "/image" => Reply::full(200, &[("content-type", "image/png")], "PNG"),
            "/long" => Reply::full(200, &html, "word ".repeat(PAGE_CHARS_MAX)),
            "/endless" => Reply::full(200, &html, "x".repeat(PAGE_BYTES_MAX as usize + 1)),
            "/inward" => Reply::full(302, &[("location", "http://127.0.0.2/secret")], ""),
            "/file" => Reply::full(302, &[("location", "file:///etc/passwd")], ""),
            _ => Reply::full(404, &html, "CANARY of an error page"),
        }
    })
    .await
    .expect("a server")
}

#[tokio::test]
async fn pages_are_read_as_text_within_limits() {
    let rig = Rig::new();
    let site = site().await;
    let runner = runner([client(&[site.address().to_string()])]);
    let context = rig.context();
    let fetch = |path: &str| json!({"url": site.url(path)});
    let page = value(&runner, &context, "fetch_page", fetch("/")).await;
    let expected = json!({
        "url": site.url("/"), "content_type": "text/html", "title": "Home", "text": "Hello you",
        "cut": false,
    });
    assert_eq!(page, expected);
    let plain = value(&runner, &context, "fetch_page", fetch("/plain")).await;
    assert_eq!(plain["text"], "a[31m<b>", "control characters are dropped");
    assert_eq!(value(&runner, &context, "fetch_page", fetch("/json")).await["text"], "{\"a\": 1}");
    let long = value(&runner, &context, "fetch_page", fetch("/long")).await;
    let chars = long["text"].as_str().expect("text").chars().count();
    assert_eq!((long["cut"].clone(), chars), (json!(true), PAGE_CHARS_MAX + 1));
    for (path, part) in [
        ("/image", "the page is `image/png`; expected text"),
        ("/endless", "is longer than 2097152 bytes"),
        ("/none", "the server answered with status 404"),
        ("/file", "cannot be used"),
        ("/inward", "not allowed"),
    ] {
        let (_, message) = failure(&runner, &context, "fetch_page", fetch(path)).await;
        assert!(message.contains(part) && !message.contains("CANARY"), "{path}: {message}");
    }
}

#[tokio::test]
async fn private_addresses_are_never_fetched() {
    let rig = Rig::new();
    let site = site().await;
    let runner = runner([client(&[])]);
    let port = site.address().port();
    for url in [
        format!("http://127.0.0.1:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://[::1]:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://0.0.0.0:{port}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://10.0.0.1/".to_owned(),
        "http://192.168.0.1/".to_owned(),
        "file:///etc/passwd".to_owned(),
        "ftp://127.0.0.1/".to_owned(),
        "javascript:alert(1)".to_owned(),
        "/etc/passwd".to_owned(),
        "http://".to_owned(),
        " ".to_owned(),
    ] {
        let args = json!({"url": url});
        let (kind, message) = failure(&runner, &rig.context(), "fetch_page", args).await;
        assert_eq!(kind, ToolErrorKind::Execution, "{url}: {message}");
        let refused = message.contains("not allowed") || message.contains("cannot be used");
        assert!(refused, "{url}: {message}");
    }
    assert!(site.received().is_empty(), "nothing was sent");
}
