//! Versions, sessions and lists of tools.

use crate::world::{ADA, BOB, Client, LEGACY, MODERN, READER, World, forms, meta};
use serde_json::{Value, json};

fn names(list: &Value) -> Vec<&str> {
    let tools = list["tools"].as_array().expect("a list");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name")).collect()
}

#[tokio::test]
async fn each_exposed_agent_is_a_tool_in_order_with_its_schemas_in_both_versions() {
    let world = World::new().await;
    let modern = Client::modern(ADA, json!({}));
    let session = world.session(ADA, &json!({})).await;
    for client in [&modern, &session] {
        let list = world.ask(client, "tools/list", json!({})).await.result();
        assert_eq!(names(&list), ["clerk", "golf", "own", "typed-one"]);
        let again = world.ask(client, "tools/list", json!({})).await.result();
        assert_eq!(list, again);
        let golf = &list["tools"][1];
        assert_eq!(golf["inputSchema"]["required"], json!(["message"]));
        assert_eq!(golf["outputSchema"]["required"], json!(["answer", "conversation"]));
        let typed = &list["tools"][3];
        assert_eq!(typed["title"], "Typed");
        assert_eq!(typed["description"], "Takes a line");
        let line = json!({"type": "object", "properties": {"line": {"type": "string"}},
            "required": ["line"]});
        assert_eq!(typed["inputSchema"], line, "no argument is copied into a header");
        assert_eq!(typed["outputSchema"], line);
    }
    let list = world.ask(&modern, "tools/list", json!({})).await.result();
    assert_eq!((&list["resultType"], &list["cacheScope"]), (&json!("complete"), &json!("private")));
    assert!(list["ttlMs"].is_u64());
    let list = world.ask(&session, "tools/list", json!({})).await.result();
    assert_eq!(list["tools"][1]["execution"], json!({"taskSupport": "optional"}));
    // Others see theirs, and who may not run sees none.
    let others = world.ask(&modern.of(BOB), "tools/list", json!({})).await.result();
    assert_eq!(names(&others), ["clerk", "golf", "typed-one"]);
    let none = world.ask(&modern.of(READER), "tools/list", json!({})).await.result();
    assert_eq!(names(&none), [""; 0]);
}

#[tokio::test]
async fn all_agents_are_tools_if_the_program_says_so() {
    let all = |mcp: weftwork_mcp_server::McpServer| mcp.all_agents();
    let world = World::serving(all).await;
    let client = Client::modern(ADA, json!({}));
    let list = world.ask(&client, "tools/list", json!({})).await.result();
    assert_eq!(names(&list), ["clerk", "golf", "hidden", "own", "typed-one"]);
}

#[tokio::test]
async fn the_newer_version_discovers_and_has_no_methods_of_the_older_ones() {
    let world = World::new().await;
    let client = Client::modern(ADA, json!({}));
    let found = world.ask(&client, "server/discover", json!({})).await.result();
    assert_eq!(found["supportedVersions"][0], MODERN);
    assert_eq!(found["supportedVersions"][1], LEGACY);
    assert_eq!(found["resultType"], "complete");
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "weftwork");
    let extensions = &found["capabilities"]["extensions"];
    assert_eq!(*extensions, json!({"io.modelcontextprotocol/tasks": {}}));
    for method in
        ["initialize", "ping", "logging/setLevel", "tasks/result", "resources/list", "nothing"]
    {
        let answer = world.ask(&client, method, json!({})).await;
        assert_eq!((answer.status, answer.code()), (404, -32601), "{method}");
        assert_eq!(answer.any_json()["id"], 1);
    }
}

#[tokio::test]
async fn an_older_client_begins_a_session_in_its_version_and_is_known_by_it_later() {
    let world = World::new().await;
    for (asked, given) in [
        (LEGACY, LEGACY),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05"),
        ("1900-01-01", LEGACY),
        (MODERN, LEGACY),
    ] {
        let body = json!({"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": {
            "protocolVersion": asked, "capabilities": forms(), "clientInfo": {}}});
        let begun = world.post(ADA, &[], &body.to_string()).await;
        assert_eq!(begun.any_json()["id"], "a");
        assert_eq!(begun.result()["protocolVersion"], given, "{asked}");
        let session = begun.headers["mcp-session-id"].to_str().expect("text");
        let headers = [("mcp-session-id", session), ("mcp-protocol-version", given)];
        let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let taken = world.post(ADA, &headers, &note.to_string()).await;
        assert_eq!((taken.status, taken.body.as_str()), (202, ""));
        let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}).to_string();
        assert_eq!(world.post(ADA, &headers, &ping).await.result(), json!({}));
        // Another process knows it as well, because it is all in the session.
        let other = World::new().await;
        assert_eq!(other.post(ADA, &headers, &ping).await.result(), json!({}));
    }
    let unknown = json!({"jsonrpc": "2.0", "id": 1, "method": "prompts/list"}).to_string();
    let answer = world.post(ADA, &[("mcp-protocol-version", LEGACY)], &unknown).await;
    assert_eq!((answer.status, answer.code()), (200, -32601));
}

#[tokio::test]
async fn headers_and_the_body_of_the_newer_version_are_the_same() {
    let world = World::new().await;
    let call = |name: &str| {
        let params =
            json!({"name": name, "arguments": {"message": "One."}, "_meta": meta(&json!({}))});
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string()
    };
    let version = ("mcp-protocol-version", MODERN);
    let method = ("mcp-method", "tools/call");
    let name = ("mcp-name", "golf");
    for (headers, code) in [
        (vec![version, name], -32020),
        (vec![version, method], -32020),
        (vec![method, name], -32020),
        (vec![version, ("mcp-method", "tools/list"), name], -32020),
        (vec![version, ("mcp-method", "Tools/Call"), name], -32020),
        (vec![version, method, ("mcp-name", "clerk")], -32020),
        (vec![version, method, name, name], -32020),
        (vec![version, method, ("mcp-name", "=?base64?Z29sZg=?=")], -32020),
        (vec![("mcp-protocol-version", LEGACY), method, name], -32020),
        (vec![("mcp-protocol-version", "1900-01-01"), method, name], -32020),
    ] {
        let answer = world.post(ADA, &headers, &call("golf")).await;
        assert_eq!((answer.status, answer.code()), (400, code), "{headers:?}: {}", answer.body);
        assert_eq!(answer.any_json()["id"], 7);
    }
    assert_eq!(world.requests(), 0);
    for name in [name, ("mcp-name", "=?base64?Z29sZg==?="), ("mcp-name", " golf ")] {
        let answer = world.post(ADA, &[version, method, name], &call("golf")).await;
        assert_eq!(answer.result()["isError"], false, "{name:?}");
    }
    // A version that is the same in both, and is none of this server.
    let body = call("golf").replace(MODERN, "1900-01-01");
    let headers = [("mcp-protocol-version", "1900-01-01"), method, name];
    let answer = world.post(ADA, &headers, &body).await;
    assert_eq!((answer.status, answer.code()), (400, -32022));
    let data = &answer.any_json()["error"]["data"];
    assert_eq!(data["requested"], "1900-01-01");
    assert_eq!(data["supported"][0], MODERN);
}

#[tokio::test]
async fn each_request_of_the_newer_version_has_its_version_and_capabilities() {
    let world = World::new().await;
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "server/discover")];
    for key in [
        "",
        "io.modelcontextprotocol/protocolVersion",
        "io.modelcontextprotocol/clientCapabilities",
    ] {
        let mut params = json!({"_meta": meta(&json!({}))});
        match key {
            "" => params = json!({}),
            key => drop(params["_meta"].as_object_mut().expect("an object").shift_remove(key)),
        }
        let body =
            json!({"jsonrpc": "2.0", "id": 3, "method": "server/discover", "params": params});
        let answer = world.post(ADA, &headers, &body.to_string()).await;
        assert_eq!((answer.status, answer.code()), (400, -32602), "{key}");
        assert_eq!(answer.any_json()["id"], 3);
    }
    let mut params = json!({"_meta": meta(&json!({}))});
    let info = "io.modelcontextprotocol/clientInfo";
    params["_meta"].as_object_mut().expect("an object").shift_remove(info);
    let body = json!({"jsonrpc": "2.0", "id": 3, "method": "server/discover", "params": params});
    assert_eq!(world.post(ADA, &headers, &body.to_string()).await.status, 200);
}
