use super::dump;
use super::fixture::{
    answers, at, begin, begin_as, call, commit, custom_event, fact, interrupted, keyed, new_run,
    principal, question, record, register, settled, thread, us, write,
};
use std::sync::Arc;
use weftwork_store::Commit;
use weftwork_store::Store;
use weftwork_store::StoreError;
use weftwork_store::invariants;
use weftwork_store::memory::MemoryStore;
use weftwork_store::sequence::{
    Content, DELIVERABLES, PLANS, RECORD_CONTENTS, Sequence, SequenceQuery, SequenceWrite,
};
use weftwork_store::{CheckpointBatch, NewCheckpoint, NewPending, Pending};
use weftwork_store::{ExportThreads, ImportThreads, ThreadExport};
use weftwork_types::canonical::{Hash, hash_bytes};
use weftwork_types::tool::Effect;
use weftwork_types::{CheckpointId, Timestamp};

fn checkpoint(id: u128, ns: &str, blobs: &[&[u8]]) -> NewCheckpoint {
    NewCheckpoint {
        ns: ns.to_owned(),
        id: CheckpointId(id),
        of: (id > 1).then(|| CheckpointId(id - 1)),
        tasks: if id > 1 { vec![7, 8] } else { Vec::new() },
        body: format!("body of {id}\u{0}").into_bytes(),
        blobs: blobs.iter().map(|blob| hash_bytes(blob)).collect(),
    }
}

fn part(of: u128, what: Pending, body: &str, blobs: &[&[u8]]) -> NewPending {
    let blobs = blobs.iter().map(|blob| hash_bytes(blob)).collect();
    let of = CheckpointId(of);
    let body = body.as_bytes().to_vec();
    NewPending { ns: String::new(), of, what, body, blobs }
}

fn blob(body: &[u8]) -> (Hash, Vec<u8>) {
    (hash_bytes(body), body.to_vec())
}

/// Returns writes of two plans and a deliverable, of which one content was deleted.
fn records(thread_id: &str) -> Vec<SequenceWrite> {
    let to = |kind: &str, name: &str| Sequence::new(kind, format!("{thread_id}/{name}"));
    let content = |text: &str| Content { format: 1, bytes: text.as_bytes().to_vec() };
    vec![
        SequenceWrite::append(to(PLANS, "p"), content("one")),
        SequenceWrite::append(to(PLANS, "p"), Content { format: 7, bytes: vec![0, 255] }),
        SequenceWrite::append(to(PLANS, "B"), content("first by its bytes")),
        SequenceWrite::append(to(DELIVERABLES, "d"), content("old")),
        SequenceWrite::replace(to(DELIVERABLES, "d"), content("new")),
        SequenceWrite::replace(to(RECORD_CONTENTS, "plan/p/v1"), content("gone")),
        SequenceWrite::delete(to(RECORD_CONTENTS, "plan/p/v1"), u64::MAX),
        SequenceWrite::replace(to(RECORD_CONTENTS, "plan/p/v2"), content("text")),
        // No record of the thread, and none that is exported.
        SequenceWrite::append(Sequence::new(PLANS, format!("{thread_id}-2/p")), content("other")),
        SequenceWrite::append(to("mail", "p"), content("mail")),
    ]
}

/// Creates a thread with rows in every table: a run that ended at two questions, and an unfinished
/// run that answered the first of them.
async fn fill(store: &dyn Store, thread_id: &str) {
    let first = format!("{thread_id}1");
    let second = format!("{thread_id}2");
    let worker = register(store, "w1", 1_000).await;
    let mut new = keyed(new_run(thread_id, &first), &format!("key of {first}"));
    new.at = at(thread_id, &first);
    let claim = begin_as(store, &us(), new).await;
    let paid = settled(&call(2, Effect::StateChange), serde_json::json!({"paid": 0.1}));
    record(store, &claim, vec![call(1, Effect::ReadOnly), paid]).await;
    let batch = CheckpointBatch {
        checkpoints: vec![
            checkpoint(1, "", &[b"two", b"one", b"two"]),
            checkpoint(2, "", &[]),
            checkpoint(1, "sub:1", &[b"one"]),
        ],
        pending: vec![
            part(2, Pending::Tasks, "a task", &[b"three"]),
            part(2, Pending::Outside, "from outside", &[]),
            part(2, Pending::Tasks, "another task", &[]),
            part(1, Pending::Tasks, "an older one", &[]),
        ],
        blobs: vec![blob(b"one"), blob(b"two"), blob(b"three")],
        layouts: vec![blob(b"names")],
    };
    write(
        store,
        &claim,
        Commit {
            batch: batch.into(),
            events: vec![custom_event(1), custom_event(2)],
            sequence_writes: records(thread_id),
            ..commit(1_100)
        },
    )
    .await;
    let asked = Commit {
        interrupts: vec![question(1), question(2)],
        events: vec![custom_event(3)],
        finish: interrupted(&[1, 2]),
        ..commit(1_200)
    };
    write(store, &claim, asked).await;
    store.record_usage(&us(), fact(&format!("i{first}"), &first, 1_050)).await.expect("records");
    let next = new_run(thread_id, &second);
    let next_at = next.at.clone();
    store.create_run(&us(), next, answers(&[(1, "yes")])).await.expect("makes a run");
    let (claim, _) = store.claim(&us(), &next_at, &worker, Timestamp(9_500)).await.expect("claims");
    write(store, &claim, Commit { events: vec![custom_event(4)], ..commit(1_300) }).await;
    store.request_cancel(&us(), &next_at).await.expect("asks");
}

async fn read(store: &dyn Store, thread_id: &str) -> ThreadExport {
    store.export_thread(&us(), &thread(thread_id)).await.expect("reads")
}

pub(super) async fn a_whole_thread_has_everything_in_order(store: Arc<dyn Store>) {
    fill(&*store, "t").await;
    let whole = read(&*store, "t").await;
    assert_eq!(Ok(&whole.thread), store.thread(&us(), &thread("t")).await.as_ref());
    let subjects: Vec<_> = whole.runs.iter().map(|run| run.subject.as_str()).collect();
    assert_eq!(subjects, ["someone at us", "someone at us"]);
    let seqs: Vec<Vec<u64>> =
        whole.runs.iter().map(|run| run.events.iter().map(|event| event.seq).collect()).collect();
    assert_eq!(seqs, [vec![1, 2, 3], vec![1]]);
    let answered: Vec<_> = whole.interrupts.iter().map(|row| row.answer.is_some()).collect();
    assert_eq!((answered, whole.calls.len(), whole.usage.len()), (vec![true, false], 2, 1));
    let checkpoints: Vec<_> = whole
        .kept
        .checkpoints
        .iter()
        .map(|new| (new.ns.as_str(), new.id.0, new.blobs.len()))
        .collect();
    assert_eq!(checkpoints, [("", 1, 2), ("", 2, 0), ("sub:1", 1, 1)]);
    let pending: Vec<_> = whole
        .kept
        .pending
        .iter()
        .map(|part| (part.of.0, String::from_utf8_lossy(&part.body)))
        .collect();
    let expected = [(1, "an older one"), (2, "from outside"), (2, "a task"), (2, "another task")];
    assert_eq!(pending, expected.map(|(of, body)| (of, body.into())));
    let found = whole.records.iter().map(|row| {
        let Sequence { kind, key } = &row.sequence;
        format!("{kind} {key} {} {:?} {}", row.version, row.at, row.content.bytes.len())
    });
    let expected = [
        "thread:content t/plan/p/v2 1 Timestamp(1100) 4",
        "thread:deliverable t/d 2 Timestamp(1100) 3",
        "thread:plan t/B 1 Timestamp(1100) 18",
        "thread:plan t/p 1 Timestamp(1100) 3",
        "thread:plan t/p 2 Timestamp(1100) 2",
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert_eq!(whole.kept.blobs.len(), 3);
    assert!(whole.kept.layouts.is_empty(), "the graph crate knows which those are");
    let missing = store.export_thread(&us(), &thread("other")).await;
    assert_eq!(missing, Err(invariants::missing("thread", "other")));
    let theirs = store.export_thread(&principal("them"), &thread("t")).await;
    assert_eq!(theirs, Err(invariants::missing("thread", "t")));
}

pub(super) async fn a_thread_goes_whole_to_another_store_and_back(store: Arc<dyn Store>) {
    fill(&*store, "t").await;
    let lines = dump(&*store, &[us()]).await.expect("reads");
    let whole = read(&*store, "t").await;
    let other = MemoryStore::new();
    other.import_thread(&us(), whole.clone()).await.expect("puts");
    assert_eq!(dump(&other, &[us()]).await.as_ref(), Ok(&lines));
    let there = other.export_thread(&us(), &thread("t")).await.expect("reads");
    assert_eq!(there, whole);
    let them = principal("them");
    let mut there = there;
    let layouts = vec![blob(b"names")];
    there.kept.layouts.clone_from(&layouts);
    store.import_thread(&them, there).await.expect("an organisation has its own");
    let theirs = store.export_thread(&them, &thread("t")).await.expect("reads");
    assert_eq!(theirs, whole);
    let names = store.layout(&them, hash_bytes(b"names")).await.expect("reads");
    assert_eq!(names.as_deref(), Some(&b"names"[..]));
    assert_eq!(dump(&*store, &[us()]).await.as_ref(), Ok(&lines), "ours is as it was");
}

pub(super) async fn a_thread_that_was_put_goes_on(store: Arc<dyn Store>) {
    fill(&*store, "t").await;
    let whole = read(&*store, "t").await;
    let them = principal("them");
    store.import_thread(&them, whole).await.expect("puts");
    let orphans = store.orphans(Timestamp(99_000), 9).await.expect("reads");
    let (made_by, run) = orphans.iter().find(|(who, _)| who.org == them.org).expect("theirs");
    assert_eq!((made_by.subject.as_str(), run.fence), ("someone at us", 1));
    let worker = register(&*store, "w2", 99_000).await;
    let taken = store.claim(&them, &run.new.at, &worker, Timestamp(99_001)).await;
    let (claim, run) = taken.expect("the other worker is dead");
    assert!(run.cancel_requested);
    let next =
        Commit { events: vec![custom_event(5)], interrupts: vec![question(2)], ..commit(99_002) };
    let committed = store.commit(&them, &claim, next).await.expect("commits");
    assert_eq!(committed.first_seq, 2);
    let more =
        CheckpointBatch { checkpoints: vec![checkpoint(3, "", &[])], ..CheckpointBatch::default() };
    let last = Commit { batch: more.into(), finish: interrupted(&[2]), ..commit(99_003) };
    store.commit(&them, &claim, last).await.expect("commits");
    let head = store.thread(&them, &thread("t")).await.expect("reads").head;
    assert_eq!(head, Some(CheckpointId(3)));
}

pub(super) async fn a_thread_is_put_only_where_none_is(store: Arc<dyn Store>) {
    fill(&*store, "t").await;
    let whole = read(&*store, "t").await;
    let before = dump(&*store, &[us()]).await;
    let put = store.import_thread(&us(), whole.clone()).await;
    assert_eq!(put, Err(invariants::thread_exists(&thread("t"))));
    let mut renamed = whole.clone();
    renamed.thread.id = thread("u");
    renamed.records.clear();
    for run in &mut renamed.runs {
        run.row.new.at.thread = thread("u");
    }
    let reused = store.import_thread(&us(), renamed.clone()).await;
    assert_eq!(reused, Err(invariants::run_id_reused(&renamed.runs[0].row.new.at)));
    renamed.runs[0].row.new.at = at("u", "u1");
    renamed.runs.truncate(1);
    let reused = store.import_thread(&us(), renamed.clone()).await;
    assert_eq!(reused, Err(invariants::key_reused("key of t1")));
    let kept =
        CheckpointBatch { checkpoints: vec![checkpoint(1, "", &[])], ..CheckpointBatch::default() };
    store.put_checkpoints(&us(), &thread("v"), kept).await.expect("keeps");
    let mut nameless = whole;
    nameless.thread.id = thread("v");
    nameless.runs.clear();
    nameless.records.clear();
    let put = store.import_thread(&us(), nameless).await;
    assert_eq!(
        put,
        Err(invariants::thread_exists(&thread("v"))),
        "it has checkpoints without a row"
    );
    assert_eq!(dump(&*store, &[us()]).await, before);
}

pub(super) async fn parts_that_do_not_belong_together_are_refused(store: Arc<dyn Store>) {
    begin(&*store, "other", "r").await;
    fill(&*store, "t").await;
    let whole = read(&*store, "t").await;
    let them = principal("them");
    let bad: [fn(&mut ThreadExport); 8] = [
        |whole| whole.runs[0].row.new.at.thread = thread("other"),
        |whole| whole.runs.reverse(),
        |whole| drop(whole.runs[0].events.remove(1)),
        |whole| drop(whole.kept.blobs.remove(1)),
        |whole| whole.kept.blobs[0].1.push(0),
        |whole| whole.records[0].sequence.key = "other/plan/p/v2".to_owned(),
        |whole| whole.records[0].sequence.kind = "mail".to_owned(),
        |whole| whole.records.push(whole.records[0].clone()),
    ];
    for change in bad {
        let mut changed = whole.clone();
        change(&mut changed);
        let put = store.import_thread(&them, changed).await;
        assert!(matches!(put, Err(StoreError::Corrupt { .. })), "{put:?}");
    }
    assert_eq!(store.threads(&them, 0, 9).await, Ok(Vec::new()));
}

pub(super) async fn records_go_with_their_thread_and_can_be_changed_there(store: Arc<dyn Store>) {
    fill(&*store, "t").await;
    let whole = read(&*store, "t").await;
    let them = principal("them");
    // What an earlier thread left in the same place is no part of it.
    let plan = Sequence::new(PLANS, "t/p");
    let content = |text: &str| Content { format: 1, bytes: text.as_bytes().to_vec() };
    let left = SequenceWrite::append(plan.clone(), content("left"));
    store.write_sequences(&them, vec![left], Timestamp(1)).await.expect("writes");
    store.import_thread(&them, whole.clone()).await.expect("puts");
    let rows = |who| store.sequence_rows(who, SequenceQuery::of(plan.clone(), 0));
    let us = us();
    let ours = rows(&us).await;
    assert_eq!(ours.as_ref().map(Vec::len), Ok(2));
    assert_eq!(rows(&them).await, ours);
    assert_eq!(store.effect_version(&them, &plan).await, Ok(2));
    let next = SequenceWrite::append(plan.clone(), content("three")).expecting(2);
    store.write_sequences(&them, vec![next.clone()], Timestamp(2)).await.expect("writes");
    let late = store.write_sequences(&them, vec![next], Timestamp(2)).await;
    assert!(matches!(late, Err(StoreError::Conflict { .. })), "{late:?}");
    assert_eq!(rows(&us).await, ours);
    let there = store.export_thread(&them, &thread("t")).await.expect("reads");
    assert_eq!(there.records.len(), whole.records.len() + 1);
}
