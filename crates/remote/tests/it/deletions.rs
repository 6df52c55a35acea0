//! Threads there belong to one thread here, and are deleted after it.

use crate::rig::{There, egress, graph_with_remote, last};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weftwork_graph::{Ctx, Graph, Input, START};
use weftwork_remote::{RemoteGraph, RemoteServer, RemoteThread};
use weftwork_runtime::{Recovery, RemoteDeletions, Runtime, RuntimeBuilder};
use weftwork_store::memory::MemoryStore;
use weftwork_types::message::{Message, Role};
use weftwork_types::port::{Egress, EgressError, EgressRequest, EgressResponse};
use weftwork_types::{BoxFuture, MessageId, Principal, ThreadId};

/// An HTTP client that can be cut off.
#[derive(Debug)]
struct Line {
    egress: Arc<dyn Egress>,
    cut: AtomicBool,
}

impl Egress for Line {
    fn send(&self, request: EgressRequest) -> BoxFuture<'_, Result<EgressResponse, EgressError>> {
        if self.cut.load(Ordering::SeqCst) {
            let error = EgressError::Connect { host: "there".to_owned(), reason: "cut".to_owned() };
            return Box::pin(std::future::ready(Err(error)));
        }
        self.egress.send(request)
    }
}

/// A local runtime with a conversation and a node, both with threads on the server.
struct Here {
    line: Arc<Line>,
    runtime: Runtime,
}

async fn here(there: &There, with: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> Here {
    let line = Arc::new(Line { egress: egress(&there.url), cut: AtomicBool::new(false) });
    let server = RemoteServer::new("helper", &there.url, Arc::clone(&line) as _).expect("valid");
    let talk = RemoteGraph::new(server.clone(), "talk").agent(&[]).expect("sound");
    let echo = graph_with_remote(RemoteGraph::new(server.clone(), "parent"), &["msg", "out"]);
    let builder = Runtime::builder(Arc::new(MemoryStore::new()))
        .graph("remote:helper", talk)
        .graph("around", echo)
        .remote_server(Arc::new(server));
    Here { line, runtime: with(builder).open().await.expect("opens") }
}

impl Here {
    /// Says something in a conversation, and returns the last text of the assistant.
    async fn say(&self, thread: &str, text: &str) -> String {
        let thread = self.runtime.thread("remote:helper", thread).expect("valid");
        let id = MessageId::new(format!("m-{text}")).expect("valid");
        let input = json!({"messages": [Message::text(id, Role::User, text)]});
        let ended = thread.start(input).await.expect("accepted");
        let state = ended.output().expect("completes")["messages"].clone();
        let messages: Vec<Message> = serde_json::from_value(state).expect("messages");
        messages.last().expect("a message").joined_text()
    }

    async fn delete(&self, thread: &str) {
        let id = ThreadId::new(thread).expect("valid");
        self.runtime.threads().delete(&id).await.expect("deletes");
        assert!(self.runtime.store().thread(&Principal::local(), &id).await.is_err());
    }

    async fn pass_on(&self) -> RemoteDeletions {
        self.runtime.delete_remote_threads().await.expect("reads")
    }
}

const NOTHING: RemoteDeletions = RemoteDeletions { deleted: 0, left: 0 };

#[tokio::test]
async fn all_threads_there_are_deleted_after_the_local_one() {
    let there = There::start().await;
    let here = here(&there, |builder| builder).await;
    here.say("t", "secret").await;
    here.say("other", "hello").await;
    let node = here.runtime.thread("around", "n").expect("valid");
    for _ in 0..2 {
        node.start(json!({"msg": "a"})).await.expect("accepted").output().expect("completes");
    }
    // One for each conversation, and one for each task.
    assert_eq!((there.threads().await, here.pass_on().await), (4, NOTHING));
    here.delete("t").await;
    here.delete("n").await;
    assert_eq!(there.threads().await, 4);
    assert_eq!(here.pass_on().await, RemoteDeletions { deleted: 3, left: 0 });
    assert_eq!((there.threads().await, here.pass_on().await), (1, NOTHING));
    assert_eq!(here.say("other", "again").await, "messages: 3");
}

#[tokio::test]
async fn a_local_deletion_does_not_wait_for_a_server_that_is_away() {
    let there = There::start().await;
    let here = here(&there, |builder| builder).await;
    here.say("t", "secret").await;
    here.line.cut.store(true, Ordering::SeqCst);
    here.delete("t").await;
    for _ in 0..3 {
        assert_eq!(here.pass_on().await, RemoteDeletions { deleted: 0, left: 1 });
    }
    here.line.cut.store(false, Ordering::SeqCst);
    // A thread of the same name begins anew, and is not the one that is deleted.
    assert_eq!(here.say("t", "hello").await, "messages: 1");
    assert_eq!(here.pass_on().await, RemoteDeletions { deleted: 1, left: 0 });
    assert_eq!(here.say("t", "again").await, "messages: 3");
    assert_eq!(there.threads().await, 1);
}

#[tokio::test]
async fn a_thread_that_is_gone_there_is_deleted_and_one_of_an_unknown_server_waits() {
    let there = There::start().await;
    let here = here(&there, |builder| builder).await;
    here.say("t", "secret").await;
    let store = Arc::clone(here.runtime.store());
    here.delete("t").await;
    let threads = there.runtime.threads();
    let gone = there.runtime.store().threads(&Principal::local(), 0, 9).await.expect("reads");
    threads.delete(&gone[0].id).await.expect("deletes");
    let clock = here.runtime.clock().as_ref();
    let nowhere = weftwork_runtime::delete_remote_threads(store.as_ref(), clock, &[]).await;
    assert_eq!(nowhere, Ok(RemoteDeletions { deleted: 0, left: 1 }));
    assert_eq!(here.pass_on().await, RemoteDeletions { deleted: 1, left: 0 });
}

#[tokio::test]
async fn a_runtime_with_recovery_passes_deletions_on_by_itself() {
    let there = There::start().await;
    let here = here(&there, |builder| builder.recovery(Recovery::Automatic)).await;
    here.say("t", "secret").await;
    here.delete("t").await;
    while there.threads().await > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_copy_answers_questions_of_its_own_there() {
    let there = There::start().await;
    let channels = ["q", "answer", "other", "note"];
    for thread in [RemoteThread::PerTask, RemoteThread::PerThread] {
        let graph = graph_with_remote(there.remote("inter").thread(thread), &channels);
        let runtime = crate::rig::in_memory(graph).await;
        let original = runtime.thread("around", "t").expect("valid");
        let asked = original.start(json!({"q": "x"})).await.expect("accepted");
        assert_eq!(asked.questions().len(), 1);
        let copy = original.copy("copy").await.expect("copies");
        for (thread, first) in [(&copy, "no"), (&original, "yes")] {
            thread.answer(json!(first)).await.expect("accepted");
            let ended = thread.answer(json!("done")).await.expect("accepted");
            let output = ended.output().expect("completes");
            assert_eq!(output["note"], json!(format!("done:{first}:done")));
        }
    }
    assert_eq!(there.threads().await, 4);
}

#[tokio::test]
async fn two_calls_of_one_task_have_two_threads_there() {
    let there = There::start().await;
    let remote = there.remote("parent");
    let twice = move |_: Input, ctx: Ctx| {
        let remote = remote.clone();
        async move {
            let first = remote.call(&ctx, json!({"msg": "a"})).await?;
            let second = remote.call(&ctx, json!({"msg": "a"})).await?;
            assert_eq!(first, second);
            remote.run(&ctx, second).await
        }
    };
    let channels = vec![last("msg"), last("out")];
    let graph = Graph::dynamic("around", channels).node("twice", twice).edge(START, "twice");
    let runtime = crate::rig::in_memory(graph.build().expect("sound")).await;
    let thread = runtime.thread("around", "t").expect("valid");
    thread.start(json!({})).await.expect("accepted").output().expect("completes");
    assert_eq!((there.runs().await, there.threads().await), (3, 3));
}
