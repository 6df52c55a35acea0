//! Configuration from a file, the environment, and the command line or the program. Later sources
//! override earlier ones.

mod file;
mod limits;
mod mcp;
mod place;
mod remotes;
mod rules;
mod spelling;
mod usage_limits;

pub use file::Origin;
pub use limits::{format_limits, read_duration, read_limits, read_time_limit};
pub use mcp::McpTools;
pub use place::{Address, StorePlace};
pub use remotes::{REMOTE, Remotes};
pub use rules::ToolRules;
pub use spelling::nearest;

use crate::Error;
use file::File;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::env::VarError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weftwork_egress::AllowedHost;
use weftwork_graph::SystemClock;
use weftwork_models::{ProviderOverride, ProviderTable, SettingsTable, TranscriptFolder};
use weftwork_runtime::limits::UsageLimits;
use weftwork_types::port::Limits;

/// Environment variable for the model, such as `local` or `openai:gpt-4o-mini`.
pub const MODEL_VARIABLE: &str = "WEFT_MODEL";
/// Environment variable for the file with rules for tools.
pub const POLICY_VARIABLE: &str = "WEFT_POLICY";
/// Environment variable for the file of MCP servers. There is no entry for it in configuration files:
/// the file of a foreign folder would start programs.
pub const MCP_VARIABLE: &str = "WEFT_MCP";
/// Environment variable for the folder of the definitions of agents.
pub const AGENTS_VARIABLE: &str = "WEFT_AGENTS";
/// Environment variable for the budget of a thread, such as `tokens=100000,usd=2`.
pub const THREAD_BUDGET_VARIABLE: &str = "WEFT_THREAD_BUDGET";
/// Environment variable for the version of graphs that state none of their own.
pub const GRAPH_VERSION_VARIABLE: &str = "WEFT_GRAPH_VERSION";
/// Environment variable for the folder of transcripts of model calls. There is no entry for it in
/// configuration files: the file of a foreign folder would collect what others write.
pub const TRANSCRIPTS_VARIABLE: &str = "WEFT_TRANSCRIPTS";
/// Environment variable for the store: `memory`, `sqlite:PATH` or the URL of a Postgres database.
pub const STORE_VARIABLE: &str = "WEFT_STORE";
/// Environment variable for the configuration file.
pub const CONFIG_VARIABLE: &str = "WEFT_CONFIG";
/// Environment variable for the weights file of the embedded model.
pub const WEIGHTS_VARIABLE: &str = "WEFT_MODEL_FILE";

/// Environment variable for the address from which the weights of the embedded model are downloaded, in
/// place of their publication.
pub const WEIGHTS_URL_VARIABLE: &str = "WEFT_MODEL_URL";

/// Maximum length of the version of graphs.
const GRAPH_VERSION_MAX: usize = 100;
/// The user's data directory below `HOME` if `XDG_DATA_HOME` is not set.
const DATA_BELOW_HOME: &str = ".local/share";
/// The folder of definitions of agents in the working directory.
const LOCAL_AGENTS: &str = "agents";
/// The configuration file in the working directory.
pub const LOCAL_FILE: &str = "weft.toml";

/// A value with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// The origin.
    pub origin: Origin,
}

/// Settings from the command line or the program, which override all others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// The model.
    pub model: Option<String>,
    /// The store.
    pub store: Option<String>,
    /// The configuration file, which must exist.
    pub config: Option<PathBuf>,
    /// The file with rules for tools.
    pub policy: Option<String>,
    /// The file of MCP servers.
    pub mcp: Option<String>,
    /// Limits of all runs of a thread together.
    pub thread_budget: Option<String>,
}

/// The environment from which a configuration is loaded. Nothing else of the process is read, so
/// tests can provide their own.
pub struct Surroundings<'a> {
    /// Looks up an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The working directory.
    pub folder: &'a Path,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Surroundings<'_> {
    fn get(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.trim().is_empty())
    }

    /// Returns the `weftwork` folder in the directory that `variable` names, or in `below_home` of
    /// the home directory if the variable holds no absolute path.
    fn user_folder(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let named = self.get(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || Some(PathBuf::from(self.get("HOME")?).join(below_home));
        named.or_else(home).map(|folder| folder.join("weftwork"))
    }
}

/// The configuration of an app.
///
/// ```
/// use weftwork::Config;
/// use weftwork::config::{Flags, StorePlace, Surroundings};
///
/// assert!(matches!(Config::in_memory().store.value, StorePlace::Memory));
///
/// // What `weft --store memory` reads, in a folder without `weft.toml` and without variables.
/// let folder = std::path::Path::new("/nonexistent");
/// let surroundings = Surroundings { variable: &|_| None, folder };
/// let flags = Flags { store: Some("memory".to_owned()), ..Flags::default() };
/// let config = Config::load(&surroundings, &flags)?;
/// assert!(config.model.is_none());
/// # Ok::<(), weftwork::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Config {
    /// The configuration file that was read.
    pub file: Option<PathBuf>,
    /// The model, if one is set.
    pub model: Option<Setting<String>>,
    /// The store.
    pub store: Setting<StorePlace>,
    /// The weights file of the embedded model, if one is set.
    pub model_file: Option<Setting<PathBuf>>,
    /// The address from which the weights are downloaded, if it is not that of their publication. It
    /// may be on the loopback device.
    pub model_url: Option<String>,
    /// The cache folder: downloaded weights and snapshots of processed prompts.
    pub cache: Option<PathBuf>,
    /// The user's data folder, which holds the store by default.
    pub data: Option<PathBuf>,
    /// Hosts that may resolve to loopback and private addresses, in addition to the hosts of
    /// loopback providers.
    pub allow: Vec<AllowedHost>,
    /// The HTTP proxy.
    pub proxy: Option<String>,
    /// The operator's rules for tools. The command line puts them before those of its built-in
    /// agents; a program does so with `Policy::then`. An app does not open if a rule names a tool that
    /// none of its agents has.
    pub rules: Option<ToolRules>,
    /// The MCP servers of the operator. The command line gives their allowed tools to its built-in
    /// agents.
    pub mcp: Option<McpTools>,
    /// The folder of definitions of agents: by default the folder `agents` of the working directory, if
    /// there is one.
    pub agents: Option<Setting<PathBuf>>,
    /// Where the code of function agents is executed. No file sets it: the program that has the
    /// process of a sandbox does.
    #[cfg(feature = "platform")]
    pub sandbox: Option<weftwork_platform::Sandbox>,
    /// The assistants of other servers. The command line offers them as agents.
    pub remotes: Remotes,
    /// Limits of all runs of a thread together, of those that this process executes.
    pub thread_budget: Option<Setting<Limits>>,
    /// The version that usage facts show of graphs without one of their own; else that of
    /// [`AppBuilder::build_version`](crate::AppBuilder::build_version).
    pub graph_version: Option<String>,
    /// The folder to which each attempt of a model call is written in full, if there is one.
    pub transcripts: Option<Arc<TranscriptFolder>>,
    /// Collector of traces and metrics, by the environment variables of OpenTelemetry; `None` if they
    /// name none.
    #[cfg(feature = "otel")]
    pub telemetry: Option<weftwork_telemetry::Settings>,
    /// Limits of accounts and keys, over all processes of the store.
    pub limits: UsageLimits,
    /// The network providers, with their keys.
    pub providers: ProviderTable,
    /// Settings of single models, by id: fallbacks, limits and the response cache.
    pub models: SettingsTable,
}

/// Reads the version of graphs that state none of their own.
fn graph_version_of(surroundings: &Surroundings<'_>) -> Result<Option<String>, Error> {
    let Some(named) = surroundings.get(GRAPH_VERSION_VARIABLE) else { return Ok(None) };
    let is_plain = named.chars().all(|char| char.is_ascii_alphanumeric() || "._-+".contains(char));
    if !is_plain || named.len() > GRAPH_VERSION_MAX || named == "0" {
        return Err(Error::BadSetting {
            setting: format!("the version of graphs ({GRAPH_VERSION_VARIABLE})"),
            found: named.chars().take(GRAPH_VERSION_MAX).collect(),
            expected: "at most 100 letters, digits and `._-+`, and not `0`".to_owned(),
        });
    }
    Ok(Some(named))
}

/// Creates the folder of transcripts, if one is named.
fn transcripts_of(surroundings: &Surroundings<'_>) -> Result<Option<Arc<TranscriptFolder>>, Error> {
    let Some(named) = surroundings.get(TRANSCRIPTS_VARIABLE) else { return Ok(None) };
    let created = TranscriptFolder::create(surroundings.folder.join(&named));
    let created = created.map_err(|error| Error::BadSetting {
        setting: format!("the folder of transcripts ({TRANSCRIPTS_VARIABLE})"),
        found: format!("{named}: {error}"),
        expected: "a folder that this user may write".to_owned(),
    })?;
    Ok(Some(Arc::new(created)))
}

impl Config {
    /// Loads the configuration of this process from its environment and working directory.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn from_env() -> Result<Self, Error> {
        Self::with_flags(&Flags::default())
    }

    /// Loads the configuration of this process, overridden by flags.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn with_flags(flags: &Flags) -> Result<Self, Error> {
        let folder = std::env::current_dir().unwrap_or_default();
        with_environment(|variable| Self::load(&Surroundings { variable, folder: &folder }, flags))
    }

    /// Creates a configuration with a store in memory and the built-in providers, without keys.
    /// Reads no file and no environment variable.
    ///
    /// # Panics
    /// Never: tests load the built-in table of providers.
    #[must_use]
    pub fn in_memory() -> Self {
        #[expect(
            clippy::expect_used,
            reason = "a test of the models crate loads the built-in table"
        )]
        let providers =
            ProviderTable::load(&|_| None, &BTreeMap::new()).expect("the built-in table is sound");
        Self {
            file: None,
            model: None,
            store: Setting { value: StorePlace::Memory, origin: Origin::Program },
            model_file: None,
            model_url: None,
            cache: None,
            data: None,
            allow: Vec::new(),
            proxy: None,
            rules: None,
            mcp: None,
            agents: None,
            #[cfg(feature = "platform")]
            sandbox: None,
            remotes: Remotes::default(),
            thread_budget: None,
            graph_version: None,
            transcripts: None,
            #[cfg(feature = "otel")]
            telemetry: None,
            limits: UsageLimits::default(),
            providers,
            models: SettingsTable::default(),
        }
    }

    /// Loads the configuration. Flags override the environment, which overrides the file, which
    /// overrides the defaults.
    ///
    /// The file is that of the flag, else that of `WEFT_CONFIG`, else `weft.toml` in the working
    /// directory, else `weftwork/config.toml` in the user's configuration folder.
    ///
    /// # Errors
    /// [`Error::ConfigUnreadable`] and [`Error::ConfigInvalid`] for the file,
    /// [`Error::BadSetting`] for a value, [`Error::NoDataFolder`] if no store is set and no data
    /// folder is known, [`Error::Model`] for an invalid provider entry, [`Error::Egress`] for an
    /// invalid allowed host, [`Error::Mcp`] for the file of MCP servers, [`Error::Remote`] for the
    /// address of a remote, [`Error::NotBuiltIn`] for one of these if this program was built without
    /// the feature `mcp` or `remote`.
    pub fn load(surroundings: &Surroundings<'_>, flags: &Flags) -> Result<Self, Error> {
        let (path, file) = match find(surroundings, flags)? {
            Some((path, text)) => {
                let file = File::parse(&path, &text)?;
                (Some(path), file)
            }
            None => (None, File::default()),
        };
        let from_file = || path.clone().map_or(Origin::Default, Origin::File);
        let pick = |flag: (&'static str, &Option<String>), variable, in_file: Option<String>| {
            let (name, flag) = flag;
            let flag = flag.clone().map(|value| Setting { value, origin: Origin::Flag(name) });
            let env = || {
                let value = surroundings.get(variable)?;
                Some(Setting { value, origin: Origin::Environment(variable) })
            };
            let file = || in_file.map(|value| Setting { value, origin: from_file() });
            flag.or_else(env).or_else(file)
        };
        let model = pick(("--model", &flags.model), MODEL_VARIABLE, file.model);
        let model =
            model.map(|model| Setting { value: anchored(&model.value, surroundings), ..model });
        let store = pick(("--store", &flags.store), STORE_VARIABLE, file.store);
        let store = match store {
            Some(Setting { value, origin }) => {
                let place = StorePlace::read(&value).ok_or_else(|| Error::BadSetting {
                    setting: format!("the store ({origin})"),
                    found: without_secrets(&value),
                    expected: place::EXPECTED.to_owned(),
                })?;
                Setting { value: place.located(&origin, surroundings)?, origin }
            }
            None => Setting { value: usual_store(surroundings)?, origin: Origin::Default },
        };
        let rules = pick(("--policy", &flags.policy), POLICY_VARIABLE, file.policy);
        let rules = rules.map(|setting| ToolRules::read(setting, surroundings)).transpose()?;
        let agents = pick(("", &None), AGENTS_VARIABLE, file.agents);
        let agents = match agents {
            Some(setting) => Some(located_setting(setting, surroundings)?),
            None => {
                let folder = Some(surroundings.folder.join(LOCAL_AGENTS));
                let folder = folder.filter(|folder| folder.is_dir());
                folder.map(|value| Setting { value, origin: Origin::Default })
            }
        };
        let mcp = pick(("--mcp", &flags.mcp), MCP_VARIABLE, None);
        let budget = ("--thread-budget", &flags.thread_budget);
        let budget = pick(budget, THREAD_BUDGET_VARIABLE, file.thread_budget);
        let thread_budget = budget.map(limits::read).transpose()?;
        let limits = file.limits.limits().map_err(|error| Error::BadSetting {
            setting: format!("`limits` ({})", from_file()),
            found: error.to_string(),
            expected: "limits of accounts and keys".to_owned(),
        })?;
        let model_file = pick(("", &None), WEIGHTS_VARIABLE, file.model_file);
        let model_file =
            model_file.map(|setting| located_setting(setting, surroundings)).transpose()?;
        let model_url = surroundings.get(WEIGHTS_URL_VARIABLE);
        let cache = surroundings.user_folder("XDG_CACHE_HOME", ".cache");
        let data = surroundings.user_folder("XDG_DATA_HOME", DATA_BELOW_HOME);
        let providers = ProviderTable::load(&|name| surroundings.get(name), &file.providers)?;
        let allow = file.egress.allow.iter().map(|host| host.parse()).collect::<Result<_, _>>()?;
        let proxy = file.egress.proxy;
        let mut config = Self {
            file: path,
            model,
            store,
            model_file,
            model_url,
            cache,
            data,
            allow,
            proxy,
            rules,
            mcp: None,
            agents,
            #[cfg(feature = "platform")]
            sandbox: None,
            remotes: Remotes::default(),
            thread_budget,
            graph_version: graph_version_of(surroundings)?,
            transcripts: transcripts_of(surroundings)?,
            #[cfg(feature = "otel")]
            telemetry: read_telemetry(surroundings)?,
            limits,
            providers,
            models: SettingsTable::new(
                file.models,
                &|name| surroundings.get(name),
                &(Arc::new(SystemClock::new()) as _),
            )?,
        };
        config.mcp =
            mcp.map(|setting| McpTools::read(setting, &config, surroundings)).transpose()?;
        config.remotes = Remotes::read(file.remotes, &config, surroundings)?;
        Ok(config)
    }

    /// The folder for the app's own files: the folder of the SQLite file, or the user's data
    /// folder for a Postgres store; `None` for a store in memory.
    #[must_use]
    pub fn folder(&self) -> Option<PathBuf> {
        match &self.store.value {
            StorePlace::Memory => None,
            StorePlace::Sqlite(path) => Some(path.parent().map(PathBuf::from).unwrap_or_default()),
            StorePlace::Postgres(_) => self.data.clone(),
        }
    }

    /// Changes or adds a provider, as an entry in a configuration file does.
    ///
    /// # Errors
    /// [`Error::Model`] if the entry is invalid.
    pub fn provider(mut self, name: &str, change: ProviderOverride) -> Result<Self, Error> {
        let changes = BTreeMap::from([(name.to_owned(), change)]);
        self.providers = with_environment(|variable| Ok(ProviderTable::load(variable, &changes)?))?;
        Ok(self)
    }
}

/// Returns a setting with its path, by [`located`].
fn located_setting(
    Setting { value, origin }: Setting<String>,
    surroundings: &Surroundings<'_>,
) -> Result<Setting<PathBuf>, Error> {
    Ok(Setting { value: located(&value, &origin, surroundings)?, origin })
}

/// Returns the path of a setting. In a configuration file it is relative to the folder of that file,
/// and otherwise to the working directory; `~/` is the home directory.
fn located(path: &str, origin: &Origin, surroundings: &Surroundings<'_>) -> Result<PathBuf, Error> {
    let bad = |expected: &str| Error::BadSetting {
        setting: format!("the path of a setting ({origin})"),
        found: path.to_owned(),
        expected: expected.to_owned(),
    };
    if let Some(rest) = path.strip_prefix('~') {
        let home =
            surroundings.get("HOME").ok_or_else(|| bad("a path without `~`: `HOME` is not set"))?;
        return match rest.strip_prefix('/') {
            Some(below) => Ok(Path::new(&home).join(below)),
            None if rest.is_empty() => Ok(PathBuf::from(home)),
            None => Err(bad("a path that begins with `~/`, `/` or a name")),
        };
    }
    let base = match origin {
        Origin::File(file) => file.parent().unwrap_or(surroundings.folder),
        _ => surroundings.folder,
    };
    Ok(base.join(path))
}

/// Reads the variables of OpenTelemetry.
#[cfg(feature = "otel")]
fn read_telemetry(
    surroundings: &Surroundings<'_>,
) -> Result<Option<weftwork_telemetry::Settings>, Error> {
    weftwork_telemetry::Settings::read(&|name| surroundings.get(name)).map_err(|error| {
        let setting = format!("the environment variable {}", error.name);
        Error::BadSetting { setting, found: error.found, expected: error.expected }
    })
}

/// Gives the variables of this process to a function that reads settings. One that is read and is not
/// UTF-8 is an error: without it, a policy that denies a tool would be passed over.
fn with_environment<T>(
    read: impl FnOnce(&dyn Fn(&str) -> Option<String>) -> Result<T, Error>,
) -> Result<T, Error> {
    let unreadable = Cell::new(None);
    let variable = |name: &str| match std::env::var(name) {
        Ok(value) => Some(value),
        Err(VarError::NotPresent) => None,
        Err(VarError::NotUnicode(_)) => {
            unreadable.set(Some(name.to_owned()));
            None
        }
    };
    let result = read(&variable);
    match unreadable.take() {
        // The value may be a secret.
        Some(name) => Err(Error::BadSetting {
            setting: format!("the environment variable {name}"),
            found: "not UTF-8".to_owned(),
            expected: "a text".to_owned(),
        }),
        None => result,
    }
}

/// Makes the path of a `replay:PATH` model absolute: threads store the model id and may be resumed
/// from another folder.
fn anchored(model: &str, surroundings: &Surroundings<'_>) -> String {
    match model.trim().strip_prefix("replay:") {
        Some(file) if !file.is_empty() => {
            format!("replay:{}", surroundings.folder.join(file).display())
        }
        _ => model.to_owned(),
    }
}

/// Shortens an invalid store setting to its first part if it may contain a password.
fn without_secrets(value: &str) -> String {
    let secret = value.contains('@') || value.contains("password");
    match value.split([':', '/', '=', ' ']).next().filter(|_| secret) {
        Some(start) => format!("{start}…"),
        None => value.to_owned(),
    }
}

/// The host and port of an address on the loopback device, which the operator allows by naming it.
#[cfg(any(feature = "local", feature = "mcp", feature = "remote"))]
pub(crate) fn own_host(address: &str) -> Result<Option<weftwork_egress::AllowedHost>, Error> {
    let Ok(url) = url::Url::parse(address) else { return Ok(None) };
    let host = url.host().filter(|_| weftwork_egress::is_loopback(&url));
    let port = url.port_or_known_default().unwrap_or(80);
    Ok(host.map(|host| format!("{host}:{port}").parse()).transpose()?)
}

/// The default store.
fn usual_store(surroundings: &Surroundings<'_>) -> Result<StorePlace, Error> {
    let folder =
        surroundings.user_folder("XDG_DATA_HOME", DATA_BELOW_HOME).ok_or(Error::NoDataFolder)?;
    Ok(StorePlace::Sqlite(folder.join("weft.db")))
}

/// Finds and reads the configuration file. A file named by flag or variable must exist.
fn find(
    surroundings: &Surroundings<'_>,
    flags: &Flags,
) -> Result<Option<(PathBuf, String)>, Error> {
    let named =
        flags.config.clone().or_else(|| surroundings.get(CONFIG_VARIABLE).map(PathBuf::from));
    let candidates: Vec<PathBuf> = match &named {
        Some(path) => vec![surroundings.folder.join(path)],
        None => {
            let user = surroundings.user_folder("XDG_CONFIG_HOME", ".config");
            let user = user.map(|folder| folder.join("config.toml"));
            [Some(surroundings.folder.join(LOCAL_FILE)), user].into_iter().flatten().collect()
        }
    };
    for path in candidates {
        match std::fs::read_to_string(&path) {
            Ok(text) => return Ok(Some((path, text))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => {}
            Err(error) => {
                return Err(Error::ConfigUnreadable { path, reason: error.to_string() });
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
