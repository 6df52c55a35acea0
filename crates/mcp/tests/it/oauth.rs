//! Logins at servers with OAuth: made, used, renewed and ended.

use crate::oauth_scene::{Person, Scene, pay, with};
use crate::oauth_server::Behaviour;
use crate::rig::{Rig, reads, run_under};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use weftwork_mcp::{LoginKind, LoginRequest, LoginStep, McpServers, Terms};
use weftwork_testkit::ManualClock;
use weftwork_tools::Policy;
use weftwork_types::port::Clock;
use weftwork_types::tool::Effect;

#[tokio::test]
async fn a_person_logs_in_with_a_browser_and_the_token_is_sent() {
    let scene = Scene::new(Behaviour::default()).await;
    let servers = scene.rig.servers();
    let without = servers.offer("web").await.expect_err("no login");
    assert_eq!(without.code().0, "W0915");
    assert!(without.to_string().contains("weft mcp login web"), "{without}");
    assert_eq!(servers.login_state("web"), Ok(None));

    let person = scene.log_in(&servers).await.expect("a login");
    let asked = person.asked();
    for (name, expected) in [
        ("tenant", "1"),
        ("response_type", "code"),
        ("client_id", "client-1"),
        ("code_challenge_method", "S256"),
        ("resource", &scene.server.url("/mcp")),
        ("scope", "read"),
    ] {
        assert_eq!(asked.get(name).map(String::as_str), Some(expected), "{name}: {asked:?}");
    }
    assert!(asked["redirect_uri"].starts_with("http://127.0.0.1:"), "{asked:?}");
    assert!(asked["state"].len() >= 43 && asked["code_challenge"].len() == 43, "{asked:?}");
    let forms = scene.server.forms("/token");
    let form = &forms[0];
    assert_eq!(form["resource"], scene.server.url("/mcp"));
    assert_eq!(form["redirect_uri"], asked["redirect_uri"]);
    assert!((43..=128).contains(&form["code_verifier"].len()));
    let state = servers.login_state("web").expect("a file").expect("a login");
    assert!(state.is_renewable && !state.is_ended, "{state:?}");
    assert_eq!(state.scopes.as_deref(), Some("read"));

    let servers = scene.rig.allowing(&["web/pay"], &reads()).await;
    assert!(pay(&servers).await.contains("paid"));
    for shown in [format!("{servers:?}"), format!("{person:?}", person = person.steps())] {
        assert!(!shown.contains("access-secret") && !shown.contains("code-secret"), "{shown}");
    }
}

#[tokio::test]
async fn the_address_of_a_browser_on_another_machine_is_pasted() {
    let scene = Scene::new(Behaviour::default()).await;
    let servers = scene.rig.servers();
    let mut person = Person::new(&scene.server);
    person.pastes = true;
    servers.log_in("web", &LoginRequest::default(), &person).await.expect("a login");
    servers.offer("web").await.expect("accepted");
}

#[tokio::test]
async fn the_redirect_is_to_the_port_that_the_client_is_registered_with() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    let oauth = json!({"callbackPort": port});
    let scene = Scene::with(Behaviour::default(), oauth).await;
    let servers = scene.rig.servers();
    let error = scene.log_in(&servers).await.map(drop).expect_err("the port is taken");
    assert_eq!(error.code().0, "W0916");
    assert!(error.to_string().contains(&format!("port {port} of 127.0.0.1")), "{error}");
    drop(free);
    let person = scene.log_in(&servers).await.expect("a login");
    let expected = format!("http://localhost:{port}/callback");
    assert_eq!(person.asked()["redirect_uri"], expected);
    assert_eq!(scene.server.forms("/token")[0]["redirect_uri"], expected);
    servers.offer("web").await.expect("accepted");
}

#[cfg(unix)]
#[tokio::test]
async fn the_file_of_a_login_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let scene = Scene::new(Behaviour::default()).await;
    scene.log_in(&scene.rig.servers()).await.expect("a login");
    let mode = |path: &std::path::Path| {
        std::fs::metadata(path).expect("exists").permissions().mode() & 0o777
    };
    assert_eq!(mode(&scene.rig.path("logins")), 0o700);
    for entry in std::fs::read_dir(scene.rig.path("logins")).expect("a folder") {
        assert_eq!(mode(&entry.expect("an entry").path()), 0o600);
    }
}

#[tokio::test]
async fn a_code_is_typed_on_another_device() {
    let pending = || (400, json!({"error": "authorization_pending"}));
    let first =
        vec![pending(), (400, json!({"error": "slow_down"})), (503, json!(null)), pending()];
    let scene = Scene::new(with(|behaviour| behaviour.first = first)).await;
    let clock = Arc::new(ManualClock::moved_by_sleeps());
    let servers = scene.rig.servers_at(Arc::clone(&clock) as Arc<dyn Clock>);
    let request = LoginRequest { kind: LoginKind::Device, scopes: None };
    let person = Person::new(&scene.server);
    servers.log_in("web", &request, &person).await.expect("a login");
    let code = LoginStep::Code {
        url: scene.server.url("/activate"),
        code: "WDJB-MJHT".to_owned(),
        complete: None,
    };
    assert_eq!(person.steps(), [code]);
    let seconds: Vec<u64> = clock.sleeps().iter().map(Duration::as_secs).collect();
    assert_eq!(seconds, [5, 5, 10, 10, 10]);
    servers.offer("web").await.expect("accepted");
    let forms = scene.server.forms("/device");
    assert_eq!(forms[0]["resource"], scene.server.url("/mcp"));
}

#[tokio::test]
async fn a_code_that_nobody_types_ends() {
    for (answer, expected) in [
        (json!({"error": "authorization_pending"}), "nobody typed the code"),
        (json!({"error": "access_denied"}), "access_denied"),
        (json!({"error": "expired_token"}), "expired_token"),
    ] {
        let first = vec![(400, answer); 200];
        let scene = Scene::new(with(|behaviour| behaviour.first = first)).await;
        let servers = scene.rig.servers_at(Arc::new(ManualClock::moved_by_sleeps()));
        let request = LoginRequest { kind: LoginKind::Device, scopes: None };
        let failed = servers.log_in("web", &request, &Person::new(&scene.server)).await;
        let failed = failed.expect_err("no login");
        assert!(failed.to_string().contains(expected), "{failed}");
        assert_eq!(failed.code().0, "W0916");
    }
}

#[tokio::test]
async fn a_token_is_renewed_before_its_end_and_after_a_refusal() {
    let scene = Scene::new(with(|behaviour| behaviour.token = json!({"expires_in": 3600}))).await;
    let servers = scene.ready().await;
    scene.server.expire();
    assert!(pay(&servers).await.contains("paid"));
    assert_eq!(scene.server.called(), 1);
    let forms = scene.server.forms("/token");
    let last = forms.last().expect("a form");
    assert_eq!(
        (last["grant_type"].as_str(), last["refresh_token"].as_str()),
        ("refresh_token", "refresh-secret-1")
    );
    assert_eq!(last["resource"], scene.server.url("/mcp"));

    // The clock of these tests is at the beginning of the year 1970, before the end of the token.
    let clock = Arc::new(ManualClock::new());
    clock.advance(Duration::from_secs(100 * 365 * 24 * 3600));
    let servers = scene.rig.servers_at(clock);
    servers.offer("web").await.expect("accepted");
    let refused = scene
        .server
        .received()
        .iter()
        .filter(|request| request.header("authorization") == Some("Bearer access-secret-2"))
        .count();
    let forms = scene.server.forms("/token");
    assert_eq!(forms.last().expect("a form")["refresh_token"], "refresh-secret-2");
    assert!(refused > 0);
}

#[tokio::test]
async fn many_requests_and_processes_renew_a_token_once() {
    let scene = Scene::new(Behaviour::default()).await;
    scene.log_in(&scene.rig.servers()).await.expect("a login");
    // Each has handles of its own, as processes have.
    let all: Vec<McpServers> = (0..8).map(|_| scene.rig.servers()).collect();
    for servers in &all {
        servers.offer("web").await.expect("accepted");
    }
    scene.server.expire();
    let offers = all.iter().map(|servers| servers.offer("web"));
    for offer in futures_util::future::join_all(offers).await {
        offer.expect("accepted");
    }
    let forms = scene.server.forms("/token");
    let renewals = forms.iter().filter(|form| form["grant_type"] == "refresh_token").count();
    assert_eq!(renewals, 1);
}

#[tokio::test]
async fn a_renewal_goes_on_when_its_request_is_cancelled() {
    let scene = Scene::new(Behaviour::default()).await;
    let servers = scene.ready().await;
    servers.offer("web").await.expect("accepted");
    scene.server.expire();
    // The request ends when the renewal has been sent, and before it is answered.
    let offer = servers.offer("web");
    let renewed = async {
        while scene.server.forms("/token").len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = offer => {}
        () = renewed => {}
    }
    scene.rig.servers().offer("web").await.expect("accepted");
    let forms = scene.server.forms("/token");
    let sent: Vec<&str> =
        forms.iter().filter_map(|form| Some(form.get("refresh_token")?.as_str())).collect();
    assert_eq!(sent, ["refresh-secret-1"]);
}

#[tokio::test]
async fn a_revoked_login_says_what_to_do_and_a_failed_renewal_ends_no_login() {
    let scene = Scene::new(Behaviour::default()).await;
    let servers = scene.ready().await;
    scene.server.expire();
    scene.server.change(|behaviour| behaviour.first = vec![(503, json!({"error": "busy"}))]);
    let said = pay(&servers).await;
    assert!(said.contains("W0803") && said.contains("busy"), "{said}");
    assert!(pay(&servers).await.contains("paid"));

    scene.server.revoke();
    let said = pay(&servers).await;
    assert!(said.contains("W0915") && said.contains("weft mcp login web"), "{said}");
    assert!(said.contains("unknown token ***") && !said.contains("secret"), "{said}");
    let state = servers.login_state("web").expect("a file").expect("a login");
    assert!(state.is_ended, "{state:?}");
    let said = pay(&servers).await;
    assert!(said.contains("W0915"), "{said}");
    let asked = scene.server.forms("/token").len();
    pay(&servers).await;
    assert_eq!(scene.server.forms("/token").len(), asked, "an ended login is not renewed");

    // Another process logs in; the running one uses that.
    scene.log_in(&scene.rig.servers()).await.expect("a login");
    assert!(pay(&servers).await.contains("paid"));
}

#[tokio::test]
async fn a_call_with_an_effect_that_waits_for_a_failed_renewal_was_not_made() {
    let scene = Scene::new(Behaviour::default()).await;
    scene.ready().await;
    let terms = Terms { effect: Effect::ExternalSideEffect, ..reads() };
    let servers = scene.rig.allowing(&["web/pay"], &terms).await;
    servers.offer("web").await.expect("accepted");
    scene.server.expire();
    scene.server.change(|behaviour| behaviour.first = vec![(502, json!({}))]);
    let policy = Policy::new().allow("web/pay").expect("a pattern");
    let said = run_under(policy, &servers, &[("web__pay", json!({}))]).await;
    assert_eq!(said[0].failure().0, "W0803", "its outcome is known");
    assert_eq!(scene.server.called(), 0);
}

#[tokio::test]
async fn a_token_for_another_audience_is_an_error_after_one_renewal() {
    let scene = Scene::new(Behaviour::default()).await;
    let servers = scene.ready().await;
    scene.server.change(|behaviour| behaviour.refuses_tokens = true);
    let before = scene.server.forms("/token").len();
    let said = pay(&servers).await;
    assert!(said.contains("W0915") && said.contains("who are you?"), "{said}");
    assert!(!said.contains("access-secret"), "{said}");
    assert_eq!(scene.server.forms("/token").len(), before + 1);
    assert_eq!(scene.server.called(), 0);
}

#[tokio::test]
async fn missing_scopes_are_asked_for_at_the_next_login() {
    let scene = Scene::new(with(|behaviour| behaviour.needs_scope = Some("pay:write"))).await;
    let servers = scene.ready().await;
    let said = pay(&servers).await;
    assert!(said.contains("W0915") && said.contains("pay:write"), "{said}");
    let person = scene.log_in(&servers).await.expect("a login");
    assert_eq!(person.asked()["scope"], "read pay:write");
    assert!(pay(&servers).await.contains("paid"));
    assert_eq!(scene.server.called(), 1);
}

#[tokio::test]
async fn a_logout_revokes_the_tokens_and_removes_the_file() {
    let scene = Scene::new(Behaviour::default()).await;
    let servers = scene.rig.servers();
    assert_eq!(servers.log_out("web").await, Ok(false));
    scene.log_in(&servers).await.expect("a login");
    assert_eq!(servers.log_out("web").await, Ok(true));
    let revoked: Vec<String> =
        scene.server.forms("/revoke").iter().map(|form| form["token"].clone()).collect();
    assert_eq!(revoked, ["refresh-secret-1", "access-secret-1"]);
    assert_eq!(servers.login_state("web"), Ok(None));
}

#[tokio::test]
async fn a_login_belongs_to_one_address() {
    let scene = Scene::new(Behaviour::default()).await;
    scene.log_in(&scene.rig.servers()).await.expect("a login");
    let entry = json!({"url": scene.server.url("/mcp?tenant=2")});
    let mut rig = Rig::new().entry("web", entry);
    rig.egress.insert("web".to_owned(), scene.server.egress());
    std::fs::create_dir(rig.path("logins")).expect("a folder");
    std::fs::copy(scene.file(), rig.path("logins").join("x.json")).expect("copied");
    let error = rig.servers().offer("web").await.expect_err("no login");
    assert_eq!(error.code().0, "W0915");
    let token = "Bearer access-secret-1";
    assert!(scene.server.received().iter().all(|one| one.header("authorization") != Some(token)));
}

#[tokio::test]
async fn a_damaged_file_and_a_server_without_login_say_what_to_do() {
    let scene = Scene::new(Behaviour::default()).await;
    let servers = scene.rig.servers();
    scene.log_in(&servers).await.expect("a login");
    std::fs::write(scene.file(), "{\"version\": 1, \"access\": \"access-secret\"")
        .expect("written");
    let error = servers.offer("web").await.expect_err("damaged");
    assert_eq!(error.code().0, "W0915");
    assert!(!error.to_string().contains("access-secret"), "{error}");
    scene.log_in(&servers).await.expect("a login replaces it");

    let rig = Rig::with("good")
        .entry("fixed", json!({"url": "http://127.0.0.1:1/mcp", "headers": {"authorization": "x"}}))
        .entry("never", json!({"url": "http://127.0.0.1:1/mcp", "oauth": false}));
    let servers = rig.servers();
    for (server, expected) in [
        ("good", "it is a program"),
        ("fixed", "has the header `Authorization`"),
        ("never", "`\"oauth\": false`"),
    ] {
        let error = servers.log_out(server).await.expect_err("no login");
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(servers.log_out("nobody").await.expect_err("unknown").code().0, "W0903");
}
