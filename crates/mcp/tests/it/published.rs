//! Published servers, called by an agent whose model is scripted.

use crate::rig::{Rig, Talk, reads, results, run, run_under};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use weftwork_egress::{EgressConfig, GuardedClient};
use weftwork_graph::SystemClock;
use weftwork_models::scripted::Step;
use weftwork_store::memory::MemoryStore;
use weftwork_tools::Policy;
use weftwork_types::port::Egress;
use weftwork_types::tool::wire_name;

fn installed() -> PathBuf {
    let folder = std::env::var_os("WEFT_TEST_MCP_SERVERS");
    folder.expect("scripts/mcp-servers.sh sets the folder of the servers").into()
}

fn everything() -> Value {
    let script = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    json!({"command": "node", "args": [installed().join(script), "stdio"]})
}

/// All servers. Each works in the folder `work` of the rig.
fn all() -> Rig {
    let folder = installed();
    let rig = Rig::new();
    let work = rig.path("work");
    std::fs::create_dir(&work).expect("created");
    repository(&work);
    let bin = |path: &str| folder.join(path);
    rig.entry("everything", everything())
        .entry(
            "files",
            json!({
                "command": bin("node_modules/.bin/mcp-server-filesystem"), "args": [&work],
            }),
        )
        .entry(
            "memory",
            json!({
                "command": bin("node_modules/.bin/mcp-server-memory"),
                "env": {"MEMORY_FILE_PATH": work.join("memory.jsonl")},
            }),
        )
        .entry(
            "time",
            json!({
                "command": bin("python/bin/mcp-server-time"), "args": ["--local-timezone", "UTC"],
            }),
        )
        .entry(
            "git",
            json!({
                "command": bin("python/bin/mcp-server-git"), "args": ["--repository", &work],
            }),
        )
        .entry(
            "sqlite",
            json!({
                "command": bin("python-mcp1/bin/mcp-server-sqlite"),
                "args": ["--db-path", work.join("test.db")],
            }),
        )
}

/// A repository with one commit.
fn repository(folder: &Path) {
    std::fs::write(folder.join("a.txt"), "one\n").expect("written");
    for args in [
        &["init", "--quiet", "--initial-branch", "main"][..],
        &["config", "user.name", "Test"],
        &["config", "user.email", "test@localhost"],
        &["add", "a.txt"],
        &["commit", "--quiet", "--message", "first"],
    ] {
        let done = Command::new("git").current_dir(folder).args(args).status().expect("git");
        assert!(done.success(), "git {args:?}");
    }
}

/// Calls of the tools, in order, each with a text that its result contains.
fn calls(work: &Path) -> Vec<(&'static str, Value, &'static str)> {
    let path = |name: &str| work.join(name).display().to_string();
    let entity = json!({"name": "Ada", "entityType": "person", "observations": ["counts"]});
    let relation = json!({"from": "Ada", "to": "Bob", "relationType": "knows"});
    let bob = json!({"name": "Bob", "entityType": "person", "observations": []});
    vec![
        ("everything/echo", json!({"message": "hello"}), "hello"),
        ("everything/get-sum", json!({"a": 2, "b": 40}), "42"),
        ("everything/get-env", json!({}), "PATH"),
        ("everything/get-annotated-message", json!({"messageType": "error"}), "rror"),
        ("everything/get-resource-links", json!({"count": 2}), "resource_link"),
        (
            "everything/get-resource-reference",
            json!({"resourceType": "Text", "resourceId": 1}),
            "resource",
        ),
        ("everything/get-structured-content", json!({"location": "Chicago"}), "temperature"),
        ("everything/get-tiny-image", json!({}), "image/png"),
        ("everything/toggle-simulated-logging", json!({}), "logging"),
        ("everything/toggle-subscriber-updates", json!({}), "updates"),
        (
            "everything/trigger-long-running-operation",
            json!({"duration": 1, "steps": 1}),
            "completed",
        ),
        ("files/list_allowed_directories", json!({}), "work"),
        ("files/create_directory", json!({"path": path("new")}), "new"),
        ("files/write_file", json!({"path": path("new/b.txt"), "content": "two\n"}), "b.txt"),
        ("files/read_text_file", json!({"path": path("new/b.txt")}), "two"),
        (
            "files/edit_file",
            json!({"path": path("new/b.txt"), "edits": [{"oldText": "two", "newText": "three"}]}),
            "three",
        ),
        (
            "files/read_multiple_files",
            json!({"paths": [path("a.txt"), path("new/b.txt")]}),
            "three",
        ),
        ("files/list_directory", json!({"path": path("new")}), "b.txt"),
        ("files/list_directory_with_sizes", json!({"path": path("new")}), "b.txt"),
        ("files/directory_tree", json!({"path": path("new")}), "b.txt"),
        ("files/search_files", json!({"path": path(""), "pattern": "**/b.txt"}), "b.txt"),
        ("files/get_file_info", json!({"path": path("a.txt")}), "size"),
        (
            "files/move_file",
            json!({"source": path("new/b.txt"), "destination": path("c.txt")}),
            "c.txt",
        ),
        ("memory/create_entities", json!({"entities": [entity, bob]}), "Ada"),
        ("memory/create_relations", json!({"relations": [relation]}), "knows"),
        (
            "memory/add_observations",
            json!({"observations": [{"entityName": "Ada", "contents": ["writes"]}]}),
            "writes",
        ),
        ("memory/read_graph", json!({}), "writes"),
        ("memory/search_nodes", json!({"query": "counts"}), "Ada"),
        ("memory/open_nodes", json!({"names": ["Ada"]}), "Ada"),
        (
            "memory/delete_observations",
            json!({"deletions": [{"entityName": "Ada", "observations": ["writes"]}]}),
            "",
        ),
        ("memory/delete_relations", json!({"relations": [relation]}), ""),
        ("memory/delete_entities", json!({"entityNames": ["Bob"]}), ""),
        ("time/get_current_time", json!({"timezone": "UTC"}), "UTC"),
        (
            "time/convert_time",
            json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
            "21:00",
        ),
        ("git/git_status", json!({"repo_path": path("")}), "c.txt"),
        ("git/git_add", json!({"repo_path": path(""), "files": ["c.txt"]}), "staged"),
        ("git/git_diff_staged", json!({"repo_path": path("")}), "three"),
        ("git/git_commit", json!({"repo_path": path(""), "message": "second"}), "ommit"),
        ("git/git_log", json!({"repo_path": path(""), "max_count": 5}), "second"),
        ("git/git_show", json!({"repo_path": path(""), "revision": "HEAD"}), "second"),
        ("git/git_create_branch", json!({"repo_path": path(""), "branch_name": "side"}), "side"),
        ("git/git_checkout", json!({"repo_path": path(""), "branch_name": "side"}), "side"),
        ("git/git_branch", json!({"repo_path": path(""), "branch_type": "local"}), "side"),
        ("git/git_diff_unstaged", json!({"repo_path": path("")}), "nstaged"),
        ("git/git_diff", json!({"repo_path": path(""), "target": "main"}), "iff"),
        ("git/git_reset", json!({"repo_path": path("")}), "reset"),
        ("sqlite/create_table", json!({"query": "CREATE TABLE t (n INTEGER)"}), "created"),
        ("sqlite/write_query", json!({"query": "INSERT INTO t VALUES (7)"}), "affected_rows"),
        ("sqlite/read_query", json!({"query": "SELECT n FROM t"}), "7"),
        ("sqlite/list_tables", json!({}), "t"),
        ("sqlite/describe_table", json!({"table_name": "t"}), "INTEGER"),
        ("sqlite/append_insight", json!({"insight": "seven"}), "nsight"),
    ]
}

#[tokio::test]
async fn a_model_calls_the_tools_of_six_servers() {
    let rig = all();
    let calls = calls(&rig.path("work"));
    let tools: Vec<&str> = calls.iter().map(|(tool, ..)| *tool).collect();
    let distinct: BTreeSet<&str> = tools.iter().copied().collect();
    assert!(distinct.len() >= 30, "{}", distinct.len());
    let servers = rig.allowing(&tools, &reads()).await;
    let wire: Vec<String> = tools.iter().map(|tool| wire_name(tool)).collect();
    let made: Vec<(&str, Value)> =
        wire.iter().zip(&calls).map(|(name, (_, args, _))| (name.as_str(), args.clone())).collect();
    let said = run(&servers, &made).await;
    for ((tool, _, expected), said) in calls.iter().zip(&said) {
        let text = said.ok().to_string();
        assert!(text.contains(expected), "{tool}: {text}");
    }
    let mut protocols = BTreeSet::new();
    for server in servers.file().servers.keys() {
        protocols.insert(servers.facts(server).await.expect("running").0);
    }
    let both = ["2025-11-25", "2026-07-28"].map(str::to_owned);
    assert_eq!(protocols, both.into(), "both versions of the protocol");
    let outside = run(&servers, &[("files__read_text_file", json!({"path": "/etc/passwd"}))]).await;
    assert_eq!(outside[0].failure().0, "W0406", "{outside:?}");
    servers.shutdown().await;
}

/// A server that ends with the test.
struct Listening(Child);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("ended");
    }
}

#[tokio::test]
async fn a_model_calls_tools_over_http() {
    let port = {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        free.local_addr().expect("an address").port()
    };
    let script = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let server = Command::new("node")
        .arg(installed().join(script))
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _listening = Listening(server.expect("starts"));
    let allow = vec![format!("127.0.0.1:{port}").parse().expect("a host")];
    let client = GuardedClient::new(EgressConfig { allow, ..EgressConfig::default() });
    let egress: Arc<dyn Egress> = Arc::new(client.expect("a client"));
    let rig = Rig::new()
        .at("web", &format!("http://127.0.0.1:{port}/mcp"), egress)
        .limits(|limits| limits.starts = 1_000);
    let servers = rig.servers();
    for _ in 0..200 {
        if servers.offer("web").await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let tools = ["web/echo", "web/get-sum", "web/get-structured-content", "web/get-tiny-image"];
    let servers = rig.allowing(&tools, &reads()).await;
    let said = run(
        &servers,
        &[
            ("web__echo", json!({"message": "over HTTP"})),
            ("web__get_sum", json!({"a": 1, "b": 2})),
            ("web__get_structured_content", json!({"location": "New York"})),
            ("web__get_tiny_image", json!({})),
        ],
    )
    .await;
    for (said, expected) in said.iter().zip(["over HTTP", "is 3", "temperature", "image/png"]) {
        let text = said.ok().to_string();
        assert!(text.contains(expected), "{text}");
    }
    servers.shutdown().await;
}

#[tokio::test]
async fn a_server_killed_in_a_call_is_an_error_and_the_next_call_has_a_new_one() {
    let rig = Rig::new().entry("everything", everything());
    let tools = ["everything/echo", "everything/trigger-long-running-operation"];
    let servers = rig.allowing(&tools, &reads()).await;
    let (_, Some(process)) = servers.facts("everything").await.expect("starts") else {
        panic!("a process")
    };
    let long = json!({"duration": 60, "steps": 2});
    let calls = [
        ("everything__trigger_long_running_operation", long),
        ("everything__echo", json!({"message": "again"})),
    ];
    let kill = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let kill = Command::new("kill").args(["-9", &process.to_string()]).status();
        assert!(kill.expect("kill").success());
    };
    let (said, ()) = tokio::join!(run(&servers, &calls), kill);
    assert_eq!(said[0].failure().0, "W0906", "{said:?}");
    assert!(said[1].ok().to_string().contains("again"));
    let (_, Some(other)) = servers.facts("everything").await.expect("runs") else {
        panic!("a process")
    };
    assert_ne!(process, other);
    servers.shutdown().await;
}

#[tokio::test]
async fn fifty_calls_use_one_process() {
    let rig = Rig::new().entry("everything", everything());
    let servers = rig.allowing(&["everything/get-sum"], &reads()).await;
    let calls: Vec<(&str, Value)> =
        (0..50).map(|n| ("everything__get_sum", json!({"a": n, "b": 1}))).collect();
    let before = servers.facts("everything").await.expect("starts");
    let policy = Policy::new().allow("everything/*").expect("a pattern");
    for (n, said) in run_under(policy, &servers, &calls).await.iter().enumerate() {
        assert!(said.ok().to_string().contains(&format!("is {}.", n + 1)), "{said:?}");
    }
    assert_eq!(servers.facts("everything").await.expect("runs"), before);
    servers.shutdown().await;
}

#[tokio::test]
async fn a_server_that_asks_within_a_call_gets_the_answer() {
    let rig = Rig::new().entry("everything", everything());
    let servers = rig.allowing(&["everything/trigger-elicitation-request"], &reads()).await;
    let call = Step::call("everything__trigger_elicitation_request", json!({}));
    let store = Arc::new(MemoryStore::new());
    let clock = Arc::new(SystemClock::new());
    let steps = vec![call, Step::text("Done.")];
    let talk = Talk::open(store, clock, &servers, servers.policy(), steps).await;
    let outcome = talk.say().await;
    let (id, question) = talk.question(&outcome).await;
    assert!(question.contains("Please provide inputs"), "{question}");
    let content = json!({"name": "Ada Lovelace", "integer": 7, "check": true});
    let outcome = talk.answer(id, json!({"action": "accept", "content": content})).await;
    let said = results(&outcome);
    let text = said[0].ok().to_string();
    assert!(text.contains("Ada Lovelace"), "{text}");
    servers.shutdown().await;
}
