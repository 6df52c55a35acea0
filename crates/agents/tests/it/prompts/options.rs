//! Options of models and graphs, and structured output.

use super::{Recording, done, note, noting, scripted};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use weftwork_agents::{
    EvaluationErrorKind, EvaluationPhase, Evaluator, ModelConfig, Prompt, Section,
};
use weftwork_models::scripted::Step;
use weftwork_models::{Capability, ToolChoice};
use weftwork_types::message::{Message, Role};

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Day {
    city: String,
    hours: u32,
}

#[tokio::test]
async fn structured_output_is_repaired_twice_and_no_more() {
    let section = || Section::new("task", "Task", "Plan days.");
    let one = Prompt::<()>::builder("tests", "day", "Day").section(section()).output::<Day>();
    let many =
        Prompt::<()>::builder("tests", "days", "Days").section(section()).output::<Vec<Day>>();
    let one = one.build().expect("sound");
    let many = many.build().expect("sound");
    let day = r#"{"city": "Bern", "hours": 3}"#;
    let bern = Day { city: "Bern".to_owned(), hours: 3 };

    let model = Recording::new(vec![Step::text("Sure!"), Step::text("[]"), Step::text(day)], &[]);
    let evaluator = Evaluator::builder(Arc::clone(&model)).open().await.expect("opens");
    let response = done(evaluator.evaluate(&one, ()).await.expect("evaluates"));
    assert_eq!((response.output, response.usage.model_calls), (Some(bern), 3));
    let last = &model.requests()[2];
    let repair = last.messages.last().expect("a message").joined_text();
    assert!(repair.contains("a list, and the output type is an object"), "{repair}");
    assert!(last.response_schema.is_some());

    // A model that takes no schema is told it, and its answer is checked all the same.
    let model =
        Recording::new(vec![Step::text("Sure!"), Step::text(day)], &[Capability::ResponseSchema]);
    let evaluator = Evaluator::builder(Arc::clone(&model)).open().await.expect("opens");
    let response = done(evaluator.evaluate(&one, ()).await.expect("evaluates"));
    assert_eq!((response.output.is_some(), response.usage.model_calls), (true, 2));
    for request in model.requests() {
        let instructions: String = request
            .messages
            .iter()
            .filter(|m| m.role == Role::System)
            .map(Message::joined_text)
            .collect();
        assert!(request.response_schema.is_none() && instructions.contains("\"hours\""));
    }

    let model = scripted(vec![Step::text(format!(r#"{{"items": [{day}]}}"#))]);
    let evaluator = Evaluator::builder(model).open().await.expect("opens");
    let response = done(evaluator.evaluate(&many, ()).await.expect("evaluates"));
    assert_eq!(response.output.map(|days| days.len()), Some(1));

    let model =
        scripted(vec![Step::text("no"), Step::text("no"), Step::text("nor this"), Step::text(day)]);
    let evaluator = Evaluator::builder(model).open().await.expect("opens");
    let error = evaluator.evaluate(&one, ()).await.expect_err("no repair is left");
    assert_eq!((error.kind, error.phase), (EvaluationErrorKind::Output, EvaluationPhase::Response));
    assert_eq!((error.code(), error.attempt, error.usage.model_calls), ("W0615", 3, 3));
}

#[tokio::test]
async fn options_reach_the_model_and_what_it_lacks_is_refused_by_name() {
    let steps = || vec![Step::calls(vec![note("x")]), Step::text("Done.")];
    let config = ModelConfig {
        temperature: Some(0.5),
        top_p: Some(0.9),
        stop: vec!["END".to_owned()],
        seed: Some(7),
        max_tokens: Some(100),
        parallel_tool_calls: None,
        tool_choice: ToolChoice::Named("take_note".to_owned()),
    };
    let model = Recording::new(steps(), &[]);
    let evaluator = Evaluator::builder(Arc::clone(&model)).model_config(config.clone());
    let evaluator = evaluator.open().await.expect("opens");
    evaluator.evaluate(&noting(), ()).await.expect("evaluates");
    let requests = model.requests();
    let [first, second] = &requests[..] else { panic!("two requests") };
    assert_eq!((first.temperature, first.max_tokens), (Some(0.5), Some(100)));
    for sent in [first, second] {
        assert_eq!((sent.top_p, sent.seed), (Some(0.9), Some(7)));
        assert_eq!(sent.stop, ["END"]);
    }
    assert_eq!(first.parallel_tool_calls, Some(true), "on where the model has the option");
    assert_eq!(first.tool_choice, ToolChoice::Named("take_note".to_owned()));
    assert_eq!(second.tool_choice, ToolChoice::Auto, "an answer must be possible");

    for (lacks, config) in [
        (Capability::Temperature, config.clone()),
        (Capability::TopP, config.clone()),
        (Capability::Stop, config.clone()),
        (Capability::Seed, config.clone()),
        (Capability::MaxTokens, config.clone()),
        (Capability::ToolChoice, config.clone()),
        (
            Capability::ParallelToolCalls,
            ModelConfig { parallel_tool_calls: Some(true), ..config.clone() },
        ),
    ] {
        let lacking: &'static [Capability] = Box::leak(Box::new([lacks]));
        let model = Recording::new(steps(), lacking);
        let evaluator = Evaluator::builder(Arc::clone(&model)).model_config(config);
        let error = evaluator.open().await.expect("opens").evaluate(&noting(), ()).await;
        let error = error.expect_err("refused");
        assert_eq!((error.code(), model.requests().len()), ("W0310", 0));
        assert!(error.to_string().contains(&format!("`{}`", lacks.name())), "{error}");
    }
    let model = Recording::new(steps(), &[Capability::ParallelToolCalls]);
    let evaluator = Evaluator::builder(Arc::clone(&model)).open().await.expect("opens");
    evaluator.evaluate(&noting(), ()).await.expect("the default is no request for it");
    assert_eq!(model.requests()[0].parallel_tool_calls, None);
}

#[tokio::test]
async fn a_loop_ends_at_the_recursion_limit() {
    let steps = (0..30).map(|_| Step::calls(vec![note("again")])).collect();
    let evaluator = Evaluator::builder(scripted(steps)).open().await.expect("opens");
    let error = evaluator.evaluate(&noting(), ()).await.expect_err("25 supersteps");
    assert_eq!(error.kind, EvaluationErrorKind::RecursionLimit);
    assert_eq!((error.phase, error.code()), (EvaluationPhase::Request, "W0621"));
    assert!(error.to_string().contains("25"), "{error}");
}
