//! Questions that a node asks, and the timers it waits for.

use crate::context::Ctx;
use crate::error::{NodeError, RuntimeError, Stop};
use crate::output::NodeResult;
use crate::run_loop::schema::answer_checker;
use crate::schema::answer_schema;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use std::time::Duration;
use weftwork_engine::ids::interrupt_id;
use weftwork_types::canonical::can_be_read_back;
use weftwork_types::interrupt::{Answer, Ask, Interrupt};
use weftwork_types::{InterruptId, Timestamp};

/// A question with all there may be to it, for [`Ctx::ask_question`].
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Question {
    pub(crate) ask: Ask,
    pub(crate) answer_schema: Option<Json>,
    pub(crate) expiry: Option<(Timestamp, Json)>,
    pub(crate) key: Option<String>,
}

impl Question {
    /// A question that takes any answer and waits for it however long that takes.
    pub fn new(ask: Ask) -> Self {
        Self { ask, answer_schema: None, expiry: None, key: None }
    }

    /// A question that shows a JSON value.
    pub fn value(value: Json) -> Self {
        Self::new(Ask::Value { value })
    }

    /// The JSON Schema (2020-12) an answer must satisfy. It refers to nothing outside itself.
    pub fn answer_schema(mut self, schema: Json) -> Self {
        self.answer_schema = Some(schema);
        self
    }

    /// Sets the time at which a question without an answer takes this default as its answer. The
    /// default need not satisfy the schema.
    pub fn expires_at(mut self, at: Timestamp, default: Json) -> Self {
        self.expiry = Some((at, default));
        self
    }

    /// A key by which it can be answered, such as the number of an order:
    /// [`Answers::ByKey`](crate::Answers::ByKey). All open questions of one key get one answer.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

impl Ctx {
    /// Asks a person and returns the answer, or stops the node here until there is one.
    ///
    /// The run then ends with the outcome `interrupted`; an answer starts a run that executes this
    /// node from its first line. Questions are matched with answers by their order within the
    /// task. Calls that are on record are not made again.
    ///
    /// In a run of this process ([`CompiledGraph::run`](crate::CompiledGraph::run)) an answer that
    /// does not satisfy the schema is refused before anything runs.
    ///
    /// # Errors
    /// A [`NodeError`] that stops the node while there is no answer: return it with `?`. It fails
    /// the node when the schema is none.
    pub fn ask(&self, ask: Ask, answer_schema: Option<Json>) -> NodeResult<Answer> {
        self.ask_question(Question { answer_schema, ..Question::new(ask) })
    }

    /// Asks anything: shorthand for [`ask`](Self::ask) with a JSON value.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn interrupt(&self, value: Json) -> NodeResult<Json> {
        self.ask(Ask::Value { value }, None).map(|answer| answer.value)
    }

    /// Asks anything, and returns the answer as a value. The JSON Schema of the type is the schema of
    /// the answer, so that one which does not fit is refused where it is given.
    ///
    /// ```
    /// # use weftwork_graph::{Ctx, NodeResult};
    /// async fn book(ctx: Ctx) -> NodeResult<()> {
    ///     let people: u32 = ctx.ask_as("For how many?")?;
    ///     println!("a table for {people}");
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`ask`](Self::ask); and an answer that fits the schema, and is no `T` all the same.
    pub fn ask_as<T: DeserializeOwned + JsonSchema>(
        &self,
        question: impl Into<Json>,
    ) -> NodeResult<T> {
        let ask = Ask::Value { value: question.into() };
        let answer = self.ask(ask, Some(answer_schema::<T>()))?;
        Ok(serde_json::from_value(answer.value)?)
    }

    /// Asks a person who has until `expires_at` to answer; after that the question takes its
    /// default.
    ///
    /// The default is taken when the run continues at or after that time, whatever resumes it, and
    /// no answer came with it or before. The time of the first asking counts: it is recorded, and a
    /// time that is computed anew when the node runs again does not move it.
    ///
    /// The thread of a hosted run continues by itself at that time, once a worker with
    /// `Recovery::Automatic` looks for due threads, or when `Runtime::wake` is called.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn ask_until(
        &self,
        ask: Ask,
        answer_schema: Option<Json>,
        expires_at: Timestamp,
        default: Json,
    ) -> NodeResult<Answer> {
        let question = Question { answer_schema, ..Question::new(ask) };
        self.ask_question(question.expires_at(expires_at, default))
    }

    /// Waits for an event that is identified by a key, such as a payment by the number of its
    /// order: [`Answers::ByKey`](crate::Answers::ByKey) reports that it happened.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn wait_for(&self, key: &str, ask: Ask, answer_schema: Option<Json>) -> NodeResult<Answer> {
        self.ask_question(Question { answer_schema, ..Question::new(ask) }.key(key))
    }

    /// Asks a question with all its options.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn ask_question(&self, question: Question) -> NodeResult<Answer> {
        self.check_running()?;
        let (index, answer) = self.at().next_answer(&question).map_err(node_error)?;
        if let Some(answer) = answer {
            return Ok(answer);
        }
        let id = interrupt_id(self.task_id(), index);
        let Question { mut ask, answer_schema, expiry, key } = question;
        let expiry = expiry.map(|given| self.first_expiry(id).unwrap_or(given));
        if let Some((at, default)) = &expiry
            && *at <= self.clock().now()
            && let Some(answer) = self.at().take_default(index, &ask, default)
        {
            return Ok(answer);
        }
        if let (Ask::Timer { until }, Some((at, _))) = (&mut ask, &expiry) {
            *until = *at;
        }
        let (expires_at, default) = expiry.unzip();
        let asked = serde_json::to_value(&ask)?;
        let parts = [Some(&asked), answer_schema.as_ref(), default.as_ref()];
        if !parts.into_iter().flatten().all(can_be_read_back) {
            return Err(RuntimeError::TooDeep { what: "a question" }.into());
        }
        if let Some(schema) = &answer_schema {
            answer_checker(schema).map_err(node_error)?;
        }
        let task = self.task_id();
        let node = self.node().to_owned();
        let graph = self
            .at()
            .loop_context
            .is_nested()
            .then(|| self.at().loop_context.graph.name().to_owned());
        let asked =
            Interrupt { id, task, node, graph, ask, answer_schema, expires_at, default, key };
        self.open(vec![asked]);
        Err(NodeError::interrupted())
    }

    /// Expiry and default of a recorded question.
    fn first_expiry(&self, id: InterruptId) -> Option<(Timestamp, Json)> {
        self.at().loop_context.run.expiry(id)
    }

    /// Stops the node for a while: [`sleep_until`](Self::sleep_until) that long after now. When
    /// the node runs again from its first line, the time of the first call counts.
    ///
    /// # Errors
    /// As [`sleep_until`](Self::sleep_until).
    ///
    /// # Cancel safety
    /// As [`sleep_until`](Self::sleep_until).
    pub async fn sleep(&self, duration: Duration) -> NodeResult<()> {
        self.sleep_until(self.clock().now().plus(duration)).await
    }

    /// Stops the node until a time. A time that has passed causes no stop.
    ///
    /// The timer is an open question that needs no answer: it outlives the process. The run ends
    /// with the outcome `interrupted`, and continues when it is resumed at or after that time;
    /// [`Run::waiting`](crate::run_loop::Run::waiting) waits for it in place, and workers wake
    /// threads of hosted runs (`Runtime::wake`). An earlier answer ends it earlier.
    ///
    /// Without a checkpoint that a run could continue from (a host without a checkpointer, a graph
    /// that is [`Stateless`](crate::SubgraphState::Stateless)), the node waits in place.
    ///
    /// # Errors
    /// A [`NodeError`] that stops the node: return it with `?`.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn sleep_until(&self, until: Timestamp) -> NodeResult<()> {
        if !self.at().loop_context.is_durable() {
            let left = until.since(self.clock().now());
            if !left.is_zero() {
                self.clock().sleep(left).await;
            }
            return Ok(());
        }
        let question = Question::new(Ask::Timer { until }).expires_at(until, Json::Null);
        self.ask_question(question).map(|_| ())
    }
}

fn node_error(error: RuntimeError) -> NodeError {
    NodeError(Stop::Failed(error.fault()))
}
