//! A process that is killed while it executes activities: each is executed once, in order.

use serde_json::json;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;
use weftwork::agents::{Activity, ActivityContext, AgentRuntime, InstanceOptions};
use weftwork::graph::NodeError;
use weftwork::models::{ChatModel, ChatRequest, ChatStream, ModelInfo};
use weftwork::prelude::{Message, Role};
use weftwork::runtime::{LeaseConfig, Recovery, Runtime};
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork::types::{InstanceId, MessageId, Principal, ThreadId};

/// Names the folder of the store, in the process that is killed.
const FOLDER: &str = "WEFT_TEST_INSTANCES";

/// Numbers of activities, instances and kills.
fn dose() -> (u32, u32, u32) {
    match std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full") {
        true => (10_000, 1_000, 20),
        false => (200, 20, 2),
    }
}

/// Priority of an activity, by its number among those of its instance.
fn priority(number: u32) -> i32 {
    i32::try_from(number % 3).expect("small")
}

/// A provider whose count of calls outlives the process: a line a call.
#[derive(Debug)]
struct Provider {
    info: ModelInfo,
    log: PathBuf,
}

impl ChatModel for Provider {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        let asked = request.messages[0].joined_text();
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log);
        // One write a line: others write at the same time.
        let line = format!("{asked}\n");
        log.and_then(|mut log| log.write_all(line.as_bytes())).expect("is counted");
        ScriptedModel::from_steps(vec![Step::text(asked)]).stream(request)
    }
}

/// Asks the provider about the number of the activity, and appends it.
async fn append(mut all: Vec<u32>, activity: ActivityContext) -> Result<Vec<u32>, NodeError> {
    let number: u32 = activity.payload_as()?;
    let asked = format!("{} {number}", activity.instance());
    let id = MessageId::new("m").expect("an id");
    let answer = activity
        .run(async |services| {
            let model = services.models().get("provider").expect("is given");
            let messages = vec![Message::text(id, Role::User, asked.as_str())];
            let request = ChatRequest { messages, ..ChatRequest::default() };
            services.call_model(model.as_ref(), request).await
        })
        .await?;
    assert_eq!(answer.message.joined_text(), asked);
    all.push(number);
    Ok(all)
}

async fn open(folder: &Path, recovery: Recovery) -> AgentRuntime {
    let beat = Duration::from_millis(100);
    let lease = LeaseConfig { renew_every: beat, lease: beat * 8, look_every: beat };
    // The kills come faster than a process executes all that it takes over.
    let attempts_max = dose().2 + 2;
    let runtime = Runtime::builder(crate::stores::sqlite(folder)).lease(lease).recovery(recovery);
    let runtime = runtime.attempts_max(attempts_max);
    let runtime = runtime.open().await.expect("opens");
    let info = ScriptedModel::rules().info().clone();
    let provider = Provider { info, log: folder.join("asked") };
    AgentRuntime::over(runtime).model("provider", Arc::new(provider)).build().expect("sound")
}

fn instance(number: u32) -> InstanceId {
    InstanceId::new(format!("i-{number}")).expect("an id")
}

/// The process that is killed. Without a folder it is no test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_executes_activities() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let agents = open(&folder, Recovery::Automatic).await;
    agents.host_handler("append", append).await.expect("hosted");
    std::future::pending::<()>().await;
}

fn process(folder: &Path) -> Child {
    let name = "instances::kills::a_process_that_executes_activities";
    let mut process = Command::new(std::env::current_exe().expect("the test"));
    process.args(["--exact", name]).env(FOLDER, folder).spawn().expect("starts")
}

async fn succeeded(agents: &AgentRuntime, instances: u32) -> u64 {
    let mut all = 0;
    for number in 0..instances {
        let info = agents.info(instance(number)).await.expect("exists");
        assert_eq!(info.statistics.failed, 0, "{info:?}");
        all += info.statistics.succeeded;
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_activity_is_executed_once_in_order_by_processes_that_are_killed() {
    let (activities, instances, kills) = dose();
    let folder = tempfile::tempdir().expect("a folder");
    let agents = open(folder.path(), Recovery::Manual).await;
    for number in 0..instances {
        let options = InstanceOptions::new().id(instance(number));
        agents.create("append", Vec::new(), append, options).await.expect("created");
    }
    // They are left for another process.
    for number in 0..activities {
        let of_instance = number / instances;
        let activity = Activity::new(json!(of_instance)).priority(priority(of_instance));
        agents.leave(instance(number % instances), activity).await.expect("accepted");
    }
    for kill in 0..=kills {
        let mut process = process(folder.path());
        let share = u64::from(activities) * u64::from(kill + 1) / u64::from(kills + 1);
        while succeeded(&agents, instances).await < share {
            let ended = process.try_wait().expect("is asked");
            assert!(ended.is_none(), "it ended: {ended:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        process.kill().expect("is killed");
        process.wait().expect("is gone");
    }
    let mut in_order: Vec<u32> = (0..activities / instances).collect();
    in_order.sort_by_key(|number| Reverse(priority(*number)));
    let mut calls = 0;
    let mut possibly_paid = 0;
    for number in 0..instances {
        let id = instance(number);
        assert_eq!(agents.get_state(&id).await, Ok(json!(in_order)), "{id}");
        let recorded = agents.store().calls(&Principal::local(), &ThreadId::from(&id)).await;
        let recorded = recorded.expect("reads");
        calls += recorded.len();
        possibly_paid += recorded.iter().map(|call| call.possibly_paid as usize).sum::<usize>();
    }
    let asked = std::fs::read_to_string(folder.path().join("asked")).expect("reads");
    let distinct = asked.lines().collect::<BTreeSet<_>>().len();
    let asked = asked.lines().count();
    println!(
        "{activities} activities, {kills} kills: {asked} calls, {possibly_paid} possibly paid"
    );
    assert_eq!((calls, distinct), (activities as usize, activities as usize));
    // Only a call that a kill cut is made again.
    assert!(asked - distinct <= possibly_paid, "{asked} calls, {possibly_paid} possibly paid");
}
