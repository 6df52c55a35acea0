//! Results with texts and media beside their value.

use crate::rig::{Rig, call, done, failure, runner};
use serde_json::{Value, json};
use weftwork_tools::{Executed, Policy, Tool, ToolBox, ToolContext, ToolError, ToolOutput};
use weftwork_types::BoxFuture;
use weftwork_types::message::{Media, Part, content_parts};
use weftwork_types::tool::{Effect, ToolOutcome, ToolSpec, UnknownOutcome};

/// Returns its value with an image of this many digits, and a text.
#[derive(Debug)]
struct Draw {
    spec: ToolSpec,
    value: Value,
    digits: usize,
}

impl Draw {
    fn new(value: Value, digits: usize, shown: &str) -> Self {
        let spec = ToolSpec {
            name: "draw".to_owned(),
            description: "Draws.".to_owned(),
            parameters: json!({"type": "object"}),
            output: Some(
                json!({"type": "object", "properties": {"n": {"type": "integer"}, "card": {}}}),
            ),
            effect: Effect::ReadOnly,
            on_unknown: UnknownOutcome::Idempotent,
            shown: Some(vec![shown.to_owned()]),
            examples: Vec::new(),
        };
        Self { spec, value, digits }
    }
}

impl Tool for Draw {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, _: Value, _: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let url = format!("data:image/png;base64,{}", "A".repeat(self.digits));
        let media = Media { media_type: "image/png".to_owned(), url };
        let content = vec![Part::Media(media), Part::Text { text: "CANARY".to_owned() }];
        let value = self.value.clone();
        Box::pin(async move { Ok(ToolOutput::WithContent { value, content }) })
    }
}

fn drawn(tool: Draw) -> Executed {
    let runner = runner(ToolBox::new().with(tool), Policy::new());
    Rig::new().run(&runner, &call("c-1", "draw", json!({})))
}

fn result(tool: Draw) -> (Value, Option<Value>) {
    match done(drawn(tool)) {
        ToolOutcome::Ok { value, shown } => (value, shown),
        ToolOutcome::Failed(failure) => panic!("{failure:?}"),
    }
}

/// The parts of a value in short.
fn parts(value: &Value) -> Vec<String> {
    let parts = content_parts(value).unwrap_or_else(|| panic!("no content: {value:.200}"));
    let short = |part: &Part| match part {
        Part::Text { text } => text.clone(),
        Part::Media(media) => format!("{} bytes", media.bytes()),
        other => panic!("{other:?}"),
    };
    parts.iter().map(short).collect()
}

#[test]
fn a_model_reads_a_value_with_its_content_and_users_what_is_declared() {
    let value = json!({"n": 7, "card": "4111"});
    let (read, shown) = result(Draw::new(value.clone(), 4, "n"));
    assert_eq!(parts(&read), [r#"{"n":7,"card":"4111"}"#, "3 bytes", "CANARY"]);
    assert_eq!(shown, Some(json!({"n": 7})));
    let (_, shown) = result(Draw::new(value, 4, "."));
    assert_eq!(shown, None, "all of it");
    let (_, code, message) = failure(drawn(Draw::new(json!({"n": "seven"}), 4, ".")));
    assert_eq!(code, "W0409", "{message}");
}

#[test]
fn large_media_are_for_the_model_alone_and_too_large_ones_are_left_out() {
    let small = (4, "3 bytes", "3 bytes");
    let for_model = "[image/png of 300000 bytes: for the model alone, because of its size]";
    let large = (400_000, "300000 bytes", for_model);
    let left_out = "[image/png of 3750000 bytes: too large for a result]";
    let too_large = (5_000_000, left_out, left_out);
    for (digits, expected, expected_shown) in [small, large, too_large] {
        let (value, shown) = result(Draw::new(json!({"n": 7}), digits, "."));
        let shown = shown.unwrap_or_else(|| value.clone());
        assert_eq!(parts(&value)[1], expected);
        assert_eq!(parts(&shown)[1], expected_shown);
    }
}
