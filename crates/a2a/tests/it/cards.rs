//! Agent cards: who sees which, caching, and signatures.

use crate::world::{ADA, BOB, World};
use serde_json::{Value, json};
use weftwork_a2a::CardKey;

const CARD: &str = "/.well-known/agent-card.json";
/// A key of Ed25519 that is used nowhere else.
const KEY: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
";

async fn card(world: &World, token: &str, agent: &str) -> crate::world::Answer {
    world.send_with(token, &format!("GET /a2a/{agent}{CARD}"), &[], "").await
}

#[tokio::test]
async fn a_card_is_read_without_a_token_and_says_what_the_server_does() {
    let world = World::new().await;
    let answer = card(&world, "", "golf").await;
    assert_eq!(answer.headers["content-type"], "application/json");
    let card = answer.json();
    assert_eq!(card["name"], "golf");
    assert_eq!(
        card["supportedInterfaces"],
        json!([
            {"url": "http://localhost/a2a/golf", "protocolBinding": "JSONRPC",
                "protocolVersion": "1.0"},
            {"url": "http://localhost/a2a/golf", "protocolBinding": "HTTP+JSON",
                "protocolVersion": "1.0"},
        ])
    );
    assert_eq!(
        card["capabilities"],
        json!({"streaming": true, "pushNotifications": true, "extendedAgentCard": true})
    );
    assert!(card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"].is_object());
    let skills: Vec<_> =
        card["skills"].as_array().expect("a list").iter().map(|of| of["id"].clone()).collect();
    assert_eq!(skills, ["golf:converse", "golf:plan", "golf:build"]);
    assert!(card.get("signatures").is_none());
    for member in ["name", "description", "version", "defaultInputModes", "defaultOutputModes"] {
        assert!(!card[member].is_null(), "{member}: {card}");
    }
}

#[tokio::test]
async fn a_card_is_cached_by_its_tag() {
    let world = World::new().await;
    let first = card(&world, "", "golf").await;
    assert_eq!(first.headers["cache-control"], "public, max-age=300");
    let tag = first.headers["etag"].to_str().expect("text").to_owned();
    for (known, status) in [(tag.as_str(), 304), ("*", 304), ("W/\"x\"", 200), ("\"x\"", 200)] {
        let request = format!("GET /a2a/golf{CARD}");
        let answer = world.send_with("", &request, &[("if-none-match", known)], "").await;
        assert_eq!(answer.status, status, "{known}");
        assert_eq!(answer.headers["etag"].to_str().expect("text"), tag);
        assert_eq!(answer.body.is_empty(), status == 304);
    }
    // The card of an organisation is no public one.
    assert_eq!(card(&world, ADA, "own").await.headers["cache-control"], "private, max-age=300");
}

#[tokio::test]
async fn a_hidden_a_missing_and_another_ones_card_answer_the_same_bytes() {
    let world = World::new().await;
    let missing = card(&world, "", "nobody").await;
    assert_eq!(missing.status, 404);
    for (token, agent) in [("", "hidden"), ("", "own"), (BOB, "own"), (ADA, "hidden")] {
        let answer = card(&world, token, agent).await;
        assert_eq!((answer.status, answer.body), (404, missing.body.clone()), "{agent}");
    }
    assert_eq!(card(&world, ADA, "own").await.status, 200);
    assert_eq!(card(&world, "no-such-token-at-all", "golf").await.status, 200);
}

#[tokio::test]
async fn the_server_has_the_card_of_its_agent_if_one_alone_is_exposed() {
    let world = World::new().await;
    let several = world.send_with("", &format!("GET {CARD}"), &[], "").await;
    assert_eq!(several.status, 404);
    for (slug, is_named) in [("golf", true), ("clerk", true), ("own", false), ("hidden", false)] {
        let named = several.body.contains(&format!("/a2a/{slug}{CARD}"));
        assert_eq!(named, is_named, "{slug}: {}", several.body);
    }
    world.desk.expose(None, "clerk", false).await;
    let only = world.send_with("", &format!("GET {CARD}"), &[], "").await;
    assert_eq!(only.json(), card(&world, "", "golf").await.json());
    // A client of the organisation sees a second one.
    let two = world.send_with(ADA, &format!("GET {CARD}"), &[], "").await;
    assert!(two.status == 404 && two.body.contains("/a2a/own/"), "{}", two.body);
    // With none, it is missing as any other.
    world.desk.expose(None, "golf", false).await;
    let none = world.send_with("", &format!("GET {CARD}"), &[], "").await;
    assert_eq!((none.status, none.body), (404, card(&world, "", "nobody").await.body));
}

#[tokio::test]
async fn the_extended_card_needs_a_client_that_reads() {
    let world = World::new().await;
    let request = "GET /a2a/golf/extendedAgentCard";
    let refused = world.rest("", request, &Value::Null).await;
    assert_eq!((refused.status, refused.reason().as_str()), (401, "UNAUTHENTICATED"));
    assert_eq!(refused.headers["www-authenticate"], "Bearer");
    let extended = world.rest(ADA, request, &Value::Null).await.json();
    assert_eq!(extended["name"], "golf");
    let by_rpc = world.rpc(ADA, "golf", "GetExtendedAgentCard", &json!({})).await.result();
    assert_eq!(by_rpc, extended);
}

#[tokio::test]
async fn cards_are_signed_with_the_key_of_the_operator() {
    let key = CardKey::from_pem(KEY).expect("a key");
    let world =
        World::serving(|server| server.card_key(key.clone()).url("https://agents.example/")).await;
    let first = card(&world, "", "golf").await;
    let signed = first.json();
    assert_eq!(signed["supportedInterfaces"][0]["url"], "https://agents.example/a2a/golf");
    assert_eq!(signed["signatures"].as_array().map(Vec::len), Some(1));
    assert!(signed["signatures"][0]["protected"].is_string());
    let keys = world.send_with("", "GET /.well-known/agent-card-keys.json", &[], "").await;
    assert_eq!(keys.json(), key.key_set());
    assert_eq!(keys.json()["keys"][0]["kty"], "OKP");
    assert_eq!(card(&world, "", "golf").await.headers["etag"], first.headers["etag"]);
    let extended = world.rest(ADA, "GET /a2a/golf/extendedAgentCard", &Value::Null).await.json();
    assert_eq!(extended["signatures"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn an_exposure_names_the_card_and_the_address_that_the_card_has() {
    let world = World::new().await;
    for (who, slug) in [(ADA, "own"), (BOB, "golf")] {
        let exposure = world.send_with(who, &format!("GET /agents/{slug}/exposure"), &[], "").await;
        let exposure = exposure.json();
        let protocols = exposure["protocols"].as_array().expect("a list");
        let [protocol] = protocols.as_slice() else { panic!("{exposure}") };
        assert_eq!(protocol["protocol"], "a2a");
        let access = &protocol["access"];
        let path = access["card"].as_str().expect("a path");
        let found = world.send_with(who, &format!("GET {path}"), &[], "").await.json();
        let address = &found["supportedInterfaces"][0]["url"];
        let settings = json!([
            {"name": "Address", "text": address},
            {"name": "Card", "text": format!("http://localhost{path}")},
        ]);
        assert_eq!(access["settings"], settings, "{exposure}");
    }
}
