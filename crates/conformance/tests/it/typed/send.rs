//! Tasks of their own, with typed arguments.

use super::{Kit, chain};
use serde::{Deserialize, Serialize};
use serde_json::json;
use weftwork_conformance::Counts;
use weftwork_graph::{
    Arg, Command, Ctx, Deps, Graph, List, Next, NodeResult, START, SendTo, State,
};

same_traces! {
    send_map: maps;
    send_from_command: sends;
    send_unknown_node: sends_to_nobody;
    interrupt_keeps_prior_tasks: asks_in_one_task;
}

#[derive(Clone, Serialize, Deserialize)]
struct Item {
    i: i64,
}

/// A line of the log: the number of an item, or the name of a node.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Item(i64),
    Node(String),
}

/// The items to process, replaced as a whole.
#[derive(Clone, Serialize, Deserialize)]
struct Items(Vec<i64>);

#[derive(State)]
struct Work {
    items: Items,
    #[channel(append)]
    log: List<Line>,
}

async fn work(Arg(item): Arg<Item>) -> WorkUpdate {
    WorkUpdate::new().log([Line::Item(item.i)])
}

fn one_each(state: State<Work>) -> Vec<Next> {
    let items = state.items().into_iter().flat_map(|items| &items.0);
    items.map(|i| Next::Send(SendTo::to("w", Item { i: *i }))).collect()
}

fn maps(kit: &Kit) -> Graph<Work> {
    let join = async |_: State<Work>| WorkUpdate::new().log([Line::Node("j".to_owned())]);
    let graph = kit.graph().node("w", work).node("j", join);
    graph.edge("w", "j").route_to(START, ["w"], one_each)
}

#[derive(State)]
struct Lines {
    #[channel(append)]
    log: List<Line>,
}

fn line(line: Line) -> LinesUpdate {
    LinesUpdate::new().log([line])
}

fn sends(kit: &Kit) -> Graph<Lines> {
    async fn a(_: State<Lines>) -> Command<Lines> {
        let update = line(Line::Node("a".to_owned()));
        Command::update(update).send(SendTo::to("w", Item { i: 1 })).goto("b")
    }
    let graph = kit.graph().node("a", a);
    let graph = graph.node("b", async |_: State<Lines>| line(Line::Node("b".to_owned())));
    chain(graph.node("w", async |Arg(item): Arg<Item>| line(Line::Item(item.i))), &["a"])
}

fn sends_to_nobody(kit: &Kit) -> Graph<Lines> {
    async fn a(_: State<Lines>) -> Command<Lines> {
        let update = line(Line::Node("a".to_owned()));
        Command::update(update).send(SendTo::to("zz", Item { i: 1 }))
    }
    chain(kit.graph().node("a", a), &["a"])
}

fn asks_in_one_task(kit: &Kit) -> Graph<Work> {
    async fn w(Arg(item): Arg<Item>, counts: Deps<Counts>, ctx: Ctx) -> NodeResult<WorkUpdate> {
        counts.add("w");
        if item.i == 2 {
            ctx.interrupt(json!("stop"))?;
        }
        Ok(WorkUpdate::new().log([Line::Item(item.i)]))
    }
    kit.graph().node("w", w).route_to(START, ["w"], one_each)
}
