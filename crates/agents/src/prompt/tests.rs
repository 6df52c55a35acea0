//! Tests of definitions and of rendering.

use super::*;
use serde_json::json;
use std::collections::HashMap;

#[derive(Serialize, Deserialize, JsonSchema)]
struct Trip {
    city: String,
    nickname: Option<String>,
    tags: HashMap<String, u32>,
}

fn trip() -> Trip {
    let tags = (0..20).map(|n| (format!("tag-{n}"), n)).collect();
    Trip { city: "Bern".to_owned(), nickname: None, tags }
}

fn prompt() -> Prompt<Trip> {
    let rules = Section::new("rules", "Rules", "No flights to ${city}.")
        .summarized("Rules of the company.")
        .child(Section::new("refunds", "Refunds", "Ask first."));
    Prompt::<Trip>::builder("travel", "plan", "Plan a trip")
        .section(Section::new("task", "Task", "Plan a trip to ${city}: ${tags}"))
        .section(
            Section::new("nick", "Name", "Call me ${nickname}.")
                .enabled(|trip: &Trip| trip.nickname.is_some()),
        )
        .section(rules)
        .build()
        .expect("a sound prompt")
}

#[test]
fn maps_in_any_order_give_the_same_bytes() {
    let first = prompt().render(&trip(), &Overrides::new()).expect("renders");
    for _ in 0..20 {
        let again = prompt().render(&trip(), &Overrides::new()).expect("renders");
        assert_eq!((again.text(), again.hash()), (first.text(), first.hash()));
    }
}

#[test]
fn sections_are_numbered_and_come_and_go() {
    let rendered = prompt().render(&trip(), &Overrides::new()).expect("renders");
    let text = rendered.text();
    assert!(text.contains("## 2. Rules\n\nRules of the company."), "{text}");
    assert!(!text.contains("No flights") && !text.contains("Refunds"), "{text}");
    let with_name = Trip { nickname: Some("Ada".to_owned()), ..trip() };
    let open = Overrides::new().visibility("rules", Visibility::Full);
    let text = prompt().render(&with_name, &open).expect("renders").text().to_owned();
    assert!(text.contains("## 2. Name\n\nCall me Ada."), "{text}");
    assert!(text.contains("## 3. Rules\n\nNo flights to Bern.\n\n### 3.1. Refunds"), "{text}");
}

#[test]
fn text_overrides_are_bound_to_the_content_they_replace() {
    let hash = prompt().content_hash("rules/refunds").expect("a section");
    let open = || Overrides::new().visibility("rules", Visibility::Full);
    let render = |overrides| prompt().render(&trip(), &overrides);
    let text = render(open().text("rules/refunds", hash, "Never in ${city}.")).expect("renders");
    assert!(text.text().contains("Never in Bern."));
    let stale = weftwork_types::canonical::hash_bytes(b"Ask never.");
    for (overrides, reason) in [
        (open().text("rules/refunds", stale, "x"), "make the override again"),
        (open().text("rules/none", hash, "x"), "no such section"),
        (open().text("rules/refunds", hash, "${town}"), "`${town}` is no parameter"),
        (Overrides::new().visibility("none", Visibility::Full), "no such section"),
        (Overrides::new().visibility("task", Visibility::Summary), "no summary"),
    ] {
        let error = render(overrides).expect_err(reason);
        assert_eq!(error.code().0, "W0612");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn all_problems_of_a_definition_are_listed() {
    let error = Prompt::<Trip>::builder("Travel", "plan", "Plan")
        .section(Section::new("task", "Task", "${town}"))
        .section(Section::new("task", "Task", "${city"))
        .section(Section::new("a b", "Task", "x").summary("${nick}"))
        .output::<u32>()
        .build()
        .expect_err("seven problems");
    let PromptError::Invalid { problems, .. } = &error else { panic!("{error}") };
    assert_eq!(problems.len(), 7, "{error}");
    assert_eq!(error.code().0, "W0610");
}

#[test]
fn a_placeholder_without_a_value_is_an_error_with_its_section() {
    let prompt = Prompt::<Trip>::builder("travel", "nick", "Nick")
        .section(Section::new("name", "Name", "Call me ${nickname}."))
        .build()
        .expect("sound");
    let error = prompt.render(&trip(), &Overrides::new()).expect_err("no nickname");
    assert_eq!(error.code().0, "W0611");
    assert!(error.to_string().contains("`${nickname}` of section `name`"), "{error}");
    let panics = Prompt::<Trip>::builder("travel", "panics", "Panics")
        .section(Section::new("name", "Name", "x").enabled(|_: &Trip| panic!("a bug")))
        .build()
        .expect("sound");
    let error = panics.render(&trip(), &Overrides::new()).expect_err("it panicked");
    assert!(error.to_string().contains("panicked"), "{error}");
    let stored = prompt.erased().render(&json!({"city": 1}), &Overrides::new());
    assert_eq!(stored.expect_err("other parameters").code().0, "W0611");
}

#[test]
fn the_hash_is_also_that_of_the_summarized_content() {
    /// Reads.
    #[weftwork_tools::tool]
    fn read() -> u32 {
        1
    }
    let hash = |text: &str, inside: bool| {
        let task = Section::new("task", "Task", "Work.");
        let rules = Section::new("rules", "Rules", text).summarized("Rules.");
        let (task, rules) = match inside {
            true => (task, rules.tool(read)),
            false => (task.tool(read), rules),
        };
        let prompt = Prompt::<()>::builder("travel", "rules", "Rules").section(task).section(rules);
        prompt.build().expect("sound").render(&(), &Overrides::new()).expect("renders").hash()
    };
    assert_eq!(hash("No flights.", true), hash("No flights.", true));
    assert_ne!(hash("No flights.", true), hash("No trains.", true), "the full text");
    assert_ne!(hash("No flights.", true), hash("No flights.", false), "the place of a tool");
}
