//! Generated orchestrations whose processes are killed with SIGKILL at random: their results and the
//! requests to the model are those of the same orchestrations without a kill.

use crate::home::Home;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::process::Child;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;
use weftwork_testkit::fuzz::Random;
use weftwork_testkit::{LoopbackServer, Reply};

/// Deliverables of others in the conversation are no part of the context: there may be more when a step runs
/// again.
const WRITER: &str = "type: context\ncontext: You write.\nsources: [{kind: markdown}]\n";

/// Commands in which each orchestration ends.
const COMMANDS_MAX: usize = 40;

/// Number of orchestrations of the test.
fn stories() -> u64 {
    if std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full") { 200 } else { 6 }
}

/// Definitions that a seed makes: `boss`, `writer`, and agents with steps of their own.
struct Story {
    random: Random,
    steps: usize,
    agents: BTreeMap<String, String>,
}

impl Story {
    fn agents(seed: u64) -> BTreeMap<String, String> {
        let random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut story = Self { random, steps: 0, agents: BTreeMap::new() };
        story.random.number();
        story.agents.insert("writer".to_owned(), WRITER.to_owned());
        story.team("boss".to_owned(), 0);
        story.agents
    }

    /// Makes an agent with steps.
    fn team(&mut self, slug: String, depth: usize) {
        let first = self.ask();
        let mut steps = vec![first];
        steps.extend((0..1 + self.random.below(3)).map(|_| self.step(depth)));
        let definition = json!({
            "type": "context", "context": "You lead.", "sources": [{"kind": "markdown"}, {"kind": "steps"}],
            "orchestration": {"steps": steps},
        });
        self.agents.insert(slug, definition.to_string());
    }

    fn id(&mut self) -> String {
        self.steps += 1;
        format!("s{}", self.steps)
    }

    fn ask(&mut self) -> Value {
        let id = self.id();
        json!({"id": id, "agent": "writer", "message": format!("{id} of {{{{message}}}}")})
    }

    fn step(&mut self, depth: usize) -> Value {
        let kind = self.random.below(if depth < 2 { 7 } else { 4 });
        let id = self.id();
        match kind {
            0 | 1 => self.ask(),
            2 => {
                let mode = ["sequential", "parallel"][self.random.below(2)];
                let list: Vec<_> = (0..=self.random.below(3)).collect();
                json!({"id": id, "agent": "writer", "message": format!("{id} for {{{{item}}}}"),
                    "for_each": {"list": list, "mode": mode}})
            }
            3 => json!({"id": id, "checkpoint": {"question": format!("Go past {id}?")}}),
            4 => {
                let slug = format!("team-{id}");
                self.team(slug.clone(), depth + 1);
                json!({"id": id, "agent": slug, "message": format!("{id} of all"), "payload": {"orchestrate": true}})
            }
            _ => {
                let group = ["steps", "parallel"][kind - 5];
                let steps: Vec<_> = (0..2).map(|_| self.step(depth + 1)).collect();
                json!({group: steps})
            }
        }
    }
}

/// The requests of a model, by a hash of their messages. Some have not been answered yet.
#[derive(Debug, Clone, Default)]
struct Asked(Arc<Mutex<BTreeMap<u64, usize>>>);

impl Asked {
    fn count(&self) -> BTreeMap<u64, usize> {
        self.0.lock().expect("no panic").clone()
    }
}

/// A home with the agents of a story, and its model.
struct Scene {
    home: Home,
    _model: LoopbackServer,
    asked: Asked,
    arrived: mpsc::UnboundedReceiver<()>,
}

impl Scene {
    async fn new(agents: &BTreeMap<String, String>) -> Self {
        let (sender, arrived) = mpsc::unbounded_channel();
        let asked = Asked::default();
        let seen = asked.clone();
        let model = LoopbackServer::start(move |_, request| {
            let body: Value = serde_json::from_slice(&request.body).expect("JSON");
            let mut hasher = DefaultHasher::new();
            body["messages"].to_string().hash(&mut hasher);
            let hash = hasher.finish();
            *seen.0.lock().expect("no panic").entry(hash).or_default() += 1;
            sender.send(()).ok();
            let choice = json!({"index": 0, "delta": {"content": format!("Text {hash:x}.")}, "finish_reason": "stop"});
            let stream =
                format!("data: {}\n\ndata: [DONE]\n\n", json!({"id": "c", "choices": [choice]}));
            Reply::full(200, &[("content-type", "text/event-stream")], stream)
        });
        let model = model.await.expect("a server");
        let home = Home::new().provider(&model.url("/v1"));
        for (slug, text) in agents {
            let folder = home.path("agents").join(slug);
            fs::create_dir_all(&folder).expect("is made");
            fs::write(folder.join("agent.yaml"), text).expect("is written");
        }
        Self { home, _model: model, asked, arrived }
    }

    fn lines(&self, args: &[&str]) -> Vec<Value> {
        let came = tokio::task::block_in_place(|| self.home.weft(args));
        assert_eq!(came.status, Some(0), "{args:?}: {came:?}");
        came.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Begins a command that goes on with the orchestration; `None` once it has ended.
    fn next(&self) -> Option<Child> {
        let orchestrate = r#"{"orchestrate": true}"#;
        let begin = ["agents", "run", "boss", "--mode", "build", "--conversation", "c"];
        let begin = [&begin[..], &["--payload", orchestrate, "Go."]].concat();
        let command = |args: &[&str]| Some(self.home.command(args).spawn().expect("it starts"));
        let threads = self.lines(&["threads", "list", "--json"]);
        // A process may die between the conversation and its first run.
        let Some(thread) = threads.iter().find(|of| !of["status"].is_null()) else {
            return command(&begin);
        };
        let id = thread["id"].as_str().expect("an id");
        match thread["status"].as_str() {
            Some("completed") => None,
            Some("interrupted") => {
                let waiting = self.lines(&["approvals", "list", "--json"]);
                let open = waiting.iter().find(|of| of["type"] == "waiting").expect("an approval");
                let question = open["question"].as_str().expect("an id");
                command(&["threads", "resume", id, "--approve", "--question", question])
            }
            _ => command(&["threads", "resume", id]),
        }
    }

    /// Carries the orchestration out to its end, with kills as they are drawn, and returns its result
    /// and its requests.
    async fn run(mut self, kills: &mut Option<Random>) -> Ended {
        let mut killed = 0;
        let mut commands = 0;
        let mut last = String::new();
        while let Some(mut child) = self.next() {
            commands += 1;
            assert!(commands < COMMANDS_MAX, "it does not end: {last}");
            let drawn = kills.as_mut().filter(|_| killed < 3);
            if let Some(random) = drawn {
                killed += 1;
                let requests = random.below(4);
                let spins = random.below(40_000);
                for _ in 0..requests {
                    tokio::select! {
                        _ = self.arrived.recv() => {}
                        () = ended(&mut child) => break,
                    }
                }
                tokio::task::block_in_place(|| (0..spins).for_each(|_| std::thread::yield_now()));
                child.kill().expect("it is there");
            }
            let ended = tokio::task::block_in_place(|| child.wait_with_output()).expect("it ends");
            last = String::from_utf8_lossy(&ended.stderr).into_owned();
            while self.arrived.try_recv().is_ok() {}
        }
        let exported =
            tokio::task::block_in_place(|| self.home.weft(&["conversations", "export", "c"]));
        let records: Value = serde_json::from_str(&exported.out).expect("JSON");
        let made: Vec<_> = records["deliverables"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|of| {
                assert_eq!(of["versions"].as_array().expect("a list").len(), 1, "{of}");
                of["versions"][0]["content"].as_str().expect("a text").to_owned()
            })
            .collect();
        Ended { made, asked: self.asked.count(), killed }
    }
}

/// Waits until a process has ended.
async fn ended(child: &mut Child) {
    while child.try_wait().expect("it is there").is_none() {
        tokio::task::yield_now().await;
    }
}

#[derive(Debug)]
struct Ended {
    /// The deliverables of all agents.
    made: Vec<String>,
    asked: BTreeMap<u64, usize>,
    killed: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orchestration_that_is_killed_gives_what_it_gives_without_a_kill() {
    let mut repeated = 0;
    let mut killed = 0;
    for seed in 1..=stories() {
        let agents = Story::agents(seed);
        let plain = Scene::new(&agents).await.run(&mut None).await;
        assert!(plain.asked.values().all(|count| *count == 1), "{seed}: {plain:?}");
        let cut = Scene::new(&agents).await.run(&mut Some(Random::new(seed * 7919))).await;
        let mut expected = plain.made.clone();
        let mut found = cut.made.clone();
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "{seed}: {agents:#?}");
        let requests = |of: &Ended| of.asked.keys().copied().collect::<Vec<_>>();
        assert_eq!(requests(&cut), requests(&plain), "{seed}: {agents:#?}");
        let more: usize = cut.asked.values().map(|count| count - 1).sum();
        // Only requests that were on their way at a kill are made again: of parallel steps, several.
        repeated += more;
        killed += cut.killed;
    }
    println!(
        "{killed} kills in {} orchestrations; {repeated} requests were on their way and made again",
        stories()
    );
}
