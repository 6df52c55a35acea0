//! Requests of other servers of agents, at `/agent-to-agent/tasks`.

use crate::home::{Home, PROGRAM};
use crate::serve::Served;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const TASKS: &str = "POST /agent-to-agent/tasks";

fn key(token: &str) -> String {
    format!("x-api-key: {token}\r\n")
}

/// A server with an agent for all, and one of an organisation, and the tokens of clients.
struct Scene {
    served: Served,
    acme: String,
    reader: String,
    other: String,
    _home: Home,
}

impl Scene {
    fn new() -> Self {
        let home = Home::new().set("WEFT_MODEL", "scripted").set("WEFT_STORE", "memory");
        let agents = [
            ("golf", "type: context\ncontext: You know golf.\n"),
            ("secret", "type: context\norganization: acme\n"),
        ];
        for (slug, text) in agents {
            fs::create_dir_all(home.path(&format!("agents/{slug}"))).expect("is made");
            fs::write(home.path(&format!("agents/{slug}/agent.yaml")), text).expect("is written");
        }
        let add = |subject: &str, org: &str, rights: &str| {
            let args =
                ["keys", "add", "keys", "--subject", subject, "--org", org, "--rights", rights];
            let came = home.weft(&args);
            assert_eq!(came.status, Some(0), "{came:?}");
            came.out.trim().to_owned()
        };
        let acme = add("ada", "acme", "read,run");
        let reader = add("bob", "acme", "read");
        let other = add("eve", "other", "read,run");
        let args = ["serve", "--listen", "127.0.0.1:0", "--keys", "keys"];
        let served = Served::start(&home, Path::new(PROGRAM), &args).0;
        Self { served, acme, reader, other, _home: home }
    }

    fn send(&self, token: &str, body: &Value) -> (u16, Value) {
        self.served.send(TASKS, &key(token), body)
    }
}

#[test]
fn a_request_with_an_agent_is_answered_as_at_the_address_of_the_agent() {
    let scene = Scene::new();
    let health = scene.served.send("GET /health", "", &json!({}));
    assert_eq!(health, (200, json!({"status": "ok"})), "without a token");
    assert_eq!(scene.served.send(TASKS, "", &json!({"agent": "golf"})).0, 401);

    let request = json!({"agent": "golf", "mode": "converse", "userMessage": "Hi", "conversationId": "c", "payload": {}});
    let (status, answer) = scene.send(&scene.acme, &request);
    assert_eq!(
        (status, &answer["success"], &answer["mode"]),
        (200, &json!(true), &json!("converse"))
    );
    assert_eq!(answer["metadata"]["conversationId"], "c");
    let direct = scene.served.send(
        "POST /agents/golf/tasks",
        &key(&scene.acme),
        &json!({"userMessage": "Hi"}),
    );
    let members = |value: &Value| {
        let metadata = value["metadata"].as_object().expect("an object");
        metadata.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(members(&answer), members(&direct.1));
    assert_eq!(answer["content"], direct.1["content"]);

    // A repeated request has the answer of the first one.
    let again = format!("{}idempotency-key: k1\r\n", key(&scene.acme));
    let first = scene.served.send(TASKS, &again, &json!({"agent": "golf", "userMessage": "Once"}));
    let second = scene.served.send(TASKS, &again, &json!({"agent": "golf", "userMessage": "Once"}));
    assert_eq!(first.1["metadata"]["run"], second.1["metadata"]["run"], "{first:?}");
    assert!(first.1["metadata"]["run"].is_string());
}

#[test]
fn what_does_not_fit_is_refused_by_the_name_of_its_member() {
    let scene = Scene::new();
    for (body, text) in [
        (json!({"userMessage": "Hi"}), "`agent` is missing"),
        (json!({"agent": 1, "userMessage": "Hi"}), "agent"),
        (json!({"agent": "golf", "message": "Hi"}), "message"),
        (json!({"agent": "golf", "userMessage": ["Hi"]}), "userMessage"),
        (json!({"agent": "golf", "userMessage": "Hi", "payload": {"titel": "x"}}), "titel"),
        (json!({"agent": "golf", "userMessage": "Hi", "mode": "dance"}), "dance"),
        (json!({"agent": "golf", "userMessage": ""}), "userMessage"),
    ] {
        let (status, answer) = scene.send(&scene.acme, &body);
        assert_eq!(status, 422, "{body}: {answer}");
        assert!(answer.to_string().contains(text), "{body}: {answer}");
        assert!(!answer.to_string().contains("secret"), "{body}: {answer}");
    }
    let (status, refused) =
        scene.send(&scene.reader, &json!({"agent": "golf", "userMessage": "Hi"}));
    assert_eq!(status, 403, "{refused}");
}

#[test]
fn agents_of_another_organisation_are_as_those_that_do_not_exist() {
    let scene = Scene::new();
    let ask = |token: &str, agent: &str| {
        let (status, answer) = scene.send(token, &json!({"agent": agent, "userMessage": "Hi"}));
        (status, answer.to_string().replace(agent, "NAME"))
    };
    assert_eq!(ask(&scene.acme, "secret").0, 200);
    let foreign = ask(&scene.other, "secret");
    assert_eq!(foreign.0, 404);
    assert_eq!(foreign, ask(&scene.other, "absent"));
    // Neither does a conversation of another organisation or subject exist.
    let request = json!({"agent": "golf", "userMessage": "Hi", "conversationId": "shared"});
    let own = scene.send(&scene.acme, &request).1;
    let others = scene.send(&scene.other, &request).1;
    assert_ne!(own["metadata"]["thread"], others["metadata"]["thread"]);
}

#[test]
fn a_chain_of_agents_only_lowers_what_is_left() {
    let scene = Scene::new();
    let ask = |chain: &str| {
        let headers = format!("{}weft-chain: {chain}\r\n", key(&scene.acme));
        scene.served.send(TASKS, &headers, &json!({"agent": "golf", "userMessage": "Hi"}))
    };
    for wrong in ["{", r#"{"depth": -1}"#, r#"{"agents": "golf"}"#, r#"{"rights": ["admin"]}"#] {
        let (status, answer) = ask(wrong);
        assert_eq!(status, 422, "{wrong}: {answer}");
        assert!(answer.to_string().contains("weft-chain"), "{wrong}: {answer}");
    }
    assert_eq!(ask(r#"{"depth": 1, "agents": ["golf@elsewhere"]}"#).0, 200);
    let listed = scene.served.send("GET /agents/golf", &key(&scene.acme), &json!({})).1;
    let own = format!("golf@{}", listed["version"].as_str().expect("a version"));
    let (status, refused) = ask(&format!(r#"{{"depth": 1, "agents": ["{own}"]}}"#));
    assert_eq!((status, &refused["metadata"]["code"]), (422, &json!("W1039")), "{refused}");
}
