//! Requests of API agents in processes that are killed with SIGKILL before, during and after the request.
//! The service counts the orders that reach it.

use crate::home::{Came, Home};
use serde_json::{Value, json};
use std::process::{Child, Stdio};
use tokio::sync::mpsc;
use weftwork_testkit::{LoopbackServer, Received, Reply};

/// Number of kills.
fn kills() -> usize {
    if std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full") { 60 } else { 9 }
}

/// Place of a kill, at the service.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// The process waits for a token, and has sent no order.
    Before,
    /// The service has the order, and does not answer.
    During,
    /// The answer is on its way, or arrived, or on record.
    After,
}

/// A home with an agent that orders, and the service.
struct Scene {
    home: Home,
    service: LoopbackServer,
    reached: mpsc::UnboundedReceiver<()>,
}

impl Scene {
    async fn new(place: Place) -> Self {
        let (sender, reached) = mpsc::unbounded_channel();
        let service = LoopbackServer::start(move |number, request| {
            let is_token = request.path == "/token";
            if is_token == (place == Place::Before) {
                sender.send(()).expect("the test is there");
            }
            match place {
                Place::Before if number == 0 => Reply::nothing().hang(),
                Place::During if number == 1 => Reply::nothing().hang(),
                _ if is_token => answers(&json!({"access_token": "T"})),
                _ => answers(&json!({"order": number})),
            }
        });
        let service = service.await.expect("a server");
        let text = "model = \"scripted\"\nagents = \"agents\"\n[egress]\nallow = [\"127.0.0.1\"]\n";
        let home = Home::new().config(text).set("AGENT_SHOP_TOKEN", "id:password");
        let home = home.set("WEFT_POLICY", "rules.json");
        std::fs::create_dir_all(home.path("agents/shop")).expect("made");
        let rules = r#"{"version": 1, "rules": [{"tool": "api/*", "decision": "allow"}]}"#;
        std::fs::write(home.path("rules.json"), rules).expect("written");
        let url = service.url("");
        let definition = format!(
            "weft: 1\ntype: api\ntransport:\n  kind: api\n  api:\n    endpoint: {url}/orders\n    authentication: {{type: oauth, token_endpoint: '{url}/token'}}\n"
        );
        std::fs::write(home.path("agents/shop/agent.yaml"), definition).expect("written");
        Self { home, service, reached }
    }

    fn weft(&self, args: &[&str]) -> Came {
        tokio::task::block_in_place(|| self.home.weft(args))
    }

    /// Asks the agent, and waits until the service is reached.
    async fn begin(&mut self) -> Child {
        let mut command = self.home.command(&["agents", "run", "shop", "Order."]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        self.reached.recv().await.expect("the service is asked");
        child
    }

    fn thread(&self) -> String {
        let listed = self.weft(&["threads", "list", "--json"]);
        let row: Value = serde_json::from_str(listed.out.trim()).expect("one thread");
        row["thread"].as_str().or(row["id"].as_str()).expect("an id").to_owned()
    }

    fn orders(&self) -> usize {
        self.service.received().iter().filter(|request| is_order(request)).count()
    }
}

fn is_order(request: &Received) -> bool {
    request.path == "/orders"
}

fn answers(body: &Value) -> Reply {
    Reply::full(200, &[("content-type", "application/json")], body.to_string())
}

/// A request without a key is made at most once. If its answer is not on record when the run continues,
/// a person decides.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_made_at_most_once_wherever_its_process_is_killed() {
    let places = [Place::Before, Place::During, Place::After];
    let mut recorded = 0;
    for number in 0..kills() {
        let place = places[number % places.len()];
        let mut scene = Scene::new(place).await;
        let mut child = scene.begin().await;
        if place == Place::After {
            tokio::task::block_in_place(|| {
                (0..number.pow(2) * 20_000 / kills().pow(2)).for_each(|_| std::thread::yield_now());
            });
        }
        // It may have ended.
        child.kill().expect("it is there");
        child.wait().expect("it ends");
        let sent = scene.orders();
        assert_eq!(sent, usize::from(place != Place::Before), "{place:?}");
        let thread = scene.thread();
        let came = scene.weft(&["threads", "resume", &thread]);
        assert_eq!(scene.orders(), sent, "{place:?}: nothing is ordered again: {came:?}");
        let is_asked = came.status == Some(3);
        assert!(is_asked || place == Place::After, "{place:?}: {came:?}");
        if is_asked {
            assert!(came.errors.contains("was called and left no result"), "{came:?}");
            let again = scene.weft(&["threads", "resume", &thread]);
            assert_eq!(again.status, Some(3), "it waits for the person: {again:?}");
            assert_eq!(scene.orders(), sent, "{place:?}");
        }
        recorded += usize::from(!is_asked);
    }
    println!("{recorded} of {} answers were on record", kills());
}
