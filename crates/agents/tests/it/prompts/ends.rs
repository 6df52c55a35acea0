//! Ends of evaluations: what is cancelled and deleted, and what later evaluations find.

use super::{Note, Recording, done, note, notes, noting, over, scripted, take_note};
use futures_util::FutureExt;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weftwork_agents::{
    Chat, ChatUpdate, EvaluationErrorKind, Evaluator, Model, Prompt, PromptEventKind, PromptRun,
    Section, Session, Tools,
};
use weftwork_graph::{Ctx, Graph, NodeResult, START, State};
use weftwork_models::ModelError;
use weftwork_models::scripted::Step;
use weftwork_runtime::{RolledBack, Runtime};
use weftwork_store::MemoryStore;
use weftwork_tools::tool;
use weftwork_types::message::{Message, Role};
use weftwork_types::port::Limits;
use weftwork_types::run::{Answers, RunOutcome};

fn ask() -> Step {
    Step::call("ask_human", json!({"question": "More?"}))
}

fn yes() -> Answers {
    Answers::One(json!("yes"))
}

async fn soon(mut holds: impl AsyncFnMut() -> bool) {
    let waits = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waits).await.expect("it holds soon");
}

async fn threads(evaluator: &Evaluator) -> usize {
    let threads = evaluator.runtime().threads().search(Default::default()).await;
    threads.expect("reads").threads.len()
}

#[tokio::test]
async fn an_evaluation_that_is_dropped_while_its_run_is_requested_is_cancelled() {
    for durable in [true, false] {
        let model = scripted(vec![Step::text("x").hanging()]);
        let builder = Evaluator::builder(Arc::clone(&model));
        let builder = if durable { builder.runtime(Runtime::in_memory()) } else { builder };
        let evaluator = builder.open().await.expect("opens");
        let session = Session::new("s").expect("an id");
        let mut evaluation = evaluator.evaluate(&noting(), ()).session(&session).into_future();
        assert!((&mut evaluation).now_or_never().is_none());
        drop(evaluation);
        if durable {
            let thread = evaluator.runtime().thread("prompt:react", "s").expect("hosted");
            soon(async || match thread.runs(RolledBack::Omitted).await {
                Ok(runs) => runs
                    .first()
                    .is_some_and(|run| matches!(run.outcome, Some(RunOutcome::Cancelled { .. }))),
                Err(_) => false,
            })
            .await;
        } else {
            // The task that begins the run may not have stored it yet.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            soon(async || threads(&evaluator).await == 0).await;
        }
    }
}

#[tokio::test]
async fn threads_of_dropped_and_failed_evaluations_in_memory_are_deleted() {
    let failed = || {
        Step::fails(ModelError::BadRequest {
            provider: "scripted".to_owned(),
            status: 400,
            message: "no".to_owned(),
            kind: weftwork_models::RefusalKind::InvalidRequest,
        })
    };
    let model = scripted(vec![failed(), Step::text("x").hanging()]);
    let evaluator = Evaluator::builder(Arc::clone(&model)).open().await.expect("opens");
    let error = evaluator.evaluate(&noting(), ()).await.expect_err("it fails");
    assert_eq!(error.kind, EvaluationErrorKind::Provider);
    assert_eq!(threads(&evaluator).await, 0);
    tokio::select! {
        _ = evaluator.evaluate(&noting(), ()).into_future() => panic!("the model hangs"),
        () = async { while model.calls() < 2 { tokio::task::yield_now().await } } => {}
    }
    soon(async || threads(&evaluator).await == 0).await;
}

#[tokio::test]
async fn a_refused_answer_leaves_the_thread_in_memory() {
    let model = scripted(vec![ask(), Step::text("Done.")]);
    let evaluator = Evaluator::builder(model).open().await.expect("opens");
    let session = evaluator.new_session();
    let evaluated = evaluator.evaluate(&noting(), ()).session(&session).await.expect("evaluates");
    let thread = evaluated.interrupted().expect("asks").thread;
    let none = Answers::ById([(weftwork_types::InterruptId(7), json!("yes"))].into());
    evaluator.answer(&noting(), &thread, none).await.expect_err("no such question");
    let other = evaluator.new_session();
    let error = evaluator.answer(&noting(), &thread, yes()).session(&other).await;
    let error = error.expect_err("another session");
    assert_eq!((error.code(), error.kind), ("W0619", EvaluationErrorKind::Session));
    let response = done(evaluator.answer(&noting(), &thread, yes()).await.expect("continues"));
    assert_eq!((&response.session, response.text.as_str()), (session.id(), "Done."));
}

#[tokio::test]
async fn evaluations_that_share_a_session_get_each_event_once() {
    let model = scripted(vec![
        Step::calls(vec![note("b"), ("ask_human".to_owned(), json!({"question": "More?"}))]),
        Step::calls(vec![note("c")]),
        Step::text("Done."),
        Step::calls(vec![note("d")]),
        Step::text("Done."),
    ]);
    let evaluator = Evaluator::builder(model).open().await.expect("opens");
    let session = evaluator.new_session();
    session.dispatch::<Note>(&Note("a".to_owned())).expect("dispatches");
    let evaluated = evaluator.evaluate(&noting(), ()).session(&session).await.expect("evaluates");
    let thread = evaluated.interrupted().expect("asks").thread;
    // On a thread of its own, while the first one waits.
    evaluator.evaluate(&noting(), ()).session(&session).await.expect("evaluates");
    assert_eq!(notes(&session), ["a", "b", "c"]);
    let resumed = evaluator.answer(&noting(), &thread, yes()).session(&session).await;
    resumed.expect("continues");
    // The superstep with `b` closes after the answer, with which `c` was sent.
    assert_eq!(notes(&session), ["a", "c", "b", "d"]);
}

#[tokio::test]
async fn the_budgets_of_the_runtime_hold_unless_the_evaluator_has_its_own() {
    let steps = || vec![Step::calls(vec![note("a")]), Step::text("Done.")];
    let limits = |calls| Limits { model_calls: Some(calls), ..Limits::default() };
    let runtime = || Runtime::in_memory().budgets(limits(1));
    let evaluator = Evaluator::builder(scripted(steps())).runtime(runtime()).open().await;
    let error = evaluator.expect("opens").evaluate(&noting(), ()).await.expect_err("one call");
    assert_eq!(error.kind, EvaluationErrorKind::Budget);
    let builder = Evaluator::builder(scripted(steps())).runtime(runtime()).budgets(limits(2));
    let evaluated = builder.open().await.expect("opens").evaluate(&noting(), ()).await;
    assert_eq!(done(evaluated.expect("two calls")).text, "Done.");
}

#[tokio::test]
async fn a_refused_continuation_does_not_replace_the_registered_prompt() {
    let store = Arc::new(MemoryStore::new());
    let evaluator = over(&store, Evaluator::builder(scripted(vec![ask(), Step::text("Done.")])));
    let evaluator = evaluator.await;
    let session = Session::new("s").expect("an id");
    evaluator.evaluate(&noting(), ()).session(&session).await.expect("evaluates");
    let section = Section::new("task", "Task", "Take no notes.").tool(take_note).ask_human();
    let changed = Prompt::<()>::builder("tests", "notes", "Notes").section(section).build();
    let refused = evaluator.answer(&changed.expect("sound"), session.id(), yes()).await;
    assert_eq!(refused.expect_err("changed").code(), "W0614");
    // Another client answers through the runtime, which has the registered prompt.
    let thread = evaluator.runtime().thread("prompt:react", "s").expect("hosted");
    let runs = thread.runs(RolledBack::Omitted).await.expect("reads");
    let settings = runs[0].new.options.configurable.clone();
    let ended = thread.answer(json!("yes")).configurable(settings).await.expect("accepted");
    assert!(matches!(ended.outcome(), RunOutcome::Completed { .. }), "{ended:?}");
}

#[tokio::test]
async fn an_evaluation_without_an_answer_has_no_text_of_an_earlier_one() {
    async fn once(chat: State<Chat>, model: Model) -> NodeResult<ChatUpdate> {
        let answered = chat.messages().iter().any(|message| message.role == Role::Assistant);
        if answered {
            return Ok(ChatUpdate::new());
        }
        Ok(ChatUpdate::new().messages([model.ask(chat.messages()).await?]))
    }
    let graph = Graph::<Chat>::new("once")
        .channel(Session::channel())
        .with_run_scoped::<PromptRun>()
        .node("once", once)
        .edge(START, "once")
        .build();
    let model = scripted(vec![Step::text("One.")]);
    let builder = Evaluator::builder(model).graph(graph.expect("sound"));
    let evaluator = builder.runtime(Runtime::in_memory()).open().await.expect("opens");
    let session = Session::new("s").expect("an id");
    for expected in ["One.", ""] {
        let evaluated = evaluator.evaluate(&noting(), ()).session(&session).await;
        assert_eq!(done(evaluated.expect("evaluates")).text, expected);
    }
}

/// Books a room.
#[tool]
fn book(city: String, #[arg(secret)] card: String) -> String {
    format!("{city} {}", card.len())
}

#[tokio::test]
async fn events_of_calls_that_nodes_make_have_no_secret_arguments() {
    async fn call(tools: Tools, ctx: Ctx) -> NodeResult<ChatUpdate> {
        for tool in ["book", "books"] {
            let _refused = tools.call(tool, json!({"city": "Bern", "card": "4111"})).await;
        }
        let text = Message::text(ctx.message_id(), Role::Assistant, "Done.");
        Ok(ChatUpdate::new().messages([text]))
    }
    let graph = Graph::<Chat>::new("books")
        .with_run_scoped::<PromptRun>()
        .node("call", call)
        .edge(START, "call")
        .build();
    let task = Section::new("task", "Task", "Book.").tool(book);
    let prompt = Prompt::<()>::builder("tests", "book", "Book").section(task).build();
    let builder = Evaluator::builder(scripted(Vec::new())).graph(graph.expect("sound"));
    let evaluator = builder.open().await.expect("opens");
    let mut events = evaluator.bus().subscribe();
    evaluator.evaluate(&prompt.expect("sound"), ()).await.expect("evaluates");
    let shown: Vec<_> = events
        .drain()
        .iter()
        .filter(|event| matches!(event.kind, PromptEventKind::ToolInvoked(_)))
        .map(|event| event.to_shown())
        .collect();
    assert_eq!(shown.len(), 2);
    assert_eq!(shown[0]["params"], json!({"city": "Bern", "card": "[secret]"}));
    assert!(shown.iter().all(|event| !event.to_string().contains("4111")), "{shown:?}");
}

#[tokio::test]
async fn a_prompt_is_rendered_once_for_an_evaluation() {
    let renders = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&renders);
    let task = Section::new("task", "Task", "Work.").enabled(move |()| {
        counts.fetch_add(1, Ordering::SeqCst);
        true
    });
    let prompt = Prompt::<()>::builder("tests", "count", "Count").section(task).build();
    let model = Recording::new(vec![Step::text("Done.")], &[]);
    let evaluator = Evaluator::builder(model).open().await.expect("opens");
    evaluator.evaluate(&prompt.expect("sound"), ()).await.expect("evaluates");
    assert_eq!(renders.load(Ordering::SeqCst), 1);
}
