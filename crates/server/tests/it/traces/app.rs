//! An app whose configuration has the variables of OpenTelemetry.

use super::collector::Collector;
use std::path::Path;
use std::time::Duration;
use weftwork::config::{Flags, Surroundings};
use weftwork::prelude::*;

fn load(url: &str, more: (&str, &str)) -> Result<Config, weftwork::Error> {
    let variable = |name: &str| match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(url.to_owned()),
        name => (name == more.0).then(|| more.1.to_owned()),
    };
    let surroundings = Surroundings { variable: &variable, folder: Path::new("/nonexistent") };
    let store = Some("memory".to_owned());
    let model = Some("scripted".to_owned());
    Config::load(&surroundings, &Flags { store, model, ..Flags::default() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_app_sends_the_traces_of_its_runs_at_its_end() {
    let collector = Collector::start().await;
    let config =
        load(&collector.url(), ("OTEL_METRICS_EXPORTER", "none")).expect("a configuration");
    let app = App::builder().config(config);
    let app = app.agent("chat", |model| ReactAgent::new("chat", model).build());
    let app = app.open().await.expect("opens");
    app.ask("t", "Hello").await.expect("completes");
    app.shutdown(Duration::from_secs(5)).await.expect("ends");
    let spans = collector.spans();
    assert_eq!(spans.roots().len(), 1, "{}", spans.tree());
    spans.named("invoke_agent app:chat");
}

#[test]
fn a_variable_that_cannot_be_used_is_an_error_of_the_configuration() {
    let error = load("http://127.0.0.1:1", ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"));
    let fault = error.expect_err("grpc").fault();
    assert_eq!(fault.code, "W0703");
    assert!(fault.message.contains("OTEL_EXPORTER_OTLP_PROTOCOL"), "{}", fault.message);
}
