//! Answers at older checkpoints to questions of members.

use super::world::{FORMS, World, said, text_of};
use serde_json::json;
use std::sync::Arc;
use weftwork_graph::run_loop::HistoryFilter;
use weftwork_models::scripted::ScriptedModel;
use weftwork_models::scripted::Step;
use weftwork_types::interrupt::{Ask, Interrupt};
use weftwork_types::port::Limits;

fn decision(asked: &Interrupt, approved: bool) -> serde_json::Value {
    let Ask::Approval(request) = &asked.ask else { panic!("it asks for an approval: {asked:?}") };
    json!({"approved": approved, "binding": request.binding})
}

/// Neither the work of a member before its question is done again, nor an effect after the first
/// answer.
#[tokio::test]
async fn an_answer_at_an_older_checkpoint_reaches_the_member_that_asked() {
    for form in FORMS {
        for (first, second) in [(true, true), (true, false), (false, true)] {
            let case = format!("{form:?}, {first}, then {second}");
            let done = || Step::text("Done.");
            let pays = Step::call("pay", json!({"euros": 5}));
            let refunds = Step::call("refund", json!({"euros": 6}));
            let mut world = World::new(form, vec![pays, refunds, done(), done()]);
            let hand_off = match form {
                super::Form::Tool => Step::call("ask_cashier", json!({"request": "Pay."})),
                _ => Step::call("transfer_to_cashier", json!({})),
            };
            world.lead = Arc::new(ScriptedModel::from_steps(vec![hand_off, done(), done()]));
            let process = world.process(Limits::default()).await;
            process.thread.start(said("Pay me.")).await.expect("accepted");
            let asked = process.question().await;
            let history = process.thread.history(&HistoryFilter::default()).await.expect("reads");
            let at = history[0].checkpoint().expect("an id");
            let ended = process.thread.answer(decision(&asked, first)).await.expect("accepted");
            assert!(ended.output().is_ok(), "{case}: {:?}", ended.outcome());
            assert_eq!(world.paid(), 1 + u32::from(first), "{case}");
            let past = process.thread.clone().at(at);
            let answers = std::collections::BTreeMap::from([(asked.id, decision(&asked, second))]);
            let ended = past.answer(answers).await.expect("accepted");
            let output = ended.output().unwrap_or_else(|ended| panic!("{case}: {ended:?}"));
            assert_eq!(world.paid(), 1 + u32::from(first || second), "{case}");
            let text = text_of(output).join("\n");
            assert!(text.contains("Done."), "{case}: {text}");
        }
    }
}
