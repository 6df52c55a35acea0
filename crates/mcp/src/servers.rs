//! The servers of a file, each running at most once.

use crate::McpError;
use crate::connection::{Connection, Web};
use crate::file::{McpFile, Reached, ServerConfig, Timeouts};
use crate::limits::Limits;
use crate::lock::{AllowedTool, LockFile};
use crate::oauth::{Login, LoginPlace, LoginRequest, LoginScreen, LoginState, OauthError};
use crate::offer::Offer;
use crate::open_call::Parked;
use crate::tool::McpTool;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex;
use weftwork_tools::{Decision, Policy, Rule, Tool, ToolPattern};
use weftwork_types::port::{Clock, Egress};
use weftwork_types::tool::Effect;

/// The servers of a file and the allowed tools. A clone is the same servers; the last one that is
/// dropped kills them.
#[derive(Debug, Clone)]
pub struct McpServers(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: McpFile,
    lock: LockFile,
    limits: Limits,
    clock: Arc<dyn Clock>,
    web: BTreeMap<String, Web>,
    slots: BTreeMap<String, Mutex<Slot>>,
    crashes: Crashes,
}

/// The place of a server.
#[derive(Debug, Default)]
struct Slot {
    live: Option<Arc<Live>>,
    /// Times of the last starts.
    starts: VecDeque<Duration>,
}

/// Calls of tools in which their servers ended.
#[derive(Debug, Default)]
struct Crashes(std::sync::Mutex<BTreeMap<String, VecDeque<Duration>>>);

impl Crashes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, VecDeque<Duration>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of crashes of a tool from a time on, and forgets the earlier ones.
    fn count(&self, tool: &str, since: Duration) -> usize {
        let mut crashes = self.lock();
        let Some(times) = crashes.get_mut(tool) else { return 0 };
        times.retain(|at| *at >= since);
        times.len()
    }
}

/// A server that runs.
#[derive(Debug)]
pub(crate) struct Live {
    /// Time of its start.
    started: Duration,
    /// `true` once a call was in progress when the server ended.
    ended_in_call: AtomicBool,
    pub(crate) connection: Connection,
    /// Calls that wait for a person.
    pub(crate) parked: Parked,
    /// The newest list of its tools, with its time.
    listed: Mutex<Option<(Duration, Arc<Offer>)>>,
}

impl McpServers {
    /// Takes the servers of a file, with the tools that the lock file beside it allows. Starts
    /// nothing. Servers at addresses need an HTTP client each, by name of the server. Logins are kept
    /// in the folder `logins`; without one, there are none.
    ///
    /// # Errors
    /// [`McpError::File`] for the lock file.
    pub fn new(
        file: McpFile,
        clock: Arc<dyn Clock>,
        egress: BTreeMap<String, Arc<dyn Egress>>,
        limits: Limits,
        logins: Option<&Path>,
    ) -> Result<Self, McpError> {
        let lock = LockFile::beside(&file)?;
        let web = egress.into_iter().map(|(name, egress)| {
            let place = logins.map(|folder| LoginPlace { folder, egress: &egress, clock: &clock });
            let login = place
                .zip(file.servers.get(&name))
                .and_then(|(place, config)| login_of(&place, config).map(Arc::new));
            (name, Web { egress, login })
        });
        let web = web.collect();
        let slots = file.servers.keys().map(|name| (name.clone(), Mutex::default())).collect();
        Ok(Self(Arc::new(Inner {
            file,
            lock,
            limits,
            clock,
            web,
            slots,
            crashes: Crashes::default(),
        })))
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &McpFile {
        &self.0.file
    }

    /// The allowed tools.
    #[must_use]
    pub fn lock(&self) -> &LockFile {
        &self.0.lock
    }

    /// The allowed tools of servers in the file, for a [`ToolBox`](weftwork_tools::ToolBox).
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let tool = |(name, allowed)| -> Arc<dyn Tool> {
            Arc::new(McpTool::new(self.clone(), name, allowed))
        };
        self.allowed_tools().map(tool).collect()
    }

    fn allowed_tools(&self) -> impl Iterator<Item = (&str, &AllowedTool)> {
        self.0.lock.tools().filter(|(name, _)| {
            name.split_once('/').is_some_and(|(server, _)| self.0.slots.contains_key(server))
        })
    }

    /// A policy for the allowed tools: those that only read are allowed, and a person approves each
    /// call of the others. Rules of the operator belong before it, with
    /// [`Policy::then`](weftwork_tools::Policy::then).
    #[must_use]
    pub fn policy(&self) -> Policy {
        let rules = self.allowed_tools().map(|(name, allowed)| {
            let decision = match allowed.effect {
                Effect::ReadOnly => Decision::Allow,
                Effect::StateChange | Effect::ExternalSideEffect => Decision::AskHuman {
                    reason: "it is a tool of an MCP server that changes something".to_owned(),
                },
            };
            Rule::new(ToolPattern::One(name.to_owned()), decision)
        });
        Policy { rules: rules.collect(), ..Policy::default() }
    }

    /// Lists the tools of a server anew, starting it if necessary.
    ///
    /// # Errors
    /// [`McpError`] if the server is unknown, cannot be used or exceeds a limit.
    ///
    /// # Cancel safety
    /// A server that is being started is killed.
    pub async fn offer(&self, server: &str) -> Result<Arc<Offer>, McpError> {
        let live = self.live_server(server).await?;
        self.list(server, &live).await
    }

    /// The protocol version that was agreed on with a server, and the id of its process if this
    /// program started it. Starts the server if necessary.
    ///
    /// # Errors
    /// As [`McpServers::offer`].
    pub async fn facts(&self, server: &str) -> Result<(String, Option<u32>), McpError> {
        let live = self.live_server(server).await?;
        Ok((live.connection.protocol(), live.connection.process_id()))
    }

    /// Logs a person in at a server, in place of an earlier login.
    ///
    /// # Errors
    /// [`McpError::LoginFailed`], [`McpError::Egress`], and [`McpError::UnknownServer`].
    ///
    /// # Cancel safety
    /// The earlier login remains.
    pub async fn log_in(
        &self,
        server: &str,
        request: &LoginRequest,
        screen: &dyn LoginScreen,
    ) -> Result<(), McpError> {
        let login = self.login(server)?;
        login.log_in(request, screen).await.map_err(|error| error.of(server))
    }

    /// Ends the login at a server, and asks its authorization server to revoke the tokens. Returns
    /// `false` if there was none.
    ///
    /// # Errors
    /// As [`McpServers::log_in`].
    pub async fn log_out(&self, server: &str) -> Result<bool, McpError> {
        self.login(server)?.log_out().await.map_err(|error| error.of(server))
    }

    /// Returns the login at a server, if there is one.
    ///
    /// # Errors
    /// [`McpError::LoginNeeded`] if its file cannot be read.
    pub fn login_state(&self, server: &str) -> Result<Option<LoginState>, McpError> {
        let login = self.0.web.get(server).and_then(|web| web.login.as_ref());
        login.map_or(Ok(None), |login| login.state()).map_err(|error| error.of(server))
    }

    fn login(&self, server: &str) -> Result<&Arc<Login>, McpError> {
        let problem = match &self.config_of(server)?.reached {
            Reached::Process { .. } => {
                "it is a program, which gets what it needs from `env` of its entry in the MCP file"
            }
            Reached::Http { headers, .. } if has_token(headers) => {
                "its entry in the MCP file has the header `Authorization`; remove that to log in"
            }
            Reached::Http { oauth: None, .. } => "its entry in the MCP file has `\"oauth\": false`",
            Reached::Http { .. } => {
                "this program has no folder for logins, or no HTTP client for it"
            }
        };
        let login = self.0.web.get(server).and_then(|web| web.login.as_ref());
        login.ok_or_else(|| OauthError::failed(problem).of(server))
    }

    fn config_of(&self, server: &str) -> Result<&ServerConfig, McpError> {
        self.0.file.servers.get(server).ok_or_else(|| self.unknown_server(server))
    }

    fn unknown_server(&self, server: &str) -> McpError {
        McpError::UnknownServer {
            found: crate::text::short(server, 80),
            known: self.0.file.servers.keys().cloned().collect::<Vec<_>>().join(", "),
        }
    }

    /// Ends all servers: each may exit by itself before it is killed. Later calls start them again.
    pub async fn shutdown(&self) {
        for slot in self.0.slots.values() {
            let live = slot.lock().await.live.take();
            if let Some(live) = live.and_then(Arc::into_inner) {
                live.connection.close().await;
            }
        }
    }

    /// Records that a server ended in a call of a tool. The tool answers for it, and not the server:
    /// its next start is not counted.
    pub(crate) async fn ended_in_call(&self, tool: &str, live: &Live) {
        let now = self.0.clock.elapsed();
        self.0.crashes.lock().entry(tool.to_owned()).or_default().push_back(now);
        if live.ended_in_call.swap(true, Ordering::Relaxed) {
            return;
        }
        let server = tool.split_once('/').map_or("", |(server, _)| server);
        if let Some(slot) = self.0.slots.get(server) {
            let mut slot = slot.lock().await;
            if let Some(at) = slot.starts.iter().position(|at| *at == live.started) {
                slot.starts.remove(at);
            }
        }
    }

    /// Records that a call of a tool ended with an answer of its server: crashes that it witnessed
    /// were those of other tools.
    pub(crate) fn answered(&self, tool: &str) {
        self.0.crashes.lock().remove(tool);
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    pub(crate) fn timeouts(&self, server: &str) -> Timeouts {
        self.0.file.servers.get(server).map(|config| config.timeouts).unwrap_or_default()
    }

    /// Returns the running server of a tool, after checking that the tool is as it was allowed.
    pub(crate) async fn ready(
        &self,
        tool: &str,
        allowed: &AllowedTool,
    ) -> Result<Arc<Live>, McpError> {
        let Limits { crashes, starts_within: within, .. } = self.0.limits;
        let since = self.0.clock.elapsed().saturating_sub(within);
        let times = self.0.crashes.count(tool, since);
        if times >= crashes {
            return Err(McpError::EndsServer { tool: tool.to_owned(), times, within });
        }
        let server = tool.split_once('/').map_or("", |(server, _)| server);
        let live = self.live_server(server).await?;
        let known = {
            let listed = live.listed.lock().await;
            let fresh = listed.as_ref().filter(|(at, _)| {
                self.0.clock.elapsed().saturating_sub(*at) < self.0.limits.list_age
            });
            fresh.map(|(_, offer)| Arc::clone(offer))
        };
        // A page that could not be read may be by now.
        let known = known.filter(|offer| offer.incomplete.is_none() || offer.find(tool).is_ok());
        let offer = match known.filter(|_| !live.connection.handler().take_list_changed()) {
            Some(offer) => offer,
            None => self.list(server, &live).await?,
        };
        let found = offer.find(tool)?;
        let differences = allowed.differences(found);
        if differences.is_empty() {
            return Ok(live);
        }
        let parts: Vec<&str> = differences.iter().map(|(part, ..)| *part).collect();
        Err(McpError::Changed { tool: tool.to_owned(), what: parts.join(", ") })
    }

    async fn list(&self, server: &str, live: &Live) -> Result<Arc<Offer>, McpError> {
        let mut listed = live.listed.lock().await;
        let at = self.0.clock.elapsed();
        *listed = None;
        let (tools, incomplete) = live.connection.list().await?;
        let offer = Offer { incomplete, ..Offer::check(server, tools, &self.0.limits) };
        let offer = Arc::new(offer);
        *listed = Some((at, Arc::clone(&offer)));
        Ok(offer)
    }

    /// Returns the running server. Callers at the same time share one start.
    async fn live_server(&self, server: &str) -> Result<Arc<Live>, McpError> {
        let Inner { limits, clock, web, slots, .. } = self.0.as_ref();
        let config = self.config_of(server)?;
        let slot = slots.get(server).ok_or_else(|| self.unknown_server(server))?;
        let mut slot = slot.lock().await;
        if let Some(live) = slot.live.as_ref().filter(|live| !live.connection.is_closed()) {
            return Ok(Arc::clone(live));
        }
        slot.live = None;
        let now = clock.elapsed();
        slot.starts.retain(|at| now.saturating_sub(*at) < limits.starts_within);
        if slot.starts.len() >= limits.starts {
            return Err(McpError::DiesOften {
                server: server.to_owned(),
                starts: slot.starts.len(),
                within: limits.starts_within,
            });
        }
        slot.starts.push_back(now);
        let connection = Connection::open(server, config, web.get(server), *limits).await?;
        let live = Arc::new(Live {
            started: now,
            ended_in_call: AtomicBool::new(false),
            connection,
            parked: Parked::default(),
            listed: Mutex::default(),
        });
        slot.live = Some(Arc::clone(&live));
        Ok(live)
    }
}

/// The login at a server, unless the operator gives it a token.
fn login_of(place: &LoginPlace<'_>, config: &ServerConfig) -> Option<Login> {
    match &config.reached {
        Reached::Http { url, headers, oauth: Some(settings) } if !has_token(headers) => {
            Login::new(place, url, headers, settings)
        }
        _ => None,
    }
}

fn has_token(headers: &BTreeMap<String, String>) -> bool {
    headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"))
}
