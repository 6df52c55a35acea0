use super::fixture::{
    answer, answers, at, begin, begin_as, checkpoint, commit, interrupted, new_run, principal,
    question, register, these, thread, us, write,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_store::Store;
use weftwork_store::StoreError;
use weftwork_store::invariants;
use weftwork_store::{Claim, Commit, InterruptRow};
use weftwork_types::run::RunRef;
use weftwork_types::{InterruptId, Timestamp};

/// Creates a run `r1` on the thread `t` that ended at the questions 1 and 2.
async fn parked(store: &dyn Store) -> Claim {
    let claim = begin(store, "t", "r1").await;
    let asked = Commit {
        batch: these(vec![checkpoint(1)]).into(),
        interrupts: vec![question(2), question(1)],
        finish: interrupted(&[2, 1]),
        ..commit(1_500)
    };
    write(store, &claim, asked).await;
    claim
}

async fn resume(store: &dyn Store, run: &str, given: &[(u128, &str)]) -> Claim {
    let at: RunRef = at("t", run);
    store.create_run(&us(), new_run("t", run), answers(given)).await.expect("resumes");
    let worker = register(store, "w1", 1_000).await;
    store.claim(&us(), &at, &worker, Timestamp(2_000)).await.expect("claims").0
}

async fn rows(store: &dyn Store) -> Vec<InterruptRow> {
    store.interrupts(&us(), &thread("t")).await.expect("questions")
}

/// Reads id, answer and closed flag of each question, in the order of asking.
async fn brief(store: &dyn Store) -> Vec<(u128, Option<String>, bool)> {
    let text = |row: &InterruptRow| {
        row.answer.as_ref().and_then(|answer| answer.value.as_str().map(str::to_owned))
    };
    rows(store).await.iter().map(|row| (row.interrupt.id.0, text(row), row.closed)).collect()
}

fn said(value: &str) -> Option<String> {
    Some(value.to_owned())
}

pub(super) async fn a_question_opens_is_answered_and_goes_on(store: Arc<dyn Store>) {
    let claim = parked(&*store).await;
    let asked = rows(&*store).await;
    let open = |id| InterruptRow {
        interrupt: question(id),
        run: claim.at.run.clone(),
        answer: None,
        closed: false,
    };
    assert_eq!(asked, [open(2), open(1)], "in the order of asking");
    resume(&*store, "r2", &[(1, "yes")]).await;
    let answered = InterruptRow { answer: Some(answer("yes")), ..open(1) };
    assert_eq!(rows(&*store).await, [open(2), answered]);
}

pub(super) async fn the_first_answer_counts(store: Arc<dyn Store>) {
    parked(&*store).await;
    let claim = resume(&*store, "r2", &[(1, "yes"), (2, "no")]).await;
    write(&*store, &claim, Commit { finish: interrupted(&[]), ..commit(2_100) }).await;
    let before = super::dump(&*store, &[us()]).await.expect("reads");
    let second = store.create_run(&us(), new_run("t", "r3"), answers(&[(1, "never")])).await;
    let first = Box::new(answer("yes"));
    let id = InterruptId(1).to_string();
    assert_eq!(second, Err(StoreError::Answered { interrupt: id, first }));
    assert_eq!(super::dump(&*store, &[us()]).await, Ok(before));
}

pub(super) async fn questions_left_behind_are_closed(store: Arc<dyn Store>) {
    parked(&*store).await;
    let claim = resume(&*store, "r2", &[(1, "yes")]).await;
    write(&*store, &claim, Commit { interrupts: vec![question(3)], ..commit(2_100) }).await;
    let open = [(2, None, false), (1, said("yes"), false), (3, None, false)];
    assert_eq!(brief(&*store).await, open, "a commit inside a step closes nothing");
    let batch = these(vec![checkpoint(2)]);
    let next = Commit { batch: batch.into(), interrupts: vec![question(3)], ..commit(2_200) };
    write(&*store, &claim, next).await;
    let closed = [(2, None, true), (1, said("yes"), false), (3, None, false)];
    assert_eq!(brief(&*store).await, closed, "a checkpoint closes what it does not ask");
    write(&*store, &claim, Commit { finish: interrupted(&[]), ..commit(2_300) }).await;
    let closed = [(2, None, true), (1, said("yes"), false), (3, None, true)];
    assert_eq!(brief(&*store).await, closed, "so does the end of the run");
    let late = store.create_run(&us(), new_run("t", "r3"), answers(&[(2, "late")])).await;
    assert_eq!(late, Err(invariants::missing("interrupt", InterruptId(2))));
}

pub(super) async fn a_question_may_be_asked_again(store: Arc<dyn Store>) {
    parked(&*store).await;
    let claim = resume(&*store, "r2", &[(1, "yes")]).await;
    write(&*store, &claim, Commit { batch: these(vec![checkpoint(2)]).into(), ..commit(2_100) })
        .await;
    let mut again = question(2);
    again.node = "ask_later".to_owned();
    let asked = Commit {
        interrupts: vec![again.clone(), question(1)],
        finish: interrupted(&[2, 1]),
        ..commit(2_200)
    };
    write(&*store, &claim, asked).await;
    let open = [(2, None, false), (1, said("yes"), false)];
    assert_eq!(brief(&*store).await, open, "one that was answered stays answered");
    let read = rows(&*store).await;
    assert_eq!((&read[0].interrupt, &read[0].run), (&again, &claim.at.run));
    assert_eq!((&read[1].interrupt, read[1].run.as_str()), (&question(1), "r1"));
}

pub(super) async fn a_refused_answer_makes_no_run(store: Arc<dyn Store>) {
    parked(&*store).await;
    let them = principal("them");
    let mut other = new_run("t", "r1");
    other.created_at = Timestamp(7);
    begin_as(&*store, &them, other).await;
    begin_as(&*store, &us(), new_run("t2", "other")).await;
    let us = us();
    let before = super::dump(&*store, &[us.clone(), them.clone()]).await.expect("reads");
    let missing = |id| Err(invariants::missing("interrupt", InterruptId(id)));
    // A question that does not exist, one of another thread, and one of a missing thread.
    let create = async |who, thread, given: &[(u128, &str)]| {
        store.create_run(who, new_run(thread, "r9"), answers(given)).await
    };
    assert_eq!(create(&us, "t", &[(1, "yes"), (5, "no")]).await, missing(5));
    assert_eq!(create(&us, "t3", &[(1, "yes")]).await, missing(1));
    assert_eq!(create(&them, "t3", &[(1, "yes")]).await, missing(1));
    assert_eq!(super::dump(&*store, &[us.clone(), them]).await, Ok(before));
    store.create_run(&us, new_run("t", "r9"), BTreeMap::new()).await.expect("nothing is held");
}
