//! Where our semantics differ from the reference's: golden traces of their own, in `kit/weft`.
//!
//! `WEFT_RECORD=1` writes them anew; read the difference before it is kept.

use std::path::Path;
use weftwork_conformance::kit::Scenario;
use weftwork_conformance::{Profile, answer};

#[test]
fn our_semantics_keep_their_traces() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kit/weft");
    let scenarios = Scenario::read_folder(&folder).expect("the kit is there");
    assert!(scenarios.len() >= 5, "the golden traces are there");
    for scenario in scenarios {
        let got = answer(&scenario.spec.to_string(), Profile::Weft);
        if std::env::var_os("WEFT_RECORD").is_some() {
            let file = folder.join(format!("{}.json", scenario.name));
            let record = serde_json::json!({
                "name": scenario.name, "group": scenario.group, "spec": scenario.spec, "expect": got,
            });
            std::fs::write(file, record.to_string()).expect("the kit can be written");
            continue;
        }
        let difference = scenario.difference(&got);
        assert!(difference.is_none(), "{}: {difference:#?}", scenario.name);
        // Each is a difference indeed.
        let reference = answer(&scenario.spec.to_string(), Profile::LangGraph);
        assert!(scenario.difference(&reference).is_some(), "{} differs", scenario.name);
    }
}
