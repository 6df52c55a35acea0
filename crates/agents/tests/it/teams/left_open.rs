//! Work of members that is left open when the conversation of their team goes on.

use super::world::{FORMS, Form, World, said, text_of};
use serde_json::json;
use std::collections::BTreeMap;
use weftwork_models::scripted::Step;
use weftwork_types::interrupt::Ask;
use weftwork_types::port::Limits;
use weftwork_types::run::{Answers, RunInput, RunOutcome};

/// A team whose member makes two refunds in one message.
fn two_refunds(form: Form) -> World {
    let amounts = [5, 6].map(|euros| ("refund".to_owned(), json!({"euros": euros})));
    World::new(form, vec![Step::calls(amounts.into()), Step::text("Sunny.")])
}

#[tokio::test]
async fn calls_of_members_join_the_conversation_of_their_team() {
    for form in FORMS {
        let world = two_refunds(form);
        let process = world.process(Limits::default()).await;
        process.thread.start(said("Refund both.")).await.expect("accepted");
        let questions = process.thread.questions().await.expect("reads");
        assert_eq!(questions.len(), 2, "{form:?}");
        let answer = questions.iter().find_map(|question| match &question.ask {
            Ask::Approval(request) if request.args["euros"] == 5 => {
                let answer = json!({"approved": true, "binding": request.binding});
                Some((question.id, answer))
            }
            _ => None,
        });
        let answers: BTreeMap<_, _> = answer.into_iter().collect();
        process.thread.answer(Answers::ById(answers)).await.expect("accepted");
        assert_eq!(world.paid(), 1, "{form:?}");
        let process = world.process(Limits::default()).await;
        let ended = process.thread.start(said("How is the weather?")).await.expect("accepted");
        let texts = text_of(ended.output().expect("it completes"));
        let text = texts.join("\n");
        assert!(text.contains("refunded 5 euros"), "{form:?}: {text}");
        assert!(text.contains("W0418") && !text.contains("W0413"), "{form:?}: {text}");
        assert_eq!(world.paid(), 1, "{form:?}");
        if form != Form::Tool {
            assert_eq!(text.matches("refunded 5 euros").count(), 1, "{form:?}: {text}");
        }
    }
}

/// A change of the team's state would drop what its member did, and it would be done again.
#[tokio::test]
async fn a_change_beside_open_work_of_a_member_is_refused() {
    for form in FORMS {
        let world = two_refunds(form);
        let process = world.process(Limits::default()).await;
        process.thread.start(said("Refund both.")).await.expect("accepted");
        let open = process.thread.questions().await.expect("reads");
        let update = RunInput::Update { writes: json!({}), as_node: None };
        let ended = process.thread.start(update).await.expect("accepted");
        let RunOutcome::Failed { fault } = ended.outcome() else { panic!("{form:?}: {ended:?}") };
        assert_eq!(fault.code, "W0122", "{form:?}");
        assert_eq!(process.thread.questions().await.expect("reads"), open, "{form:?}");
    }
}
