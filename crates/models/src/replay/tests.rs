use super::*;
use crate::scripted::{ScriptedModel, Step};
use futures_util::FutureExt as _;
use weftwork_types::MessageId;
use weftwork_types::message::{Message, Role};

fn request(text: &str) -> Arc<ChatRequest> {
    let message = Message::text(MessageId::new("m").expect("an id"), Role::User, text);
    Arc::new(ChatRequest { messages: vec![message], ..ChatRequest::default() })
}

fn ask(model: &dyn ChatModel, text: &str) -> Vec<Result<ChatEvent, ModelError>> {
    model.stream(request(text)).collect::<Vec<_>>().now_or_never().expect("it never waits")
}

fn recorded(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("talk.json");
    let steps = vec![Step::text("one"), Step::cut("half"), Step::call("f", Value::Null)];
    let recorder = Recorder::new(Arc::new(ScriptedModel::from_steps(steps)), &path);
    ["first", "second", "third"].iter().for_each(|text| drop(ask(&recorder, text)));
    path
}

#[test]
fn whole_answers_are_recorded_and_given_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = recorded(&folder);
    let model = ReplayModel::open(&path).expect("a cassette");
    assert_eq!(
        model.info().label.as_deref(),
        Some("replay of talk.json, recorded from scripted:steps")
    );
    // In a different order, with different ids.
    let fresh = ScriptedModel::from_steps(vec![Step::call("f", Value::Null), Step::text("one")]);
    assert_eq!(ask(&model, "third"), ask(&fresh, ""));
    assert_eq!(ask(&model, "first"), ask(&fresh, ""));
}

#[test]
fn what_is_not_in_the_cassette_is_refused_with_the_difference() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = ReplayModel::open(&recorded(&folder)).expect("a cassette");
    let miss = |text: &str| ask(&model, text)[0].clone().expect_err(text).to_string();
    let error = miss("frist");
    assert!(
        error.ends_with(
            "request 1: request.messages[0].content is \"frist\", recorded is \"first\""
        ),
        "{error}"
    );
    assert!(miss("second").contains("\"second\""), "a cut answer is not recorded");
    ask(&model, "first");
    assert!(miss("first").ends_with("every answer to it was given already"));
}

#[test]
fn a_cassette_that_cannot_be_read_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = ReplayModel::open(&folder.path().join("none.json")).expect_err("no file");
    assert_eq!(missing.code().0, "W0311");
    for json in ["", "{}", r#"{"v":2,"recorded":{"provider":"p","model":"m"},"exchanges":[]}"#] {
        assert!(ReplayModel::from_json("x.json", json.as_bytes()).is_err(), "{json}");
    }
}

/// A cassette in format version 1, as found in existing repositories.
#[test]
fn a_cassette_of_version_1_stays_readable() {
    let json = include_bytes!("golden.json");
    let model = ReplayModel::from_json("golden.json", json).expect("a cassette");
    let events = ask(&model, "hello");
    assert_eq!(events.len(), 5);
    assert!(events.iter().all(Result::is_ok));
}

#[test]
fn the_provider_opens_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = recorded(&folder);
    let model = ReplayProvider.open(&path.display().to_string()).expect("a cassette");
    assert_eq!(model.info().provider, "replay");
}
