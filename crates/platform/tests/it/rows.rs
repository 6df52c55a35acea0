//! Definitions as rows of a store, which several processes follow.

use crate::bench::{Bench, agent};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use tempfile::TempDir;
use weftwork_models::scripted::Step;
use weftwork_platform::{
    Agents, DefinitionFolder, Definitions, HostedAgents, NewRow, Problem, RowCondition, RowError,
    RowWriter, read_definitions, read_folder, read_texts,
};
use weftwork_sqlite::{Options, SqliteStore};
use weftwork_store::{Sequence, SequenceWrite, StoreError};
use weftwork_types::port::{DefinitionRefusal, NewDefinition, Platform};
use weftwork_types::{OrgId, Principal, Timestamp};

fn files(text: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("agent.yaml".to_owned(), text.to_owned())])
}

fn row(slug: &str, text: &str) -> NewRow {
    NewRow { slug: Some(slug.to_owned()), files: files(text), ..NewRow::default() }
}

fn of_org(org: &str) -> Principal {
    Principal::new(OrgId::new(org).expect("an id"), "ada")
}

fn answers(texts: &[&str]) -> Vec<Step> {
    texts.iter().map(Step::text).collect()
}

impl Bench {
    async fn put(&self, row: &NewRow) -> Result<Arc<DefinitionFolder>, RowError> {
        self.agents.put_row(&*self.store, row, Timestamp(1)).await
    }

    async fn remove(&self, org: Option<&str>, slug: &str) -> Result<(), RowError> {
        let by = RowWriter::Operator;
        self.agents.remove_row(&*self.store, &by, org, slug, Timestamp(1)).await
    }

    async fn follow(&self) -> weftwork_platform::Followed {
        let followed = self.agents.follow(&*self.store, Timestamp(2), || None).await;
        followed.expect("reads")
    }

    fn context(&self, who: &Principal, slug: &str) -> Option<String> {
        self.agents.definition(who, slug)?.definition.context.clone()
    }

    fn contexts(&self) -> Vec<String> {
        self.requests().iter().map(|asked| asked.messages[0].joined_text()).collect()
    }
}

/// A thread ends on the version of the row that it began with, in each process, also after the row was
/// removed.
#[tokio::test]
async fn a_row_is_an_agent_in_all_processes_and_its_threads_keep_their_versions() {
    let bench = Bench::new([], answers(&["a", "b"])).await;
    bench.agents.keep_versions(&*bench.store, Timestamp(0)).await.expect("reads");
    let other = Bench::over(Arc::clone(&bench.store), [], answers(&["c", "d", "e"])).await;
    other.agents.keep_versions(&*bench.store, Timestamp(0)).await.expect("reads");
    assert!(!other.follow().await.is_change());

    let first = "type: context\nversion: 1.0.0\ncontext: First.\n";
    let written = bench.put(&row("golf", first)).await.expect("sound");
    bench.thread("golf", "old").say("one").await.expect("runs");
    assert!(other.runtime.thread("agents:golf", "x").is_err(), "not followed yet");
    assert!(other.follow().await.rows);
    assert!(!other.follow().await.is_change(), "once");
    other.thread("golf", "old").say("two").await.expect("runs");

    let second = "type: context\nversion: 2.0.0\ncontext: Second.\n";
    other.put(&row("golf", second)).await.expect("sound");
    other.thread("golf", "old").say("three").await.expect("runs");
    assert!(bench.follow().await.rows);
    bench.thread("golf", "new").say("four").await.expect("runs");

    other.remove(None, "golf").await.expect("is there");
    assert!(bench.follow().await.rows);
    for bench in [&bench, &other] {
        assert!(bench.agents.definition(&Principal::local(), "golf").is_none());
        assert!(bench.runtime.thread("agents:golf", "newest").is_err());
    }
    // What began, such as a question that is open, ends with its version.
    let version = format!("golf@{}", written.version());
    other.thread(&version, "old").say("five").await.expect("goes on");
    assert_eq!(bench.contexts(), ["First.", "Second."]);
    assert_eq!(other.contexts(), ["First.", "First.", "First."]);
    let gone = other.remove(None, "golf").await.expect_err("is gone");
    assert!(matches!(gone, RowError::Store(StoreError::NotFound { .. })), "{gone}");
}

/// A choice of a version reaches processes that run, for files and rows.
#[tokio::test]
async fn choices_of_versions_are_followed() {
    let first = "type: context\nversion: 1.0.0\ncontext: First.\n";
    let second = "type: context\nversion: 2.0.0\ncontext: Second.\n";
    let of_file = |text| [agent("filed", text)];
    let before = Bench::new(of_file(first), []).await;
    before.agents.keep_versions(&*before.store, Timestamp(1)).await.expect("writes");
    let serving = Bench::over(Arc::clone(&before.store), of_file(second), []).await;
    serving.agents.keep_versions(&*before.store, Timestamp(2)).await.expect("writes");
    for text in [first, second] {
        serving.put(&row("stored", text)).await.expect("sound");
    }
    let operator = Bench::over(Arc::clone(&before.store), of_file(second), []).await;
    operator.agents.keep_versions(&*before.store, Timestamp(3)).await.expect("reads");
    let who = Principal::local();
    for slug in ["filed", "stored"] {
        assert_eq!(serving.context(&who, slug).as_deref(), Some("Second."), "{slug}");
        let store = &*operator.store;
        let used = operator.agents.use_version(store, None, slug, "1.0.0", Timestamp(4)).await;
        used.expect("is there");
        assert!(serving.follow().await.rows);
        assert_eq!(serving.context(&who, slug).as_deref(), Some("First."), "{slug}");
    }
    // A row that is written again counts.
    let third = "type: context\ncontext: Third.\n";
    serving.put(&row("stored", third)).await.expect("sound");
    assert_eq!(serving.context(&who, "stored").as_deref(), Some("Third."));
    assert_eq!(serving.context(&who, "filed").as_deref(), Some("First."));
}

/// A reload reads the files of each process again; one with problems leaves its agent as it was.
#[tokio::test]
async fn a_requested_reload_reads_the_files_and_keeps_what_is_sound() {
    let root = TempDir::new().expect("a folder");
    let write = |slug: &str, text: &str| {
        let folder = root.path().join(slug);
        fs::create_dir_all(&folder).expect("is made");
        fs::write(folder.join("agent.yaml"), text).expect("is written");
    };
    write("golf", "type: context\ncontext: First.\n");
    write("tennis", "type: context\ncontext: First.\n");
    let read = || read_definitions(root.path()).expect("reads");
    let bench = Bench::new([], []).await;
    bench.agents.reload(read());
    bench.agents.keep_versions(&*bench.store, Timestamp(0)).await.expect("writes");

    write("golf", "type: context\ncontext: Second.\n");
    write("tennis", "type: contxt\n");
    let store = &*bench.store;
    let follow = || bench.agents.follow(store, Timestamp(1), || Some(read()));
    assert!(!follow().await.expect("reads").is_change(), "nobody asked for it");
    let who = Principal::local();
    assert_eq!(bench.context(&who, "golf").as_deref(), Some("First."));
    Agents::request_reload(store, Timestamp(1)).await.expect("writes");
    assert!(follow().await.expect("reads").files);
    assert!(!follow().await.expect("reads").is_change(), "once");
    assert_eq!(bench.context(&who, "golf").as_deref(), Some("Second."));
    assert_eq!(bench.context(&who, "tennis").as_deref(), Some("First."));
    // A folder that cannot be read changes nothing.
    Agents::request_reload(store, Timestamp(1)).await.expect("writes");
    assert!(bench.follow().await.files);
    assert_eq!(bench.context(&who, "golf").as_deref(), Some("Second."));
}

/// A definition that goes back to an earlier version, and is broken then, stays that version.
#[tokio::test]
async fn a_file_that_went_back_and_broke_stays_as_it_was() {
    let root = TempDir::new().expect("a folder");
    let folder = root.path().join("golf");
    fs::create_dir(&folder).expect("is made");
    let read = |text: &str| {
        fs::write(folder.join("agent.yaml"), text).expect("is written");
        read_definitions(root.path()).expect("reads")
    };
    let first = "type: context\ncontext: First.\n";
    let bench = Bench::new([], []).await;
    for (at, text) in [first, "type: context\ncontext: Second.\n"].into_iter().enumerate() {
        bench.agents.reload(read(text));
        let at = Timestamp(i64::try_from(at).expect("small"));
        bench.agents.keep_versions(&*bench.store, at).await.expect("writes");
    }
    let later = Bench::over(Arc::clone(&bench.store), [], []).await;
    later.agents.keep_versions(&*bench.store, Timestamp(2)).await.expect("reads");
    later.agents.reload(read(first));
    later.agents.reload(read("type: contxt\n"));
    assert_eq!(later.context(&Principal::local(), "golf").as_deref(), Some("First."));
}

/// A file that breaks brings back what files had, of its own organisation, and no row that was removed.
#[tokio::test]
async fn a_removed_row_does_not_stand_in_for_a_broken_file() {
    let root = TempDir::new().expect("a folder");
    let write = |folder: &str, text: &str| {
        let folder = root.path().join(folder);
        fs::create_dir_all(&folder).expect("is made");
        fs::write(folder.join("agent.yaml"), text).expect("is written");
    };
    let read = || read_definitions(root.path()).expect("reads");
    let bench = Bench::new([], []).await;
    let acme = of_org("acme");
    let local = Principal::local();
    let of_acme = NewRow {
        organization: Some("acme".to_owned()),
        ..row("golf", "type: context\ncontext: Row of acme.\n")
    };
    bench.put(&of_acme).await.expect("sound");
    bench.put(&row("golf", "type: context\ncontext: Row.\n")).await.expect("sound");
    bench.remove(Some("acme"), "golf").await.expect("is there");
    bench.remove(None, "golf").await.expect("is there");
    write("golf", "type: contxt\n");
    let later = async || {
        let bench = Bench::over(Arc::clone(&bench.store), [], []).await;
        bench.agents.reload(read());
        bench.agents.keep_versions(&*bench.store, Timestamp(9)).await.expect("reads");
        [bench.context(&local, "golf"), bench.context(&acme, "golf")]
    };
    bench.agents.reload(read());
    bench.agents.keep_versions(&*bench.store, Timestamp(8)).await.expect("reads");
    assert_eq!(bench.context(&local, "golf"), None);
    assert_eq!(bench.context(&acme, "golf"), None);
    assert_eq!(later().await, [None, None]);

    // What files had stands in, also if a row had it before.
    write("golf", "type: context\ncontext: Row.\n");
    write("acme-golf", "slug: golf\norganization: acme\ntype: context\ncontext: File.\n");
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(later().await, [some("Row."), some("File.")]);
    write("golf", "type: contxt\n");
    assert_eq!(later().await, [some("Row."), some("File.")]);
    // The file of one organisation breaks, and the one for all is deleted.
    write("acme-golf", "slug: golf\norganization: acme\ntype: contxt\n");
    fs::remove_dir_all(root.path().join("golf")).expect("is removed");
    assert_eq!(later().await, [None, some("File.")]);
    write("acme-golf", "slug: golf\norganization: other\ntype: contxt\n");
    assert_eq!(later().await, [None, None]);
}

/// All wrong definitions have the same problems as texts and as files, with their lines.
#[test]
fn texts_have_the_problems_of_files() {
    let root = TempDir::new().expect("a folder");
    let folder = root.path().join("golf");
    fs::create_dir(&folder).expect("is made");
    let mut count = 0;
    for block in include_str!("wrong.txt").split("=== ").skip(1) {
        let (name, text) = block.split_once('\n').expect("a name");
        fs::write(folder.join("agent.yaml"), text).expect("is written");
        let of_file = read_folder(&folder).expect_err("is wrong");
        let of_text = read_texts(Some("golf"), None, &files(text)).expect_err("is wrong");
        assert_eq!(of_text, of_file, "{name}");
        count += 1;
    }
    assert!(count >= 60);
    let sound = "type: context\nsources: [{kind: files, paths: [style.md]}]\n";
    let missing = read_texts(Some("golf"), None, &files(sound)).expect_err("lacks a file");
    assert_eq!(
        missing[0].to_string(),
        "golf/agent.yaml:2:33: W1001: the file cannot be read: \
        `sources.0.paths.0`: found style.md; expected a file of the folder"
    );
    let mut with = files(sound);
    with.insert("style.md".to_owned(), "Short.".to_owned());
    with.insert("context.md".to_owned(), "Write.".to_owned());
    let read = read_texts(Some("golf"), Some("acme"), &with).expect("sound");
    assert_eq!(read.definition.context.as_deref(), Some("Write."));
    assert_eq!(read.definition.organization.as_deref(), Some("acme"));
    with.insert("other.md".to_owned(), String::new());
    let more = read_texts(Some("golf"), None, &with).expect_err("has a file too many");
    assert!(more[0].to_string().starts_with("golf/other.md:1:1: W1004"), "{}", more[0]);
    let nameless = read_texts(None, None, &files("type: context\n")).expect_err("has no slug");
    assert_eq!(
        nameless[0].to_string(),
        "agent.yaml:1:1: W1007: a key is missing; expected the key `slug`"
    );
}

fn problems(refused: RowError) -> String {
    match refused {
        RowError::Problems { .. } | RowError::Taken { .. } => refused.to_string(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_row_is_checked_among_the_definitions_that_it_meets() {
    let asks =
        |slug: &str| format!("type: context\nrequiresSubAgents: true\nsubAgentSlug: {slug}\n");
    let bench = Bench::new([agent("filed", "type: context\n")], []).await;
    let refused = bench.put(&row("a", &asks("nobody"))).await.expect_err("asks nobody");
    assert!(problems(refused).starts_with("a/agent.yaml:3:15: W1012"));
    bench.put(&row("a", &asks("filed"))).await.expect("asks a file");
    bench.put(&row("b", &asks("a"))).await.expect("asks a row");
    let refused = bench.put(&row("a", &asks("b"))).await.expect_err("a circle");
    assert_eq!(
        problems(refused),
        "a/agent.yaml:3:15: W1013: the agent reaches itself: `subAgentSlug`: found a → b → a; \
         expected no agent that asks the one that asks it"
    );
    let mut other = row("a", "type: context\nslug: b\n");
    let refused = bench.put(&other).await.expect_err("two slugs");
    assert!(problems(refused).starts_with("a/agent.yaml:2:7: W1008"));
    other = NewRow {
        organization: Some("acme".to_owned()),
        ..row("a", "type: context\norganization: other\n")
    };
    let refused = bench.put(&other).await.expect_err("two organisations");
    assert!(problems(refused).contains(":2:15: W1008"));
}

/// The slugs of another organisation are not offered for one that does not exist.
#[tokio::test]
async fn agents_of_other_organizations_are_not_named_in_problems() {
    let bench = Bench::new([agent("everyone", "type: context\n")], []).await;
    let of = |org: &str, slug: &str, text: &str| NewRow {
        organization: Some(org.to_owned()),
        ..row(slug, text)
    };
    bench.put(&of("acme", "merger-plan", "type: context\n")).await.expect("sound");
    let asks =
        |slug: &str| format!("type: context\nrequiresSubAgents: true\nsubAgentSlug: {slug}\n");
    for (org, slug, nearest) in [
        ("other", "merger-plans", None),
        ("acme", "merger-plans", Some("merger-plan")),
        ("other", "everyones", Some("everyone")),
    ] {
        let refused = bench.put(&of(org, "asking", &asks(slug))).await.expect_err("asks nobody");
        let RowError::Problems { problems } = refused else { panic!("{refused}") };
        assert_eq!(problems[0].nearest.as_deref(), nearest, "{org} {slug}");
    }
}

/// The names of both are in the error, whichever comes second.
#[tokio::test]
async fn one_name_as_a_row_and_as_a_file_is_an_error() {
    let root = TempDir::new().expect("a folder");
    let folder = root.path().join("golf");
    fs::create_dir(&folder).expect("is made");
    fs::write(folder.join("agent.yaml"), "type: context\ncontext: File.\n").expect("is written");
    let read = || Definitions::from(read_folder(&folder));
    let bench = Bench::new([], []).await;
    bench.agents.reload(read());
    let refused = bench.put(&row("golf", "type: context\n")).await.expect_err("is a file");
    let text = problems(refused);
    assert!(text.starts_with("golf/agent.yaml:1:1: W1009"), "{text}");
    assert!(text.contains(&*folder.join("agent.yaml").to_string_lossy()), "{text}");
    // A client is not told where the files of the server are.
    let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
    let slug = Some("golf".to_owned());
    let new = NewDefinition { slug, files: files("type: context\n"), ..NewDefinition::default() };
    let refused = platform.put_definition(&Principal::local(), new).await.expect_err("is a file");
    let DefinitionRefusal::Taken { text, problem } = refused else { panic!("{refused:?}") };
    for shown in [text, problem.to_string()] {
        assert!(shown.contains("a file of the server"), "{shown}");
        assert!(!shown.contains(&*root.path().to_string_lossy()), "{shown}");
    }
    // Another organisation may have the slug.
    let own = NewRow { organization: Some("acme".to_owned()), ..row("golf", "type: context\n") };
    bench.put(&own).await.expect("another name");
    assert!(bench.agents.conflicts().is_empty());

    // The file comes later: the row, which all processes have, stays.
    let other = Bench::over(Arc::clone(&bench.store), [], []).await;
    other.put(&row("golf", "type: context\ncontext: Row.\n")).await.expect("no file here");
    bench.follow().await;
    let conflicts: Vec<_> = bench.agents.conflicts().iter().map(ToString::to_string).collect();
    assert_eq!(
        conflicts,
        [
            "golf/agent.yaml:1:1: W1009: the same is given twice: `slug`: found golf; expected a slug \
          that no other agent of the organisation has (see the row `golf` of the store)"
        ]
    );
    assert_eq!(bench.context(&Principal::local(), "golf").as_deref(), Some("Row."));
    bench.remove(None, "golf").await.expect("is there");
    assert_eq!(bench.context(&Principal::local(), "golf").as_deref(), Some("File."));
}

#[tokio::test]
async fn an_organisation_changes_its_own_definitions_and_gets_them_first() {
    let bench = Bench::new([], []).await;
    let platform = HostedAgents::new(bench.runtime.clone(), bench.agents.clone());
    let put = async |who: &Principal, text: &str| {
        let slug = Some("golf".to_owned());
        let new = NewDefinition { slug, files: files(text), ..NewDefinition::default() };
        platform.put_definition(who, new).await
    };
    let acme = of_org("acme");
    let other = of_org("other");
    let local = Principal::local();
    let global = "type: context\ncontext: All.\n";
    let own = "type: context\norganization: acme\ncontext: Own.\n";
    for (who, text) in [(&acme, global), (&other, own), (&local, own)] {
        let refused = put(who, text).await.expect_err("is refused");
        assert!(matches!(refused, DefinitionRefusal::Forbidden { .. }), "{refused:?}");
    }
    assert!(put(&local, global).await.expect("the operator").stored);
    let summary = put(&acme, own).await.expect("its own");
    assert_eq!(summary.organization.as_deref(), Some("acme"));
    let seen = |who| bench.context(who, "golf").expect("is there");
    assert_eq!(
        (seen(&acme), seen(&other), seen(&local)),
        ("Own.".to_owned(), "All.".to_owned(), "All.".to_owned())
    );
    for (who, org) in [(&acme, None), (&other, Some("acme"))] {
        let refused = platform.remove_definition(who, org, "golf").await;
        assert!(matches!(refused, Err(DefinitionRefusal::Forbidden { .. })), "{refused:?}");
    }
    platform.remove_definition(&acme, Some("acme"), "golf").await.expect("is there");
    assert_eq!(seen(&acme), "All.");
    let wrong = put(&local, "type: contxt\n").await.expect_err("is wrong");
    let DefinitionRefusal::Problems { problems, .. } = wrong else { panic!("{wrong:?}") };
    let shown = json!({"code": problems[0]["code"], "line": problems[0]["line"]});
    assert_eq!(shown, json!({"code": "W1006", "line": 1}));
}

#[tokio::test]
async fn a_write_may_require_that_there_is_no_row_or_a_version() {
    let bench = Bench::new([], []).await;
    let with = |context: &str, condition| NewRow {
        condition,
        ..row("golf", &format!("type: context\ncontext: {context}\n"))
    };
    let written = bench.put(&with("a", RowCondition::New)).await.expect("is new");
    let taken = bench.put(&with("b", RowCondition::New)).await.expect_err("is there");
    assert!(problems(taken).contains("W1009"));
    let version = RowCondition::Version(written.version());
    let late = bench.put(&with("c", version.clone())).await.expect("has this version");
    let refused = bench.put(&with("d", version)).await.expect_err("has another one");
    let RowError::Store(StoreError::Conflict { found, .. }) = refused else { panic!("{refused}") };
    assert_eq!(found, late.version());
}

/// An organisation has at most 200 rows, and a size of versions; others are not affected.
#[tokio::test]
async fn an_organization_has_limits_of_rows_and_versions() {
    let bench = Bench::new([], []).await;
    let of = |org: &str, slug: &str, text: &str| NewRow {
        organization: Some(org.to_owned()),
        ..row(slug, text)
    };
    let sound = "type: context\n";
    for number in 0..200 {
        bench.put(&of("acme", &format!("a{number}"), sound)).await.expect("within the limit");
    }
    let refused = bench.put(&of("acme", "more", sound)).await.expect_err("is one too many");
    assert_eq!(
        problems(refused),
        "more/agent.yaml:1:1: W1002: a limit is exceeded: found 200 agents of organisation acme in \
         the store; expected at most 200; remove one that is not used"
    );
    bench.put(&of("acme", "a7", "type: context\ncontext: New.\n")).await.expect("is replaced");
    bench.put(&of("other", "more", sound)).await.expect("another organisation");
    bench.put(&row("more", sound)).await.expect("one for all");
    bench.remove(Some("acme"), "a7").await.expect("is there");
    bench.put(&of("acme", "more", sound)).await.expect("there is room");

    let who = Principal::new(OrgId::new("weft.agents").expect("an id"), "operator");
    for used in [json!({"versions": 2000, "bytes": 1}), json!({"versions": 1, "bytes": 64 << 20})] {
        let content = weftwork_store::Content::json(1, &used).expect("JSON");
        let write = SequenceWrite::replace(Sequence::new("agent_usage", "other"), content);
        bench.store.write_sequences(&who, vec![write], Timestamp(1)).await.expect("writes");
        let next = of("other", "next", "type: context\ncontext: Next.\n");
        let refused = problems(bench.put(&next).await.expect_err("is one too many"));
        assert!(
            refused.contains("W1002") && refused.contains("at most 2000, of 67108864 bytes"),
            "{refused}"
        );
        // A version that is there is no new one.
        bench.put(&of("other", "more", sound)).await.expect("is written again");
    }
}

/// A read of many rows that began before these were removed does not bring them back.
#[tokio::test]
async fn a_read_that_began_earlier_does_not_replace_a_later_one() {
    let folder = TempDir::new().expect("a folder");
    let store = SqliteStore::open(folder.path().join("weft.db"), &Options::default());
    let first = Bench::over(Arc::new(store.expect("opens")), [], []).await;
    let slugs: Vec<String> = (100..200).map(|number| format!("a{number}")).collect();
    let mut version = String::new();
    for slug in &slugs {
        version = first.put(&row(slug, "type: context\n")).await.expect("sound").version();
    }
    let later = Bench::over(Arc::clone(&first.store), [], []).await;
    let remove = async {
        // The other read has the list of the rows, and reads their versions.
        while later.agents.find_versions(None, "a100", &version).is_empty() {
            tokio::task::yield_now().await;
        }
        let who = Principal::new(OrgId::new("weft.agents").expect("an id"), "operator");
        let delete =
            |slug| SequenceWrite::delete(Sequence::new("agent_row", format!("*/{slug}")), 9);
        let writes = slugs[1..].iter().map(delete).collect();
        later.store.write_sequences(&who, writes, Timestamp(1)).await.expect("writes");
        later.remove(None, "a100").await.expect("is there");
    };
    tokio::join!(later.follow(), remove);
    assert_eq!(later.agents.definitions(&Principal::local()).len(), 0);
}

/// A row or a choice that cannot be read costs itself alone.
#[tokio::test]
async fn a_row_that_cannot_be_read_leaves_the_others() {
    let bench = Bench::new([], []).await;
    bench.put(&row("golf", "type: context\n")).await.expect("sound");
    let who = Principal::new(OrgId::new("weft.agents").expect("an id"), "operator");
    let content = weftwork_store::Content::json(1, &json!({"slug": 7})).expect("JSON");
    let write = |kind| SequenceWrite::replace(Sequence::new(kind, "*/broken"), content.clone());
    let writes = vec![write("agent_row"), write("agent_current")];
    bench.store.write_sequences(&who, writes, Timestamp(1)).await.expect("writes");
    let other = Bench::over(Arc::clone(&bench.store), [], []).await;
    other.agents.keep_versions(&*bench.store, Timestamp(1)).await.expect("reads");
    let slugs: Vec<Value> =
        other.agents.summaries(&Principal::local()).iter().map(|of| json!(of.slug)).collect();
    assert_eq!(slugs, ["golf"]);
}

/// A name of a row's file is written to a disk when the row is exported.
#[test]
fn names_of_texts_that_leave_the_folder_are_refused() {
    let outside = [
        "../../etc/passwd",
        "/etc/passwd",
        "a/../../x",
        "../agent.yaml",
        ".",
        "a/./b",
        "a//b",
        "",
        "a\0b",
        "a\\b",
        "c:x",
    ];
    for name in outside {
        let text = format!("type: context\nsources: [{{kind: files, paths: [{}]}}]\n", json!(name));
        let mut texts = files(&text);
        texts.insert(name.to_owned(), "a".to_owned());
        let found = read_texts(Some("golf"), Some("acme"), &texts).expect_err(name);
        let is_named = |problem: &Problem| problem.expected.contains("within the folder");
        assert!(found.iter().any(is_named), "{name:?}: {found:?}");
    }
    let mut texts = files("type: context\nsources: [{kind: files, paths: [a/b.md]}]\n");
    texts.insert("a/b.md".to_owned(), "a".to_owned());
    assert!(read_texts(Some("golf"), None, &texts).is_ok());
}
