use super::{Act, Begin, Body, BranchMap, Op, Persist, Reducer, Source, Spec, StopsSpec, Which};
use crate::python::text;
use serde_json::{Value as Json, json};

fn graph() -> Json {
    json!({
        "name": "a remark",
        "state": {"log": "append", "d": "delta:3"},
        "nodes": {
            "a": {"do": [["interrupt", "q"], ["fail", 2, "KeyError"]], "persist": false},
            "b": {"sub": {"state": {"log": "append"}, "nodes": {"s": {}}}, "persist": true},
        },
        "edges": [["START", "a"], [["a", "b"], "END"]],
        "branches": [{"from": "a", "to": {"$": "log"}, "map": {"true": "b"}}],
        "interrupt_before": "*",
        "script": [
            {"input": {"log": []}, "at": {"next": ["a"]}, "pick": 1, "thread": "u"},
            {"update": null, "as": "END"},
        ],
    })
}

#[test]
fn a_spec_is_read() {
    let spec = Spec::from_json(&graph()).unwrap();
    assert!(spec.checkpointer);
    let Body::Graph(graph) = &spec.body else { panic!("a graph") };
    assert_eq!(graph.state[1], ("d".to_owned(), Reducer::Delta(3)));
    let (name, node) = &graph.nodes[0];
    assert_eq!((name.as_str(), node.persist), ("a", Persist::Never));
    assert!(matches!(&node.ops[0], Op::Interrupt(_, var) if var == "_"));
    let Op::Fail(fail) = &node.ops[1] else { panic!("a failure") };
    assert_eq!((fail.text.as_str(), fail.times), (r#"["fail",2,"KeyError"]"#, 2));
    assert_eq!(graph.nodes[1].1.persist, Persist::Own);
    assert_eq!(graph.edges[0].0, Source::Node("START".to_owned()));
    let labels = vec![("true".to_owned(), "b".to_owned())];
    assert_eq!(graph.branches[0].map, BranchMap::Labels(labels));
    assert_eq!(graph.interrupt_before, Some(StopsSpec::All));
    let entry = &spec.script[0];
    assert!(matches!(&entry.act, Act::Run(run) if matches!(run.begin, Begin::Input(_))));
    assert_eq!(entry.thread, "u");
    assert!(matches!(&entry.at, Some(Which::Match { pick: 1, .. })));
    assert!(
        matches!(&spec.script[1].act, Act::Update { as_node: Some(node), .. } if node == "END")
    );
}

#[test]
fn a_flow_is_read() {
    let flow = json!({"tasks": {"t": {"do": [["ret", 1]]}}, "entry": {"do": []}, "script": []});
    let spec = Spec::from_json(&flow).unwrap();
    assert!(matches!(spec.body, Body::Flow(flow) if flow.tasks.len() == 1));
}

#[test]
fn errors_name_the_place_and_what_is_expected() {
    let error = |change: fn(&mut Json)| {
        let mut json = graph();
        change(&mut json);
        Spec::from_json(&json).unwrap_err().to_string()
    };
    let cases = [
        (error(|j| j["state"]["log"] = json!("lost")), "\"lost\" at `/state/log`; expected a red"),
        (error(|j| j["nodes"]["a"]["do"][0] = json!(["sat"])), "\"sat\" at `/nodes/a/do/0/0`"),
        (error(|j| j["nodes"]["a"]["do"][1][2] = json!("E")), "one of ValueError, RuntimeError"),
        (error(|j| j["nodes"]["b"]["sub"]["state"] = json!(1)), "1 at `/nodes/b/sub/state`"),
        (error(|j| j["edges"][0] = json!(["a"])), "at `/edges/0`; expected a list of at least 2"),
        (error(|j| j["script"] = json!({})), "{} at `/script`; expected a list"),
        (error(|j| j["script"][0]["durability"] = json!("no")), "`sync`, `async` or `exit`"),
        (error(|j| *j = json!([])), "[] at `/`; expected an object"),
    ];
    for (error, part) in cases {
        assert!(error.contains(part), "{error} has no {part}");
    }
    let error = Spec::parse("{").unwrap_err();
    assert_eq!(error.code().to_string(), "W0714");
    assert!(text(&json!(error.to_string())).starts_with("the spec is not JSON: EOF"));
}
