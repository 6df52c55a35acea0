//! API agents against a server that answers as services do, and as they do not.

use crate::home::{Came, Home, read_until};
use serde_json::{Value, json};
use std::io::BufReader;
use std::process::Stdio;
use weftwork_testkit::{LoopbackServer, Received, Reply};

/// A home with an agent of an API at a server.
pub(crate) struct Scene {
    pub(crate) home: Home,
    pub(crate) server: LoopbackServer,
}

impl Scene {
    /// `definition` is the part of the API, and `{url}` in it the address of the server.
    pub(crate) async fn new(
        definition: &str,
        more: &str,
        answer: impl Fn(usize, &Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let server = LoopbackServer::start(answer).await.expect("a server");
        let home = Home::new()
            .config(
                "model = \"scripted\"\nagents = \"agents\"\n[egress]\nallow = [\"127.0.0.1\"]\n",
            )
            .set("AGENT_SHOP_TOKEN", "CANARY")
            .set("WEFT_POLICY", "rules.json");
        std::fs::create_dir_all(home.path("agents/shop")).expect("made");
        let rules = r#"{"version": 1, "rules": [{"tool": "api/*", "decision": "allow"}]}"#;
        std::fs::write(home.path("rules.json"), rules).expect("written");
        let definition = definition.replace("{url}", &server.url(""));
        let text = format!(
            "weft: 1\ntype: api\n{more}\ntransport: {{kind: api, api: {{{definition}}}}}\n"
        );
        std::fs::write(home.path("agents/shop/agent.yaml"), text).expect("written");
        Self { home, server }
    }

    fn weft(&self, args: &[&str]) -> Came {
        tokio::task::block_in_place(|| self.home.weft(args))
    }

    pub(crate) fn ask(&self, args: &[&str]) -> Value {
        let came = self.weft(&[&["agents", "run", "shop"], args, &["--json"]].concat());
        assert!(!came.out.contains("CANARY") && !came.errors.contains("CANARY"), "{came:?}");
        serde_json::from_str(&came.out).unwrap_or_else(|_| panic!("no answer: {came:?}"))
    }

    /// Text of the body of a request.
    fn body(&self, number: usize) -> String {
        String::from_utf8_lossy(&self.server.received()[number].body).into_owned()
    }
}

pub(crate) fn answers(status: u16, body: &Value) -> Reply {
    Reply::full(status, &[("content-type", "application/json")], body.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_have_the_forms_of_their_services_byte_for_byte() {
    // As stripe takes it.
    let charge = "endpoint: '{url}/v1/charges', body: form, authentication: {type: bearer}, idempotency_header: Idempotency-Key";
    let more = "request_transform: {amount: '{{input.cents}}', currency: eur, card: {number: '{{input.card}}'}, description: 'Order {{input.order}}'}\nresponse_transform: {charge: '{{response.id}}', paid: '{{response.paid}}'}";
    let scene =
        Scene::new(charge, more, |_, _| answers(200, &json!({"id": "ch_1", "paid": true}))).await;
    let input = r#"{"cents": 2000, "card": "4242 4242", "order": 7}"#;
    let answer = scene.ask(&["--input", input]);
    assert_eq!(answer["content"], json!({"charge": "ch_1", "paid": true}), "{answer}");
    assert_eq!(
        scene.body(0),
        "amount=2000&currency=eur&card%5Bnumber%5D=4242+4242&description=Order+7"
    );
    let sent = &scene.server.received()[0];
    assert_eq!((sent.method.as_str(), sent.path.as_str()), ("POST", "/v1/charges"));
    assert_eq!(sent.header("authorization"), Some("Bearer CANARY"));
    assert!(sent.header("idempotency-key").is_some_and(|key| key.len() >= 32));

    // As twilio takes it.
    let sms = "endpoint: '{url}/2010-04-01/Accounts/AC1/Messages.json', body: form, authentication: {type: basic}";
    let more = "request_transform: {To: '{{input.to}}', From: '+15550100', Body: '{{message}}'}";
    let scene = Scene::new(sms, more, |_, _| answers(201, &json!({"sid": "SM1"}))).await;
    let answer = scene.ask(&["Your order is on its way.", "--input", r#"{"to": "+15550199"}"#]);
    assert_eq!(answer["content"], json!({"sid": "SM1"}), "{answer}");
    assert_eq!(scene.body(0), "To=%2B15550199&From=%2B15550100&Body=Your+order+is+on+its+way.");
    assert_eq!(scene.server.received()[0].header("authorization"), Some("Basic Q0FOQVJZ"));

    // A request that reads has its values in the query, and a header with the secret.
    let search = "endpoint: '{url}/search?v=1', method: GET, query: {q: '{{message}}', limit: 5}, authentication: {type: header, header: X-Api-Key}";
    let scene = Scene::new(search, "", |_, _| answers(200, &json!([1, 2]))).await;
    let answer = scene.ask(&["red & blue"]);
    assert_eq!(answer["content"], json!([1, 2]), "{answer}");
    let sent = &scene.server.received()[0];
    assert_eq!(sent.path, "/search?v=1&limit=5&q=red+%26+blue");
    assert_eq!(sent.header("x-api-key"), Some("CANARY"));
    assert!(sent.body.is_empty());

    // A signature of the body.
    let hook = "endpoint: '{url}/hook', authentication: {type: signature}";
    let scene = Scene::new(hook, "", |_, _| answers(204, &Value::Null)).await;
    scene.ask(&["--input", r#"{"a": 1}"#]);
    assert_eq!(scene.body(0), r#"{"a":1}"#);
    assert_eq!(
        scene.server.received()[0].header("x-signature-256"),
        Some("sha256=ab6e797bfe448e8f40c05913db08803d6d5b28ec8f03fdfca99955e782ff64c1")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_without_an_input_sends_its_arguments_or_its_message() {
    let scene = Scene::new("endpoint: '{url}/pay'", "", |_, _| answers(200, &json!({}))).await;
    std::fs::create_dir_all(scene.home.path("agents/boss")).expect("made");
    let steps = "type: context\norchestration:\n  steps:\n    - {id: a, agent: shop, message: 'Pay {{input.n}}.'}\n    - {id: b, agent: shop, payload: {arguments: {n: '{{input.n}}'}}}\n    - {id: c, agent: shop, input: {m: '{{input.n}}'}}\n";
    std::fs::write(scene.home.path("agents/boss/agent.yaml"), steps).expect("written");
    let run = ["agents", "run", "boss", "--orchestrate", "--input", r#"{"n": 3}"#, "Go."];
    let came = scene.weft(&run);
    assert_eq!(came.status, Some(0), "{came:?}");
    let sent: Vec<_> = (0..3).map(|number| scene.body(number)).collect();
    assert_eq!(sent, [r#"{"message":"Pay 3."}"#, r#"{"n":3}"#, r#"{"m":3}"#]);
}

pub(crate) fn fails(status: u16, headers: &[(&str, &str)]) -> Reply {
    Reply::full(status, headers, "the reason")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_client_is_used_until_it_ends_and_renewed_once() {
    let definition =
        "endpoint: '{url}/api', authentication: {type: oauth, token_endpoint: '{url}/token'}";
    let scene = Scene::new(definition, "", |number, request| match request.path.as_str() {
        "/token" => {
            answers(200, &json!({"access_token": format!("T{number}"), "expires_in": 3600}))
        }
        // The first token has ended.
        _ if request.header("authorization") == Some("Bearer T0") => fails(401, &[]),
        _ => answers(200, &json!("done")),
    })
    .await;
    let found = scene.ask(&["Go."]);
    assert_eq!(found["content"], "done", "{found}");
    let paths: Vec<String> =
        scene.server.received().iter().map(|request| request.path.clone()).collect();
    assert_eq!(paths, ["/token", "/api", "/token", "/api"]);
    assert_eq!(scene.body(0), "grant_type=client_credentials");
    assert_eq!(scene.server.received()[0].header("authorization"), Some("Basic Q0FOQVJZ"));

    // The id and the password of a client are encoded as in a form.
    let definition = "endpoint: '{url}/api', authentication: {type: oauth, secret: CLIENT, token_endpoint: '{url}/token'}";
    let mut scene = Scene::new(definition, "", |_, request| match request.path.as_str() {
        "/token" => answers(200, &json!({"access_token": "T"})),
        _ => fails(401, &[]),
    })
    .await;
    scene.home = scene.home.set("CLIENT", "desk 1:p+w/d%:x");
    let found = scene.ask(&["Go."]);
    assert_eq!(found["metadata"]["code"], "W1060", "{found}");
    let sent = scene.server.received();
    assert_eq!(sent[0].header("authorization"), Some("Basic ZGVzaysxOnAlMkJ3JTJGZCUyNSUzQXg="));
    assert_eq!(sent.len(), 4, "one new token, and no more");
}

/// The process is killed while the request is under way: nobody knows whether the order was made.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_process_was_killed_is_made_again_only_if_a_person_says_so() {
    let definition = "endpoint: '{url}/orders'";
    let scene = Scene::new(definition, "", |number, _| match number {
        0 => Reply::nothing().hang(),
        _ => answers(200, &json!("ordered")),
    })
    .await;
    let mut command = scene.home.command(&["agents", "run", "shop", "Order."]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    while scene.server.received().is_empty() {
        tokio::task::yield_now().await;
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let listed = scene.weft(&["threads", "list", "--json"]);
    let row: Value = serde_json::from_str(listed.out.trim()).expect("one thread");
    let thread = row["thread"].as_str().or(row["id"].as_str()).expect("an id");
    let asked = scene.weft(&["threads", "resume", thread]);
    assert_eq!(asked.status, Some(3), "{asked:?}");
    assert_eq!(scene.server.received().len(), 1, "at most once");
    let shown = scene.weft(&["threads", "resume", thread, "--answer", r#"{"answer": 1}"#]);
    let question = shown.errors.split("--answer-json '").nth(1).expect("the command to answer");
    let id = question.split('=').next().expect("an id");
    let answer = format!(r#"{id}={{"answer": "call_again"}}"#);
    let came = scene.weft(&["threads", "resume", thread, "--answer-json", &answer]);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert_eq!(scene.server.received().len(), 2, "{came:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_missing_and_a_form_that_is_none_are_named() {
    let other = "endpoint: '{url}/x', authentication: {type: bearer, secret: OTHER_TOKEN}";
    let scene = Scene::new(other, "", |_, _| answers(200, &Value::Null)).await;
    let found = scene.ask(&["Go."]);
    assert_eq!(found["metadata"]["code"], "W1061", "{found}");
    assert!(
        found["error"].as_str().is_some_and(|error| error.contains("`OTHER_TOKEN`")),
        "{found}"
    );
    assert_eq!(scene.server.received().len(), 0);
    let jq = Scene::new("endpoint: '{url}/x'", "request_transform: '.message'", |_, _| {
        answers(200, &Value::Null)
    });
    let checked = jq.await.weft(&["agents", "check"]);
    assert!(checked.out.contains("shop/agent.yaml:3:20: W1008"), "{checked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_of_jq_make_requests_and_deliverables() {
    let definition = "endpoint: '{url}/orders', idempotency_header: Idempotency-Key";
    let more = "request_transform: {jq: '{lines: (.input.lines | map({sku: .id, n: (.n // 1)})), note: .message}'}\nresponse_transform:\n  jq: |\n    # Ids of what was ordered.\n    {ids: [.response.items[].id], status, large: .response.large}";
    let answer = json!({"items": [{"id": 7}, {"id": 8}], "large": 7_615_917_337_495_251_231_u64});
    let scene = Scene::new(definition, more, move |number, _| match number {
        0 => fails(503, &[]),
        _ => answers(200, &answer),
    })
    .await;
    let checked = scene.weft(&["agents", "check"]);
    assert_eq!(checked.status, Some(0), "{checked:?}");
    let input = r#"{"lines": [{"id": "a", "n": 2}, {"id": "b"}]}"#;
    let found = scene.ask(&["Quickly.", "--input", input]);
    let expected = json!({"ids": [7, 8], "status": 200, "large": 7_615_917_337_495_251_231_u64});
    assert_eq!(found["content"], expected, "{found}");
    let body = r#"{"lines":[{"sku":"a","n":2},{"sku":"b","n":1}],"note":"Quickly."}"#;
    assert_eq!([scene.body(0), scene.body(1)], [body, body]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_fails_or_comes_to_a_limit_sends_nothing() {
    let cases = [
        ("empty", "no output"),
        (".input[]", "more than one output"),
        ("error(\"no lines\")", "no lines"),
        (".input + 1", "cannot calculate"),
        ("$ENV", "variable `$ENV` does not exist"),
        ("{token: env.AGENT_SHOP_TOKEN}", "filter `env` does not exist"),
        ("def f: f; f", "longer than 5000 ms"),
        ("[repeat(1)]", "more memory"),
        ("until(false; [.])", "more memory"),
        ("\"x\" | until(false; . + .)", "more memory"),
        ("\"x\" * 2000000", "larger than it may be"),
    ];
    for (program, reason) in cases {
        let more = format!("request_transform: {}", json!({"jq": program}));
        let scene =
            Scene::new("endpoint: '{url}/x'", &more, |_, _| answers(200, &Value::Null)).await;
        let found = scene.ask(&["Go.", "--input", r#"{"a": 1, "b": 2}"#]);
        assert_eq!(found["metadata"]["code"], "W1062", "{program}: {found}");
        let error = found["error"].as_str().expect("a text");
        assert!(error.contains("`request_transform`") && error.contains(reason), "{found}");
        assert_eq!(scene.server.received().len(), 0, "{program}");
    }
    // The request was made, whatever becomes of its answer.
    let more = "response_transform: {jq: '.response | error'}";
    let answer = json!({"key": "CANARY", "a": 1});
    let scene =
        Scene::new("endpoint: '{url}/x', authentication: {type: bearer}", more, move |_, _| {
            answers(200, &answer)
        })
        .await;
    let found = scene.ask(&["Go."]);
    assert_eq!(found["metadata"]["code"], "W1062", "{found}");
    assert!(found["error"].as_str().is_some_and(|error| error.contains("[secret]")), "{found}");
    assert_eq!(scene.server.received().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_finds_what_is_no_program_and_where() {
    let more =
        "request_transform:\n  jq: '.input | mpa(.)'\nresponse_transform: {jq: '.response['}";
    let scene = Scene::new("endpoint: '{url}/x'", more, |_, _| answers(200, &Value::Null)).await;
    let checked = scene.weft(&["agents", "check"]);
    assert_eq!(checked.status, Some(1), "{checked:?}");
    for part in [
        "shop/agent.yaml:4:3: W1008",
        "line 1, column 10: filter `mpa` does not exist",
        "shop/agent.yaml:5:21: W1008",
        "line 1, column 11: found the end, expected closing bracket",
    ] {
        assert!(checked.out.contains(part), "{part}: {checked:?}");
    }
}

/// A request that may have been done is not reported as failed: a person decides.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_fails_within_a_request_leaves_its_outcome_open() {
    for status in [408, 500, 502, 503, 504] {
        let definition = "endpoint: '{url}/orders'";
        let scene = Scene::new(definition, "", move |_, _| fails(status, &[])).await;
        let found = scene.ask(&["Order."]);
        assert_eq!(found["metadata"]["status"], "input_required", "{status}: {found}");
        assert_eq!(scene.server.received().len(), 1, "{status}");
    }
    // An API that recognises the key gets the same request again.
    let definition = "endpoint: '{url}/orders', idempotency_header: Idempotency-Key";
    let scene = Scene::new(definition, "", |number, _| match number {
        0 => fails(504, &[]),
        _ => answers(200, &json!("ordered")),
    })
    .await;
    assert_eq!(scene.ask(&["Order."])["content"], "ordered");
    let keys: Vec<_> = scene.server.received();
    assert_eq!(keys[0].header("idempotency-key"), keys[1].header("idempotency-key"));
    // When the repetitions are used up, nobody knows what was done: a further request would have another key.
    let definition = "endpoint: '{url}/orders', idempotency_header: Idempotency-Key, retries: 1";
    let scene = Scene::new(definition, "", |_, _| fails(504, &[])).await;
    assert_eq!(scene.ask(&["Order."])["metadata"]["status"], "input_required");
    assert_eq!(scene.server.received().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_rule_what_reads_is_allowed_and_a_person_approves_the_rest() {
    for (method, is_asked) in [("GET", false), ("POST", true), ("DELETE", true)] {
        let definition = format!("endpoint: '{{url}}/x', method: {method}");
        let scene = Scene::new(&definition, "", |_, _| answers(200, &json!("done"))).await;
        let rules = r#"{"version": 1, "rules": []}"#;
        std::fs::write(scene.home.path("rules.json"), rules).expect("written");
        let found = scene.ask(&["Go."]);
        assert_eq!(found["metadata"]["status"] == "input_required", is_asked, "{method}: {found}");
        assert_eq!(scene.server.received().len(), usize::from(!is_asked), "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_form_of_a_secret_comes_back() {
    let definition = "endpoint: '{url}/echo', authentication: {type: basic, secret: SHOP_LOGIN}";
    let mut scene = Scene::new(definition, "", |_, request| {
        let sent = request.header("authorization").unwrap_or_default();
        answers(
            200,
            &json!({
                "headers": {"Authorization": sent}, "user": "clerk", "said": "pass\"word",
                "url": "/x?key=pass%22word", "json": r#"{"key": "pass\"word"}"#,
            }),
        )
    })
    .await;
    scene.home = scene.home.set("SHOP_LOGIN", "clerk:pass\"word");
    let found = scene.ask(&["Go."]);
    let expected = json!({"headers": {"Authorization": "Basic [secret]"}, "user": "[secret]", "said": "[secret]", "url": "/x?key=[secret]", "json": r#"{"key": "[secret]"}"#});
    assert_eq!(found["content"], expected, "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_made_is_part_of_the_answer_whatever_is_made_of_it() {
    let large = || answers(200, &json!({"id": 7, "text": "x".repeat(700_000)}));
    let definition = "endpoint: '{url}/orders'";
    let transform = "response_transform: {id: '{{response.id}}'}";
    let scene = Scene::new(definition, transform, move |_, _| large()).await;
    let found = scene.ask(&["Order."]);
    assert_eq!(found["metadata"]["code"], "W1062", "{found}");
    assert_eq!(found["metadata"]["tools"][0]["result"]["status"], 200);
    let scene = Scene::new(definition, "", move |_, _| large()).await;
    let found = scene.ask(&["Order."]);
    assert_eq!(found["content"]["cut"], true);
    let warnings = found["metadata"]["warnings"].to_string();
    assert!(warnings.contains("longer than a deliverable may be"), "{found}");
}

/// A person may answer in place of an API.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_a_person_is_the_result() {
    let definition = "endpoint: '{url}/orders'";
    let more = "requires_confirmation: [api/shop]";
    let scene = Scene::new(definition, more, |_, _| answers(200, &json!("ordered"))).await;
    let asked = scene.ask(&["Order."]);
    assert_eq!(asked["metadata"]["status"], "input_required", "{asked}");
    assert_eq!(scene.server.received().len(), 0);
    let thread = asked["metadata"]["thread"].as_str().expect("an id");
    let came = scene.weft(&["threads", "resume", thread, "--reject", "not today"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert_eq!(scene.server.received().len(), 0);
    // A misspelt confirmation is no confirmation, and refused.
    let other = "requires_confirmation: [api/shpo]";
    let scene = Scene::new(definition, other, |_, _| answers(200, &json!("ordered"))).await;
    let refused = scene.weft(&["agents", "run", "shop", "Order."]);
    assert_eq!(refused.status, Some(2), "{refused:?}");
    let refused = scene.weft(&["agents", "check"]);
    assert_eq!(refused.status, Some(1), "{refused:?}");
    assert!(refused.out.contains("expected `api/shop`"), "{refused:?}");
    assert_eq!(scene.server.received().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_is_no_object_is_refused_before_the_request() {
    let definition = "endpoint: '{url}/search', method: GET";
    for (more, given, found) in [
        ("request_transform: 'about {{message}}'", None, "it makes a text"),
        ("request_transform: ['{{message}}']", None, "it makes a list"),
        ("", Some("[1, 2]"), "the input is a list"),
    ] {
        let scene = Scene::new(definition, more, |_, _| answers(200, &json!([]))).await;
        let input = given.map(|given| ["--input", given]);
        let args = [&["Tea"][..], input.as_ref().map_or(&[], |input| &input[..])].concat();
        let refused = scene.ask(&args);
        assert_eq!(refused["metadata"]["code"], "W1062", "{more}: {refused}");
        let reason = refused["error"].as_str().expect("a text");
        assert!(reason.ends_with(found), "{more}: {refused}");
        assert_eq!(scene.server.received().len(), 0, "{more}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_secret_is_named_as_the_operator_has_to_set_it() {
    let definition = "endpoint: '{url}/x', authentication: {type: bearer, secret: SHOP_KEY}";
    let scene = Scene::new(definition, "", |_, _| answers(200, &json!("done"))).await;
    let refused = scene.ask(&["Go."]);
    assert_eq!(refused["metadata"]["code"], "W1061", "{refused}");
    assert!(refused.to_string().contains("the variable `SHOP_KEY` has no secret"), "{refused}");
    assert_eq!(scene.server.received().len(), 0);
}

/// Pages of an API, and what is made of them.
struct Listing {
    name: &'static str,
    pagination: &'static str,
    answer: fn(usize) -> Reply,
    /// Paths of the requests.
    requests: &'static [&'static str],
    /// Items, or the code and a part of the text of the error.
    made: Result<Value, (&'static str, &'static str)>,
    /// A part of the warning, if there is one.
    warns: Option<&'static str>,
}

fn page(items: &Value, next: &Value) -> Reply {
    answers(200, &json!({"data": {"items": items}, "next": next}))
}

fn linked(items: &Value, link: &str) -> Reply {
    let headers = [("content-type", "application/json"), ("link", link)];
    Reply::full(200, &headers, items.to_string())
}

const CURSOR: &str = "{kind: cursor, items: data.items, next: next, param: after}";

fn listings_by_cursor() -> Vec<Listing> {
    vec![
        Listing {
            name: "cursors until there is none, also behind an empty page",
            pagination: CURSOR,
            answer: |number| match number {
                0 => page(&json!([1, 2]), &json!("a b")),
                1 => page(&json!([]), &json!(7)),
                _ => page(&json!([3]), &json!("")),
            },
            requests: &["/list?v=1", "/list?v=1&after=a+b", "/list?v=1&after=7"],
            made: Ok(json!([1, 2, 3])),
            warns: None,
        },
        Listing {
            name: "cursors that go in a circle",
            pagination: CURSOR,
            answer: |number| page(&json!([number]), &json!(["A", "B"][number % 2])),
            requests: &["/list?v=1", "/list?v=1&after=A", "/list?v=1&after=B"],
            made: Err((
                "W1063",
                "page 3 of the list (3 pages with 3 items were read): its next page is one that was read before",
            )),
            warns: None,
        },
        Listing {
            name: "a cursor that is never null",
            pagination: CURSOR,
            answer: |_| page(&json!([]), &json!(">i:7")),
            requests: &["/list?v=1", "/list?v=1&after=%3Ei%3A7"],
            made: Err(("W1063", "read before")),
            warns: None,
        },
        Listing {
            name: "a cursor that is no cursor",
            pagination: CURSOR,
            answer: |_| page(&json!([1]), &json!({"page": 2})),
            requests: &["/list?v=1"],
            made: Err(("W1063", "no text and no number")),
            warns: None,
        },
        Listing {
            name: "items that are not there",
            pagination: "{kind: cursor, items: data.rows, next: next, param: after}",
            answer: |_| page(&json!([1]), &json!("a")),
            requests: &["/list?v=1"],
            made: Err(("W1063", "no list at `data.rows`")),
            warns: None,
        },
        Listing {
            name: "a page that fails after others",
            pagination: CURSOR,
            answer: |number| match number {
                0 | 1 => page(&json!([number]), &json!(number + 1)),
                _ => fails(404, &[]),
            },
            requests: &["/list?v=1", "/list?v=1&after=1", "/list?v=1&after=2"],
            made: Err((
                "W1060",
                "page 3 of the list (2 pages with 2 items were read): the API answered with status 404",
            )),
            warns: None,
        },
        Listing {
            name: "a page that is repeated, and succeeds",
            pagination: CURSOR,
            answer: |number| match number {
                0 => page(&json!([1]), &json!("a")),
                1 => fails(503, &[]),
                _ => page(&json!([2]), &Value::Null),
            },
            requests: &["/list?v=1", "/list?v=1&after=a", "/list?v=1&after=a"],
            made: Ok(json!([1, 2])),
            warns: None,
        },
        Listing {
            name: "more pages than the limit",
            pagination: "{kind: cursor, items: data.items, next: next, param: after, pages_max: 2}",
            answer: |number| page(&json!([number]), &json!(number + 1)),
            requests: &["/list?v=1", "/list?v=1&after=1"],
            made: Ok(json!([0, 1])),
            warns: Some("the limit of pages"),
        },
        Listing {
            name: "more items than the limit, within a page",
            pagination: "{kind: cursor, items: data.items, next: next, param: after, items_max: 3}",
            answer: |number| page(&json!([number, "x"]), &json!(number + 1)),
            requests: &["/list?v=1", "/list?v=1&after=1"],
            made: Ok(json!([0, "x", 1])),
            warns: Some("the limit of items"),
        },
    ]
}

fn listings_by_number_and_link() -> Vec<Listing> {
    vec![
        Listing {
            name: "as many items as the limit, and no more",
            pagination: "{kind: cursor, items: data.items, next: next, param: after, items_max: 2}",
            answer: |_| page(&json!([1, 2]), &Value::Null),
            requests: &["/list?v=1"],
            made: Ok(json!([1, 2])),
            warns: None,
        },
        Listing {
            name: "pages with numbers",
            pagination: "{kind: page, param: v, start: 0}",
            answer: |number| match number {
                0 | 1 => answers(200, &json!([number])),
                _ => answers(200, &json!([])),
            },
            requests: &["/list?v=0", "/list?v=1", "/list?v=2"],
            made: Ok(json!([0, 1])),
            warns: None,
        },
        Listing {
            name: "pages whose number is not read",
            pagination: "{kind: page, param: p}",
            answer: |_| answers(200, &json!([1, 2])),
            requests: &["/list?v=1&p=1", "/list?v=1&p=2"],
            made: Err(("W1063", "the API may not read `p` of the query")),
            warns: None,
        },
        Listing {
            name: "links of the header",
            pagination: "{kind: link}",
            answer: |number| match number {
                0 => linked(&json!([1]), "</list?c=1,2>; rel=\"next\", </list>; rel=\"first\""),
                _ => linked(&json!([2]), "</list>; rel=\"first\""),
            },
            requests: &["/list?v=1", "/list?c=1,2"],
            made: Ok(json!([1, 2])),
            warns: None,
        },
        Listing {
            name: "a link to another origin",
            pagination: "{kind: link}",
            answer: |_| linked(&json!([1]), "<http://127.0.0.1:1/steal>; rel=next"),
            requests: &["/list?v=1"],
            made: Err(("W1063", "the origin http://127.0.0.1:1, and not http://127.0.0.1:")),
            warns: None,
        },
        Listing {
            name: "links of the body",
            pagination: "{kind: link, items: data.items, next: next}",
            answer: |number| match number {
                0 => page(&json!([1]), &json!("?page=2")),
                _ => page(&json!([2]), &Value::Null),
            },
            requests: &["/list?v=1", "/list?page=2"],
            made: Ok(json!([1, 2])),
            warns: None,
        },
        Listing {
            name: "the last item of each page as the cursor",
            pagination: "{kind: cursor, items: data.items, next: data.items.-1.id, param: after}",
            answer: |number| match number {
                0 => page(&json!([{"id": "a"}, {"id": "b"}]), &Value::Null),
                1 => page(&json!([{"id": "c"}]), &Value::Null),
                _ => page(&json!([]), &Value::Null),
            },
            requests: &["/list?v=1", "/list?v=1&after=b", "/list?v=1&after=c"],
            made: Ok(json!([{"id": "a"}, {"id": "b"}, {"id": "c"}])),
            warns: None,
        },
        Listing {
            name: "more bytes than a deliverable may have",
            pagination: CURSOR,
            answer: |number| page(&json!(["x".repeat(400_000)]), &json!(number + 1)),
            requests: &["/list?v=1", "/list?v=1&after=1"],
            made: Ok(json!(["x".repeat(400_000)])),
            warns: Some("the limit of bytes"),
        },
        Listing {
            name: "a page that is too long",
            pagination: CURSOR,
            answer: |_| page(&json!(["x".repeat(700_000)]), &json!("a")),
            requests: &["/list?v=1"],
            made: Err(("W1063", "ask for fewer items")),
            warns: None,
        },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_of_a_list_are_one_list_within_limits() {
    for listing in listings_by_cursor().into_iter().chain(listings_by_number_and_link()) {
        let Listing { name, pagination, answer, requests, made, warns } = listing;
        let definition = format!(
            "endpoint: '{{url}}/list?v=1', method: GET, authentication: {{type: bearer}}, pagination: {pagination}"
        );
        let more = "request_transform: {none: '{{input.none}}'}";
        let scene = Scene::new(&definition, more, move |number, _| answer(number)).await;
        let found = scene.ask(&["Go."]);
        let sent = scene.server.received();
        let paths: Vec<_> = sent.iter().map(|request| request.path.as_str()).collect();
        assert_eq!(paths, requests, "{name}: {found}");
        assert!(sent.iter().all(|request| request.header("authorization").is_some()), "{name}");
        match made {
            Ok(items) => assert_eq!(found["content"], items, "{name}: {found}"),
            Err((code, text)) => {
                assert_eq!(found["metadata"]["code"], code, "{name}: {found}");
                let error = found["error"].as_str().unwrap_or_default();
                assert!(error.contains(text), "{name}: {error}");
            }
        }
        let warnings = found["metadata"]["warnings"].to_string();
        assert_eq!(warns.is_some_and(|text| warnings.contains(text)), warns.is_some(), "{name}");
        assert_eq!(warnings == "null", warns.is_none(), "{name}: {warnings}");
    }
}

/// The server holds the second page. The run that continues reads the list from its beginning, as one call.
#[tokio::test(flavor = "multi_thread")]
async fn items_are_emitted_while_further_pages_are_read() {
    let definition = format!("endpoint: '{{url}}/list', method: GET, pagination: {CURSOR}");
    let scene = Scene::new(&definition, "", |number, _| match number {
        0 | 2 => page(&json!(["first item"]), &json!("a")),
        1 => Reply::nothing().hang(),
        _ => page(&json!(["second item"]), &Value::Null),
    })
    .await;
    let mut command = scene.home.command(&["agents", "run", "shop", "List."]);
    let mut child = command.stdout(Stdio::null()).spawn().expect("starts");
    let mut shown = BufReader::new(child.stderr.take().expect("piped"));
    tokio::task::block_in_place(|| {
        read_until(&mut shown, "→ api__shop");
        read_until(&mut shown, r#"{"page":1,"items":["first item"]}"#);
    });
    assert!(child.try_wait().expect("known").is_none(), "the second page is not there");
    while scene.server.received().len() < 2 {
        tokio::task::yield_now().await;
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let listed = scene.weft(&["threads", "list", "--json"]);
    let row: Value = serde_json::from_str(listed.out.trim()).expect("one thread");
    let thread = row["thread"].as_str().or(row["id"].as_str()).expect("an id");
    let came = scene.weft(&["threads", "resume", thread]);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert_eq!(scene.server.received().len(), 4, "{came:?}");
    let made = scene.weft(&["deliverables", thread, "--json"]);
    assert!(made.out.contains("API Agent Output"), "{made:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_from_a_template_is_one_that_the_definition_allows() {
    let within = "endpoint: '{url}/v1/{{input.id}}', url_allow_list: ['{url}/v1'], method: GET";
    let whole =
        "endpoint: '{{input.id}}', url_allow_list: ['{url}/v1/', 'https://api.example.com']";
    let host = "endpoint: 'http://{{input.id}}/v1', url_allow_list: ['{url}'], method: GET";
    let inner = "endpoint: '{url}/v1/a/{{input.id}}/x?{{input.id}}', url_allow_list: ['{url}'], method: GET";
    for (definition, id, sent) in [
        (within, json!("a b/c?d#e"), Some("/v1/a%20b%2Fc%3Fd%23e")),
        (within, json!("a/../b"), None),
        (within, json!(7), Some("/v1/7")),
        (within, json!(".."), None),
        (within, json!("%2e%2e"), Some("/v1/%252e%252e")),
        (within, json!("../admin"), None),
        (within, Value::Null, None),
        (within, json!(["a"]), None),
        (whole, json!("{url}/v1/x?y=1"), Some("/v1/x?y=1")),
        (whole, json!("{url}/v1"), Some("/v1")),
        (whole, json!("{url}/v10"), None),
        (whole, json!("{url}/v1/../admin"), None),
        (whole, json!("{url}/v1/%2e%2e/admin"), None),
        (whole, json!("{url}/v1/..%2fadmin"), None),
        (whole, json!("{url}/v1/x\\..\\..\\admin"), None),
        (whole, json!("https://api.example.com@127.0.0.1/"), None),
        (whole, json!("https://api.example.com.evil.example/"), None),
        (whole, json!("file:///etc/passwd"), None),
        (whole, json!("/v1"), None),
        (inner, json!("b"), Some("/v1/a/b/x?b&id=b")),
        (inner, json!(".."), None),
        (inner, json!("."), None),
        (inner, json!(""), None),
        (host, json!("evil.example"), None),
        (host, json!("127.0.0.1:1"), None),
    ] {
        let scene = Scene::new(definition, "", |_, _| answers(200, &json!("done"))).await;
        let input = json!({"id": id}).to_string().replace("{url}", &scene.server.url(""));
        let found = scene.ask(&["Go.", "--input", &input]);
        let received = scene.server.received();
        let path = received.first().map(|request| request.path.as_str());
        match sent {
            Some(sent) => {
                let path = path.unwrap_or_default();
                let path = path.split("?id=").next().unwrap_or_default();
                assert_eq!(path, sent, "{id}: {found}");
            }
            None => {
                assert_eq!(path, None, "{id}: {found}");
                assert_eq!(found["metadata"]["code"], "W1064", "{id}: {found}");
            }
        }
    }
    // A redirect leads to an address that nobody has checked.
    let scene = Scene::new(within, "", |_, _| fails(302, &[("location", "/admin")])).await;
    let found = scene.ask(&["Go.", "--input", r#"{"id": 1}"#]);
    assert_eq!(found["metadata"]["code"], "W1060", "{found}");
    assert_eq!(scene.server.received().len(), 1);
}
