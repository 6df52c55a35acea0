//! Tests of the built-in tools over folders, with hostile paths, files and patterns.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use weftwork_folder::{
    Documents, ENTRIES_MAX, FILE_BYTES_MAX, Folder, LINE_CHARS_MAX, TEXT_BYTES_MAX,
};
use weftwork_testkit::ManualClock;
use weftwork_tools::builtin::{Builtin, Repository, WebSearch, tool_box};
use weftwork_tools::{Executed, Policy, Prepared, ToolRunner};
use weftwork_types::caller::Caller;
use weftwork_types::message::ToolCall;
use weftwork_types::port::{CallContext, Clock};
use weftwork_types::tool::{ToolErrorKind, ToolOutcome};
use weftwork_types::{BoxFuture, Timestamp, ToolCallId};

fn context(clock: Arc<dyn Clock>) -> CallContext {
    CallContext::of_program(Caller::local("request").expect("a valid id"), clock)
}

/// A repository with some files, next to a file that is none of its business.
struct Rig {
    _outside: TempDir,
    root: std::path::PathBuf,
    runner: ToolRunner,
}

impl Rig {
    fn new() -> Self {
        let outside = tempfile::tempdir().expect("a folder");
        let root = outside.path().join("repository");
        fs::create_dir_all(root.join("src/deep")).expect("a folder");
        write(&outside.path().join("secret.txt"), "CANARY outside\n");
        write(&root.join("README.md"), "# Lamp\n\nfn is a word.\n");
        write(&root.join("src/main.rs"), "fn main() {\n    lamp();\n}\n");
        write(&root.join("src/deep/lamp.rs"), "pub fn lamp() {}\n");
        write(&root.join(".hidden"), "fn hidden\n");
        let folder: Arc<dyn Repository> = Arc::new(Folder::open(&root).expect("opens"));
        let pages = Documents::open(&root, "https://docs.example.com").expect("opens");
        let pages: Arc<dyn WebSearch> = Arc::new(pages);
        let tools = tool_box([Builtin::Repository(folder), Builtin::WebSearch(pages)]);
        let runner = ToolRunner::new(tools, Policy::new()).expect("valid tools");
        Self { _outside: outside, root, runner }
    }

    async fn call(&self, tool: &str, args: Value) -> ToolOutcome {
        self.call_at(tool, args, Arc::new(ManualClock::new())).await
    }

    async fn call_at(&self, tool: &str, args: Value, clock: Arc<dyn Clock>) -> ToolOutcome {
        let id = ToolCallId::new("c").expect("a valid id");
        let call = ToolCall { id, name: tool.to_owned(), args, shown: None };
        let Prepared::Ready(ready) = self.runner.prepare(&call, &context(clock)) else {
            panic!("no person is asked")
        };
        match self.runner.execute(ready).await.expect("no error") {
            Executed::Done(outcome) => outcome,
            other => panic!("{other:?}"),
        }
    }

    async fn value(&self, tool: &str, args: Value) -> Value {
        match self.call(tool, args).await {
            ToolOutcome::Ok { value, .. } => value,
            ToolOutcome::Failed(failure) => panic!("{failure:?}"),
        }
    }

    async fn failure(&self, tool: &str, args: Value) -> (ToolErrorKind, String) {
        match self.call(tool, args).await {
            ToolOutcome::Failed(failure) => (failure.error_code, failure.safe_message),
            ToolOutcome::Ok { value, .. } => panic!("it worked: {value}"),
        }
    }
}

fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::write(path, text).expect("writes");
}

#[tokio::test]
async fn code_is_found_and_read() {
    let rig = Rig::new();
    let found = rig.value("search_code", json!({"pattern": r"\bfn\b"})).await;
    let expected = json!({
        "matches": [
            {"path": "README.md", "line": 3, "text": "fn is a word."},
            {"path": "src/deep/lamp.rs", "line": 1, "text": "pub fn lamp() {}"},
            {"path": "src/main.rs", "line": 1, "text": "fn main() {"},
        ],
        "files": 3,
    });
    assert_eq!(found, expected);
    let found = rig.value("search_code", json!({"pattern": "LAMP(?i)", "path": "src"})).await;
    assert_eq!(found["matches"], json!([]), "the flag follows the word");
    let found =
        rig.value("search_code", json!({"pattern": "(?i)LAMP", "path": "src/main.rs"})).await;
    assert_eq!(
        found["matches"],
        json!([{"path": "src/main.rs", "line": 2, "text": "    lamp();"}])
    );
    let lines = json!({"path": "src/main.rs", "first_line": 2, "lines": 1});
    let read = rig.value("read_file", lines).await;
    let expected =
        json!({"path": "src/main.rs", "first_line": 2, "lines": 3, "text": "    lamp();\n"});
    assert_eq!(read, expected);
    match rig.call("read_file", json!({"path": "./README.md"})).await {
        ToolOutcome::Ok { shown: Some(shown), .. } => {
            assert_eq!(shown, json!({"path": "./README.md", "first_line": 1, "lines": 3}));
        }
        other => panic!("the text is for the model alone: {other:?}"),
    }
}

#[tokio::test]
async fn no_path_leads_out_of_the_folder() {
    let rig = Rig::new();
    let out = rig.root.parent().expect("a parent").to_owned();
    symlink(out.join("secret.txt"), rig.root.join("link.txt")).expect("a link");
    symlink(&out, rig.root.join("up")).expect("a link");
    symlink("../secret.txt", rig.root.join("src/relative.txt")).expect("a link");
    symlink("main.rs", rig.root.join("src/inside.rs")).expect("a link");
    symlink("loop", rig.root.join("loop")).expect("a link");
    for path in [
        "../secret.txt",
        "src/../../secret.txt",
        "src/..",
        "..",
        "/etc/passwd",
        "//etc/passwd",
        out.join("secret.txt").to_str().expect("text"),
        "link.txt",
        "up/secret.txt",
        "up",
        "src/relative.txt",
        "src/inside.rs",
        "loop",
        "loop/x",
        "README.md/x",
        "README.md\0.txt",
        "no/such/file",
        &"a/".repeat(400),
        "src",
        ".",
    ] {
        for (tool, args) in [
            ("read_file", json!({"path": path})),
            ("search_code", json!({"pattern": "CANARY", "path": path})),
        ] {
            let outcome = rig.call(tool, args).await;
            let text = json!(outcome).to_string();
            assert!(!text.contains("CANARY outside"), "{tool} {path}: {text}");
            // A folder inside can be searched, and not be read.
            let searchable = tool == "search_code" && matches!(path, "src" | ".");
            assert_eq!(
                matches!(outcome, ToolOutcome::Ok { .. }),
                searchable,
                "{tool} {path}: {text}"
            );
        }
    }
    let found = rig.value("search_code", json!({"pattern": "CANARY"})).await;
    assert_eq!(found["matches"], json!([]), "a search follows no links either");
    let hits = rig.value("search_web", json!({"query": "CANARY outside"})).await;
    assert_eq!(hits["hits"], json!([]));
}

#[tokio::test]
async fn a_folder_that_is_replaced_by_a_link_is_not_followed() {
    let rig = Rig::new();
    let out = rig.root.parent().expect("a parent").to_owned();
    fs::rename(&rig.root, out.join("moved")).expect("moves");
    symlink("/etc", &rig.root).expect("a link");
    let read = rig.value("read_file", json!({"path": "README.md"})).await;
    assert!(read["text"].as_str().expect("text").starts_with("# Lamp"));
    rig.failure("read_file", json!({"path": "passwd"})).await;
}

#[tokio::test]
async fn files_that_are_no_text_and_huge_files_are_refused_and_passed_over() {
    let rig = Rig::new();
    write(&rig.root.join("binary"), b"fn \0\x01\x02");
    write(&rig.root.join("latin1"), b"fn \xff\xfe");
    let huge = fs::File::create(rig.root.join("huge")).expect("creates");
    huge.set_len(1 << 40).expect("a sparse file");
    let line = format!("fn {}\n", "x".repeat(TEXT_BYTES_MAX * 2));
    write(&rig.root.join("line"), &line);
    write(&rig.root.join("over"), "fn over\n".repeat(FILE_BYTES_MAX as usize / 8 + 1));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        rig.root.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .expect("a pipe");
    for (path, part) in [
        ("binary", "is no text in UTF-8"),
        ("latin1", "is no text in UTF-8"),
        ("huge", "has 1099511627776 bytes; expected a text of at most 4000000"),
        ("pipe", "is no file"),
        ("src", "is no file"),
        ("nothing", "there is no file `nothing`"),
    ] {
        let (kind, message) = rig.failure("read_file", json!({"path": path})).await;
        assert_eq!(kind, ToolErrorKind::Execution);
        assert!(message.contains(part), "{path}: {message}");
    }
    let (_, message) =
        rig.failure("read_file", json!({"path": "README.md", "first_line": 9})).await;
    assert!(message.contains("has 3 lines; found `first_line` 9"), "{message}");
    let read = rig.value("read_file", json!({"path": "line"})).await;
    let text = read["text"].as_str().expect("text");
    assert!(text.len() <= TEXT_BYTES_MAX && text.ends_with('…'), "{}", text.len());
    let found = rig.value("search_code", json!({"pattern": "fn"})).await;
    let paths: Vec<_> = found["matches"].as_array().expect("matches").iter().collect();
    assert!(
        paths.iter().all(|m| m["text"].as_str().expect("text").chars().count() <= LINE_CHARS_MAX)
    );
    let paths: Vec<_> = paths.iter().map(|m| m["path"].as_str().expect("a path")).collect();
    assert_eq!(paths, ["README.md", "line", "src/deep/lamp.rs", "src/main.rs"]);
}

#[tokio::test]
async fn patterns_that_do_not_compile_or_are_too_large_are_refused() {
    let rig = Rig::new();
    for pattern in ["(", "a{1000}{1000}{1000}", r"(\w{900}){900}", "(?<=a)b"] {
        let (kind, message) = rig.failure("search_code", json!({"pattern": pattern})).await;
        assert_eq!(kind, ToolErrorKind::Validation, "{pattern}");
        assert!(message.contains("is no regular expression"), "{message}");
    }
    write(&rig.root.join("bomb"), "a".repeat(500_000));
    let found = rig.value("search_code", json!({"pattern": "(a+)+$b", "path": "bomb"})).await;
    assert_eq!(found["matches"], json!([]), "patterns match in linear time");
}

/// A clock that is a second later each time it is read.
#[derive(Debug, Default)]
struct Hurried(AtomicU64);

impl Clock for Hurried {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(self.0.fetch_add(1, Ordering::SeqCst))
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn unique(&self) -> u128 {
        0
    }
}

#[tokio::test]
async fn searches_end_at_their_limits_and_say_so() {
    let rig = Rig::new();
    write(&rig.root.join("many"), "fn\n".repeat(500));
    let found = rig.value("search_code", json!({"pattern": "fn", "limit": 7})).await;
    assert_eq!(found["matches"].as_array().map(Vec::len), Some(7));
    assert_eq!(found["stopped"], json!("7 matches"));
    match rig.call_at("search_code", json!({"pattern": "fn"}), Arc::new(Hurried::default())).await {
        ToolOutcome::Ok { value, .. } => assert_eq!(value["stopped"], json!("5 s"), "{value}"),
        other => panic!("{other:?}"),
    }
    let mut deep = rig.root.join("deep");
    for _ in 0..40 {
        deep.push("d");
    }
    fs::create_dir_all(&deep).expect("folders");
    write(&deep.join("bottom"), "fn");
    let found = rig.value("search_code", json!({"pattern": "fn", "path": "deep"})).await;
    assert_eq!(
        (&found["matches"], &found["stopped"]),
        (&json!([]), &json!("32 levels of folders"))
    );
    let wide = rig.root.join("wide");
    fs::create_dir(&wide).expect("a folder");
    write(&wide.join("0"), "");
    for name in 1..=ENTRIES_MAX {
        fs::hard_link(wide.join("0"), wide.join(name.to_string()))
            .or_else(|_| fs::write(wide.join(name.to_string()), ""))
            .expect("an entry");
    }
    let found = rig.value("search_code", json!({"pattern": "fn", "path": "wide"})).await;
    assert_eq!(found["stopped"], json!("50000 entries"));
}

#[tokio::test]
async fn documents_are_found_by_their_words_the_best_first() {
    let rig = Rig::new();
    fs::create_dir(rig.root.join("pages")).expect("a folder");
    let page = "<title>Pump manual</title><p>How to start the <b>pump</b>.<script>lamp</script>";
    write(&rig.root.join("pages/pump.html"), page);
    let found = rig.value("search_web", json!({"query": "pump manual", "limit": 3})).await;
    let hit = json!({
        "url": "https://docs.example.com/pages/pump.html",
        "title": "Pump manual",
        "snippet": "How to start the pump.",
    });
    assert_eq!(found["hits"], json!([hit]));
    let found = rig.value("search_web", json!({"query": "lamp word"})).await;
    let urls: Vec<_> =
        found["hits"].as_array().expect("hits").iter().map(|hit| &hit["url"]).collect();
    assert_eq!(urls[0], "https://docs.example.com/README.md");
    assert!(!json!(urls).to_string().contains("pump"), "scripts are no text");
    let found = rig.value("search_web", json!({"query": "?!"})).await;
    assert_eq!(found["hits"], json!([]));
}
