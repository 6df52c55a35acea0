//! Builds of agents in processes that are killed with SIGKILL. The model is a server that counts the
//! requests that reach it.

use crate::home::{Came, Home};
use serde_json::{Value, json};
use std::fs;
use std::process::Child;
use tokio::sync::mpsc;
use weftwork_testkit::{LoopbackServer, Reply};

const GOLF: &str = "type: context\ncontext: Write a ruling.\n";
/// The first answer has no such section, so that the model is asked a second time.
const WITH_SECTION: &str = "type: context\ncontext: Write a ruling.\ndeliverable: {format: markdown, sections: [Ruling]}\n";

/// Number of kills of each test.
fn kills() -> usize {
    if std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full") { 20 } else { 4 }
}

fn reply(text: &str) -> Reply {
    let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": "stop"});
    let chunk = json!({"id": "c", "choices": [choice]});
    let stream = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    Reply::full(200, &[("content-type", "text/event-stream")], stream)
}

/// A home with an agent, and its model.
struct Scene {
    home: Home,
    model: LoopbackServer,
    asked: mpsc::UnboundedReceiver<usize>,
}

impl Scene {
    async fn new(
        definition: &str,
        answer: impl Fn(usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let (sender, asked) = mpsc::unbounded_channel();
        let model = LoopbackServer::start(move |number, _| {
            sender.send(number).expect("the test is there");
            answer(number)
        });
        let model = model.await.expect("a server");
        let home = Home::new().provider(&model.url("/v1"));
        fs::create_dir_all(home.path("agents/golf")).expect("is made");
        fs::write(home.path("agents/golf/agent.yaml"), definition).expect("is written");
        Self { home, model, asked }
    }

    fn weft(&self, args: &[&str]) -> Came {
        tokio::task::block_in_place(|| self.home.weft(args))
    }

    fn json(&self, args: &[&str]) -> Value {
        let came = self.weft(args);
        assert_eq!(came.status, Some(0), "{args:?}: {came:?}");
        serde_json::from_str(&came.out).expect("JSON")
    }

    /// Begins a build, and waits until the model has this number of requests.
    async fn begin(&mut self, requests: usize) -> Child {
        let args = ["agents", "run", "golf", "--mode", "build", "--conversation", "c", "Write it."];
        let child = self.home.command(&args).spawn().expect("it starts");
        for _ in 0..requests {
            self.asked.recv().await.expect("the model is asked");
        }
        child
    }

    fn thread(&self) -> String {
        let shown = self.json(&["conversations", "show", "c"]);
        shown["conversation"]["thread"].as_str().expect("an id").to_owned()
    }

    /// Number of model calls on record.
    fn recorded(&self, thread: &str) -> usize {
        let came = self.weft(&["threads", "journal", thread, "--json"]);
        let lines = came.out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.filter(|call| call.to_string().contains("\"model\"")).count()
    }

    /// The deliverables of the conversation, with their versions.
    fn deliverables(&self) -> Value {
        self.json(&["conversations", "export", "c"])["deliverables"].clone()
    }
}

fn kill(mut child: Child) {
    child.kill().expect("it is there");
    child.wait().expect("it ends");
}

/// The answer and its deliverable are stored in one commit: a process that dies has stored both or
/// neither. If both, the model is not asked again; if neither, the deliverable is that of the next
/// answer. There is one version in each case.
#[tokio::test(flavor = "multi_thread")]
async fn a_build_killed_about_its_answer_makes_one_deliverable_of_a_recorded_answer() {
    let mut stored = 0;
    for number in 0..kills() {
        let mut scene = Scene::new(GOLF, |number| reply(&format!("Answer {number}."))).await;
        let child = scene.begin(1).await;
        // From the answer on its way to after the commit.
        tokio::task::block_in_place(|| {
            (0..number.pow(2) * 20_000 / kills().pow(2)).for_each(|_| std::thread::yield_now());
        });
        kill(child);
        let thread = scene.thread();
        let recorded = scene.recorded(&thread);
        let before = scene.deliverables();
        let made = before.as_array().expect("a list").len();
        assert_eq!(made, recorded, "one commit has both, or neither: {before}");
        stored += made;
        if made == 0 {
            let came = scene.weft(&["threads", "resume", &thread]);
            assert_eq!(came.status, Some(0), "{came:?}");
        }
        let calls = scene.model.received().len();
        assert_eq!(calls, if made == 1 { 1 } else { 2 });
        let after = scene.deliverables();
        assert_eq!(after.as_array().expect("a list").len(), 1, "{after}");
        let versions = after[0]["versions"].as_array().expect("a list");
        assert_eq!(versions.len(), 1, "{after}");
        assert_eq!(versions[0]["content"], format!("Answer {}.", calls - 1), "{after}");
        assert_eq!(scene.recorded(&thread), 1, "one answer is on record");
    }
    println!("{stored} of {} were stored before the kill", kills());
}

/// An answer that is on record when the process dies, before there is a deliverable, is not asked for
/// again.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_on_record_is_asked_for_once_though_the_build_is_killed() {
    for _ in 0..kills() {
        let mut scene = Scene::new(WITH_SECTION, |number| match number {
            0 => reply("No section."),
            // The process waits for this answer when it is killed.
            1 => Reply::nothing().hang(),
            _ => reply("## Ruling\nTwo strokes."),
        })
        .await;
        let child = scene.begin(2).await;
        let thread = scene.thread();
        // The run commits what is recorded while its node waits.
        while scene.recorded(&thread) == 0 {}
        kill(child);
        assert_eq!(scene.deliverables(), json!([]));
        let came = scene.weft(&["threads", "resume", &thread]);
        assert_eq!(came.status, Some(0), "{came:?}");
        let received = scene.model.received();
        assert_eq!(received.len(), 3, "the first request is not made again");
        let made = scene.deliverables();
        assert_eq!(made.as_array().expect("a list").len(), 1, "{made}");
        let versions = made[0]["versions"].as_array().expect("a list");
        assert_eq!(versions.len(), 1, "{made}");
        assert_eq!(versions[0]["content"], "## Ruling\nTwo strokes.", "{made}");
    }
}
