//! A rendered prompt, byte for byte, in several processes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::process::Command;
use weftwork_agents::{Overrides, Prompt, Rendered, Section};
use weftwork_tools::tool;

const TEXT: &str = include_str!("golden/trip.md");
/// Has the hash of the first process, in the others.
const FIRST: &str = "WEFT_TEST_PROMPT_HASH";

#[derive(Serialize, Deserialize, JsonSchema)]
struct Trip {
    city: String,
    days: u32,
    /// Its order is another one in each process.
    guests: HashMap<String, u32>,
}

/// Looks up a sight.
#[tool]
fn sight(city: String) -> String {
    city
}

fn rendered() -> Rendered {
    let rules = Section::new("rules", "Rules", "No flights to ${city}.")
        .summarized("Rules of the company.")
        .child(Section::new("refunds", "Refunds", "Ask first."));
    let task = Section::new("task", "Task", "Plan ${days} days in ${city} with ${guests}.");
    let prompt = Prompt::<Trip>::builder("travel", "plan", "Plan a trip")
        .section(task.tool(sight).child(Section::new("style", "Style", "Costs in $$, e.g. $5.")))
        .section(Section::new("long", "Rest", "Plan rest.").enabled(|trip: &Trip| trip.days > 7))
        .section(rules)
        .build()
        .expect("a sound prompt");
    let guests = (0..20).map(|number| (format!("guest-{number:02}"), number)).collect();
    let trip = Trip { city: "Bern".to_owned(), days: 3, guests };
    prompt.render(&trip, &Overrides::new()).expect("renders")
}

#[test]
fn a_prompt_renders_to_the_same_bytes_in_every_process() {
    let rendered = rendered();
    assert_eq!(rendered.text(), TEXT.trim_end());
    let hash = rendered.hash().to_string();
    if let Ok(first) = std::env::var(FIRST) {
        assert_eq!(hash, first);
        return;
    }
    let this = std::env::current_exe().expect("the test");
    let name = "golden::a_prompt_renders_to_the_same_bytes_in_every_process";
    for _ in 0..2 {
        let child = Command::new(&this).args(["--exact", name]).env(FIRST, &hash).output();
        let child = child.expect("runs");
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && said.contains("1 passed"), "{said}");
    }
}
