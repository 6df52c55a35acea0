//! Teams, and agents as tools: what waits, ends and continues within a member.

mod agent_tools;
mod answers_again;
mod left_open;
mod shapes;
mod world;

use serde_json::json;
use std::time::Duration;
use weftwork_agents::Chat;
use weftwork_graph::{CompiledGraph, Graph, START, SubgraphState};
use weftwork_models::scripted::Step;
use weftwork_types::interrupt::Ask;
use weftwork_types::port::Limits;
use weftwork_types::run::RunOutcome;
use world::{FORMS, Form, World, said};

/// A graph whose only node is a team.
fn office(team: CompiledGraph) -> CompiledGraph {
    let graph = Graph::<Chat>::new("office").subgraph("work", team, SubgraphState::PerTask);
    graph.edge(START, "work").build().expect("sound")
}

fn model_calls(calls: usize) -> Limits {
    Limits { model_calls: Some(calls as u64), ..Limits::default() }
}

/// The steps of a cashier that asks a person, or needs an approval, and then is done.
fn waiting(approval: bool) -> Vec<Step> {
    let amount = json!({"euros": 5});
    match approval {
        true => vec![Step::call("refund", amount), Step::text("Refunded.")],
        false => vec![
            Step::call("ask_human", json!({"question": "Which account?"})),
            Step::call("pay", amount),
            Step::text("Paid."),
        ],
    }
}

#[tokio::test]
async fn a_question_in_a_member_names_it_and_is_answered_in_any_process() {
    for form in FORMS {
        for (approval, restart) in [(false, false), (false, true), (true, false), (true, true)] {
            let case = format!("{form:?}, approval {approval}, restart {restart}");
            let steps = waiting(approval);
            let cashier_calls = steps.len();
            let world = World::new(form, steps);
            // One budget for lead and cashier together, and for both runs.
            let limits = model_calls(world.lead_calls() + cashier_calls);
            let mut process = world.process(limits).await;
            let ended = process.thread.start(said("Pay me.")).await.expect("accepted");
            let [asked] = ended.questions() else { panic!("{case}: {:?}", ended.outcome()) };
            assert_eq!(asked.graph.as_deref(), Some("cashier"), "{case}");
            assert_eq!((world.asked(), world.paid()), ((1, 1), 0), "{case}");

            if restart {
                drop(process);
                process = world.process(limits).await;
            }
            let question = process.question().await;
            assert_eq!(question.graph.as_deref(), Some("cashier"), "{case}");
            let answer = match &question.ask {
                Ask::Approval(request) => json!({"approved": true, "binding": request.binding}),
                _ => json!("the first"),
            };
            let ended = process.thread.answer(answer).await.expect("accepted");
            assert!(ended.output().is_ok(), "{case}: {:?}", ended.outcome());
            assert_eq!(world.asked(), (world.lead_calls(), cashier_calls), "{case}: once each");
            assert_eq!(world.paid(), 1, "{case}");
            if !approval {
                assert_eq!(world.paid_by(), ["north/ada/t"], "{case}: principal and thread");
            }
        }
    }
}

#[tokio::test]
async fn a_budget_that_is_used_up_in_a_member_ends_the_run_until_it_is_raised() {
    for form in FORMS {
        let steps = vec![Step::call("pay", json!({"euros": 5})), Step::text("Paid.")];
        let world = World::new(form, steps);
        let process = world.process(model_calls(2)).await;
        let ended = process.thread.start(said("Pay me.")).await.expect("accepted");
        let RunOutcome::Failed { fault } = ended.outcome() else {
            panic!("{form:?}: {:?}", ended.outcome())
        };
        assert_eq!(fault.code, "W0601", "{form:?}");
        assert_eq!((world.asked(), world.paid()), ((1, 1), 1), "{form:?}");

        drop(process);
        let all = world.lead_calls() + 2;
        let process = world.process(model_calls(all)).await;
        let ended = process.thread.resume().await.expect("accepted").await;
        assert!(ended.output().is_ok(), "{form:?}: {:?}", ended.outcome());
        assert_eq!((world.asked(), world.paid()), ((world.lead_calls(), 2), 1), "{form:?}");
    }
}

#[tokio::test]
async fn a_deadline_cuts_a_member_off() {
    for form in FORMS {
        let pays = Step::call("pay", json!({"euros": 5}));
        let steps = vec![pays, Step::text("Pa").hanging(), Step::text("Paid.")];
        let world = World::new(form, steps);
        let process = world.process(Limits::default()).await;
        let limit = Duration::from_secs(60);
        let run = process.thread.start(said("Pay me.")).deadline(limit).into_future();
        let late = async {
            while world.asked() != (1, 2) {
                tokio::task::yield_now().await;
            }
            world.clock.advance(limit);
        };
        let (ended, ()) = tokio::join!(run, late);
        let ended = ended.expect("accepted");
        let RunOutcome::Failed { fault } = ended.outcome() else {
            panic!("{form:?}: {:?}", ended.outcome())
        };
        // The model call or the run, whichever is polled first.
        assert_eq!(fault.code, "W0124", "{form:?}: {fault}");
        assert_eq!((world.asked(), world.paid()), ((1, 2), 1), "{form:?}");

        let ended = process.thread.proceed().await.expect("accepted");
        assert!(ended.output().is_ok(), "{form:?}: {:?}", ended.outcome());
        assert_eq!((world.asked(), world.paid()), ((world.lead_calls(), 3), 1), "{form:?}");
    }
}

#[tokio::test]
async fn drawings_and_views_show_the_members() {
    for form in [Form::Supervisor, Form::Swarm] {
        let world = World::new(form, waiting(false));
        let graph = world.graph();
        let drawn = graph.mermaid();
        assert!(drawn.contains("cashier") && drawn.contains("human"), "{form:?}: {drawn}");
        assert!(graph.svg().contains("cashier"), "{form:?}");
        let process = world.process(Limits::default()).await;
        process.thread.start(said("Pay me.")).await.expect("accepted");
        let state = process.thread.view().with_subgraphs().state().await.expect("reads");
        assert_eq!(state.next, ["cashier"], "{form:?}");
    }
}
