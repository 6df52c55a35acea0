//! Sections with their tools and policies.

use super::{Recording, note, notes, scripted, take_note};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_agents::{EvaluationErrorKind, Evaluator, Overrides, Prompt, Section, Visibility};
use weftwork_models::scripted::Step;
use weftwork_tools::{Deps, Policy, ToolBox, ToolContext, tool};

#[tokio::test]
async fn a_section_that_is_opened_brings_its_text_and_its_tools() {
    let rules = Section::new("rules", "Rules", "Note everything.")
        .summarized("Rules for notes.")
        .tool(take_note);
    let prompt = Prompt::<()>::builder("tests", "rules", "Rules")
        .section(Section::new("task", "Task", "Work."))
        .section(rules)
        .build()
        .expect("sound");
    let open = |path: &str| Step::call("open_section", json!({"path": path}));
    let steps = vec![
        Step::calls(vec![note("too early")]),
        open("none"),
        open("rules"),
        Step::calls(vec![note("now")]),
        Step::text("Done."),
    ];
    let model = Recording::new(steps, &[]);
    let evaluator = Evaluator::builder(Arc::clone(&model)).open().await.expect("opens");
    let session = evaluator.new_session();
    evaluator.evaluate(&prompt, ()).session(&session).await.expect("evaluates");
    assert_eq!(notes(&session), ["now"]);
    let requests = model.requests();
    let offered = |at: usize| -> Vec<&str> {
        requests[at].tools.iter().map(|tool| tool.name.as_str()).collect()
    };
    assert_eq!(offered(0), ["open_section"]);
    assert_eq!(offered(3), ["take_note", "open_section"]);
    let said = json!(requests[3].messages).to_string();
    assert!(said.contains("Note everything."), "{said}");
    assert_eq!(said.matches("Rules for notes.").count(), 1, "the text is sent once");

    // In full from the start, there is nothing to open.
    let model = Recording::new(vec![Step::text("Done.")], &[]);
    let evaluator = Evaluator::builder(Arc::clone(&model)).open().await.expect("opens");
    let full = Overrides::new().visibility("rules", Visibility::Full);
    evaluator.evaluate(&prompt, ()).overrides(full).await.expect("evaluates");
    let first = &model.requests()[0];
    assert_eq!(first.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(), ["take_note"]);
    assert_eq!(first.messages.len(), 1, "one message, not a system message too");
}

/// Returns a secret beside what may be shown.
#[tool(effect = external_side_effect, shown(city))]
fn book(city: String, #[arg(secret)] card: String, context: ToolContext) -> Value {
    json!({"city": city, "card": card, "id": context.tool_call_id})
}

#[tokio::test]
async fn policies_belong_to_sections_and_values_leave_the_process_in_their_shown_form() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct May {
        book: bool,
    }
    let allow = Policy::new().allow("book").expect("a name");
    let prompt = Prompt::<May>::builder("tests", "book", "Book")
        .section(Section::new("task", "Task", "Book a room.").tool(book))
        .section(
            Section::new("may", "Rules", "You may.").policy(allow).enabled(|may: &May| may.book),
        )
        .build()
        .expect("sound");
    for may in [true, false] {
        let call = Step::call("book", json!({"city": "Bern", "card": "4111"}));
        let model = scripted(vec![call, Step::text("Done.")]);
        let evaluator = Evaluator::builder(model).open().await.expect("opens");
        let mut events = evaluator.bus().subscribe();
        evaluator.evaluate(&prompt, May { book: may }).await.expect("evaluates");
        let event = events.drain().into_iter().find(|event| event.name() == "tool_invoked");
        let shown = event.expect("a call").to_shown();
        assert!(!shown.to_string().contains("4111"), "{shown}");
        match may {
            true => assert_eq!(shown["result"]["value"], json!({"city": "Bern"})),
            false => assert_eq!(shown["result"]["code"], json!("W0403")),
        }
    }
}

#[tokio::test]
async fn a_tool_without_its_value_is_refused_before_any_call() {
    #[derive(Debug)]
    struct Database;

    /// Reads.
    #[tool]
    fn read(database: Deps<Database>) -> String {
        format!("a row of {:?}", *database)
    }
    let task = Section::new("task", "Task", "Read.").tool(read);
    let prompt =
        Prompt::<()>::builder("tests", "read", "Read").section(task).build().expect("sound");
    let model = scripted(vec![Step::call("read", json!({})), Step::text("Done.")]);
    let evaluator = Evaluator::builder(Arc::clone(&model)).open().await.expect("opens");
    let error = evaluator.evaluate(&prompt, ()).await.expect_err("no database");
    assert!(error.to_string().contains("Database"), "{error}");
    assert_eq!((error.kind, model.calls()), (EvaluationErrorKind::Prompt, 0));
    let evaluator = Evaluator::builder(model).tools(ToolBox::new().provide(Database));
    evaluator.open().await.expect("opens").evaluate(&prompt, ()).await.expect("evaluates");
}

#[tokio::test]
async fn a_rule_for_a_tool_that_no_section_has_is_refused_before_any_call() {
    // The tool of a closed section is one of the prompt, and that of a section that is left out too.
    let prompt = |denied: &str| {
        let policy = Policy::new().deny(denied, "not here").expect("a name");
        let closed = Section::new("more", "More", "Note.").summarized("Notes.").tool(take_note);
        Prompt::<()>::builder("tests", "rules", "Rules")
            .section(Section::new("task", "Task", "Work.").policy(policy))
            .section(closed)
            .section(Section::new("none", "None", "Book.").tool(book).enabled(|()| false))
            .build()
            .expect("sound")
    };
    let model = scripted(vec![Step::text("Done."), Step::text("Done."), Step::text("Done.")]);
    let evaluator = Evaluator::builder(Arc::clone(&model)).open().await.expect("opens");
    for known in ["take_note", "book", "open_section"] {
        evaluator.evaluate(&prompt(known), ()).await.expect(known);
    }
    let error = evaluator.evaluate(&prompt("take_notes"), ()).await.expect_err("no such tool");
    assert!(error.to_string().contains("did you mean `take_note`?"), "{error}");
    assert_eq!((error.kind, model.calls()), (EvaluationErrorKind::Prompt, 3));
}
