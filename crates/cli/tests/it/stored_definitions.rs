//! Definitions in the store: `weft agents add`, `remove`, `use` and `reload`, and servers that follow.

use crate::database;
use crate::home::{Home, PROGRAM};
use crate::serve::Served;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const TOKEN: &str = "a-token-of-the-operator";

fn key(token: &str) -> String {
    format!("x-api-key: {token}\r\n")
}

fn write(home: &Home, folder: &str, text: &str) {
    fs::create_dir_all(home.path(folder)).expect("is made");
    fs::write(home.path(folder).join("agent.yaml"), text).expect("is written");
}

fn definition(version: &str) -> String {
    format!("type: context\nversion: {version}\nagent_card: {{description: Of {version}}}\n")
}

/// Runs a command that succeeds, and returns its output.
fn done(home: &Home, args: &[&str]) -> String {
    let came = home.weft(args);
    assert_eq!(came.status, Some(0), "{args:?}: {came:?}");
    came.out
}

/// Asks for an agent until the answer is as expected: servers follow within seconds.
fn until(served: &Served, slug: &str, expected: impl Fn(u16, &Value) -> bool) {
    let request = format!("GET /agents/{slug}");
    loop {
        let (status, body) = served.send(&request, &key(TOKEN), &json!({}));
        if expected(status, &body) {
            return;
        }
        std::thread::yield_now();
    }
}

fn serve(home: &Home, more: &[&str]) -> Served {
    let args = ["serve", "--listen", "127.0.0.1:0", "--token", TOKEN];
    Served::start(home, Path::new(PROGRAM), &[&args[..], more].concat()).0
}

#[test]
fn a_server_follows_what_commands_change_in_its_store() {
    server_follows(&Home::new().set("WEFT_MODEL", "scripted"));
}

#[test]
fn a_server_follows_what_commands_change_in_its_store_over_postgres() {
    let home = Home::new().set("WEFT_MODEL", "scripted").set("WEFT_STORE", &database::fresh());
    server_follows(&home);
}

fn server_follows(home: &Home) {
    write(home, "agents/filed", &definition("1.0.0"));
    let served = serve(home, &[]);
    until(&served, "filed", |status, body| status == 200 && body["stored"] == false);

    write(home, "drafts/golf", &definition("1.0.0"));
    done(home, &["agents", "add", "drafts/golf"]);
    until(&served, "golf", |status, body| status == 200 && body["stored"] == true);
    write(home, "drafts/golf", &definition("2.0.0"));
    done(home, &["agents", "add", "drafts/golf"]);
    until(&served, "golf", |_, body| body["semver"] == "2.0.0");
    done(home, &["agents", "use", "golf", "1.0.0"]);
    until(&served, "golf", |_, body| body["semver"] == "1.0.0");

    // Both kinds are seen by all commands.
    let listed = done(home, &["agents", "list"]);
    assert!(listed.contains("agents:filed") && listed.contains("agents:golf"), "{listed}");
    let shown: Value =
        serde_json::from_str(&done(home, &["agents", "show", "golf"])).expect("JSON");
    assert_eq!(shown["description"], "Of 1.0.0");
    assert_eq!(done(home, &["agents", "versions", "golf"]).lines().count(), 3);
    let diff = done(home, &["agents", "diff", "golf", "2.0.0"]);
    assert!(diff.contains("+ version: \"1.0.0\""), "{diff}");
    assert!(!done(home, &["agents", "run", "golf", "Hello"]).is_empty());

    // A file is read again when that is requested; one that is broken changes nothing.
    write(home, "agents/filed", &definition("2.0.0"));
    write(home, "agents/more", "type: context\n");
    done(home, &["agents", "reload"]);
    until(&served, "filed", |_, body| body["semver"] == "2.0.0");
    write(home, "agents/filed", "type: contxt\n");
    write(home, "agents/other", "type: context\n");
    let reloaded = home.weft(&["agents", "reload"]);
    assert_eq!(reloaded.status, Some(1), "{reloaded:?}");
    assert!(reloaded.out.starts_with("filed/agent.yaml:1:7: W1006"), "{reloaded:?}");
    until(&served, "other", |status, _| status == 200);
    until(&served, "filed", |_, body| body["semver"] == "2.0.0");

    done(home, &["agents", "remove", "golf"]);
    until(&served, "golf", |status, _| status == 404);
    assert_eq!(home.weft(&["agents", "remove", "golf"]).status, Some(2));
}

#[test]
fn an_agent_is_exposed_when_a_command_says_so_and_servers_follow() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    write(&home, "agents/filed", &definition("1.0.0"));
    let shown = done(&home, &["agents", "expose", "filed"]);
    assert_eq!(shown, "agent filed is not exposed\n");
    // The first command that changes something makes the store.
    done(&home, &["agents", "expose", "filed", "--openai"]);
    let served = serve(&home, &[]);
    assert_eq!(served.send("GET /v1/models/filed", &key(TOKEN), &json!({})).0, 200);
    done(&home, &["agents", "expose", "filed", "--openai", "--off"]);
    until(&served, "filed", |status, body| status == 200 && body.get("exposed").is_none());
    let args = ["agents", "expose", "filed", "--openai", "--url", "https://agents.example/"];
    let shown = done(&home, &args);
    for part in [
        "agent filed is exposed by openai\n",
        "\nBase URL: https://agents.example/v1\nModel: filed\n",
        "curl https://agents.example/v1/chat/completions ",
        "client.responses.create(model=\"filed\", input=\"Hello\")",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let shown =
        done(&home, &["agents", "expose", "filed", "--mcp", "--url", "https://agents.example/"]);
    for part in [
        "agent filed is exposed by openai, mcp\n",
        "URL: https://agents.example/mcp\nTool: filed\n",
        "\"url\": \"https://agents.example/mcp\"",
        "\"Authorization\": \"Bearer ${TOKEN}\"",
        "\"mcp\",\n        \"serve\"",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    done(&home, &["agents", "expose", "filed", "--mcp", "--off"]);
    until(&served, "filed", |_, body| body["exposed"] == json!(["openai"]));
    let models = served.send("GET /v1/models", &key(TOKEN), &json!({})).1;
    assert_eq!(models["data"][0]["id"], "filed", "{models}");
    // All versions are exposed alike.
    write(&home, "agents/filed", &definition("2.0.0"));
    done(&home, &["agents", "reload"]);
    until(&served, "filed", |_, body| body["semver"] == "2.0.0");
    assert_eq!(served.send("GET /v1/models/filed", &key(TOKEN), &json!({})).0, 200);
    let shown = done(&home, &["agents", "expose", "filed", "--off"]);
    assert_eq!(shown, "agent filed is not exposed\n");
    until(&served, "filed", |_, body| body.get("exposed").is_none());
    assert_eq!(served.send("GET /v1/models/filed", &key(TOKEN), &json!({})).0, 404);

    // A row that is added again is another agent.
    write(&home, "drafts/golf", &definition("1.0.0"));
    done(&home, &["agents", "add", "drafts/golf"]);
    done(&home, &["agents", "expose", "golf", "--openai"]);
    done(&home, &["agents", "remove", "golf"]);
    done(&home, &["agents", "add", "drafts/golf"]);
    assert_eq!(done(&home, &["agents", "expose", "golf"]), "agent golf is not exposed\n");
    assert_eq!(home.weft(&["agents", "expose", "nobody", "--openai"]).status, Some(2));
    write(&home, "drafts/own", "type: context\norganization: acme\n");
    done(&home, &["agents", "add", "drafts/own"]);
    let refused = home.weft(&["agents", "expose", "own", "--openai"]);
    let hint =
        "agent own is one of organisation acme; commands that have `--org` find it by `--org acme`";
    assert!(refused.status == Some(2) && refused.errors.contains(hint), "{refused:?}");
    done(&home, &["agents", "expose", "own", "--openai", "--org", "acme"]);
}

/// Returns the files that a process has open, ordered. Connections are left out: they end later.
#[cfg(target_os = "linux")]
fn open_files(served: &Served) -> Vec<std::path::PathBuf> {
    let open = fs::read_dir(format!("/proc/{}/fd", served.id())).expect("is there");
    let open = open.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    let mut files: Vec<_> = open.filter(|file| file.starts_with("/")).collect();
    files.sort();
    files
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_follows_changes_keeps_none_of_their_files_open() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    write(&home, "agents/filed", &definition("1.0.0"));
    let served = serve(&home, &[]);
    let follow = |version: &str| {
        write(&home, "drafts/golf", &definition(version));
        done(&home, &["agents", "add", "drafts/golf"]);
        until(&served, "golf", |_, body| body["semver"] == version);
        write(&home, "agents/filed", &definition(version));
        done(&home, &["agents", "reload"]);
        until(&served, "filed", |_, body| body["semver"] == version);
    };
    follow("2.0.0");
    let before = open_files(&served);
    assert!(!before.is_empty());
    for version in ["3.0.0", "4.0.0", "5.0.0"] {
        follow(version);
    }
    assert_eq!(open_files(&served), before);
}

#[test]
fn a_definition_is_refused_with_its_lines_and_with_the_file_of_its_name() {
    let home = Home::new();
    write(&home, "drafts/golf", "type: context\nllm: {modle: x}\n");
    let wrong = home.weft(&["agents", "add", "drafts/golf"]);
    assert_eq!(wrong.status, Some(1), "{wrong:?}");
    assert!(wrong.out.contains("golf/agent.yaml:2:7: W1004"), "{wrong:?}");
    write(&home, "drafts/golf", "type: context\n");
    write(&home, "agents/golf", "type: context\n");
    let taken = home.weft(&["agents", "add", "drafts/golf"]);
    assert_eq!(taken.status, Some(1), "{taken:?}");
    assert!(
        taken.out.contains("W1009") && taken.out.contains("agents/golf/agent.yaml"),
        "{taken:?}"
    );
    done(&home, &["agents", "add", "drafts/golf", "--org", "acme"]);
    let listed = done(&home, &["agents", "list", "--org", "acme"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    let other = home.weft(&["agents", "show", "golf", "--org", "other"]);
    assert_eq!(other.status, Some(2), "{other:?}");
    let shown = done(&home, &["agents", "show", "golf", "--org", "acme"]);
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["organization"], "acme");

    // The file comes second: the commands and the servers say it.
    fs::remove_dir_all(home.path("agents/golf")).expect("removed");
    done(&home, &["agents", "add", "drafts/golf"]);
    write(&home, "agents/golf", "type: context\n");
    let listed = home.weft(&["agents", "list"]);
    assert!(listed.errors.contains("golf/agent.yaml:1:1: W1009"), "{listed:?}");
    assert!(listed.errors.contains("the row `golf` of the store"), "{listed:?}");
}

#[test]
fn clients_change_the_definitions_of_their_organisation_with_the_right_admin() {
    let home = Home::new().set("WEFT_MODEL", "scripted").set("WEFT_STORE", "memory");
    let add = |subject: &str, org: &str, rights: &str| {
        let args = ["keys", "add", "keys", "--subject", subject, "--org", org, "--rights", rights];
        done(&home, &args).trim().to_owned()
    };
    let admin = add("ada", "acme", "read,admin");
    let reader = add("bob", "acme", "read,run");
    let other = add("eve", "other", "read,run,approve,admin");
    let served = serve(&home, &["--keys", "keys"]);
    let send = |request: &str, token: &str, body: Value| served.send(request, &key(token), &body);
    let files = |text: &str| json!({"files": {"agent.yaml": text}});
    let own = "slug: golf\norganization: acme\ntype: context\n";
    let global = "slug: golf\ntype: context\ncontext: All.\n";

    let with_version = json!({"files": {"agent.yaml": own}, "version": "0123456789"});
    for (request, token, body, status) in [
        ("POST /agents", reader.as_str(), files(own), 403),
        ("POST /agents", &admin, files(global), 403),
        ("POST /agents", &other, files(own), 403),
        ("POST /agents", &admin, files("slug: golf\norganization: acme\ntype: contxt\n"), 422),
        ("POST /agents", &admin, files("slug: golf\norganization: acme\ntype: context\n"), 201),
        ("POST /agents", &admin, files(own), 409),
        ("POST /agents", &admin, with_version, 422),
        (
            "PUT /agents/golf",
            &admin,
            files("organization: acme\ntype: context\nversion: 2.0.0\n"),
            200,
        ),
        ("PUT /agents/tennis", &admin, files(own), 422),
        ("POST /agents", TOKEN, files(global), 201),
        ("DELETE /agents/golf", &admin, json!({}), 403),
        ("DELETE /agents/golf?organization=acme", &other, json!({}), 403),
        ("DELETE /agents/golf?organization=acme", &reader, json!({}), 403),
    ] {
        let (found, answer) = send(request, token, body);
        assert_eq!(found, status, "{request}: {answer}");
    }
    let (_, wrong) = send("PUT /agents/golf", &admin, files("organization: acme\ntype: contxt\n"));
    let problem = &wrong["problems"][0];
    assert_eq!(
        json!([problem["code"], problem["line"], problem["column"]]),
        json!(["W1006", 2, 7])
    );
    assert_eq!(problem["nearest"], "context");
    let late = json!({"files": {"agent.yaml": "organization: acme\ntype: context\n"}, "version": "0123456789"});
    assert_eq!(send("PUT /agents/golf", &admin, late).0, 409);

    let seen = |token: &str| send("GET /agents/golf", token, json!({})).1;
    assert_eq!(
        (&seen(&reader)["semver"], &seen(&reader)["organization"]),
        (&json!("2.0.0"), &json!("acme"))
    );
    assert_eq!(seen(&other)["organization"], Value::Null);
    assert_eq!(send("DELETE /agents/golf?organization=acme", &admin, json!({})).0, 204);
    assert_eq!(seen(&reader)["organization"], Value::Null);
    assert_eq!(send("DELETE /agents/golf", TOKEN, json!({})).0, 204);
    assert_eq!(send("GET /agents/golf", &reader, json!({})).0, 404);
    assert_eq!(send("DELETE /agents/golf", TOKEN, json!({})).0, 404);
}

/// The agent of the program has the name, and the definition its id; both are asked.
#[test]
fn a_slug_of_a_built_in_agent_is_warned_of_and_the_built_in_agent_has_it() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    write(&home, "agents/desk", &definition("1.0.0"));
    write(&home, "agents/other", &definition("1.0.0"));
    let checked = home.weft(&["agents", "check"]);
    assert_eq!(checked.status, Some(0), "{checked:?}");
    let warnings: Vec<_> = checked.errors.lines().filter(|line| line.contains("warning")).collect();
    assert_eq!(warnings.len(), 1, "{checked:?}");
    assert!(warnings[0].contains("the slug desk is also the name of the agent builtin:desk"));
    let served = serve(&home, &[]);
    let send = |request: &str, body: Value| served.send(request, &key(TOKEN), &body).1;
    for assistant in ["desk", "agents:desk"] {
        let thread = send("POST /threads", json!({}))["thread_id"].as_str().map(str::to_owned);
        let thread = thread.expect("an id");
        let input = json!({"messages": [{"role": "user", "content": "Hello"}]});
        let run = json!({"assistant_id": assistant, "input": input});
        send(&format!("POST /threads/{thread}/runs/wait"), run);
        let found = send(&format!("GET /threads/{thread}"), json!({}));
        let found = found["metadata"]["graph_id"].as_str().unwrap_or_default();
        assert_eq!(found.split('@').next(), Some(assistant));
        let shown = done(&home, &["threads", "state", &thread, "--full"]);
        let has_mode = shown.contains("\"answer\"");
        assert_eq!(has_mode, assistant == "agents:desk", "{assistant}: {shown}");
    }
    // By slug, the definition alone is asked.
    let asked = send("POST /agents/desk/tasks", json!({"userMessage": "Hello"}));
    assert_eq!((&asked["success"], &asked["metadata"]["agent"]), (&json!(true), &json!("desk")));
    let asked = home.weft(&["agents", "run", "desk", "--json", "Hello"]);
    let asked: Value = serde_json::from_str(&asked.out).expect("JSON");
    assert_eq!(asked["metadata"]["agent"], "desk");
}

/// A refused request makes nothing, and has the status of wrong input; a run that fails has another one.
#[test]
fn refused_requests_leave_no_conversation_and_have_a_status_of_their_own() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let text = "type: context\ninput_schema: {required: [topic]}\ndeliverable: {format: json, schema: {type: object}}\n";
    write(&home, "agents/golf", text);
    let ask = |more: &[&str]| {
        home.weft(&[&["agents", "run", "golf", "--conversation", "c"][..], more].concat())
    };
    let create = |content: &str| {
        let payload = json!({"content": content}).to_string();
        ask(&["--mode", "build", "--action", "create", "--payload", &payload])
    };
    for (refused, code) in [
        (ask(&["--mode", "dance", "Hello"]), "W1030"),
        (ask(&["--mode", "build", "--action", "jump"]), "W1032"),
        (ask(&["--mode", "build", "Hello"]), "W1033"),
        (ask(&[""]), "W1033"),
        (home.weft(&["agents", "run", "glof", "Hello"]), "W0704"),
    ] {
        assert_eq!(refused.status, Some(2), "{refused:?}");
        assert!(refused.errors.contains(code), "{code}: {refused:?}");
    }
    let wrong = create("no JSON");
    assert!(wrong.errors.contains("W1024"), "{wrong:?}");
    assert_eq!(home.weft(&["conversations", "list"]).out.lines().count(), 1);
    assert_eq!(create("{}").status, Some(0));
    assert_eq!(home.weft(&["conversations", "list"]).out.lines().count(), 2);
}

/// Chats, runs and threads of an agent in the store are as those of others.
#[test]
fn an_agent_of_the_store_is_run_chatted_with_and_resumed() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    assert_eq!(home.weft(&["run", "golf", "--input", "Hello"]).status, Some(2), "no such agent");
    write(&home, "drafts/golf", &definition("1.0.0"));
    done(&home, &["agents", "add", "drafts/golf"]);
    done(&home, &["run", "golf", "--thread", "t", "--input", "Hello"]);
    done(&home, &["chat", "golf", "--thread", "c"]);
    for args in [&["threads", "show", "t"][..], &["threads", "state", "t"]] {
        assert!(done(&home, args).contains("Hello"), "{args:?}");
    }
    // Its threads go on when it was removed, and new ones are refused.
    done(&home, &["agents", "remove", "golf"]);
    for args in [&["agents", "show", "golf"][..], &["agents", "diff", "golf", "1.0.0"]] {
        let refused = home.weft(args);
        assert_eq!(refused.status, Some(2), "{refused:?}");
        assert!(refused.errors.contains("agent golf has no definition now"), "{refused:?}");
    }
    assert!(done(&home, &["threads", "show", "t"]).contains("Hello"));
    assert_eq!(home.weft(&["run", "golf", "--input", "Hello"]).status, Some(2));
    let lost = home.weft(&["--store", "memory", "agents", "add", "drafts/golf"]);
    assert!(lost.status == Some(2) && lost.errors.contains("--store"), "{lost:?}");
    let unknown = home.weft(&["run", "agents:nobody", "--input", "Hello"]);
    assert_eq!(unknown.status, Some(2), "{unknown:?}");
}
