//! The operations, which both bindings have in common.

use crate::agent;
use crate::card::Audience;
use crate::error::{A2aError, Kind, Result};
use crate::follow::{Follower, Until};
use crate::list;
use crate::push::{Pushes, shown};
use crate::reader::RunReader;
use crate::routes::A2aServer;
use crate::send::{Sending, Sent};
use crate::stream::{Shown, events_of};
use crate::task::{TaskRuns, check_history, cut_history};
use crate::wire::{
    ConfigRef, ListConfigs, ListConfigsResult, ListTasks, ListTasksResult, Message, PushConfig,
    SendConfiguration, SendMessage, SendResult, StreamResponse, Task, TaskRef,
};
use axum::http::HeaderMap;
use futures_util::stream;
use serde_json::Value;
use weftwork_server::MountedClient;
use weftwork_types::port::{AgentSummary, Platform};
use weftwork_types::{BoxStream, Principal, Right};

/// A request of a client to an agent.
#[derive(Debug)]
pub(crate) struct Operations<'a> {
    pub(crate) server: &'a A2aServer,
    pub(crate) client: &'a MountedClient,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) agent: AgentSummary,
}

impl<'a> Operations<'a> {
    /// Opens the operations on an agent.
    ///
    /// # Errors
    /// An error for an agent that the client cannot reach.
    pub(crate) fn open(
        server: &'a A2aServer,
        client: &'a MountedClient,
        headers: &'a HeaderMap,
        slug: &str,
    ) -> Result<Self> {
        let agent = agent::find(&*server.source.platform, client.principal(), slug)?;
        Ok(Self { server, client, headers, agent })
    }

    fn platform(&self) -> &dyn Platform {
        &*self.server.source.platform
    }

    fn who(&self) -> &Principal {
        self.client.principal()
    }

    async fn find(&self, id: &str) -> Result<TaskRuns> {
        TaskRuns::find(self.platform(), self.who(), &self.agent.slug, id).await
    }

    fn pushes(&self) -> &Pushes {
        &self.server.pushes
    }

    /// Sends a message, and stores the configuration that came with it.
    async fn sent(&self, message: Message, push: Option<PushConfig>) -> Result<Sent> {
        if let Some(config) = &push {
            self.pushes().check(config)?;
        }
        let Self { client, headers, agent, .. } = self;
        let sending = Sending { source: &self.server.source, client, headers, agent };
        let sent = sending.send(message).await?;
        if let (Sent::Task { task, done }, Some(config)) = (&sent, push) {
            self.pushes().put(&self.server.source, self.who(), task, *done, config).await?;
        }
        Ok(sent)
    }

    pub(crate) async fn send(&self, request: SendMessage) -> Result<SendResult> {
        let SendMessage { message, configuration, .. } = request;
        let SendConfiguration {
            task_push_notification_config: push,
            history_length,
            return_immediately,
            ..
        } = configuration;
        let history = check_history(history_length)?;
        let (mut runs, mut done) = match self.sent(message, push).await? {
            Sent::Task { task, done } => (task, done),
            Sent::Message(message) => return Ok(SendResult::Message(message)),
        };
        if !return_immediately {
            let source = self.server.source.clone();
            let who = self.who().clone();
            let mut follower = Follower::new(source, who, runs.clone(), done, Until::Asks);
            while follower.next().await?.is_some() {}
            runs = runs.reload(self.platform(), self.who()).await?;
            done = runs.ended();
        }
        let mut task = runs.snapshot(self.platform(), self.who(), done).await?;
        cut_history(&mut task, history);
        Ok(SendResult::Task(task))
    }

    pub(crate) async fn stream(
        &self,
        request: SendMessage,
    ) -> Result<BoxStream<'static, StreamResponse>> {
        let SendMessage { message, configuration, .. } = request;
        let history = check_history(configuration.history_length)?;
        let sent = self.sent(message, configuration.task_push_notification_config).await?;
        let (runs, done) = match sent {
            Sent::Task { task, done } => (task, done),
            Sent::Message(message) => {
                return Ok(Box::pin(stream::iter([StreamResponse::Message(message)])));
            }
        };
        let mut task = runs.snapshot(self.platform(), self.who(), done).await?;
        cut_history(&mut task, history);
        let shown = Shown { task, runs, done };
        Ok(events_of(self.server.source.clone(), self.who().clone(), shown, Until::Asks))
    }

    pub(crate) async fn get(&self, request: TaskRef) -> Result<Task> {
        self.client.require(Right::Read)?;
        let history = check_history(request.history_length)?;
        let runs = self.find(&request.id).await?;
        let mut task = runs.snapshot(self.platform(), self.who(), runs.ended()).await?;
        cut_history(&mut task, history);
        Ok(task)
    }

    pub(crate) async fn list(&self, request: ListTasks) -> Result<ListTasksResult> {
        self.client.require(Right::Read)?;
        list::list(&self.server.source, self.who(), &self.agent.slug, request).await
    }

    pub(crate) async fn cancel(&self, request: TaskRef) -> Result<Task> {
        self.client.require(Right::Run)?;
        let mut runs = self.find(&request.id).await?;
        let who = self.who();
        let platform = self.platform();
        if runs.status(platform, who).await?.state.is_terminal() {
            let text = "the task has ended, and cannot be cancelled";
            return Err(A2aError::new(Kind::TaskNotCancelable, text));
        }
        let last = runs.chain.last().clone();
        let handle = platform.follow(who, &last.at.run).await.map_err(A2aError::of_fault)?;
        let mut message = None;
        if last.status.is_final() {
            // It waits: its questions are closed.
            let outcome = handle.outcome.await;
            let reader = RunReader::new(&last, &runs.id());
            message = reader.canceled_at(outcome.questions());
            let rolled = platform.roll_back(who, &runs.chain.first().at.run).await;
            rolled.map_err(A2aError::of_fault)?;
        } else {
            platform.cancel(who, &last.at.run).await.map_err(A2aError::of_fault)?;
            // It stops at its next await point.
            handle.outcome.await;
        }
        self.server.source.changed.notify_waiters();
        runs = runs.reload(platform, who).await?;
        let mut task = runs.snapshot(platform, who, runs.ended()).await?;
        task.status.message = task.status.message.or(message);
        Ok(task)
    }

    pub(crate) async fn subscribe(
        &self,
        request: TaskRef,
    ) -> Result<BoxStream<'static, StreamResponse>> {
        self.client.require(Right::Read)?;
        let runs = self.find(&request.id).await?;
        let done = runs.ended();
        let task = runs.snapshot(self.platform(), self.who(), done).await?;
        if task.status.state.is_terminal() {
            let text = "the task has ended, and has no more events; read it by GetTask";
            return Err(A2aError::unsupported(text));
        }
        let shown = Shown { task, runs, done };
        Ok(events_of(self.server.source.clone(), self.who().clone(), shown, Until::Ends))
    }

    pub(crate) async fn create_config(&self, request: PushConfig) -> Result<PushConfig> {
        self.client.require(Right::Run)?;
        let task = self.find(&request.task_id).await?;
        let pushes = self.pushes();
        pushes.check(&request)?;
        let who = self.who();
        let done = task.ended();
        let stored = pushes.put(&self.server.source, who, &task, done, request).await?;
        Ok(shown(stored))
    }

    pub(crate) async fn get_config(&self, request: ConfigRef) -> Result<PushConfig> {
        self.client.require(Right::Read)?;
        let task = self.find(&request.task_id).await?;
        let found = self.pushes().read(self.who(), &task.id(), &request.id).await?;
        Ok(shown(found.push.config))
    }

    pub(crate) async fn list_configs(&self, request: ListConfigs) -> Result<ListConfigsResult> {
        self.client.require(Right::Read)?;
        let task = self.find(&request.task_id).await?;
        let found = self.pushes().list(self.who(), &task.id()).await?;
        let configs = found.into_iter().map(|found| shown(found.push.config)).collect();
        Ok(ListConfigsResult { configs, next_page_token: String::new() })
    }

    pub(crate) async fn delete_config(&self, request: ConfigRef) -> Result<()> {
        self.client.require(Right::Run)?;
        let task = self.find(&request.task_id).await?;
        let now = self.server.source.clock.now();
        self.pushes().delete(self.who(), &task.id(), &request.id, now).await
    }

    /// Returns the extended card.
    pub(crate) fn card(&self) -> Result<Value> {
        self.client.require(Right::Read)?;
        let card = self.server.cards.card(&self.agent, Audience::Client, self.headers);
        Ok(self.server.cards.sign(serde_json::json!(card)))
    }
}
