//! A chat over a store that this process opens.

use super::backend::{Backend, LISTED_MAX, Listed};
use crate::args::Chat;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork::App;
use weftwork::config::Origin;
use weftwork::models::ModelInfo;
use weftwork::runtime::thread_state;
use weftwork::store::mailbox::is_terminated;
use weftwork::store::thread::{Direction, ThreadKey};
use weftwork::store::{
    SearchFrom, Store, StoreError, ThreadOrder, ThreadQuery, ThreadRow, ThreadStatus,
};
use weftwork::types::interrupt::Interrupt;
use weftwork::types::message::{Message, Role};
use weftwork::types::run::RunOutcome;
use weftwork::types::{InterruptId, Principal, ThreadId};
use weftwork_cli_base::CliError;
use weftwork_cli_base::args::LimitFlags;
use weftwork_cli_base::context::{CommandContext, RunSettings, USUAL_AGENT};
use weftwork_cli_base::follow::{AppRun, model_of, tell_end, usage_unread};
use weftwork_cli_base::question;
use weftwork_cli_base::run::tell_turn;
use weftwork_cli_base::shell;
use weftwork_cli_base::spent::Spent;
use weftwork_cli_base::states::thread_states;
use weftwork_cli_base::terminal::{Style, Terminal, format_moment, shorten};

/// An open store with the agent of the chat.
pub(super) struct Local<'a> {
    context: &'a CommandContext,
    settings: RunSettings,
    limits: LimitFlags,
    app: App,
    agent: String,
    thread: ThreadId,
    /// `true` if the thread exists in the store.
    known: bool,
}

impl<'a> Local<'a> {
    pub(super) async fn open(args: &Chat, context: &'a CommandContext) -> Result<Self, CliError> {
        let named = args.thread.as_deref().map(ThreadId::new).transpose()?;
        let store = named.is_some().then(|| context.store()).transpose()?;
        let found = match (&named, &store) {
            (Some(id), Some(store)) => match context.thread(store.as_ref(), id).await {
                Ok(found) => Some(found),
                Err(CliError::App(weftwork::Error::Store(StoreError::NotFound { .. }))) => None,
                Err(error) => return Err(error),
            },
            _ => None,
        };
        let of_thread = found.as_ref().map(|found| found.graph());
        let name = args.agent.as_deref().or(of_thread).unwrap_or(USUAL_AGENT);
        let agent = context.find_agent(name).await?;
        let recorded = found.as_ref().and_then(|found| found.model());
        let settings =
            RunSettings { durability: args.keeping.durability(), multitask: args.busy.multitask() };
        let app = args.limits.limit(context.open(&agent, store, recorded, settings).await?);
        let thread = named.unwrap_or_else(|| app.new_thread());
        let agent = agent.id().to_owned();
        let limits = args.limits;
        Ok(Self { context, settings, limits, app, agent, thread, known: found.is_some() })
    }

    fn store(&self) -> &dyn Store {
        self.app.store().as_ref()
    }

    async fn search_threads(
        &self,
        status: Option<ThreadStatus>,
    ) -> Result<Vec<ThreadRow>, CliError> {
        let order = ThreadOrder { by: ThreadKey::UpdatedAt, direction: Direction::Descending };
        let query = ThreadQuery {
            status,
            from: SearchFrom::Start(order),
            limit: LISTED_MAX,
            ..ThreadQuery::default()
        };
        let page = self.store().search_threads(&Principal::local(), query).await?;
        Ok(page.threads.into_iter().map(|found| found.row).collect())
    }

    fn about_model(&self) -> String {
        let model = self.app.model();
        let label = model.label.as_ref().map(|label| format!(" ({label})")).unwrap_or_default();
        format!("{}{label}", model.id())
    }
}

impl Backend for Local<'_> {
    type Answer = AppRun;

    fn welcome(&self, terminal: &Terminal) -> Vec<String> {
        let agent = terminal.paint_error(Style::Strong, &self.agent);
        let mut lines = match self.model() {
            Some(_) => vec![format!("{agent} with model {}", self.about_model())],
            None => vec![agent],
        };
        // A configuration file in a foreign folder could send keys to another server.
        if let Some(file) = &self.context.config.file {
            lines.push(format!("configuration file {}", file.display()));
        }
        if self.model().is_some() && self.app.model_setting().origin == Origin::Default {
            lines
                .push("default model; choose another with --model, WEFT_MODEL or weft.toml".into());
        }
        lines.push(format!("thread {}", self.thread));
        lines
    }

    fn model(&self) -> Option<&ModelInfo> {
        model_of(&self.app)
    }

    async fn unfinished(&mut self) -> Result<Option<AppRun>, CliError> {
        if !self.known {
            return Ok(None);
        }
        let found = self.context.thread(self.store(), &self.thread).await?;
        if found.unfinished().is_none() {
            return Ok(None);
        }
        let started = self.app.resume(&self.thread).await?;
        self.context.terminal.note("resuming the unfinished run of the thread");
        Ok(Some(AppRun::new(&self.app, started)))
    }

    async fn say(&mut self, text: &str) -> Result<AppRun, CliError> {
        let thread = self.app.thread_of(&self.agent, &self.thread)?;
        let started = thread.say(text).begin().await?;
        tell_turn(&self.app, started.run(), &self.context.terminal).await?;
        self.known = true;
        Ok(AppRun::new(&self.app, started))
    }

    async fn answer(&mut self, answers: BTreeMap<InterruptId, Value>) -> Result<AppRun, CliError> {
        let thread = self.app.thread_of(&self.agent, &self.thread)?;
        let started = thread.answer(answers).begin().await?;
        Ok(AppRun::new(&self.app, started))
    }

    async fn ended(&mut self, answer: AppRun, terminal: &Terminal) -> Result<(), CliError> {
        let run = answer.run().clone();
        let outcome = answer.outcome().await;
        match outcome {
            RunOutcome::Cancelled { .. } => terminal.note("stopped"),
            outcome => drop(tell_end(self.store(), &run, &outcome, terminal).await),
        }
        match Spent::of(&self.app, &run).await {
            Ok(spent) => spent.iter().for_each(|spent| terminal.note(spent)),
            // The outcome is reported even if the usage cannot be read.
            Err(error) => terminal.note(usage_unread(&error)),
        }
        Ok(())
    }

    async fn questions(&mut self) -> Result<Vec<Interrupt>, CliError> {
        match self.known {
            true => question::open_questions_of(self.store(), &self.thread).await,
            false => Ok(Vec::new()),
        }
    }

    async fn last_messages(&mut self) -> Result<Vec<(Role, String)>, CliError> {
        if !self.known {
            return Ok(Vec::new());
        }
        let graph = self.context.graph_of(&self.agent)?;
        let store = Arc::clone(self.app.store());
        let state = thread_state(&graph, store as _, &Principal::local(), &self.thread).await?;
        let state = state.unwrap_or_default();
        let messages = state.get("messages").and_then(Value::as_array);
        let read = |value: &Value| serde_json::from_value::<Message>(value.clone()).ok();
        let messages = messages.into_iter().flatten().filter_map(read);
        Ok(messages.map(|message| (message.role, message.joined_text())).collect())
    }

    async fn threads(&self) -> Result<Vec<Listed>, CliError> {
        let rows = self.search_threads(None).await?;
        let states = thread_states(self.store(), &rows).await?;
        Ok(rows
            .iter()
            .zip(states)
            .map(|(row, state)| listed_thread(row, state.to_owned()))
            .collect())
    }

    async fn inbox(&self) -> Result<Vec<Listed>, CliError> {
        let mut list = Vec::new();
        let mut rows = self.search_threads(Some(ThreadStatus::Interrupted)).await?;
        // A node that failed leaves the questions of the nodes beside it open.
        rows.extend(self.search_threads(Some(ThreadStatus::Error)).await?);
        // A terminated instance takes no answers.
        for row in rows.into_iter().filter(|row| !is_terminated(&row.metadata)) {
            let open = question::open_questions_of(self.store(), &row.id).await?;
            let asks = open.iter().filter(|one| one.asks());
            list.extend(asks.map(|one| listed_thread(&row, question::short_form(one))));
        }
        Ok(list)
    }

    async fn open(&mut self, thread: Option<ThreadId>, _: Option<&str>) -> Result<(), CliError> {
        let Some(thread) = thread else {
            self.thread = self.app.new_thread();
            self.known = false;
            return Ok(());
        };
        let found = self.context.thread(self.store(), &thread).await?;
        let agent = self.context.agent(found.graph())?;
        let recorded = found.model().unwrap_or_default();
        if agent.id() != self.agent || recorded != self.app.model_setting().value {
            let store = Arc::clone(self.app.store());
            let app = self.context.open(&agent, Some(store), found.model(), self.settings).await?;
            self.app = self.limits.limit(app);
            self.agent = agent.id().to_owned();
        }
        self.thread = thread;
        self.known = true;
        Ok(())
    }

    fn select_model(&mut self, name: Option<&str>) -> Result<String, CliError> {
        if let Some(name) = name {
            self.app = self.app.with_model(name)?;
        }
        Ok(format!("model {}", self.about_model()))
    }

    fn how_to_continue(&self) -> Option<String> {
        let lasts = self.known && self.context.lasting;
        lasts.then(|| {
            format!(
                "{} chat --thread {}",
                self.context.terminal.weft,
                shell::quote_thread(&self.thread)
            )
        })
    }

    fn leave_open(&self, questions: &[Interrupt], terminal: &Terminal) {
        question::tell_open(questions, &self.thread, terminal);
    }
}

fn listed_thread(row: &ThreadRow, state: String) -> Listed {
    Listed {
        thread: row.id.to_string(),
        agent: row.graph.clone().unwrap_or_default(),
        state: shorten(&state, 80),
        at: format_moment(row.updated_at),
    }
}
