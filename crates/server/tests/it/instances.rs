//! The threads of instances, which take activities through their mailbox only.

use crate::client::{Client, with_tokens};
use crate::graphs;
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::time::Duration;
use weftwork::agents::{
    Activity, ActivityEnd, AgentRuntime, InstanceOptions, InstanceStatus, QueuedActivities,
};
use weftwork::types::{InstanceId, OrgId, Principal};
use weftwork_server::Server;

/// An instance whose activity waits for an answer, and another activity behind it.
async fn asking(client: &Client) -> (AgentRuntime, InstanceId) {
    asking_for(client, Principal::local()).await
}

/// The same on behalf of a principal.
async fn asking_for(client: &Client, who: Principal) -> (AgentRuntime, InstanceId) {
    let agents = AgentRuntime::over(client.runtime.clone()).build().expect("sound");
    let agents = agents.on_behalf_of(who);
    let options = InstanceOptions::new();
    let instance = agents.create_of("app:inter", json!({}), options).await.expect("created");
    let activity = || Activity::new(json!(1)).input(json!({"q": "from the mailbox"}));
    let sent = agents.send(&instance, activity()).await.expect("accepted");
    assert_eq!(sent.ended().await, Ok(ActivityEnd::Asks));
    agents.send(&instance, activity()).await.expect("accepted");
    (agents, instance.id().clone())
}

#[tokio::test]
async fn runs_with_new_input_pass_through_the_mailbox_only() {
    let client = Client::new().await;
    let (agents, id) = asking(&client).await;
    let path = format!("/threads/{id}/runs");
    let run = |more: Value| {
        let mut body = json!({"assistant_id": "inter"});
        let members = more.as_object().expect("an object").clone();
        body.as_object_mut().expect("an object").extend(members);
        body
    };
    let payload = json!({"configurable": {"ea_activity_payload": 2}});
    let refused = [
        run(json!({"input": {"q": "beside"}, "config": payload})),
        run(json!({"input": {"q": "beside"}})),
        run(json!({"input": {"q": "beside"}, "multitask_strategy": "interrupt"})),
        run(json!({"input": {"q": "beside"}, "multitask_strategy": "rollback"})),
        run(json!({"command": {"update": {"q": "beside"}}})),
        run(json!({"command": {"goto": "done"}})),
    ];
    for body in refused {
        for path in [path.clone(), format!("{path}/wait"), format!("{path}/stream")] {
            let answer = client.post(&path, body.clone()).await;
            assert_eq!(answer.status, StatusCode::CONFLICT, "{body}: {}", answer.body);
            assert!(answer.body.contains("instance"), "{}", answer.body);
        }
    }
    let state = client.get(&format!("/threads/{id}/state")).await.json();
    let here = state["checkpoint"]["checkpoint_id"].clone();
    let at_checkpoint = run(json!({"checkpoint_id": here}));
    let change = json!({"values": {"q": "beside"}});
    for (path, body) in [(&path, at_checkpoint), (&format!("/threads/{id}/state"), change)] {
        let answer = client.post(path, body.clone()).await;
        assert_eq!(answer.status, StatusCode::CONFLICT, "{body}: {}", answer.body);
    }
    let info = agents.info(&id).await.expect("exists");
    assert_eq!((info.status, info.statistics.waiting), (InstanceStatus::Asking, 1));
    assert_eq!(info.questions.len(), 1);
    // An answer is no new input, and does not change the payload.
    let body = run(json!({"command": {"resume": "yes"}, "config": payload}));
    let state = client.post(&format!("{path}/wait"), body).await.json();
    assert_eq!(state["note"], json!("done:yes"));
    let runs = client.get(&path).await.json();
    let runs = runs.as_array().expect("a list").iter();
    let payloads: Vec<_> = runs
        .map(|run| run["kwargs"]["config"]["configurable"]["ea_activity_payload"].clone())
        .filter(|payload| !payload.is_null())
        .collect();
    assert!(payloads.iter().all(|payload| *payload == json!(1)), "{payloads:?}");
}

#[tokio::test]
async fn an_idle_instance_refuses_runs_without_input() {
    let client = Client::new().await;
    let agents = AgentRuntime::over(client.runtime.clone()).build().expect("sound");
    let instance = agents.create_of("app:inter", json!({}), InstanceOptions::new()).await;
    let id = instance.expect("created").id().clone();
    let before = agents.info(&id).await.expect("exists");
    let path = format!("/threads/{id}/runs");
    let runs = client.get(&path).await.body;
    for more in [json!({}), json!({"multitask_strategy": "enqueue"})] {
        let mut body = json!({"assistant_id": "inter", "input": null});
        body.as_object_mut()
            .expect("an object")
            .extend(more.as_object().cloned().unwrap_or_default());
        for path in [path.clone(), format!("{path}/wait"), format!("{path}/stream")] {
            let answer = client.post(&path, body.clone()).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}: {}", answer.body);
        }
    }
    assert_eq!(agents.info(&id).await.expect("exists"), before, "nothing was stored");
    assert_eq!((before.status, client.get(&path).await.body), (InstanceStatus::Idle, runs));
}

#[tokio::test]
async fn the_thread_of_an_instance_is_deleted_after_its_termination() {
    let client = Client::new().await;
    let (agents, id) = asking(&client).await;
    let path = format!("/threads/{id}");
    let refused = client.delete(&path).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.body);
    // Nothing was cancelled, either.
    let info = agents.info(&id).await.expect("exists");
    assert_eq!((info.statistics.asking, info.statistics.waiting), (1, 1));
    let limit = Duration::from_secs(20);
    agents.terminate(&id, limit, QueuedActivities::DeadLetter).await.expect("exists");
    assert_eq!(client.delete(&path).await.status, StatusCode::NO_CONTENT);
    assert_eq!(client.get(&path).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_instances_of_an_organisation_are_found_with_its_tokens_alone() {
    let runtime = graphs::runtime().await;
    let client = Client::of(with_tokens(Server::new(runtime.clone())), runtime);
    let who = Principal::new(OrgId::new("one").expect("an id"), "ada");
    let (agents, id) = asking_for(&client, who).await;
    let before = agents.info(&id).await.expect("exists");
    let question = before.questions[0].id;
    let send = async |org: &str, method: &str, path: &str, body: Value| {
        client.send_as(Some(org), method, path, body.to_string()).await
    };
    let runs = send("one", "GET", &format!("/threads/{id}/runs"), json!({})).await.json();
    let run = runs[0]["run_id"].as_str().expect("an id").to_owned();
    let thread = format!("/threads/{id}");
    let resume = json!({"assistant_id": "inter", "command": {"resume": "yes"}});
    let requests = [
        ("GET", thread.clone(), json!({})),
        ("PATCH", thread.clone(), json!({"metadata": {"a": 1}})),
        ("DELETE", thread.clone(), json!({})),
        ("POST", format!("{thread}/copy"), json!({})),
        ("GET", format!("{thread}/state"), json!({})),
        ("POST", format!("{thread}/state"), json!({"values": {"q": "theirs"}})),
        ("GET", format!("{thread}/history"), json!({})),
        ("GET", format!("{thread}/runs"), json!({})),
        ("POST", format!("{thread}/runs"), resume.clone()),
        ("POST", format!("{thread}/runs/wait"), resume.clone()),
        ("POST", format!("{thread}/runs/stream"), resume),
        ("GET", format!("{thread}/runs/{run}"), json!({})),
        ("GET", format!("{thread}/runs/{run}/join"), json!({})),
        ("GET", format!("{thread}/runs/{run}/stream"), json!({})),
        ("POST", format!("{thread}/runs/{run}/cancel"), json!({})),
        ("DELETE", format!("{thread}/runs/{run}"), json!({})),
        ("POST", format!("/interrupts/{id}.{question}/respond"), json!({"type": "approve"})),
    ];
    for (method, path, body) in requests {
        let answer = send("two", method, &path, body).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method} {path}: {}", answer.body);
    }
    for (org, count) in [("two", 0), ("one", 1)] {
        let found = send(org, "GET", "/interrupts", json!({})).await.json();
        assert_eq!(found.as_array().map(Vec::len), Some(count), "{org}: {found}");
        let found = send(org, "POST", "/threads/search", json!({})).await.json();
        assert_eq!(found.as_array().map(Vec::len), Some(count), "{org}: {found}");
    }
    assert_eq!(agents.info(&id).await.expect("exists"), before, "nothing has changed");
}
