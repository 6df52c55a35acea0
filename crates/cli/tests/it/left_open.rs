//! Refunds of the order desk over HTTP, of which some are made when the conversation goes on without
//! the others: new messages, runs that are cancelled or rolled back, servers that stop and servers
//! that are killed. Whatever happens, each refund is in the database once.

use crate::home::{Home, PROGRAM};
use crate::serve::Served;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weftwork_testkit::fuzz::Random;
use weftwork_testkit::{LoopbackServer, Received, Reply};

const ORDERS: [&str; 2] = ["A1001", "A1002"];
const AMOUNT: u64 = 10;

/// Variations in the fast tier and in the full one.
const VARIATIONS: u64 = 6;
const VARIATIONS_FULL: u64 = 200;
/// Steps of a variation before it is brought to its end.
const STEPS_MAX: usize = 5;
/// Rounds in which a variation has to end.
const ROUNDS_MAX: usize = 20;
/// Pause between looks at something that changes in another process.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Looks after which something did not happen.
const LOOKS_MAX: usize = 15_000;

/// A careful model: it refunds each order that has no refund in the conversation, and looks up an
/// order before it repeats a refund of unknown outcome.
fn answer(seed: u64, number: usize, request: &Received) -> Reply {
    let body: Value = serde_json::from_slice(&request.body).expect("a request");
    let messages = body["messages"].as_array().expect("messages");
    let mut random = Random::new(seed ^ (number as u64) << 32);
    let mut calls: Vec<(&str, Value)> = Vec::new();
    for order in ORDERS {
        match Refund::read(messages, order) {
            Refund::Made => {}
            Refund::Unknown => calls.push(("lookup_order", json!({"order_id": order}))),
            Refund::Missing => {
                calls.push(("refund_order", json!({"order_id": order, "amount": AMOUNT})));
            }
        }
    }
    if !calls.is_empty() {
        let reads = [
            ("get_weather", json!({"city": "Oslo"})),
            ("multiply", json!({"a": 6, "b": 7})),
            ("lookup_order", json!({"order_id": "A1003"})),
        ];
        for read in reads.into_iter().take(random.below(4)) {
            calls.insert(random.below(calls.len() + 1), read);
        }
        if random.below(2) == 0 {
            calls.reverse();
        }
    }
    let call = |(index, (name, args)): (usize, &(&str, Value))| {
        let function = json!({"name": name, "arguments": args.to_string()});
        json!({"index": index, "id": format!("call-{number}-{index}"), "function": function})
    };
    let choice = match calls.is_empty() {
        true => json!({"index": 0, "delta": {"content": "Done."}, "finish_reason": "stop"}),
        false => {
            let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
            json!({"index": 0, "delta": {"tool_calls": calls}, "finish_reason": "tool_calls"})
        }
    };
    let chunk = json!({"id": "c", "choices": [choice]});
    let stream = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    Reply::full(200, &[("content-type", "text/event-stream")], stream)
}

/// The refund of an order, as far as the conversation tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refund {
    Missing,
    Unknown,
    Made,
}

impl Refund {
    fn read(messages: &[Value], order: &str) -> Self {
        let mut known: BTreeMap<&str, (&str, bool)> = BTreeMap::new();
        let mut refund = Self::Missing;
        for message in messages {
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                let args = call["function"]["arguments"].as_str().unwrap_or_default();
                let name = call["function"]["name"].as_str().unwrap_or_default();
                known.insert(call["id"].as_str().unwrap_or_default(), (name, args.contains(order)));
            }
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let content = message["content"].to_string();
            match known.get(id) {
                Some(("refund_order", true)) if content.contains("status") => refund = Self::Made,
                Some(("refund_order", true)) if content.contains("W0413") => refund = Self::Unknown,
                // A look-up without a result tells nothing.
                Some(("lookup_order", true))
                    if refund == Self::Unknown && content.contains("refunded") =>
                {
                    let none = content.contains(r#"refunded\":0.0"#);
                    refund = if none { Self::Missing } else { Self::Made };
                }
                _ => {}
            }
        }
        refund
    }
}

/// The server, its model and a conversation.
struct Desk {
    home: Home,
    model_calls: Arc<AtomicU64>,
    _model: LoopbackServer,
    served: Option<Served>,
    thread: String,
    /// The story so far, for failures.
    history: Vec<String>,
}

/// The time at which something happens to a run.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// When it is accepted.
    Accepted,
    /// When a refund is in the database, which the server may not have recorded.
    Refunded,
    /// When the model is asked.
    Asked,
    /// When it has ended.
    Ended,
}

const MOMENTS: [Moment; 4] = [Moment::Accepted, Moment::Refunded, Moment::Asked, Moment::Ended];
const STRATEGIES: [&str; 3] = ["enqueue", "interrupt", "rollback"];

impl Desk {
    async fn new(seed: u64) -> Self {
        let model_calls: Arc<AtomicU64> = Arc::default();
        let counted = Arc::clone(&model_calls);
        let model = LoopbackServer::start(move |number, request| {
            counted.fetch_add(1, Ordering::SeqCst);
            answer(seed, number, request)
        });
        let model = model.await.expect("a server");
        let home = Home::new().provider(&model.url("/v1"));
        let mut desk = Self {
            home,
            model_calls,
            _model: model,
            served: None,
            thread: String::new(),
            history: Vec::new(),
        };
        tokio::task::block_in_place(|| desk.serve());
        let created = desk.send("POST /threads", &json!({}));
        desk.thread = created["thread_id"].as_str().expect("an id").to_owned();
        desk
    }

    fn serve(&mut self) {
        let args = ["serve", "--listen", "127.0.0.1:0", "--no-auth"];
        self.served = Some(Served::start(&self.home, Path::new(PROGRAM), &args).0);
    }

    fn send(&self, request: &str, body: &Value) -> Value {
        let served = self.served.as_ref().expect("it is served");
        tokio::task::block_in_place(|| served.send(request, "", body)).1
    }

    fn of_thread(&self, method: &str, path: &str, body: &Value) -> Value {
        self.send(&format!("{method} /threads/{}{path}", self.thread), body)
    }

    /// The refunds of an order in the database.
    fn refunds(&self, order: &str) -> u64 {
        let file = self.home.path(".local/share/weftwork/desk.db");
        let count = || -> rusqlite::Result<u64> {
            let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
            let conn = rusqlite::Connection::open_with_flags(&file, flags)?;
            conn.busy_timeout(Duration::from_secs(5))?;
            let sql = "SELECT count(*) FROM refunds WHERE order_id = ?1";
            conn.query_row(sql, [order], |row| row.get(0))
        };
        // The desk creates its database when it first needs it.
        count().unwrap_or_default()
    }

    fn all_refunds(&self) -> u64 {
        ORDERS.iter().map(|order| self.refunds(order)).sum()
    }

    /// Open questions, each with the answer that approves it.
    fn open(&self) -> Vec<(String, Value)> {
        let state = self.of_thread("GET", "/state", &json!(null));
        let tasks = state["tasks"].as_array().cloned().unwrap_or_default();
        let open = tasks.iter().flat_map(|task| task["interrupts"].as_array().cloned());
        let open = open.flatten().map(|asked| {
            let id = asked["id"].as_str().expect("an id").to_owned();
            (id, json!({"decisions": [{"type": "approve"}]}))
        });
        open.collect()
    }

    fn messages(&self) -> Vec<Value> {
        let state = self.of_thread("GET", "/state", &json!(null));
        state["values"]["messages"].as_array().cloned().unwrap_or_default()
    }

    /// Requests a run, and returns its id, unless it is refused.
    fn run(&mut self, mut body: Value) -> Option<String> {
        self.history.push(body.to_string());
        body["assistant_id"] = json!("desk");
        let run = self.of_thread("POST", "/runs", &body);
        let id = run["run_id"].as_str().map(str::to_owned);
        if id.is_none() {
            self.history.push(format!("refused: {run}"));
        }
        id
    }

    fn said(text: &str, strategy: &str) -> Value {
        let input = json!({"messages": [{"role": "user", "content": text}]});
        json!({"input": input, "multitask_strategy": strategy})
    }

    fn answers(open: impl IntoIterator<Item = (String, Value)>) -> Value {
        let resume: serde_json::Map<String, Value> = open.into_iter().collect();
        json!({"command": {"resume": resume}})
    }

    fn is_busy(&self) -> bool {
        self.of_thread("GET", "", &json!(null))["status"] == "busy"
    }

    fn look_until(&self, what: &str, is: impl Fn() -> bool) {
        for _ in 0..LOOKS_MAX {
            if is() {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        panic!("{what} did not happen: {:#?}", self.history);
    }

    fn ended(&self) {
        self.look_until("the end of the run", || !self.is_busy());
    }

    /// Waits for a moment of a run that was just accepted, or for its end.
    fn wait_for(&self, moment: Moment, refunds: u64, model_calls: u64) {
        self.look_until("the moment", || match moment {
            Moment::Accepted => true,
            Moment::Refunded => self.all_refunds() > refunds || !self.is_busy(),
            Moment::Asked => {
                self.model_calls.load(Ordering::SeqCst) > model_calls || !self.is_busy()
            }
            Moment::Ended => !self.is_busy(),
        });
    }

    /// Something happens while a run may be in progress.
    fn disturb(&mut self, run: &str, random: &mut Random) {
        match random.below(7) {
            0 => {
                self.history.push("cancelled".to_owned());
                self.of_thread("POST", &format!("/runs/{run}/cancel?wait=true"), &json!({}));
            }
            6 => {
                self.history.push("rolled back".to_owned());
                let path = format!("/runs/{run}/cancel?wait=true&action=rollback");
                self.of_thread("POST", &path, &json!({}));
            }
            1 => {
                self.history.push("killed".to_owned());
                self.served.take().expect("it is served").kill();
                self.serve();
            }
            2 => {
                self.history.push("stopped".to_owned());
                self.served.take().expect("it is served").terminate();
                self.serve();
            }
            3 | 4 => {
                let strategy = STRATEGIES[random.below(STRATEGIES.len())];
                self.run(Self::said("What is the weather?", strategy));
            }
            _ => self.history.push("nothing".to_owned()),
        }
        self.ended();
        self.check_once();
    }

    fn check_once(&self) {
        for order in ORDERS {
            let refunds = self.refunds(order);
            assert!(refunds <= 1, "{order} was refunded {refunds} times: {:#?}", self.history);
        }
    }

    /// Takes a random step, and lets something happen to its run.
    fn step(&mut self, random: &mut Random) {
        let mut open = self.open();
        let refunds = self.all_refunds();
        let model_calls = self.model_calls.load(Ordering::SeqCst);
        let body = match random.below(6) {
            0 => Self::said("And something else.", "enqueue"),
            1 => json!({"input": null}),
            _ if open.is_empty() => Self::said("Go on.", "enqueue"),
            2 => Self::answers(open),
            _ => {
                let one = open.swap_remove(random.below(open.len()));
                Self::answers([one])
            }
        };
        let Some(run) = self.run(body) else { return };
        let moment = MOMENTS[random.below(MOMENTS.len())];
        self.history.push(format!("at {moment:?}"));
        self.wait_for(moment, refunds, model_calls);
        self.disturb(&run, random);
    }

    /// Approves what is asked, and goes on, until the model is done.
    fn finish(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let open = self.open();
            let messages = self.messages();
            let last = messages.last().map(|message| message["content"].to_string());
            if open.is_empty() && last.is_some_and(|text| text.contains("Done.")) {
                return self.check_end(&messages);
            }
            let body = match open.is_empty() {
                true => Self::said("Go on.", "enqueue"),
                false => Self::answers(open),
            };
            // The answer may have been given to a run that was cut off: then the thread goes on with it.
            if self.run(body).is_none() {
                self.run(json!({"input": null}));
            }
            self.ended();
            self.check_once();
        }
        panic!("the conversation did not end: {:#?}", self.history);
    }

    fn check_end(&self, messages: &[Value]) {
        for order in ORDERS {
            assert_eq!(self.refunds(order), 1, "{order}: {:#?}", self.history);
        }
        let results: Vec<&str> =
            messages.iter().filter_map(|message| message["tool_call_id"].as_str()).collect();
        let calls = messages.iter().flat_map(|message| message["tool_calls"].as_array());
        for call in calls.flatten() {
            let id = call["id"].as_str().expect("an id");
            let found = results.iter().filter(|result| **result == id).count();
            assert_eq!(found, 1, "results of {call}: {:#?} {messages:#?}", self.history);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_that_is_made_is_known_when_the_person_says_something_new_instead_of_an_answer() {
    let mut desk = Desk::new(0).await;
    desk.run(Desk::said("Refund both orders.", "reject"));
    desk.ended();
    let open = desk.open();
    assert_eq!(open.len(), 2, "each refund needs an approval");
    desk.run(Desk::answers(open.into_iter().take(1)));
    desk.ended();
    assert_eq!(desk.all_refunds(), 1);
    desk.run(Desk::said("What is the weather in Oslo?", "reject"));
    desk.ended();
    let open = desk.open();
    assert_eq!(open.len(), 1, "only the other refund is requested again");
    desk.run(Desk::said("Refund both orders.", "reject"));
    desk.ended();
    desk.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_refund_is_made_once_however_the_conversation_goes_on() {
    let full = std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full");
    let seeds = match std::env::var("WEFT_TEST_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None if full => (1..=VARIATIONS_FULL).collect(),
        None => {
            let first = Random::new(u64::from(std::process::id())).number();
            (0..VARIATIONS).map(|more| first.wrapping_add(more)).collect()
        }
    };
    for seed in seeds {
        println!("WEFT_TEST_SEED={seed}");
        let mut random = Random::new(seed);
        let mut desk = Desk::new(seed).await;
        let run = desk.run(Desk::said("Refund both orders.", "reject"));
        assert!(run.is_some(), "{:?}", desk.history);
        desk.ended();
        for _ in 0..=random.below(STEPS_MAX) {
            desk.step(&mut random);
        }
        desk.finish();
    }
}
