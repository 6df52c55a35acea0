//! Files of servers, in the form that MCP clients share.

use crate::McpError;
use crate::secrets::Secrets;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weftwork_tools::DEFAULT_TIMEOUT;

/// Environment variables that a server inherits. All others come from its entry in the file.
const INHERITED: [&str; 7] = ["HOME", "LANG", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER"];

/// Time after which a call ends although its server reports progress.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Maximum size of a file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The servers of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpFile {
    /// The file.
    pub path: PathBuf,
    /// The servers by name.
    pub servers: BTreeMap<String, ServerConfig>,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// The way to the server.
    pub reached: Reached,
    /// Time limits of a call.
    pub timeouts: Timeouts,
    /// Values that are hidden in errors of the server.
    pub(crate) secrets: Secrets,
}

impl fmt::Display for ServerConfig {
    /// Writes the way to the server, without values of variables in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.secrets.hide(&self.reached.to_string()))
    }
}

/// Time limits of the calls of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// The time without an answer and without progress after which a call ends.
    pub call: Duration,
    /// The time after which a call ends although its server reports progress, at least as long.
    pub call_with_progress: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { call: DEFAULT_TIMEOUT, call_with_progress: PROGRESS_TIMEOUT }
    }
}

impl Timeouts {
    /// Takes the limits of an entry, in milliseconds.
    fn of(call: Option<u64>, call_with_progress: Option<u64>) -> Result<Self, String> {
        let named = [("timeout", call), ("maxTimeout", call_with_progress)];
        if let Some((name, _)) = named.iter().find(|(_, limit)| *limit == Some(0)) {
            return Err(format!("`{name}` is 0, expected milliseconds"));
        }
        let default = Self::default();
        let most = call_with_progress.map(Duration::from_millis);
        let call = call.map(Duration::from_millis);
        match (call, most) {
            (Some(call), Some(most)) if most < call => Err(format!(
                "`maxTimeout` is {} ms, expected at least the `timeout` of {} ms",
                most.as_millis(),
                call.as_millis()
            )),
            (Some(call), most) => {
                let most = most.unwrap_or(default.call_with_progress.max(call));
                Ok(Self { call, call_with_progress: most })
            }
            (None, most) => {
                let most = most.unwrap_or(default.call_with_progress);
                Ok(Self { call: default.call.min(most), call_with_progress: most })
            }
        }
    }
}

/// The way to a server.
#[derive(Clone, PartialEq, Eq)]
pub enum Reached {
    /// A process that this program starts, without a shell.
    Process {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its whole environment.
        env: BTreeMap<String, String>,
        /// Its working directory.
        folder: PathBuf,
    },
    /// A server at an address, over streamable HTTP.
    Http {
        /// The address.
        url: String,
        /// Headers of all requests.
        headers: BTreeMap<String, String>,
        /// The login; `None` if the file rules one out.
        oauth: Option<OauthSettings>,
    },
}

/// The operator's part of a login with OAuth. All of it may be left out.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct OauthSettings {
    /// The client that a person has registered, or the address of its metadata document.
    pub client_id: Option<String>,
    /// The secret of that client.
    pub client_secret: Option<String>,
    /// The only authorization server that the client is used at.
    pub issuer: Option<String>,
    /// Scopes to ask for, separated by spaces.
    pub scopes: Option<String>,
    /// The port that the client is registered with: `http://localhost:PORT/callback`.
    pub callback_port: Option<u16>,
}

impl fmt::Debug for OauthSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OauthSettings").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

impl fmt::Display for Reached {
    /// Writes the program with its arguments, or the address without its query.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { command, args, .. } => {
                write!(f, "{command}")?;
                args.iter().try_for_each(|arg| write!(f, " {arg}"))
            }
            Self::Http { url, .. } => {
                let shown = url.split(['?', '#']).next().unwrap_or_default();
                let (scheme, rest) = shown.split_once("://").unwrap_or(("", shown));
                let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
                write!(f, "{scheme}://{host}")
            }
        }
    }
}

impl fmt::Debug for Reached {
    /// Leaves out the values of variables and headers, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { env, folder, .. } => f
                .debug_struct("Process")
                .field("env", &env.keys().collect::<Vec<_>>())
                .field("folder", folder)
                .finish_non_exhaustive(),
            Self::Http { headers, oauth, .. } => f
                .debug_struct("Http")
                .field("url", &self.to_string())
                .field("headers", &headers.keys().collect::<Vec<_>>())
                .field("oauth", oauth)
                .finish(),
        }
    }
}

/// An entry as written. Members that other clients know are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(rename = "type")]
    kind: Option<String>,
    command: Option<String>,
    #[serde(default, deserialize_with = "texts")]
    args: Vec<String>,
    #[serde(default, deserialize_with = "named_texts")]
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    url: Option<String>,
    #[serde(default, deserialize_with = "named_texts")]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    oauth: OauthEntry,
    /// Milliseconds.
    timeout: Option<u64>,
    /// Milliseconds.
    max_timeout: Option<u64>,
    #[serde(default)]
    disabled: bool,
}

/// Reads a text, or the text of a number or boolean, as environments and arguments have it.
fn read_text<E: serde::de::Error>(value: Value) -> Result<String, E> {
    match value {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        other => {
            let found = crate::text::short(&other.to_string(), 40);
            Err(E::custom(format!("found `{found}`, expected a text or a number")))
        }
    }
}

fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Vec::deserialize(from)?.into_iter().map(read_text).collect()
}

fn named_texts<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let values = BTreeMap::<String, Value>::deserialize(from)?;
    values.into_iter().map(|(name, value)| Ok((name, read_text(value)?))).collect()
}

/// Returns JSON for a text that may have comments and commas before closing brackets, as editors write
/// such files. Line breaks stay where they are, for the places in errors.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    while let Some(first) = rest.chars().next() {
        let length = match rest.as_bytes() {
            [b'"', inside @ ..] => 1 + string_length(inside),
            [b'/', b'/', ..] => rest.find('\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => first.len_utf8(),
        };
        let (element, after) = rest.split_at(length);
        rest = after;
        match first {
            '/' if length > 1 => out.extend(element.chars().filter(|letter| *letter == '\n')),
            '}' | ']' => {
                let kept = out.trim_end();
                if kept.ends_with(',') {
                    let comma = kept.len() - 1;
                    out.replace_range(comma..=comma, " ");
                }
                out.push(first);
            }
            _ => out.push_str(element),
        }
    }
    out
}

/// Returns the length of a string with its closing quote.
fn string_length(inside: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = inside.iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(inside.len(), |end| end + 1)
}

/// `oauth` of an entry: an object, or `false`.
#[derive(Deserialize)]
#[serde(untagged)]
enum OauthEntry {
    Allowed(bool),
    Settings(OauthMembers),
}

impl Default for OauthEntry {
    fn default() -> Self {
        Self::Allowed(true)
    }
}

/// The members of `oauth`, as the clients write them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OauthMembers {
    #[serde(alias = "client_id")]
    client_id: Option<String>,
    #[serde(alias = "client_secret")]
    client_secret: Option<String>,
    issuer: Option<String>,
    #[serde(rename = "scope", alias = "scopes")]
    scopes: Option<Scopes>,
    #[serde(alias = "callback_port")]
    callback_port: Option<u16>,
}

/// Scopes, as a text or a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scopes {
    Text(String),
    List(Vec<String>),
}

impl McpFile {
    /// Reads a file: an object with `mcpServers` or `servers`. `variable` looks up environment
    /// variables, for `${NAME}` and `${NAME:-default}` in the values of an entry and for the
    /// environment of servers. A server without `cwd` runs in the folder of the file; entries with
    /// `disabled` are left out.
    ///
    /// # Errors
    /// [`McpError::File`] and [`McpError::Variable`].
    pub fn read(path: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, McpError> {
        let bad = |problem: String| McpError::File { path: path.to_owned(), problem };
        let size = std::fs::metadata(path).map_err(|error| bad(error.to_string()))?.len();
        if size > FILE_BYTES_MAX {
            return Err(bad(format!("{size} bytes, expected at most {FILE_BYTES_MAX}")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
        let root: Map<String, Value> = serde_json::from_str(&without_comments(&text))
            .map_err(|error| bad(error.to_string()))?;
        let named = root.get("mcpServers").or_else(|| root.get("servers"));
        let Some(Value::Object(entries)) = named else {
            return Err(bad("expected an object `mcpServers` with the servers by name".to_owned()));
        };
        let mut servers = BTreeMap::new();
        for (name, entry) in entries {
            if !weftwork_tools::is_server_name(name) {
                return Err(bad(format!(
                    "server name `{}`: expected ASCII letters, digits, `_`, `-` and `.`",
                    crate::text::short(name, 80)
                )));
            }
            let entry = Entry::deserialize(entry)
                .map_err(|error| bad(format!("server `{name}`: {error}")))?;
            if entry.disabled {
                continue;
            }
            let place = Place { path, server: name, variable, secrets: RefCell::default() };
            servers.insert(name.clone(), entry.into_config(&place)?);
        }
        Ok(Self { path: path.to_owned(), servers })
    }
}

/// The place of an entry, for its variables and error messages.
struct Place<'a> {
    path: &'a Path,
    server: &'a str,
    variable: &'a dyn Fn(&str) -> Option<String>,
    /// Values that are hidden in errors of the server.
    secrets: RefCell<Secrets>,
}

impl Place<'_> {
    fn bad(&self, problem: &str) -> McpError {
        let problem = format!("server `{}`: {problem}", self.server);
        McpError::File { path: self.path.to_owned(), problem }
    }

    /// Replaces `${NAME}` and `${NAME:-default}`, and hides the values of variables in errors.
    fn expand(&self, text: &str) -> Result<String, McpError> {
        self.replace_variables(text, &|value| self.secrets.borrow_mut().add(value))
    }

    /// Replaces variables in an address. Its host is not secret.
    fn expand_address(&self, text: &str) -> Result<String, McpError> {
        let hide = |value: &str| self.secrets.borrow_mut().add_part_of_address(value);
        let address = self.replace_variables(text, &hide)?;
        self.secrets.borrow_mut().add_address(&address);
        Ok(address)
    }

    /// Replaces variables in a path, which is not secret.
    fn expand_path(&self, text: &str) -> Result<String, McpError> {
        self.replace_variables(text, &|_| ())
    }

    fn replace_variables(&self, text: &str, hide: &dyn Fn(&str)) -> Result<String, McpError> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            out.push_str(before);
            let Some((inside, remaining)) = after.split_once('}') else {
                return Err(self.bad("a `${` has no `}`"));
            };
            let (name, default) = match inside.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (inside, None),
            };
            let value = (self.variable)(name).filter(|value| !value.is_empty());
            match (value, default) {
                (Some(value), _) => {
                    if !INHERITED.contains(&name) {
                        hide(&value);
                    }
                    out.push_str(&value);
                }
                (None, Some(default)) => out.push_str(default),
                (None, None) => {
                    return Err(McpError::Variable {
                        path: self.path.to_owned(),
                        server: self.server.to_owned(),
                        variable: name.to_owned(),
                    });
                }
            }
            rest = remaining;
        }
        out.push_str(rest);
        Ok(out)
    }

    fn expand_all(
        &self,
        values: BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, McpError> {
        values.into_iter().map(|(name, value)| Ok((name, self.expand(&value)?))).collect()
    }
}

impl Entry {
    fn into_config(self, place: &Place<'_>) -> Result<ServerConfig, McpError> {
        let timeouts = Timeouts::of(self.timeout, self.max_timeout);
        let timeouts = timeouts.map_err(|problem| place.bad(&problem))?;
        let reached = match (self.kind.as_deref(), &self.command, &self.url) {
            (Some("sse"), _, _) => {
                return Err(place.bad(
                    "type `sse` is the transport of 2024, which is not supported; use the server's streamable HTTP address with type `http`",
                ));
            }
            (None | Some("stdio"), Some(_), None) => self.read_process(place)?,
            (None | Some("http" | "streamable-http" | "streamableHttp"), None, Some(url)) => {
                let url = place.expand_address(url)?;
                let oauth = self.oauth.into_settings(place)?;
                let headers = place.expand_all(self.headers)?;
                let mut secrets = place.secrets.borrow_mut();
                headers.values().for_each(|value| secrets.add(value));
                Reached::Http { url, headers, oauth }
            }
            (Some(kind), _, _)
                if !matches!(kind, "stdio" | "http" | "streamable-http" | "streamableHttp") =>
            {
                return Err(place.bad(&format!(
                    "type `{}`: expected `stdio` or `http`",
                    crate::text::short(kind, 40)
                )));
            }
            _ => return Err(place.bad("expected either `command` or `url`, fitting `type`")),
        };
        Ok(ServerConfig { reached, timeouts, secrets: place.secrets.take() })
    }

    fn read_process(self, place: &Place<'_>) -> Result<Reached, McpError> {
        let command = place.expand_path(&self.command.unwrap_or_default())?;
        if command.trim().is_empty() {
            return Err(place.bad("`command` is empty, expected a program"));
        }
        let args = self.args.iter().map(|arg| place.expand(arg)).collect::<Result<_, _>>()?;
        let inherited = INHERITED.iter().filter_map(|name| {
            let value = (place.variable)(name)?;
            Some(((*name).to_owned(), value))
        });
        let mut env: BTreeMap<String, String> = inherited.collect();
        let own = place.expand_all(self.env)?;
        own.values().for_each(|value| place.secrets.borrow_mut().add_literal(value));
        env.extend(own);
        let home = place.path.parent().unwrap_or(Path::new(""));
        let home = if home.as_os_str().is_empty() { Path::new(".") } else { home };
        let folder = match self.cwd {
            Some(cwd) => home.join(place.expand_path(&cwd)?),
            None => home.to_owned(),
        };
        Ok(Reached::Process { command, args, env, folder })
    }
}

impl OauthEntry {
    fn into_settings(self, place: &Place<'_>) -> Result<Option<OauthSettings>, McpError> {
        let members = match self {
            Self::Allowed(allowed) => return Ok(allowed.then(OauthSettings::default)),
            Self::Settings(members) => members,
        };
        let expand = |value: Option<String>| value.map(|text| place.expand(&text)).transpose();
        let scopes = members.scopes.map(|scopes| match scopes {
            Scopes::Text(text) => text,
            Scopes::List(list) => list.join(" "),
        });
        let settings = OauthSettings {
            client_id: expand(members.client_id)?,
            client_secret: expand(members.client_secret)?,
            issuer: expand(members.issuer)?,
            scopes: expand(scopes)?,
            callback_port: members.callback_port,
        };
        match settings.client_secret.is_some() && settings.client_id.is_none() {
            true => Err(place.bad("`oauth` has a `clientSecret` without a `clientId`")),
            false => Ok(Some(settings)),
        }
    }
}

#[cfg(test)]
mod tests;
