//! Sessions that are stored without an evaluation, and their children, on each store.

use crate::stores::{Place, on_three_stores};
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use weftwork::agents::{Evaluator, Prompt, Section, Session};
use weftwork::graph::RuntimeError;
use weftwork::prelude::*;
use weftwork::runtime::RolledBack;
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork::tools::Deps;
use weftwork::types::run::Answers;
use weftwork::types::{OrgId, Principal, ThreadId};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Note(String);

impl Slice for Note {
    const NAME: &'static str = "notes";
    type Event = String;

    fn reduce(mut notes: Vec<Self>, event: String) -> Vec<Self> {
        notes.push(Self(event));
        notes
    }
}

/// Takes a note.
#[tool]
fn take_note(text: String, prompt: Deps<PromptContext>) -> Result<usize, ToolError> {
    prompt.dispatch::<Note>(&text)?;
    Ok(prompt.query::<Note>()?.all().len())
}

fn prompt() -> Prompt<()> {
    let task = Section::new("task", "Task", "Take notes.").tool(take_note).ask_human();
    Prompt::<()>::builder("tests", "notes", "Notes").section(task).build().expect("sound")
}

fn note(text: &str) -> (String, serde_json::Value) {
    ("take_note".to_owned(), json!({"text": text}))
}

fn ask() -> (String, serde_json::Value) {
    ("ask_human".to_owned(), json!({"question": "More?"}))
}

/// An evaluator of a process of its own.
async fn open(place: &Place, steps: Vec<Step>) -> (Evaluator, Arc<ScriptedModel>) {
    let model = Arc::new(ScriptedModel::from_steps(steps));
    let runtime = Runtime::builder(place.open());
    let evaluator = Evaluator::builder(Arc::clone(&model)).runtime(runtime).open().await;
    (evaluator.expect("opens"), model)
}

async fn opened(place: &Place) -> Evaluator {
    open(place, Vec::new()).await.0
}

fn id(text: &str) -> ThreadId {
    ThreadId::new(text).expect("an id")
}

fn session(text: &str) -> Session {
    Session::new(text).expect("an id")
}

fn add(session: &Session, text: &str) {
    session.dispatch::<Note>(&text.to_owned()).expect("dispatches");
}

fn notes(session: &Session) -> Vec<String> {
    let notes = session.query::<Note>().expect("notes");
    notes.all().iter().map(|note| note.0.clone()).collect()
}

async fn stored(evaluator: &Evaluator, thread: &str) -> Vec<String> {
    notes(&evaluator.session(&id(thread)).await.expect("reads"))
}

async fn runs(evaluator: &Evaluator, thread: &str) -> usize {
    let thread = evaluator.runtime().thread("prompt:react", thread).expect("hosted");
    thread.runs(RolledBack::Included).await.map_or(0, |runs| runs.len())
}

/// Waits until the clock shows another time.
async fn tick(evaluator: &Evaluator) {
    let clock = evaluator.runtime().clock();
    let now = clock.now();
    while clock.now() == now {
        tokio::task::yield_now().await;
    }
}

fn code(error: &RuntimeError) -> String {
    error.fault().code
}

async fn events_are_stored_without_an_evaluation(place: Place) {
    let evaluator = opened(&place).await;
    let mine = session("s");
    add(&mine, "a");
    let first = mine.snapshot();
    add(&mine, "b");
    assert_eq!(stored(&evaluator, "s").await, [""; 0], "nothing is stored yet");
    evaluator.save(&mine).await.expect("saves");
    evaluator.save(&mine).await.expect("has nothing to save");
    assert_eq!(runs(&evaluator, "s").await, 1);
    assert_eq!(notes(&mine), ["a", "b"]);
    mine.restore(&first).expect("restores");
    add(&mine, "c");
    evaluator.save(&mine).await.expect("saves");
    drop(evaluator);

    let evaluator = opened(&place).await;
    let again = evaluator.session(&id("s")).await.expect("reads");
    assert_eq!(notes(&again), ["a", "c"]);
    assert_eq!(again.snapshot(), mine.snapshot());
    assert_eq!(again.parent(), None);
    // A session without events exists once it is saved.
    let empty = session("empty");
    evaluator.save(&empty).await.expect("saves");
    let threads = evaluator.runtime().threads();
    assert_eq!(threads.get(&id("empty")).await.expect("exists").id, id("empty"));
    assert_eq!(runs(&evaluator, "empty").await, 0);
    add(&empty, "x");
    evaluator.save(&empty).await.expect("saves");
    assert_eq!(stored(&evaluator, "empty").await, ["x"]);
}

async fn children_have_their_parent_and_are_listed(place: Place) {
    let (evaluator, _) = open(&place, vec![Step::text("Done.")]).await;
    let parent = session("p");
    add(&parent, "a");
    evaluator.save(&parent).await.expect("saves");
    let kinds = ["saved", "evaluated", "neither"];
    let [saved, evaluated, _neither] = kinds.map(|name| parent.child(id(name)));
    add(&saved, "b");
    evaluator.save(&saved).await.expect("saves");
    // Children are listed in the order of their creation, which differs by a millisecond.
    tick(&evaluator).await;
    evaluator.evaluate(&prompt(), ()).session(&evaluated).await.expect("evaluates");
    let grandchild = saved.child(id("grandchild"));
    evaluator.save(&grandchild).await.expect("saves");
    drop(evaluator);

    let evaluator = opened(&place).await;
    let listed = evaluator.children(parent.id(), 10).await.expect("lists");
    assert_eq!(listed, [id("saved"), id("evaluated")]);
    assert_eq!(evaluator.children(parent.id(), 1).await.expect("lists"), [id("saved")]);
    assert_eq!(evaluator.children(saved.id(), 10).await.expect("lists"), [id("grandchild")]);
    let again = evaluator.session(saved.id()).await.expect("reads");
    assert_eq!((again.parent(), notes(&again)), (Some(parent.id()), vec!["a".into(), "b".into()]));
    let again = evaluator.session(evaluated.id()).await.expect("reads");
    assert_eq!((again.parent(), notes(&again)), (Some(parent.id()), vec!["a".into()]));
    assert_eq!(stored(&evaluator, "p").await, ["a"], "children do not change their parent");

    // A second child of the same id would add the state of the parent to the first.
    let other = parent.child(id("saved"));
    let refused = evaluator.save(&other).await.expect_err("exists");
    assert_eq!(code(&refused), "W0212", "{refused}");
    let refused = evaluator.evaluate(&prompt(), ()).session(&other).await.expect_err("exists");
    assert_eq!(refused.code(), "W0212", "{refused}");
    assert_eq!(stored(&evaluator, "saved").await, ["a", "b"]);
    // A save that created the thread and did not come to the events is continued.
    let nobody = session("nobody");
    evaluator.save(&nobody.child(id("empty"))).await.expect("saves");
    add(&nobody, "a");
    evaluator.save(&nobody.child(id("empty"))).await.expect("saves");
    assert_eq!(stored(&evaluator, "empty").await, ["a"]);
    assert_eq!(evaluator.children(nobody.id(), 10).await.expect("lists"), [id("empty")]);

    // Nothing of it exists for another organisation, and a fork is no child.
    let stranger = Principal::new(OrgId::new("other").expect("an id"), "someone");
    let strange = evaluator.on_behalf_of(stranger);
    assert_eq!(strange.children(parent.id(), 10).await.expect("lists"), []);
    let nothing = strange.session(saved.id()).await.expect("is empty");
    assert_eq!((nothing.parent(), notes(&nothing)), (None, Vec::new()));
    let theirs = parent.child(id("saved"));
    strange.save(&theirs).await.expect("saves a session of its own");
    assert_eq!(strange.children(parent.id(), 10).await.expect("lists"), [id("saved")]);
    assert_eq!(stored(&evaluator, "saved").await, ["a", "b"]);
    let thread = evaluator.runtime().thread("prompt:react", "saved").expect("hosted");
    thread.fork("forked").await.expect("forks");
    let forked = evaluator.session(&id("forked")).await.expect("reads");
    assert_eq!((forked.parent(), notes(&forked).len()), (None, 2));
    let listed = evaluator.children(parent.id(), 10).await.expect("lists");
    assert_eq!(listed, [id("saved"), id("evaluated")]);
}

async fn processes_that_save_the_same_session_lose_nothing(place: Place) {
    let evaluators = [opened(&place).await, opened(&place).await];
    let sessions = [session("s"), evaluators[1].session(&id("s")).await.expect("is empty")];
    let mut expected = Vec::new();
    for number in 0..6 {
        for (process, (evaluator, session)) in evaluators.iter().zip(&sessions).enumerate() {
            let text = format!("{process}:{number}");
            add(session, &text);
            expected.push(text);
            evaluator.save(session).await.expect("saves");
            assert_eq!(notes(session), expected, "a save reads those of other processes");
        }
    }
    // At the same time: one may be refused, and is repeated.
    let save = async |process: usize| {
        add(&sessions[process], &format!("{process}:last"));
        while let Err(error) = evaluators[process].save(&sessions[process]).await {
            assert!(error.fault().retriable, "{error}");
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(save(0), save(1));
    let mut all = stored(&evaluators[0], "s").await;
    let mut last = all.split_off(expected.len());
    last.sort();
    assert_eq!((all, last), (expected, vec!["0:last".into(), "1:last".into()]));
}

async fn a_save_leaves_an_open_question_and_what_can_be_resumed(place: Place) {
    let steps = vec![Step::calls(vec![note("b"), ask()]), Step::calls(vec![note("d")])];
    let (evaluator, _) = open(&place, [steps, vec![Step::text("Done.")]].concat()).await;
    let mine = session("s");
    add(&mine, "a");
    let evaluated = evaluator.evaluate(&prompt(), ()).session(&mine).await.expect("evaluates");
    assert!(evaluated.interrupted().is_some());
    for text in ["c1", "c2"] {
        add(&mine, text);
        evaluator.save(&mine).await.expect("saves");
    }
    // The superstep of `b` is open, and closes after what was saved.
    assert_eq!(notes(&mine), ["a", "c1", "c2", "b"]);
    assert_eq!(stored(&evaluator, "s").await, notes(&mine));
    add(&mine, "c3");
    let answer = Answers::One(json!("yes"));
    let evaluation = evaluator.answer(&prompt(), mine.id(), answer).session(&mine);
    assert_eq!(evaluation.await.expect("continues").done().expect("ends").text, "Done.");
    assert_eq!(notes(&mine), ["a", "c1", "c2", "c3", "b", "d"]);
    assert_eq!(stored(&evaluator, "s").await, notes(&mine));

    // An evaluation that failed after its first round.
    let fails = weftwork::models::ModelError::BadRequest {
        provider: "scripted".to_owned(),
        status: 400,
        message: "no".to_owned(),
        kind: weftwork::models::RefusalKind::InvalidRequest,
    };
    let steps = vec![Step::calls(vec![note("b")]), Step::fails(fails), Step::text("Done.")];
    let (evaluator, model) = open(&place, steps).await;
    let mine = session("f");
    add(&mine, "a");
    evaluator.evaluate(&prompt(), ()).session(&mine).await.expect_err("fails");
    add(&mine, "c");
    evaluator.save(&mine).await.expect("saves");
    let resumed = evaluator.resume(&prompt(), mine.id()).session(&mine).await.expect("resumes");
    assert_eq!((resumed.done().expect("ends").text.as_str(), model.calls()), ("Done.", 3));
    assert_eq!(notes(&mine), ["a", "b", "c"]);
    assert_eq!(stored(&evaluator, "f").await, ["a", "b", "c"]);
}

async fn a_save_changes_nothing_of_what_the_policy_allows(place: Place) {
    let policy = Policy::builder().allow("take_note").calls_per_run(1).build().expect("sound");
    let task = Section::new("task", "Task", "Take notes.").tool(take_note).policy(policy);
    let prompt = Prompt::<()>::builder("tests", "limited", "Notes").section(task.ask_human());
    let prompt = prompt.build().expect("sound");
    let calls = [note("b"), ask(), note("d")].map(|call| Step::calls(vec![call]));
    let steps = calls.into_iter().chain([Step::text("Done.")]).collect();
    let (evaluator, _) = open(&place, steps).await;
    let mine = session("s");
    let waiting = evaluator.evaluate(&prompt, ()).session(&mine).await.expect("evaluates");
    assert!(waiting.interrupted().is_some());
    add(&mine, "c");
    evaluator.save(&mine).await.expect("saves");
    let answer = Answers::One(json!("yes"));
    let answered = evaluator.answer(&prompt, mine.id(), answer).session(&mine).await;
    assert_eq!(answered.expect("continues").done().expect("ends").text, "Done.");
    assert_eq!(notes(&mine), ["b", "c"], "the call beyond the limit is not made");
}

async fn a_save_during_an_evaluation_is_refused_and_loses_nothing(place: Place) {
    let (evaluator, model) =
        open(&place, vec![Step::text("x").hanging(), Step::text("Done.")]).await;
    let mine = session("s");
    add(&mine, "a");
    let other = session("s");
    add(&other, "b");
    let evaluation = evaluator.evaluate(&prompt(), ()).session(&mine).into_future();
    let meanwhile = async {
        while model.calls() < 1 {
            tokio::task::yield_now().await;
        }
        let refused = evaluator.save(&mine).await.expect_err("is evaluated here");
        assert_eq!(code(&refused), "W0619", "{refused}");
        let refused = evaluator.save(&other).await.expect_err("is evaluated elsewhere");
        assert!(code(&refused) == "W0202" && refused.fault().retriable, "{refused}");
    };
    tokio::select! {
        _ = evaluation => panic!("the model hangs"),
        () = meanwhile => {}
    }
    // The evaluation was dropped, and its run is cancelled.
    while let Err(error) = evaluator.save(&other).await {
        assert!(error.fault().retriable, "{error}");
        tokio::task::yield_now().await;
    }
    assert_eq!(notes(&other), ["a", "b"]);
    evaluator.evaluate(&prompt(), ()).session(&other).await.expect("evaluates");
    assert_eq!(stored(&evaluator, "s").await, ["a", "b"]);
    evaluator.save(&mine).await.expect("saves");
    assert_eq!((notes(&mine), stored(&evaluator, "s").await), (notes(&other), notes(&other)));
}

async fn a_save_that_was_dropped_is_stored_once(place: Place) {
    let (evaluator, _) = open(&place, vec![Step::text("Done."); 40]).await;
    for polls in 0..40 {
        let mine = session(&format!("s{polls}"));
        let child = mine.child(id(&format!("c{polls}")));
        for (number, session) in [&mine, &child].into_iter().enumerate() {
            add(session, "a");
            let mut save = Box::pin(evaluator.save(session));
            for _ in 0..polls {
                if (&mut save).now_or_never().is_some() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(save);
            add(session, "b");
            // An evaluation brings the save to its end first.
            match (polls + number) % 2 {
                0 => evaluator.save(session).await.expect("saves"),
                _ => {
                    let evaluation = evaluator.evaluate(&prompt(), ()).session(session);
                    evaluation.await.expect("evaluates");
                }
            }
            let name = session.id().as_str();
            assert_eq!(stored(&evaluator, name).await, ["a", "b"], "{name}");
            assert_eq!(notes(session), ["a", "b"], "{name}");
        }
    }
}

on_three_stores![
    a_save_changes_nothing_of_what_the_policy_allows,
    events_are_stored_without_an_evaluation,
    children_have_their_parent_and_are_listed,
    processes_that_save_the_same_session_lose_nothing,
    a_save_leaves_an_open_question_and_what_can_be_resumed,
    a_save_during_an_evaluation_is_refused_and_loses_nothing,
    a_save_that_was_dropped_is_stored_once,
];

#[tokio::test]
async fn an_evaluator_without_a_store_saves_nothing() {
    let evaluator = Evaluator::builder(ScriptedModel::rules()).open().await.expect("opens");
    let refused = evaluator.save(&evaluator.new_session()).await.expect_err("no store");
    assert_eq!(code(&refused), "W0619");
    assert!(refused.to_string().contains("EvaluatorBuilder::runtime"), "{refused}");
}
