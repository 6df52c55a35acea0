//! Return values of tools: a value, or questions to a person.

use crate::{ToolError, schema};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use weftwork_types::message::Part;
use weftwork_types::tool::{Questions, Reply, ToolQuestion};

/// The return value of a tool: its result, or questions to a person.
///
/// A tool that asks is called again after the replies, with the same arguments and the
/// [`Replies`]. It takes its effect only when it has asked everything; a tool that cannot do
/// otherwise declares that with [`Questions::acted`].
///
/// ```
/// use serde_json::json;
/// use weftwork_tools::{Questions, Replies, ToolError, ToolOutput, question, tool};
///
/// /// Books a table.
/// #[tool(effect = external_side_effect)]
/// async fn book_table(
///     day: String,
///     replies: Option<Replies>,
/// ) -> Result<ToolOutput<String>, ToolError> {
///     let Some(replies) = replies else {
///         let ask = question::<u32>(format!("How many guests on {day}?"));
///         return Ok(Questions::new([ask]).state(json!({"table": 7})).into());
///     };
///     Ok(match replies.content::<u32>(0)? {
///         Some(guests) => ToolOutput::Value(format!("table for {guests} on {day}")),
///         None => ToolOutput::Value("nothing was booked".to_owned()),
///     })
/// }
/// # use weftwork_tools::Tool;
/// # assert_eq!(book_table.spec().output, Some(json!({"type": "string"})));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutput<T = Value> {
    /// The result of the call.
    Value(T),
    /// The result of the call, with texts and media that the model reads after it. The schema of
    /// results and the shown members are those of the value.
    WithContent {
        /// The result.
        value: T,
        /// Texts and inline media.
        content: Vec<Part>,
    },
    /// Questions to a person. The call goes on with the replies.
    Questions(Questions),
    /// The call waits for answers to questions that were asked elsewhere, by a graph that the tool
    /// runs. It goes on in another round, without replies.
    Waits,
}

impl<T> From<Questions> for ToolOutput<T> {
    fn from(questions: Questions) -> Self {
        Self::Questions(questions)
    }
}

/// The return type of a tool: any value with a schema, or a [`ToolOutput`] of one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a tool",
    label = "no `serde::Serialize` and `schemars::JsonSchema`",
    note = "derive `serde::Serialize` and `schemars::JsonSchema` for it; a tool that asks a person returns `ToolOutput<T>` of such a type"
)]
pub trait IntoToolOutput {
    /// The type of the result.
    type Value: Serialize + JsonSchema;

    /// Returns the value or the questions.
    fn into_output(self) -> ToolOutput<Self::Value>;
}

impl<T: Serialize + JsonSchema> IntoToolOutput for T {
    type Value = T;

    fn into_output(self) -> ToolOutput<T> {
        ToolOutput::Value(self)
    }
}

impl<T: Serialize + JsonSchema> IntoToolOutput for ToolOutput<T> {
    type Value = T;

    fn into_output(self) -> Self {
        self
    }
}

/// Creates a question whose answer is a `T`.
///
/// ```
/// use serde_json::json;
///
/// let guests = weftwork_tools::question::<u32>("How many guests?");
/// assert_eq!(guests.schema["type"], json!("integer"));
/// ```
#[must_use]
pub fn question<T: JsonSchema>(text: impl Into<String>) -> ToolQuestion {
    ToolQuestion::new(text, schema::args_schema::<T>())
}

/// The replies to the questions of the previous round of a call, with the state that the tool
/// returned with them.
///
/// ```
/// use serde_json::{Value, json};
/// use weftwork_tools::Replies;
/// use weftwork_types::tool::Reply;
///
/// let replies = vec![Reply::Accept { content: json!(4) }, Reply::Decline];
/// let replies = Replies { round: 1, state: Value::Null, replies };
/// assert_eq!(replies.content::<u32>(0)?, Some(4));
/// assert_eq!(replies.content::<u32>(1)?, None);
/// # Ok::<(), weftwork_tools::ToolError>(())
/// ```
///
/// A tool that asks is at [`ToolOutput`].
#[derive(Debug, Clone, PartialEq)]
pub struct Replies {
    /// Number of rounds of questions that were answered, at least 1.
    pub round: u32,
    /// State that the tool returned with its questions.
    pub state: Value,
    /// Replies, one for each question in the same order.
    pub replies: Vec<Reply>,
}

impl Replies {
    /// Returns the answer to a question, counted from 0; `None` if the person declined or
    /// cancelled it, or no such question was asked.
    ///
    /// # Errors
    /// [`ToolError`] if the answer cannot be read as a `T`.
    pub fn content<T: DeserializeOwned>(&self, question: usize) -> Result<Option<T>, ToolError> {
        let Some(Reply::Accept { content }) = self.replies.get(question) else { return Ok(None) };
        read(content, "an answer of a person").map(Some)
    }

    /// Returns the state as a `T`.
    ///
    /// # Errors
    /// [`ToolError`] if the state cannot be read as a `T`: an older version of the tool recorded it.
    pub fn state<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        read(&self.state, "the recorded state of the call")
    }
}

fn read<T: DeserializeOwned>(value: &Value, what: &str) -> Result<T, ToolError> {
    T::deserialize(value)
        .map_err(|problem| ToolError::failed(format_args!("{what} cannot be read: {problem}")))
}
