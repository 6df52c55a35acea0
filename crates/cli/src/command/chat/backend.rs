//! The two places in which a chat takes place: a store that this process opens, and a server.

use serde_json::Value;
use std::collections::BTreeMap;
use weftwork::models::ModelInfo;
use weftwork::types::interrupt::Interrupt;
use weftwork::types::message::Role;
use weftwork::types::{InterruptId, ThreadId};
use weftwork_cli_base::CliError;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::follow::Followed;
use weftwork_cli_base::terminal::{Table, Terminal};

/// Maximum number of threads or questions of a list.
pub(super) const LISTED_MAX: usize = 50;

/// The conversation with one agent on one thread.
pub(super) trait Backend {
    /// An answer of the agent while it is produced.
    type Answer: Followed;

    /// Returns the lines that introduce the chat.
    fn welcome(&self, terminal: &Terminal) -> Vec<String>;

    /// Returns the model, if this process knows it.
    fn model(&self) -> Option<&ModelInfo>;

    /// Returns the answer that is being produced or that an earlier process left unfinished.
    async fn unfinished(&mut self) -> Result<Option<Self::Answer>, CliError>;

    /// Sends a message.
    async fn say(&mut self, text: &str) -> Result<Self::Answer, CliError>;

    /// Answers all open questions.
    async fn answer(
        &mut self,
        answers: BTreeMap<InterruptId, Value>,
    ) -> Result<Self::Answer, CliError>;

    /// Takes the end of an answer, and prints it unless the answer is complete.
    async fn ended(&mut self, answer: Self::Answer, terminal: &Terminal) -> Result<(), CliError>;

    /// Returns the open questions of the thread, in the order in which they were asked.
    async fn questions(&mut self) -> Result<Vec<Interrupt>, CliError>;

    /// Returns the last messages of the thread, the oldest first.
    async fn last_messages(&mut self) -> Result<Vec<(Role, String)>, CliError>;

    /// Returns the newest threads, the newest first.
    async fn threads(&self) -> Result<Vec<Listed>, CliError>;

    /// Returns what waits for a person, in all threads.
    async fn inbox(&self) -> Result<Vec<Listed>, CliError>;

    /// Continues with another thread, which must exist, or with a new one. `agent` is the agent of
    /// the thread, if a list had it.
    async fn open(&mut self, thread: Option<ThreadId>, agent: Option<&str>)
    -> Result<(), CliError>;

    /// Selects the model of further messages, and returns a description of it.
    fn select_model(&mut self, name: Option<&str>) -> Result<String, CliError>;

    /// Returns the command that continues the thread, if it can be continued.
    fn how_to_continue(&self) -> Option<String>;

    /// Prints the open questions at the end of the chat.
    fn leave_open(&self, questions: &[Interrupt], terminal: &Terminal);
}

/// A line of a list of threads or questions.
#[derive(Debug, PartialEq)]
pub(super) struct Listed {
    pub(super) thread: String,
    pub(super) agent: String,
    /// State of the thread, or the question.
    pub(super) state: String,
    /// Time of the last change or of the question, in UTC.
    pub(super) at: String,
}

impl Listed {
    /// Creates the table of a list, whose lines have numbers for `/open`.
    pub(super) fn table(list: &[Self], state: &'static str) -> Table {
        let mut table = Table::new(&["#", "THREAD", "AGENT", "CHANGED (UTC)", state]);
        for (at, one) in list.iter().enumerate() {
            let Self { thread, agent, state, at: time } = one;
            table.row([
                (at + 1).to_string(),
                thread.clone(),
                agent.clone(),
                time.clone(),
                state.clone(),
            ]);
        }
        table
    }
}

/// A step of a chat.
pub(super) enum Step<A> {
    /// An answer is produced.
    Answer(A),
    /// Nothing to follow; the chat asks for input again.
    Nothing,
    /// The chat ends.
    Leave(Exit),
}
