//! Questions of agents of other servers, which become questions of the run.

use super::peer::Peer;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use weftwork_graph::{Ctx, NodeResult, Question};
use weftwork_schema::Checker;

/// Most questions of a task at one time.
const QUESTIONS_MAX: usize = 8;
/// Longest question in bytes.
const QUESTION_BYTES_MAX: usize = 64 << 10;

/// A question of an agent of another server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PeerQuestion {
    /// Id there; `None` if it is the only one, and answered as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    pub(super) text: String,
    /// Call that a person is to approve there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) call: Option<Value>,
    /// JSON Schema of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) schema: Option<Value>,
}

/// A question as servers list several.
#[derive(Deserialize)]
struct Listed {
    id: Value,
    #[serde(default)]
    text: String,
    #[serde(default)]
    tool: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
    #[serde(default)]
    schema: Option<Value>,
}

impl PeerQuestion {
    /// A question with a text.
    pub(super) fn of_text(text: String) -> Self {
        Self { id: None, text, call: None, schema: None }
    }

    /// Reads a list of questions; `None` if it is none, or has more than a task may ask.
    pub(super) fn read_all(questions: &Value) -> Option<Vec<Self>> {
        let all: Vec<Listed> = serde_json::from_value(questions.clone()).ok()?;
        let is_sound = !all.is_empty() && all.len() <= QUESTIONS_MAX;
        is_sound.then(|| all.into_iter().map(Self::of_listed).collect())
    }

    fn of_listed(of: Listed) -> Self {
        let id = match of.id {
            Value::String(id) => id,
            other => other.to_string(),
        };
        let call = of.tool.map(|tool| json!({"tool": tool, "arguments": of.arguments}));
        let decision = || json!({"enum": ["approve", "reject"]});
        let schema = call.as_ref().map(|_| decision()).or(of.schema);
        Self { id: Some(id), text: of.text, call, schema }
    }
}

impl Peer {
    /// Asks the questions of a task one after the other, and returns the answers. The name is that of the
    /// agent there.
    pub(super) fn ask_all(
        &self,
        questions: &[PeerQuestion],
        name: Option<&str>,
        ctx: &Ctx,
    ) -> NodeResult<Vec<Value>> {
        let size: usize = questions.iter().map(|one| json!(one).to_string().len()).sum();
        if size > QUESTION_BYTES_MAX {
            let reason = format!("it has more than {QUESTION_BYTES_MAX} bytes");
            return Err(self.invalid("a question", reason).fault().into());
        }
        let name = name.unwrap_or(&self.slug);
        questions.iter().map(|question| self.ask_one(question, name, ctx)).collect()
    }

    fn ask_one(&self, of: &PeerQuestion, name: &str, ctx: &Ctx) -> NodeResult<Value> {
        let text = match of.text.as_str() {
            "" => "it needs an answer",
            text => text,
        };
        let mut value = json!({
            "question": format!("agent {name} at {} asks: {text}", self.name()),
        });
        if let Some(call) = &of.call {
            value["call"] = call.clone();
        }
        let mut question = Question::value(value);
        // The server checks answers too. A schema that cannot be read checks nothing here.
        let schema = of.schema.clone().filter(|schema| Checker::compile(schema).is_ok());
        if let Some(schema) = schema {
            question = question.answer_schema(schema);
        }
        Ok(ctx.ask_question(question)?.value)
    }
}

/// Returns the answers as a server takes them: by the ids of its questions, or the only one as it is.
pub(super) fn answers_of(questions: &[PeerQuestion], answers: Vec<Value>) -> Value {
    match (questions, answers.as_slice()) {
        ([PeerQuestion { id: None, .. }], [only]) => only.clone(),
        _ => {
            let ids = questions.iter().map(|question| question.id.clone().unwrap_or_default());
            json!({"answers": ids.zip(answers).collect::<Map<_, _>>()})
        }
    }
}
