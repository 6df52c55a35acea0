//! A chat at a server, by the routes that front ends use (ADR 0038).

mod asked;
mod frames;
mod http;
mod token;

use super::backend::{Backend, LISTED_MAX, Listed};
use crate::args::Chat;
use asked::Asked;
use bytes::Bytes;
use frames::{End, Frames, Piece};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::Server;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use token::Tokens;
use weftwork::models::ModelInfo;
use weftwork::types::event::RunEvent;
use weftwork::types::interrupt::Interrupt;
use weftwork::types::message::Role;
use weftwork::types::port::{EgressError, EgressResponse, Method};
use weftwork::types::{InterruptId, ThreadId};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::{CommandContext, USUAL_AGENT};
use weftwork_cli_base::follow::{Element, Followed};
use weftwork_cli_base::question::{calls_in_short, with_member};
use weftwork_cli_base::shell;
use weftwork_cli_base::terminal::{Style, Terminal, shorten, to_plain};

/// Query of the format that [`Frames`] reads.
const FORMAT: &str = "protocol=ui-message-stream";

/// A server with an agent and a thread.
pub(super) struct Remote {
    server: Rc<Server>,
    agent: String,
    /// `None` for a new thread, whose id the server makes.
    thread: Option<ThreadId>,
    /// Open questions, if they are known.
    asked: Option<Vec<Asked>>,
}

/// A response of the server, with the message that it streams.
pub(super) struct Response {
    server: Rc<Server>,
    agent: String,
    thread: Option<ThreadId>,
    body: BoxStream<'static, Result<Bytes, EgressError>>,
    frames: Frames,
    pieces: VecDeque<Piece>,
}

impl Remote {
    pub(super) async fn open(
        url: &str,
        args: &Chat,
        context: &CommandContext,
    ) -> Result<Self, CliError> {
        let tokens = Tokens::new(context.config.data.as_ref());
        let server = Server::new(url, &context.config)?;
        let token = tokens.choose(args.server.token.as_deref(), server.address())?;
        let server = server.with_token(token.clone());
        if server.exposes_token() {
            let warning = "warning: the token is sent without encryption; use https";
            context.terminal.note(warning);
        }
        let thread = args.thread.as_deref().map(ThreadId::new).transpose()?;
        let of_thread = match (&args.agent, &thread) {
            (None, Some(thread)) => agent_of(&server, thread).await?,
            _ => None,
        };
        let agent = match args.agent.clone().or(of_thread) {
            Some(agent) => agent,
            None => usual_agent(&server).await?,
        };
        if let Some(token) = &token
            && args.server.save_token
        {
            // An agent of the command line has made no request yet.
            usual_agent(&server).await?;
            tokens.save(server.address(), token)?;
        }
        // The questions of a thread that exists are not known yet.
        let asked = thread.is_none().then(Vec::new);
        Ok(Self { server: Rc::new(server), agent, thread, asked })
    }

    /// Returns the complete messages of the thread.
    async fn read_messages(&self) -> Result<Vec<Value>, CliError> {
        let Some(thread) = &self.thread else { return Ok(Vec::new()) };
        let url = self.server.at(&["chat", &self.agent, thread.as_str()]);
        match self.server.json(Method::Get, &url, None).await {
            Ok(Value::Array(messages)) => Ok(messages),
            Ok(_) => Err(bad_answer(format!("{} is not a list", url.path()))),
            // The thread begins with its first message.
            Err(CliError::Refused { status: 404, .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    async fn post_messages(&mut self, messages: Value) -> Result<Response, CliError> {
        let mut body = json!({"messages": messages});
        if let Some(thread) = &self.thread {
            body["id"] = json!(thread);
        }
        let mut url = self.server.at(&["chat", &self.agent]);
        url.set_query(Some(FORMAT));
        let response = self.server.send(Method::Post, &url, Some(&body)).await;
        // A refusal may be due to an answer of another client.
        self.asked = None;
        Ok(self.new_response(response?))
    }

    fn new_response(&self, response: EgressResponse) -> Response {
        Response {
            server: Rc::clone(&self.server),
            agent: self.agent.clone(),
            thread: self.thread.clone(),
            body: response.body,
            frames: Frames::default(),
            pieces: VecDeque::new(),
        }
    }
}

/// Returns the agent of a thread; `None` if the server does not say it: the thread begins with its
/// first message, or its id is not a UUID, which the route of threads expects.
async fn agent_of(server: &Server, thread: &ThreadId) -> Result<Option<String>, CliError> {
    match server.json(Method::Get, &server.at(&["threads", thread.as_str()]), None).await {
        Ok(found) => {
            let agent = found.pointer("/metadata/graph_id").and_then(Value::as_str);
            Ok(agent.map(str::to_owned))
        }
        Err(CliError::Refused { status: 404 | 422, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the default agent if the server has it, otherwise the only one.
async fn usual_agent(server: &Server) -> Result<String, CliError> {
    let body = json!({"limit": LISTED_MAX});
    let url = server.at(&["assistants", "search"]);
    let found = server.json(Method::Post, &url, Some(&body)).await?;
    let found =
        found.as_array().ok_or_else(|| bad_answer("the assistants are not a list".to_owned()))?;
    let mut names: Vec<_> = found.iter().filter_map(|one| one["graph_id"].as_str()).collect();
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [one] => Ok((*one).to_owned()),
        several if several.contains(&USUAL_AGENT) => Ok(USUAL_AGENT.to_owned()),
        several => {
            let names = shorten(&several.join(", "), 200);
            let reason = format!("name the agent to chat with; the server has: {names}");
            Err(CliError::BadInput { reason })
        }
    }
}

fn bad_answer(reason: String) -> CliError {
    CliError::BadAnswerOfServer { reason }
}

impl Followed for Response {
    async fn next(&mut self) -> Result<Option<Element>, CliError> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(Some(match piece {
                    Piece::Event(event) => Element::Event(Box::new(RunEvent::placeless(event))),
                    Piece::TextEnd => Element::TextEnd,
                }));
            }
            if self.frames.end().is_some() {
                return Ok(None);
            }
            let bytes = self.body.next().await.ok_or_else(|| {
                let host = self.server.address().to_owned();
                EgressError::Broken { host, reason: "the answer is not complete".to_owned() }
            })??;
            self.pieces.extend(self.frames.read(&bytes).map_err(bad_answer)?);
            if let Some(thread) = self.frames.thread.take() {
                self.thread = Some(ThreadId::new(thread)?);
            }
        }
    }

    async fn cancel(&mut self) -> Result<(), CliError> {
        let Some(thread) = &self.thread else { return Ok(()) };
        let url = self.server.at(&["chat", &self.agent, thread.as_str(), "cancel"]);
        self.server.send(Method::Post, &url, None).await.map(drop)
    }
}

impl Backend for Remote {
    type Answer = Response;

    fn welcome(&self, terminal: &Terminal) -> Vec<String> {
        let agent = terminal.paint_error(Style::Strong, to_plain(&self.agent));
        let thread = match &self.thread {
            Some(thread) => format!("thread {thread}"),
            None => "a new thread".to_owned(),
        };
        vec![format!("{agent} at {}", self.server.address()), thread]
    }

    fn model(&self) -> Option<&ModelInfo> {
        None
    }

    async fn unfinished(&mut self) -> Result<Option<Response>, CliError> {
        let Some(thread) = &self.thread else { return Ok(None) };
        let mut url = self.server.at(&["chat", &self.agent, thread.as_str(), "stream"]);
        url.set_query(Some(FORMAT));
        let response = self.server.send(Method::Get, &url, None).await?;
        if response.status == 204 {
            return Ok(None);
        }
        self.asked = None;
        Ok(Some(self.new_response(response)))
    }

    async fn say(&mut self, text: &str) -> Result<Response, CliError> {
        let parts = json!([{"type": "text", "text": text}]);
        self.post_messages(json!([{"role": "user", "parts": parts}])).await
    }

    async fn answer(
        &mut self,
        answers: BTreeMap<InterruptId, Value>,
    ) -> Result<Response, CliError> {
        let asked = self.asked.take().unwrap_or_default();
        let parts = asked.iter().filter_map(|asked| {
            let answer = answers.get(&asked.interrupt.id)?;
            Some(asked.answered(answer))
        });
        let parts: Vec<_> = parts.collect();
        self.post_messages(json!([{"role": "assistant", "parts": parts}])).await
    }

    async fn ended(&mut self, answer: Response, terminal: &Terminal) -> Result<(), CliError> {
        self.thread = answer.thread;
        match answer.frames.end() {
            Some(End::Completed) => self.asked = Some(Vec::new()),
            Some(End::Asks) | None => {}
            Some(End::Waits) => terminal.note("the run waits; it continues without an answer"),
            Some(End::Cancelled) => terminal.note("stopped"),
            Some(End::Failed(reason)) => {
                let head = terminal.paint_error(Style::Bad, "the run failed");
                terminal.note(format_args!("{head}: {}", to_plain(reason)));
            }
        }
        Ok(())
    }

    async fn questions(&mut self) -> Result<Vec<Interrupt>, CliError> {
        if self.asked.is_none() {
            self.asked =
                Some(asked::open_questions(&self.read_messages().await?).map_err(bad_answer)?);
        }
        let asked = self.asked.iter().flatten();
        Ok(asked.map(|asked| asked.interrupt.clone()).collect())
    }

    async fn last_messages(&mut self) -> Result<Vec<(Role, String)>, CliError> {
        let messages = self.read_messages().await?;
        self.asked = Some(asked::open_questions(&messages).map_err(bad_answer)?);
        Ok(asked::read_messages(&messages))
    }

    async fn threads(&self) -> Result<Vec<Listed>, CliError> {
        let body = json!({"limit": LISTED_MAX, "sort_by": "updated_at", "sort_order": "desc"});
        let url = self.server.at(&["threads", "search"]);
        let found = self.server.json(Method::Post, &url, Some(&body)).await?;
        let found =
            found.as_array().ok_or_else(|| bad_answer("the threads are not a list".to_owned()))?;
        let listed = found.iter().map(|thread| {
            let agent = thread.pointer("/metadata/graph_id").unwrap_or(&Value::Null);
            let state = match thread["status"].as_str() {
                Some("interrupted") => "waits for an answer",
                Some("busy") => "running",
                Some("error") => "failed",
                Some("idle") => "completed",
                // A state of a newer server.
                other => other.unwrap_or("unknown"),
            };
            listed_thread(&thread["thread_id"], agent, &thread["updated_at"], state)
        });
        Ok(listed.collect())
    }

    async fn inbox(&self) -> Result<Vec<Listed>, CliError> {
        let mut url = self.server.at(&["interrupts"]);
        url.set_query(Some(&format!("limit={LISTED_MAX}")));
        let found = self.server.json(Method::Get, &url, None).await?;
        let found =
            found.as_array().ok_or_else(|| bad_answer("the inbox is not a list".to_owned()))?;
        let listed = found.iter().map(|one| {
            let args = &one["call"]["args"];
            let text = match (one["action"]["name"].as_str(), args["question"].as_str()) {
                (Some(tool), _) => format!("{tool} {}", one["action"]["args"]),
                (None, question) => calls_in_short(&args["value"])
                    .or_else(|| question.map(str::to_owned))
                    .unwrap_or_else(|| args.to_string()),
            };
            let text = with_member(one["graph"].as_str(), &text);
            listed_thread(&one["thread_id"], &one["agent"], &one["created_at"], &text)
        });
        Ok(listed.collect())
    }

    async fn open(
        &mut self,
        thread: Option<ThreadId>,
        agent: Option<&str>,
    ) -> Result<(), CliError> {
        let Some(thread) = thread else {
            self.thread = None;
            self.asked = Some(Vec::new());
            return Ok(());
        };
        let agent = match agent {
            Some(agent) => Some(agent.to_owned()),
            None => agent_of(&self.server, &thread).await?,
        };
        let agent = agent.unwrap_or_else(|| self.agent.clone());
        // Fails if the thread does not exist.
        let url = self.server.at(&["chat", &agent, thread.as_str()]);
        self.server.json(Method::Get, &url, None).await?;
        self.agent = agent;
        self.thread = Some(thread);
        self.asked = None;
        Ok(())
    }

    fn select_model(&mut self, _: Option<&str>) -> Result<String, CliError> {
        Ok(format!("the server {} chooses the model", self.server.address()))
    }

    fn how_to_continue(&self) -> Option<String> {
        let thread = shell::quote_thread(self.thread.as_ref()?);
        let agent = to_plain(&self.agent);
        let address = self.server.address();
        Some(format!("weft chat {agent} --url {address} --thread {thread}"))
    }

    fn leave_open(&self, questions: &[Interrupt], terminal: &Terminal) {
        terminal.note(format_args!("open questions: {}; they wait for an answer", questions.len()));
    }
}

/// Creates a line of a list from texts of the server.
fn listed_thread(thread: &Value, agent: &Value, at: &Value, state: &str) -> Listed {
    let text = |value: &Value| shorten(value.as_str().unwrap_or_default(), 128);
    let at = text(at).chars().take(19).collect::<String>().replace('T', " ");
    Listed { thread: text(thread), agent: text(agent), state: shorten(state, 80), at }
}
