//! Skills of context agents: folders with a `SKILL.md`.

use crate::bench::Bench;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;
use weftwork_models::scripted::Step;
use weftwork_platform::{HostedAgents, Problem, read_folder, read_texts};

const AGENT: &str = "type: context
context: You write notes.
skills: [skills/review, skills/release]
";

fn skill(name: &str, text: &str) -> String {
    format!("---\nname: {name}\ndescription: How to {name}.\n---\n{text}\n")
}

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("is made");
    fs::write(path, text).expect("is written");
}

/// A folder with an agent with two skills, one of which has a script.
fn folder(root: &TempDir, agent: &str) -> std::path::PathBuf {
    let folder = root.path().join("notes");
    write(&folder, "agent.yaml", agent);
    write(&folder, "skills/review/SKILL.md", &skill("review", "READ TWICE. Run scripts/mark.sh."));
    write(&folder, "skills/release/SKILL.md", &skill("release", "NAME THE VERSION."));
    let script = folder.join("skills/review/scripts/mark.sh");
    let marked = root.path().join("marked").display().to_string();
    write(
        &folder,
        "skills/review/scripts/mark.sh",
        &format!("#!/bin/sh\necho SCRIPT > {marked}\n"),
    );
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).expect("is executable");
    folder
}

async fn bench(root: &TempDir, agent: &str, steps: &[&str]) -> (Bench, HostedAgents) {
    let read = read_folder(&folder(root, agent)).expect("sound");
    let bench = Bench::new([read], steps.iter().map(Step::text)).await;
    let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
    (bench, platform)
}

#[tokio::test]
async fn skills_are_listed_by_name_and_read_when_they_are_needed() {
    let root = TempDir::new().expect("a folder");
    let chosen = r#"{"skills": ["review"]}"#;
    for mode in ["converse", "plan", "build"] {
        let (bench, platform) = bench(&root, AGENT, &[chosen, "Done."]).await;
        let request = json!({"agent": "notes", "mode": mode, "userMessage": "Review my notes."});
        let response = bench.ask(&platform, request).await;
        assert!(response.success, "{response:?}");
        assert_eq!(response.metadata["skills"], json!(["review"]), "{mode}");
        let asked = bench.requests();
        let [listed, asked] = asked.as_slice() else { panic!("{mode}: {}", asked.len()) };
        let listed = listed.messages[0].joined_text();
        for line in ["- review: How to review.", "- release: How to release."] {
            assert!(listed.contains(line), "{mode}: {listed}");
        }
        assert!(!listed.contains("READ TWICE") && !listed.contains("VERSION"), "{mode}: {listed}");
        let system = asked.messages[0].joined_text();
        assert!(system.contains("You write notes.\n\n## review\nREAD TWICE."), "{mode}: {system}");
        assert!(!system.contains("NAME THE VERSION"), "{mode}: {system}");
        let all = format!("{:?}", bench.requests());
        assert!(!all.contains("SCRIPT"), "{mode}: scripts are not read");
    }
    assert!(!root.path().join("marked").exists(), "and never run");
}

#[tokio::test]
async fn no_skill_is_read_if_none_is_needed_and_the_limit_of_a_context_holds_for_them() {
    let root = TempDir::new().expect("a folder");
    let (bench, platform) = bench(&root, AGENT, &[r#"{"skills": []}"#, "Done."]).await;
    let request = json!({"agent": "notes", "mode": "build", "userMessage": "Hello."});
    let response = bench.ask(&platform, request.clone()).await;
    assert!(!response.metadata.contains_key("skills"), "{response:?}");
    assert!(!format!("{:?}", bench.requests()[1]).contains("READ TWICE"));

    let small = format!("{AGENT}context_tokens: 8\n");
    let all = r#"{"skills": ["release", "review"]}"#;
    let (bench, platform) = self::bench(&root, &small, &[all, "Done."]).await;
    let response = bench.ask(&platform, request).await;
    let parts = response.metadata["context"]["parts"].as_array().expect("a list").clone();
    let kept: u64 = parts.iter().map(|part| part["kept"].as_u64().expect("a number")).sum();
    assert!(kept <= 8, "{parts:?}");
    let order: Vec<_> = parts.iter().map(|part| &part["title"]).take(3).collect();
    assert_eq!(order, ["", "review", "release"], "in the order of the definition");
    let warned = response.metadata["warnings"].to_string();
    assert!(warned.contains("skill"), "{warned}");
}

fn problem(found: Result<weftwork_platform::DefinitionFolder, Vec<Problem>>) -> String {
    found.expect_err("is wrong")[0].to_string()
}

#[test]
fn skills_are_checked_with_the_definition_and_are_a_part_of_it() {
    let root = TempDir::new().expect("a folder");
    let path = folder(&root, AGENT);
    let before = read_folder(&path).expect("sound");
    write(&path, "skills/review/SKILL.md", &skill("review", "Read thrice."));
    let after = read_folder(&path).expect("sound");
    assert_ne!(before.hash, after.hash, "a changed skill is another version");
    let texts = after.texts().expect("reads");
    assert_eq!(read_texts(Some("notes"), None, &texts).expect("sound").hash, after.hash);

    write(&path, "skills/review/SKILL.md", "Read twice.\n");
    let nameless = problem(read_folder(&path));
    assert!(nameless.starts_with("notes/agent.yaml:3:10: W1007"), "{nameless}");
    assert!(nameless.contains("skills/review/SKILL.md"), "{nameless}");
    write(&path, "skills/review/SKILL.md", &skill("release", "Twice."));
    assert!(problem(read_folder(&path)).starts_with("notes/agent.yaml:3:25: W1009"));
    fs::remove_file(path.join("skills/review/SKILL.md")).expect("is removed");
    assert!(problem(read_folder(&path)).starts_with("notes/agent.yaml:3:10: W1001"));
    for (text, code) in [
        ("type: context\nskills: [../other]\n", "2:10: W1001"),
        ("type: context\nskills: [skills/release, skills/release]\n", "2:26: W1009"),
        ("type: tool\ntools: [a/b]\nskills: [skills/release]\n", "3:9: W1010"),
    ] {
        write(root.path(), "other/SKILL.md", &skill("other", "CANARY"));
        write(&path, "agent.yaml", text);
        let found = problem(read_folder(&path));
        assert!(found.contains(code) && !found.contains("CANARY"), "{found}");
    }
}
