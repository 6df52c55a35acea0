//! A run on the server: started once, joined if it exists, followed to its end.

use crate::error::{RemoteError, is_passing};
use crate::follow::{Follower, MODES, Read, RunAt, read};
use crate::limits::{ATTEMPTS_MAX, QUESTION_BYTES_MAX, QUESTIONS_MAX, RUNS_MAX, delay};
use crate::server::{RemoteServer, Request};
use crate::wire::{Asked, Assistant, Run, RunStatus, State};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::runtime::Handle;
use weftwork_graph::Ctx;
use weftwork_types::port::{EgressResponse, Method};

/// Member of the metadata of a run with the key of the call that started it.
const CALL: &str = "weft_call";

/// A run that a node starts or joins.
pub(crate) struct Call<'a> {
    pub(crate) server: &'a RemoteServer,
    pub(crate) assistant: &'a str,
    pub(crate) ctx: &'a Ctx,
    /// Id of the thread.
    pub(crate) thread: String,
    /// Key of the call, fixed and recorded before the start.
    pub(crate) key: String,
}

/// The input of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Input {
    /// New input.
    Start(Value),
    /// Answers to open questions, by their ids.
    Answers(BTreeMap<String, Value>),
    /// Nothing: the thread continues where it stands.
    Continue,
}

/// A run that ended, as recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ended {
    pub(crate) thread: String,
    pub(crate) run: String,
    /// Graph and version of the assistant.
    pub(crate) graph: String,
    pub(crate) version: u64,
    pub(crate) end: End,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum End {
    /// The graph completed.
    Completed {
        /// Values of its channels.
        values: Value,
    },
    /// The run waits for answers.
    Asks {
        /// Questions, in order.
        questions: Vec<Asked>,
    },
}

/// A run that exists, with its stream if it was just started.
struct Begun {
    run: Option<String>,
    stream: Option<EgressResponse>,
}

impl Call<'_> {
    fn at(&self) -> RunAt<'_> {
        RunAt { server: self.server, thread: &self.thread }
    }

    /// Sends a request that may be repeated.
    async fn send_request(
        &self,
        what: &'static str,
        method: Method,
        segments: &[&str],
        body: Option<&Value>,
    ) -> Result<Value, RemoteError> {
        let request = Request { what, method, url: self.server.at(segments), body };
        self.server.repeat(&**self.ctx.clock(), &request).await
    }

    /// Starts the run, or joins it if it exists, and follows it to its end.
    ///
    /// # Errors
    /// As [`RemoteError`]. The run may continue on the server then, and is joined by a later call
    /// with the same key.
    ///
    /// # Cancel safety
    /// When the future is dropped because the local run was cancelled, the run is cancelled too.
    /// Otherwise it continues on the server, and is joined by a later call with the same key.
    pub(crate) async fn to_end(&self, input: &Input) -> Result<Ended, RemoteError> {
        let body = json!({"thread_id": self.thread, "if_exists": "do_nothing"});
        self.send_request("the creation of a thread", Method::Post, &["threads"], Some(&body))
            .await?;
        let cancel = CancelOnDrop { call: self, armed: true };
        let Begun { run, stream } = self.begin_run(input).await?;
        let (run, read) = Follower::new(self.at(), self.ctx, run).follow(stream).await?;
        let end = self.read_end(&run, read).await?;
        cancel.disarm();
        let path = ["assistants", &run.assistant_id];
        let assistant: Assistant =
            match self.send_request("an assistant", Method::Get, &path, None).await {
                Ok(found) => self::read(self.server, "an assistant", found)?,
                // It was deleted since, or the key may not read it. The run has ended all the same.
                Err(RemoteError::Refused { status: 401 | 403 | 404 | 405, .. }) => {
                    Assistant { graph_id: self.assistant.to_owned(), version: 0 }
                }
                Err(error) => return Err(error),
            };
        let Assistant { graph_id: graph, version } = assistant;
        tracing::debug!(remote = self.server.name(), run = run.run_id, graph, version, "ended");
        Ok(Ended { thread: self.thread.clone(), run: run.run_id, graph, version, end })
    }

    /// Finds the newest run of the call.
    async fn find_run(&self) -> Result<Option<Run>, RemoteError> {
        let mut url = self.server.at(&["threads", &self.thread, "runs"]);
        url.set_query(Some(&format!("limit={RUNS_MAX}")));
        let what = "the runs of a thread";
        let request = Request { what, method: Method::Get, url, body: None };
        let found = self.server.repeat(&**self.ctx.clock(), &request).await?;
        let runs: Vec<Run> = read(self.server, what, found)?;
        let is_ours = |run: &Run| {
            let call = run.metadata.as_ref().and_then(|metadata| metadata.get(CALL));
            call.and_then(Value::as_str) == Some(&self.key)
        };
        let ours = runs.into_iter().filter(is_ours);
        Ok(ours.max_by(|one, other| one.created_at.cmp(&other.created_at)))
    }

    /// Joins the run of the call, or starts it. A run that failed or was cancelled is continued by
    /// another one.
    async fn begin_run(&self, input: &Input) -> Result<Begun, RemoteError> {
        let mut failed = 0;
        loop {
            let input = match self.find_run().await? {
                None => input.clone(),
                Some(run) if run.status == RunStatus::Success || run.status.is_active() => {
                    tracing::info!(remote = self.server.name(), run = run.run_id, "joined");
                    return Ok(Begun { run: Some(run.run_id), stream: None });
                }
                Some(_) => self.rest_of(input).await?,
            };
            let error = match self.start_run(&input).await {
                Ok(stream) => return Ok(Begun { run: None, stream: Some(stream) }),
                Err(error) => error,
            };
            let may_exist = match &error {
                // An earlier process may have started it, or an earlier attempt of ours.
                RemoteError::Refused { status: 409, .. } => true,
                RemoteError::Refused { status, .. } => is_passing(*status),
                error => error.is_retriable(),
            };
            failed += 1;
            if !may_exist || failed == ATTEMPTS_MAX {
                return Err(match error {
                    RemoteError::Refused { remote, status: 409, .. } => {
                        RemoteError::Busy { remote, thread: self.thread.clone() }
                    }
                    error => error,
                });
            }
            self.ctx.clock().sleep(delay(failed)).await;
        }
    }

    /// Returns the input that continues a run that did not succeed.
    async fn rest_of(&self, input: &Input) -> Result<Input, RemoteError> {
        let state = self.read_state().await?;
        let asks = |id: &String| state.questions().any(|asked| asked.id == *id);
        let is_open = matches!(input, Input::Answers(answers) if answers.keys().any(asks));
        Ok(if is_open || state.next.is_empty() { input.clone() } else { Input::Continue })
    }

    async fn read_state(&self) -> Result<State, RemoteError> {
        let what = "the state of a thread";
        let path = ["threads", &self.thread, "state"];
        let found = self.send_request(what, Method::Get, &path, None).await?;
        read(self.server, what, found)
    }

    async fn start_run(&self, input: &Input) -> Result<EgressResponse, RemoteError> {
        let mut body = json!({
            "assistant_id": self.assistant,
            "input": null,
            "metadata": {CALL: self.key},
            "stream_mode": MODES,
            "stream_subgraphs": true,
            "stream_resumable": true,
            // A second run of the call is refused while the first one is active.
            "multitask_strategy": "reject",
            "on_disconnect": "continue",
        });
        match input {
            Input::Start(input) => body["input"] = input.clone(),
            Input::Answers(answers) => body["command"] = json!({"resume": answers}),
            Input::Continue => {}
        }
        if let Some(limit) = self.ctx.step_limit() {
            body["config"] = json!({"recursion_limit": limit});
        }
        let url = self.server.at(&["threads", &self.thread, "runs", "stream"]);
        let what = "the start of a run";
        let request = Request { what, method: Method::Post, url, body: Some(&body) };
        self.server.open(&request, None).await
    }

    async fn read_end(&self, run: &Run, read: Read) -> Result<End, RemoteError> {
        let remote = self.server.name().to_owned();
        let id = run.run_id.clone();
        match run.status {
            RunStatus::Success => {}
            RunStatus::Interrupted => {
                let reason = "it was cancelled there";
                return Err(RemoteError::Stopped { remote, run: id, reason });
            }
            RunStatus::Timeout => {
                let reason = "it reached a time limit there";
                return Err(RemoteError::Stopped { remote, run: id, reason });
            }
            RunStatus::Error | RunStatus::Pending | RunStatus::Running => {
                let failure = read.failure.unwrap_or_default();
                let unless_empty = |text: String, other: &str| {
                    if text.is_empty() { other.to_owned() } else { self.server.short(&text) }
                };
                let kind = unless_empty(failure.error, "Error");
                let message = unless_empty(failure.message, "the server reported no reason");
                return Err(RemoteError::Failed { remote, run: id, kind, message });
            }
        }
        let state = self.read_state().await?;
        let mut questions: Vec<Asked> = state.questions().cloned().collect();
        for asked in &mut questions {
            asked.response_schema = read.schemas.get(&asked.id).cloned();
        }
        self.check_questions(&questions)?;
        if !questions.is_empty() {
            return Ok(End::Asks { questions });
        }
        if !state.next.is_empty() {
            let reason = "it waits before or after a node, without a question";
            return Err(RemoteError::Stopped { remote, run: id, reason });
        }
        Ok(End::Completed { values: read.values.unwrap_or(state.values) })
    }

    fn check_questions(&self, questions: &[Asked]) -> Result<(), RemoteError> {
        if questions.len() > QUESTIONS_MAX {
            return Err(self.server.too_large("a list of questions", QUESTIONS_MAX.to_string()));
        }
        if questions.iter().any(|asked| json!(asked).to_string().len() > QUESTION_BYTES_MAX) {
            let max = format!("{QUESTION_BYTES_MAX} bytes");
            return Err(self.server.too_large("a question", max));
        }
        Ok(())
    }
}

/// Cancels the run on the server when it is dropped and the local run is cancelled.
struct CancelOnDrop<'a> {
    call: &'a Call<'a>,
    armed: bool,
}

impl CancelOnDrop<'_> {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let Call { server, assistant, ctx, thread, key } = self.call;
        if !self.armed || !ctx.is_cancelled() {
            return;
        }
        // Without a runtime the process ends, and its run is continued by another one.
        let Ok(handle) = Handle::try_current() else { return };
        let server = (*server).clone();
        let assistant = (*assistant).to_owned();
        let ctx = (*ctx).clone();
        let thread = thread.clone();
        let key = key.clone();
        handle.spawn(async move {
            let call = Call { server: &server, assistant: &assistant, ctx: &ctx, thread, key };
            if let Err(error) = call.cancel().await {
                tracing::warn!(%error, "a remote run was not cancelled");
            }
        });
    }
}

impl Call<'_> {
    async fn cancel(&self) -> Result<(), RemoteError> {
        let Some(run) = self.find_run().await?.filter(|run| run.status.is_active()) else {
            return Ok(());
        };
        let path = ["threads", &self.thread, "runs", &run.run_id, "cancel"];
        match self.send_request("the cancellation of a run", Method::Post, &path, None).await {
            // It ended meanwhile.
            Ok(_) | Err(RemoteError::Refused { status: 404 | 409, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
