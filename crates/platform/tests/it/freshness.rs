//! Generated writes and reads by two principals in two processes: a build gets the last value of each
//! source, and no value of another principal.

use crate::bench::Bench;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weftwork_models::scripted::Step;
use weftwork_platform::{HostedAgents, NewRow};
use weftwork_store::{PutOptions, Store, StoreItems};
use weftwork_types::caller::Caller;
use weftwork_types::item::{ItemRef, Namespace, WriteItems as _};
use weftwork_types::port::{Platform, TaskCaller};
use weftwork_types::task::TaskResponse;
use weftwork_types::{CallChain, OrgId, Principal, Timestamp};

/// Steps of a conversation, which is followed by another one.
const LENGTH: usize = 40;

/// Numbers that follow from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// A principal, and the values that its next build is to have.
struct Actor {
    who: Principal,
    sources: &'static [&'static str],
    conversation: usize,
    steps: usize,
    values: BTreeMap<&'static str, String>,
    ids: BTreeMap<&'static str, String>,
}

impl Actor {
    fn new(org: &str, subject: &str, sources: &'static [&'static str]) -> Self {
        let who = Principal::new(OrgId::new(org).expect("an id"), subject);
        let values = BTreeMap::new();
        Self { who, sources, conversation: 0, steps: 0, values, ids: BTreeMap::new() }
    }

    fn id(&self) -> String {
        format!("c{}", self.conversation)
    }

    /// Begins another conversation, which has no plan and no deliverable.
    fn begin(&mut self) {
        self.conversation += 1;
        self.steps = 0;
        self.values.remove("plan");
        self.values.remove("deliverable");
        self.ids.clear();
    }
}

/// A process.
struct Process {
    bench: Bench,
    platform: HostedAgents,
    items: StoreItems<dyn Store>,
}

impl Process {
    async fn new(of: Bench) -> Self {
        let platform = HostedAgents::new(of.runtime.clone(), of.agents.clone());
        let clock = Arc::clone(of.runtime.clock());
        let items = StoreItems::of(Arc::clone(&of.store), clock);
        Self { bench: of, platform, items }
    }

    async fn ask(&self, who: &Principal, request: Value) -> TaskResponse {
        let by = TaskCaller {
            principal: who.clone(),
            caller: Caller::local("request").expect("an id"),
            parent_span: None,
            idempotency_key: None,
            chain: CallChain::default(),
        };
        let response =
            self.platform.task(by, serde_json::from_value(request).expect("a request")).await;
        assert!(response.success, "{response:?}");
        response
    }

    /// Writes a value of a source.
    async fn write(&self, actor: &mut Actor, source: &'static str, value: &str) {
        match source {
            "store" => {
                let namespace = Namespace::new(["facts"]).expect("a namespace");
                let at = ItemRef::new(namespace, "fact").expect("a key");
                let put =
                    self.items.put(&actor.who, &at, json!({"fact": value}), PutOptions::default());
                put.await.expect("writes");
            }
            "file" => {
                self.put_definition(actor, value).await;
                // A conversation goes on with the version that it began with.
                actor.begin();
            }
            record => {
                let mode = if record == "plan" { "plan" } else { "build" };
                let member = format!("{record}Id");
                let payload = match actor.ids.get(record) {
                    Some(id) => json!({"action": "edit", (member): id, "content": value}),
                    None => json!({"action": "create", "content": value}),
                };
                let request = json!({"agent": "facts", "conversationId": actor.id(), "mode": mode,
                    "payload": payload});
                let response = self.ask(&actor.who, request).await;
                let id = response.content.expect("a record")["id"].clone();
                actor.ids.insert(record, id.as_str().expect("an id").to_owned());
            }
        }
        actor.values.insert(source, value.to_owned());
    }

    async fn put_definition(&self, actor: &Actor, fact: &str) {
        let kinds = actor.sources.iter().map(|source| match *source {
            "store" => json!({"kind": "store", "namespace": ["facts"]}),
            "file" => json!({"kind": "files", "paths": ["fact.md"]}),
            "plan" => json!({"kind": "plan"}),
            _ => json!({"kind": "deliverables"}),
        });
        let kinds: Vec<_> = kinds.collect();
        let text = json!({"type": "context", "sources": kinds}).to_string();
        let mut files = BTreeMap::from([("agent.yaml".to_owned(), text)]);
        if actor.sources.contains(&"file") {
            files.insert("fact.md".to_owned(), fact.to_owned());
        }
        let organization = Some(actor.who.org.to_string());
        let slug = Some("facts".to_owned());
        let row = NewRow { slug, organization, files, ..NewRow::default() };
        let put = self.bench.agents.put_row(&*self.bench.store, &row, Timestamp(1)).await;
        put.expect("is sound");
    }

    /// Builds, and compares what the model got.
    async fn read(&self, actor: &mut Actor, made: &str) {
        let answer = made.to_owned();
        self.bench.during_next(move || Step::text(answer));
        let mut payload = json!({});
        if let Some(id) = actor.ids.get("deliverable") {
            payload["deliverableId"] = json!(id);
        }
        let request = json!({"agent": "facts", "conversationId": actor.id(), "mode": "build",
            "userMessage": "Go on.", "payload": payload});
        let response = self.ask(&actor.who, request).await;
        let asked = self.bench.requests().pop().expect("the model was asked");
        let texts: Vec<_> = asked.messages.iter().map(|message| message.joined_text()).collect();
        let words = texts.iter().flat_map(|text| text.split(|c: char| !c.is_alphanumeric()));
        let found: BTreeSet<&str> = words.filter(|word| word.starts_with("Value")).collect();
        // The messages before have what the model made earlier.
        let expected: BTreeSet<&str> = actor.values.values().map(String::as_str).collect();
        assert_eq!(found, expected, "{:?} {texts:?}", actor.who);
        let id = response.metadata["deliverable"]["id"].as_str().expect("an id").to_owned();
        actor.ids.insert("deliverable", id);
        actor.values.insert("deliverable", made.to_owned());
    }
}

async fn play(mut actors: [Actor; 2], steps: usize, seed: u64) {
    let first = Process::new(Bench::new([], []).await).await;
    let store = Arc::clone(&first.bench.store);
    let processes = [first, Process::new(Bench::over(store, [], []).await).await];
    let mut numbers = Numbers(seed);
    for actor in &mut actors {
        processes[0].put_definition(actor, "Value0").await;
        if actor.sources.contains(&"file") {
            actor.values.insert("file", "Value0".to_owned());
        }
    }
    let mut reads = 0;
    for step in 1..=steps {
        let process = &processes[usize::from(numbers.below(2) == 1)];
        let store = &*process.bench.store;
        process.bench.agents.follow(store, Timestamp(1), || None).await.expect("reads");
        let actor = &mut actors[usize::from(numbers.below(2) == 1)];
        actor.steps += 1;
        if actor.steps > LENGTH {
            actor.begin();
        }
        let value = format!("Value{step}of{}", actor.who.subject);
        match numbers.below(7) {
            0..4 => {
                // Fewer changes of the definition, each of which begins a conversation.
                let source = actor.sources[numbers.below(actor.sources.len() as u64) as usize];
                let is_rare = source == "file" && numbers.below(4) > 0;
                if !is_rare {
                    process.write(actor, source, &value).await;
                }
            }
            _ => {
                process.read(actor, &value).await;
                reads += 1;
            }
        }
    }
    assert!(reads > steps / 4, "{reads}");
}

/// The organisations have a long-term store, files, plans and deliverables of their own.
#[tokio::test]
async fn two_organisations_read_their_last_values_and_no_others() {
    let sources = &["store", "file", "plan", "deliverable"];
    play([Actor::new("acme", "ada", sources), Actor::new("other", "bob", sources)], 2_000, 17)
        .await;
}

/// Two subjects of an organisation have plans and deliverables of their own, also under one id.
#[tokio::test]
async fn two_subjects_read_their_last_values_and_no_others() {
    let sources = &["plan", "deliverable"];
    play([Actor::new("acme", "ada", sources), Actor::new("acme", "eve", sources)], 1_000, 29).await;
}
