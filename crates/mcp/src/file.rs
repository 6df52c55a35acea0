//! Files of servers, in the form that MCP clients share.

use crate::McpError;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Environment variables that a server inherits. All others come from its entry in the file.
const INHERITED: [&str; 7] = ["HOME", "LANG", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER"];

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
    /// Time limit of a call, if the file sets one.
    pub timeout: Option<Duration>,
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
    },
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
            Self::Http { headers, .. } => f
                .debug_struct("Http")
                .field("url", &self.to_string())
                .field("headers", &headers.keys().collect::<Vec<_>>())
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
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Milliseconds.
    timeout: Option<u64>,
    #[serde(default)]
    disabled: bool,
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
        let root: Map<String, Value> =
            serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        let named = root.get("mcpServers").or_else(|| root.get("servers"));
        let Some(Value::Object(entries)) = named else {
            return Err(bad("expected an object `mcpServers` with the servers by name".to_owned()));
        };
        let mut servers = BTreeMap::new();
        for (name, entry) in entries {
            if weftwork_tools::wire_name(&format!("{name}/tool")).is_err() {
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
            let place = Place { path, server: name, variable };
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
}

impl Place<'_> {
    fn bad(&self, problem: &str) -> McpError {
        let problem = format!("server `{}`: {problem}", self.server);
        McpError::File { path: self.path.to_owned(), problem }
    }

    /// Replaces `${NAME}` and `${NAME:-default}`.
    fn expand(&self, text: &str) -> Result<String, McpError> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            out.push_str(before);
            let Some((inside, behind)) = after.split_once('}') else {
                return Err(self.bad("a `${` has no `}`"));
            };
            let (name, default) = match inside.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (inside, None),
            };
            let value = (self.variable)(name).filter(|value| !value.is_empty());
            match (value, default) {
                (Some(value), _) => out.push_str(&value),
                (None, Some(default)) => out.push_str(default),
                (None, None) => {
                    return Err(McpError::Variable {
                        path: self.path.to_owned(),
                        server: self.server.to_owned(),
                        variable: name.to_owned(),
                    });
                }
            }
            rest = behind;
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
        let timeout = self.timeout.map(Duration::from_millis);
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(place.bad("`timeout` is 0, expected milliseconds"));
        }
        let reached = match (self.kind.as_deref(), &self.command, &self.url) {
            (Some("sse"), _, _) => {
                return Err(place.bad(
                    "type `sse` is the transport of 2024, which is not supported; use the server's streamable HTTP address with type `http`",
                ));
            }
            (None | Some("stdio"), Some(_), None) => self.process(place)?,
            (None | Some("http" | "streamable-http" | "streamableHttp"), None, Some(url)) => {
                let url = place.expand(url)?;
                Reached::Http { url, headers: place.expand_all(self.headers)? }
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
        Ok(ServerConfig { reached, timeout })
    }

    fn process(self, place: &Place<'_>) -> Result<Reached, McpError> {
        let command = place.expand(&self.command.unwrap_or_default())?;
        if command.trim().is_empty() {
            return Err(place.bad("`command` is empty, expected a program"));
        }
        let args = self.args.iter().map(|arg| place.expand(arg)).collect::<Result<_, _>>()?;
        let inherited = INHERITED.iter().filter_map(|name| {
            let value = (place.variable)(name)?;
            Some(((*name).to_owned(), value))
        });
        let mut env: BTreeMap<String, String> = inherited.collect();
        env.extend(place.expand_all(self.env)?);
        let home = place.path.parent().unwrap_or(Path::new(""));
        let home = if home.as_os_str().is_empty() { Path::new(".") } else { home };
        let folder = match self.cwd {
            Some(cwd) => home.join(place.expand(&cwd)?),
            None => home.to_owned(),
        };
        Ok(Reached::Process { command, args, env, folder })
    }
}

#[cfg(test)]
mod tests;
