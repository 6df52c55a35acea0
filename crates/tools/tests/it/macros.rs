//! Tests of the tools that `#[tool]` generates.

use crate::rig::{Rig, call, failure, runner, value};
use serde_json::json;
use std::time::Duration;
use weftwork_tools::{
    Deps, Need, Policy, Tool, ToolBox, ToolBoxError, ToolContext, ToolError, ToolRunner, tool,
};
use weftwork_types::tool::{Effect, UnknownOutcome};

/// Searches the catalogue.
///
/// Matches words, not
/// meanings.
#[tool(
    name = "shop/search",
    example(request = "Find a red lamp.", args = {"words": "red lamp", "limit": 3}),
    example(request = "Any chairs?", args = {"words": "chairs"}),
    timeout_ms = 1500,
)]
async fn search_catalogue(
    /// Words to look for.
    words: String,
    #[arg(description = "The most results.")]
    #[schemars(range(min = 1, max = 50))]
    limit: Option<u32>,
    #[serde(default)] _exact: bool,
) -> Result<Vec<Item>, SearchError> {
    let limit = limit.unwrap_or(10) as usize;
    Ok([words].into_iter().take(limit).map(|name| Item { name, price: 3 }).collect())
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Item {
    name: String,
    price: u32,
}

#[derive(Debug, thiserror::Error)]
#[error("search is closed")]
struct SearchError;

/// Sends a letter.
#[tool(
    effect = external_side_effect,
    reconcile = find_letter,
    shown(id),
)]
fn send_letter(to: String, post: Deps<Post>, context: ToolContext) -> Letter {
    Letter { id: format!("{}-{to}", post.prefix), key: context.idempotency_key }
}

async fn find_letter(context: ToolContext) -> Result<Option<Letter>, ToolError> {
    let post = context.deps::<Post>()?;
    Ok(Some(Letter { id: format!("{}-found", post.prefix), key: context.idempotency_key }))
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Letter {
    id: String,
    key: String,
}

struct Post {
    prefix: &'static str,
}

/// Takes and returns nothing.
#[tool(crate = weftwork_tools)]
fn nothing() {}

/// Counts.
#[tool(description = "Counts to a number.", effect = state_change, shown("."), crate = "weftwork_tools")]
fn count_to(mut number: u8) -> serde_json::Value {
    number += 1;
    json!({ "counted": number - 1 })
}

#[test]
fn a_spec_is_taken_from_the_function() {
    let spec = search_catalogue.spec();
    assert_eq!(spec.name, "shop/search");
    assert_eq!(spec.wire_name(), "shop__search");
    assert_eq!(spec.description, "Searches the catalogue.\n\nMatches words, not meanings.");
    assert_eq!(
        spec.parameters,
        json!({
            "type": "object",
            "properties": {
                "words": {"type": "string", "description": "Words to look for."},
                "limit": {
                    "type": ["integer", "null"], "format": "uint32", "minimum": 1, "maximum": 50,
                    "description": "The most results.",
                },
                "_exact": {"type": "boolean", "default": false},
            },
            "required": ["words"],
            "additionalProperties": false,
        })
    );
    assert_eq!((spec.effect, spec.on_unknown), (Effect::ReadOnly, UnknownOutcome::Idempotent));
    assert_eq!(spec.shown.as_deref(), Some(&["name".to_owned(), "price".to_owned()][..]));
    assert_eq!(spec.examples.len(), 2);
    assert_eq!(spec.examples[0].args, json!({"words": "red lamp", "limit": 3}));
    assert_eq!(search_catalogue.timeout(), Duration::from_millis(1500));
}

#[test]
fn what_is_not_said_is_safe() {
    let spec = count_to.spec();
    assert_eq!((spec.effect, spec.on_unknown), (Effect::StateChange, UnknownOutcome::Ask));
    assert_eq!(spec.description, "Counts to a number.");
    assert_eq!(spec.shown.as_deref(), Some(&[".".to_owned()][..]));
    let spec = nothing.spec();
    assert_eq!(spec.parameters["additionalProperties"], json!(false));
    assert_eq!(nothing.timeout(), weftwork_tools::DEFAULT_TIMEOUT);
    assert!(nothing.needs().is_empty());
}

#[test]
fn the_function_stays_callable() {
    let rig = Rig::new();
    nothing::run();
    assert_eq!(count_to::run(3), json!({"counted": 3}));
    let found = rig.drive(search_catalogue::run("lamp".to_owned(), None, false)).expect("open");
    assert_eq!(found.len(), 1);
}

#[test]
fn tools_of_functions_run_like_others() {
    let rig = Rig::new();
    let policy = Policy::new().allow("*").expect("a pattern");
    let tools =
        ToolBox::new().with(search_catalogue).with(nothing).with(count_to).with(send_letter);
    let runner = runner(tools.provide(Post { prefix: "p" }), policy);
    for (id, name, args, expected) in [
        ("c-1", "shop__search", json!({"words": "x"}), json!([{"name": "x", "price": 3}])),
        ("c-2", "nothing", json!({}), json!(null)),
        ("c-3", "count_to", json!({"number": 7}), json!({"counted": 7})),
    ] {
        assert_eq!(value(rig.run(&runner, &call(id, name, args))), expected, "{name}");
    }
    let letter = value(rig.run(&runner, &call("c-4", "send_letter", json!({"to": "a"}))));
    assert_eq!(letter["id"], "p-a");
    assert_eq!(letter["key"].as_str().map(str::len), Some(64));
    let shown = &rig.pairs()[3].result;
    assert_eq!(shown, &json!({"id": "p-a"}));
    // The schema has no maximum for `u8`, but serde checks it.
    let (_, code, message) =
        failure(rig.run(&runner, &call("c-5", "count_to", json!({"number": 300}))));
    assert_eq!(code, "W0402", "{message}");
}

#[test]
fn a_look_up_by_function_is_used() {
    let rig = Rig::new();
    let runner = runner(
        ToolBox::new().with(send_letter).provide(Post { prefix: "p" }),
        Policy::new().allow("send_letter").expect("a name"),
    );
    let made = call("c-1", "send_letter", json!({"to": "a"}));
    assert_eq!(send_letter.spec().on_unknown, UnknownOutcome::Reconcile);
    // Dies inside the call: an intent without a result.
    *rig.journal.refuse_settle.lock().expect("not poisoned") = true;
    let weftwork_tools::Prepared::Ready(ready) = runner.prepare(&made, &rig.context()) else {
        panic!("ready")
    };
    rig.drive(runner.execute(ready)).expect_err("not recorded");
    *rig.journal.refuse_settle.lock().expect("not poisoned") = false;
    assert_eq!(value(rig.run(&runner, &made))["id"], "p-found");
}

#[test]
fn what_the_program_must_provide_is_known_before_the_first_call() {
    assert_eq!(send_letter.needs(), [Need::of::<Post>()]);
    let errors = ToolRunner::new(ToolBox::new().with(send_letter), Policy::new())
        .expect_err("nothing is provided");
    assert!(matches!(errors.problems(), [ToolBoxError::MissingDependency { .. }]), "{errors}");
}
