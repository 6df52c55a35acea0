//! Graphs that cannot be built, with all that is wrong with them.

use std::time::Duration;
use weftwork_graph::{Deps, Graph, List, Retry, START, State, Timeout};

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

#[derive(State)]
struct Bomb {
    #[channel(default)]
    n: i64,
}

#[test]
fn options_of_nodes_that_are_not_there_are_problems_of_the_graph() {
    let error = Graph::<Log>::new("options")
        .node("work", async |_: State<Log>| LogUpdate::new().log(["work"]))
        .edge(START, "work")
        .retry("wrok", Retry::new(2))
        .timeout("work2", Timeout::run(Duration::from_secs(1)))
        .build()
        .expect_err("unsound");
    insta::assert_snapshot!(error);
}

#[test]
fn building_reports_every_problem_with_a_hint() {
    let error = Graph::<Log>::new("broken")
        .node("plan", async |_: State<Bomb>, _: Deps<String>| ())
        .node("plan", async |_: State<Log>| ())
        .node("END", async |_: State<Log>| ())
        .edge("plam", "plan")
        .join(["plan", "nobody"], "gone")
        .build()
        .expect_err("unsound");
    insta::assert_snapshot!(error);
}

#[test]
fn an_unsound_graph_is_w0101() {
    let error = Graph::<Log>::new("empty").build().expect_err("nothing leads anywhere");
    assert_eq!(error.code().0, "W0101");
}
