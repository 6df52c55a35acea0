//! Metadata, clients and answers of authorization servers of all kinds.

use crate::oauth_scene::{Person, Scene, with};
use crate::oauth_server::{Behaviour, metadata};
use serde_json::{Value, json};
use weftwork_mcp::LoginRequest;

#[tokio::test]
async fn answers_of_others_are_refused_and_no_code_is_sent() {
    for (change, expected) in [
        (with(|behaviour| behaviour.keeps_state = false), "`state` differs"),
        (
            with(|behaviour| {
                behaviour.redirect = vec![("code", "CODE"), ("iss", "https://evil.example")]
            }),
            "from the issuer `https://evil.example`",
        ),
        (
            with(|behaviour| behaviour.redirect = vec![("code", "CODE"), ("iss", "ORIGIN/")]),
            "expected",
        ),
        (with(|behaviour| behaviour.redirect = vec![("code", "CODE")]), "without `iss`"),
        (
            with(|behaviour| {
                behaviour.redirect = vec![
                    ("error", "access_denied"),
                    ("error_description", "you said no"),
                    ("iss", "ORIGIN"),
                ]
            }),
            "access_denied: you said no",
        ),
        (with(|behaviour| behaviour.redirect = vec![("iss", "ORIGIN")]), "has no code"),
    ] {
        let scene = Scene::new(change).await;
        let failed = scene.log_in(&scene.rig.servers()).await.map(drop).expect_err("no login");
        assert!(failed.to_string().contains(expected), "{expected}: {failed}");
        assert_eq!(failed.code().0, "W0916");
        assert_eq!(scene.server.forms("/token").len(), 0, "{expected}");
    }
}

#[tokio::test]
async fn metadata_that_credentials_could_leak_through_is_refused() {
    let document = |path: &'static str, change: fn(&mut Value)| {
        with(|behaviour| {
            let document = behaviour.documents.get_mut(path).expect("a document");
            change(document);
        })
    };
    let issuer = "/.well-known/oauth-authorization-server";
    for (behaviour, expected) in [
        (
            document("/meta", |meta| meta["resource"] = json!("https://other.example/mcp")),
            "resource `https://other.example/mcp`",
        ),
        (
            document("/meta", |meta| meta["resource"] = json!("ORIGIN/mc")),
            "is that of the resource",
        ),
        (
            document("/meta", |meta| meta["authorization_servers"] = json!(["http://192.0.2.1"])),
            "`http://192.0.2.1/`",
        ),
        (
            document(issuer, |meta| meta["issuer"] = json!("https://other.example")),
            "issuer `https://other.example`",
        ),
        (
            document(issuer, |meta| meta["token_endpoint"] = json!("http://192.0.2.1/token")),
            "expected `https`",
        ),
        (
            document(issuer, |meta| meta["authorization_endpoint"] = json!("file:///bin/sh")),
            "expected `https`",
        ),
        (
            document(issuer, |meta| meta["authorization_endpoint"] = json!("javascript:alert(1)")),
            "expected `https`",
        ),
        (
            document(issuer, |meta| meta["code_challenge_methods_supported"] = json!(["plain"])),
            "PKCE",
        ),
        (document(issuer, |meta| meta["registration_endpoint"] = json!(null)), "\"clientId\""),
        (with(|behaviour| behaviour.client = json!(null)), "no strangers"),
    ] {
        let scene = Scene::new(behaviour).await;
        let failed = scene.log_in(&scene.rig.servers()).await.map(drop).expect_err("no login");
        assert!(failed.to_string().contains(expected), "{expected}: {failed}");
        assert_eq!(scene.server.forms("/token").len(), 0, "{expected}");
    }
}

#[tokio::test]
async fn metadata_is_found_at_all_places_that_servers_have() {
    let resource = |issuer: &str, resource: &str| json!({"resource": resource, "authorization_servers": [issuer]});
    let root = "/.well-known/oauth-protected-resource";
    let server = "/.well-known/oauth-authorization-server";
    for (challenge, documents) in [
        // Without a header, below the path or at the root, for the server or its origin.
        (
            "Bearer",
            vec![
                ("/.well-known/oauth-protected-resource/mcp", resource("ORIGIN", "ORIGIN/mcp/")),
                (server, metadata("ORIGIN/")),
            ],
        ),
        (
            "Basic realm=\"x\"",
            vec![(root, resource("ORIGIN/", "ORIGIN/")), (server, metadata("ORIGIN"))],
        ),
        (
            "Bearer resource_metadata=\"http://192.0.2.1/meta\"",
            vec![(root, resource("ORIGIN", "ORIGIN")), (server, metadata("ORIGIN"))],
        ),
        // Issuers with a path, as tenants are.
        (
            "Bearer",
            vec![
                (root, resource("ORIGIN/realms/a", "ORIGIN")),
                ("/.well-known/oauth-authorization-server/realms/a", metadata("ORIGIN/realms/a")),
            ],
        ),
        (
            "Bearer",
            vec![
                (root, resource("ORIGIN/realms/a", "ORIGIN")),
                ("/.well-known/openid-configuration/realms/a", metadata("ORIGIN/realms/a")),
            ],
        ),
        (
            "Bearer",
            vec![
                (root, resource("ORIGIN/realms/a", "ORIGIN")),
                ("/realms/a/.well-known/openid-configuration", metadata("ORIGIN/realms/a")),
            ],
        ),
        (
            "Bearer",
            vec![
                (root, resource("ORIGIN", "ORIGIN")),
                ("/.well-known/openid-configuration", metadata("ORIGIN")),
            ],
        ),
        // Servers of March 2025: metadata alone, of the server or of another issuer, or nothing.
        ("Bearer", vec![(server, metadata("ORIGIN"))]),
        (
            "Bearer",
            vec![
                (server, metadata("ORIGIN/as")),
                ("/.well-known/oauth-authorization-server/as", metadata("ORIGIN/as")),
            ],
        ),
        ("", vec![]),
    ] {
        let behaviour = with(|behaviour| {
            behaviour.challenge = challenge;
            behaviour.documents = documents.iter().cloned().collect();
            let issuer = documents.last().and_then(|(_, document)| document["issuer"].as_str());
            behaviour.redirect = vec![("code", "CODE")];
            let names = ["ORIGIN", "ORIGIN/", "ORIGIN/realms/a", "ORIGIN/as"];
            let issuer = names.into_iter().find(|name| Some(*name) == issuer);
            behaviour.redirect.extend(issuer.map(|issuer| ("iss", issuer)));
        });
        let scene = Scene::new(behaviour).await;
        let servers = scene.rig.servers();
        let asked = || scene.server.documents_asked();
        scene
            .log_in(&servers)
            .await
            .unwrap_or_else(|error| panic!("{documents:?}: {error} {:?}", asked()));
        servers.offer("web").await.expect("accepted");
    }
}

#[tokio::test]
async fn a_client_authenticates_as_it_was_registered() {
    let secret = json!({"client_id": "a:b", "client_secret": "s%c=ret &"});
    let own = json!({"clientId": "own", "clientSecret": "${CARGO_PKG_NAME}"});
    let with_method = |method: &str| {
        let mut client = secret.clone();
        client["token_endpoint_auth_method"] = json!(method);
        client
    };
    let basic = "Basic YSUzQWI6cyUyNWMlM0RyZXQrJTI2";
    for (client, oauth, methods, expected) in [
        (json!({"client_id": "a"}), json!({}), json!(null), (Some("a"), None, None)),
        (with_method("none"), json!({}), json!(["none"]), (Some("a:b"), None, None)),
        (
            with_method("client_secret_post"),
            json!({}),
            json!(null),
            (Some("a:b"), Some("s%c=ret &"), None),
        ),
        (
            with_method("client_secret_basic"),
            json!({}),
            json!(["client_secret_post"]),
            (None, None, Some(basic)),
        ),
        (
            secret.clone(),
            json!({}),
            json!(["none", "client_secret_post"]),
            (Some("a:b"), Some("s%c=ret &"), None),
        ),
        (secret.clone(), json!({}), json!(null), (None, None, Some(basic))),
        (
            json!(null),
            own.clone(),
            json!(["client_secret_post"]),
            (Some("own"), Some("weftwork-mcp"), None),
        ),
        (
            json!(null),
            json!({"clientId": "https://me.example/client.json"}),
            json!(null),
            (Some("https://me.example/client.json"), None, None),
        ),
    ] {
        let behaviour = with(|behaviour| {
            behaviour.client = client.clone();
            let document = behaviour.documents.get_mut("/.well-known/oauth-authorization-server");
            document.expect("a document")["token_endpoint_auth_methods_supported"] = methods;
        });
        let scene = Scene::with(behaviour, oauth).await;
        let servers = scene.rig.servers();
        scene.log_in(&servers).await.unwrap_or_else(|error| panic!("{client}: {error}"));
        scene.server.expire();
        servers.offer("web").await.expect("renewed");
        let all = scene.server.received();
        let sent = all.iter().filter(|request| request.path == "/token");
        for (request, form) in sent.zip(scene.server.forms("/token")) {
            let text = |name: &str| form.get(name).map(String::as_str);
            let found = (text("client_id"), text("client_secret"), request.header("authorization"));
            assert_eq!(found, expected, "{client}");
        }
        let file = std::fs::read_to_string(scene.file()).expect("a file");
        assert!(!file.contains("weftwork-mcp"), "the secret of the operator is not stored: {file}");
    }
}

#[tokio::test]
async fn a_client_of_the_operator_is_used_at_its_issuer_alone() {
    let oauth =
        json!({"clientId": "own", "clientSecret": "own-secret", "issuer": "https://login.example"});
    let scene = Scene::with(Behaviour::default(), oauth).await;
    let failed = scene.log_in(&scene.rig.servers()).await.map(drop).expect_err("no login");
    assert!(failed.to_string().contains("`https://login.example` as `issuer`"), "{failed}");
    assert!(!failed.to_string().contains("own-secret"), "{failed}");
    assert_eq!(scene.server.forms("/token").len(), 0);
}

#[tokio::test]
async fn odd_answers_of_token_endpoints_are_read_by_their_meaning() {
    for (token, expected) in [
        (json!({"expires_in": "3600", "token_type": "Bearer"}), None),
        (json!({"expires_in": 3599.9, "token_type": null}), None),
        (json!({"expires_in": 0, "refresh_token": null}), None),
        (json!({"expires_in": -1, "scope": ""}), None),
        (json!({"expires_in": u64::MAX}), None),
        (
            json!({"access_token": null, "error": "bad_verification_code"}),
            Some("bad_verification_code"),
        ),
        (json!({"access_token": ""}), Some("gave no token")),
        (json!({"access_token": "a\r\nx: y"}), Some("gave no token")),
        (json!({"access_token": 5}), Some("gave no token")),
    ] {
        let scene = Scene::new(with(|behaviour| behaviour.token = token.clone())).await;
        let servers = scene.rig.servers();
        match (scene.log_in(&servers).await.map(drop), expected) {
            (Ok(()), None) => drop(servers.offer("web").await.expect("accepted")),
            (Err(error), Some(expected)) => {
                assert!(error.to_string().contains(expected), "{error}")
            }
            (found, _) => panic!("{token}: {found:?}"),
        }
    }
}

#[tokio::test]
async fn a_redirect_of_a_token_endpoint_is_not_followed() {
    let first = vec![(307, json!({"location": "ORIGIN/elsewhere"}))];
    let scene = Scene::new(with(|behaviour| behaviour.first = first)).await;
    let failed = scene.log_in(&scene.rig.servers()).await.map(drop).expect_err("no login");
    assert!(failed.to_string().contains("307"), "{failed}");
    assert!(scene.server.received().iter().all(|request| request.path != "/elsewhere"));
}

#[tokio::test]
async fn refresh_tokens_are_asked_for_and_pkce_is_used_without_being_named() {
    let behaviour = with(|behaviour| {
        let document = behaviour.documents.get_mut("/.well-known/oauth-authorization-server");
        let members = document.and_then(Value::as_object_mut).expect("a document");
        members.insert("scopes_supported".to_owned(), json!(["openid", "offline_access"]));
        // As Entra and Cognito have it.
        members.remove("code_challenge_methods_supported");
    });
    let scene = Scene::new(behaviour).await;
    let person = scene.log_in(&scene.rig.servers()).await.expect("a login");
    let asked = person.asked();
    assert_eq!(asked["scope"], "read offline_access");
    assert_eq!(asked["prompt"], "consent");
    assert_eq!(asked["code_challenge_method"], "S256");
}

#[tokio::test]
async fn scopes_are_those_of_the_person_the_file_the_refusal_or_the_metadata() {
    let refusal = "Bearer resource_metadata=\"ORIGIN/meta\", scope=\"write admin\"";
    for (challenge, oauth, own, expected) in [
        (refusal, json!({"scope": "of-file"}), Some("of-person"), Some("of-person")),
        (refusal, json!({"scope": "of-file"}), None, Some("of-file")),
        (refusal, json!({}), None, Some("write admin")),
        ("Bearer resource_metadata=\"ORIGIN/meta\"", json!({}), None, Some("read")),
        (refusal, json!({}), Some(""), None),
    ] {
        let behaviour = with(|behaviour| {
            behaviour.challenge = challenge;
            behaviour.opens_first = own.is_none();
        });
        let scene = Scene::with(behaviour, oauth).await;
        let person = Person::new(&scene.server);
        let request = LoginRequest { scopes: own.map(str::to_owned), ..LoginRequest::default() };
        scene.rig.servers().log_in("web", &request, &person).await.expect("a login");
        assert_eq!(person.asked().get("scope").map(String::as_str), expected);
    }
}
