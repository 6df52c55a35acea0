//! Settings: from a file, the environment, and what the program or the command line says; the
//! later ones win.

mod file;
mod place;
mod spelling;

pub use file::Origin;
pub use place::{Address, StorePlace};
pub use spelling::nearest;

use crate::Error;
use file::File;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weftwork_egress::AllowedHost;
use weftwork_models::{ProviderOverride, ProviderTable};

/// Names the model, such as `local` or `openai:gpt-4o-mini`.
pub const MODEL_VARIABLE: &str = "WEFT_MODEL";
/// Names the store, `memory`, `sqlite:PATH` or the URL of a Postgres database.
pub const STORE_VARIABLE: &str = "WEFT_STORE";
/// Names the configuration file.
pub const CONFIG_VARIABLE: &str = "WEFT_CONFIG";
/// Names the weights of the embedded model.
pub const WEIGHTS_VARIABLE: &str = "WEFT_MODEL_FILE";

/// Where the user's data is without `XDG_DATA_HOME`.
const DATA_BELOW_HOME: &str = ".local/share";
/// The configuration file in the working directory.
const LOCAL_FILE: &str = "weft.toml";

/// A value and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub origin: Origin,
}

/// What the command line, or the program itself, says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// The model.
    pub model: Option<String>,
    /// The store.
    pub store: Option<String>,
    /// The configuration file; it must be there.
    pub config: Option<PathBuf>,
}

/// Where settings are looked for. Nothing else is read: a test makes its own.
pub struct Surroundings<'a> {
    /// The environment's variables.
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

    /// A folder of the user: from the variable when it holds an absolute path, else below `HOME`.
    fn user_folder(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let named = self.get(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || Some(PathBuf::from(self.get("HOME")?).join(below_home));
        named.or_else(home).map(|folder| folder.join("weftwork"))
    }
}

/// The settings of an app.
#[derive(Debug, Clone)]
pub struct Config {
    /// The configuration file that was read, if there was one.
    pub file: Option<PathBuf>,
    /// The model, when somebody named one.
    pub model: Option<Setting<String>>,
    /// The store.
    pub store: Setting<StorePlace>,
    /// The weights of the embedded model, when somebody named a file.
    pub model_file: Option<Setting<PathBuf>>,
    /// The folder for what can be had again: weights, prompts that were read.
    pub cache: Option<PathBuf>,
    /// The user's folder for data, where the store is when nobody names one.
    pub data: Option<PathBuf>,
    /// Hosts that may lead to loopback and private addresses, beside those of providers.
    pub allow: Vec<AllowedHost>,
    /// The HTTP proxy.
    pub proxy: Option<String>,
    /// The providers on the network, with their keys.
    pub providers: ProviderTable,
}

impl Config {
    /// The settings of this process: its environment and its working directory.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn from_env() -> Result<Self, Error> {
        Self::with_flags(&Flags::default())
    }

    /// The settings of this process, under what the command line says.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn with_flags(flags: &Flags) -> Result<Self, Error> {
        let folder = std::env::current_dir().unwrap_or_default();
        let variable = |name: &str| std::env::var(name).ok();
        Self::load(&Surroundings { variable: &variable, folder: &folder }, flags)
    }

    /// Settings that read nothing: a store in memory, the built-in providers, no keys.
    ///
    /// # Panics
    /// Never: the built-in table of providers is checked by tests.
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
            cache: None,
            data: None,
            allow: Vec::new(),
            proxy: None,
            providers,
        }
    }

    /// Reads the settings: flags over environment over file over what is built in.
    ///
    /// The file is the one that is named by flag or `WEFT_CONFIG`, else `weft.toml` in the working
    /// directory, else `weftwork/config.toml` in the user's configuration folder.
    ///
    /// # Errors
    /// [`Error::ConfigUnreadable`] and [`Error::ConfigInvalid`] for the file,
    /// [`Error::BadSetting`] for a value, [`Error::NoDataFolder`] when no store is named and there
    /// is no folder for one, [`Error::Model`] for a provider that is not set up right.
    pub fn load(around: &Surroundings<'_>, flags: &Flags) -> Result<Self, Error> {
        let (path, file) = match find(around, flags)? {
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
                let value = around.get(variable)?;
                Some(Setting { value, origin: Origin::Environment(variable) })
            };
            let file = || in_file.map(|value| Setting { value, origin: from_file() });
            flag.or_else(env).or_else(file)
        };
        let model = pick(("--model", &flags.model), MODEL_VARIABLE, file.model);
        let model = model.map(|model| Setting { value: anchored(&model.value, around), ..model });
        let store = pick(("--store", &flags.store), STORE_VARIABLE, file.store);
        let store = match store {
            Some(Setting { value, origin }) => {
                let place = StorePlace::read(&value).ok_or_else(|| Error::BadSetting {
                    setting: format!("the store ({origin})"),
                    found: without_secrets(&value),
                    expected: place::EXPECTED.to_owned(),
                })?;
                Setting { value: place, origin }
            }
            None => Setting { value: usual_store(around)?, origin: Origin::Default },
        };
        let model_file = pick(("", &None), WEIGHTS_VARIABLE, file.model_file);
        let model_file = model_file
            .map(|Setting { value, origin }| Setting { value: around.folder.join(value), origin });
        let cache = around.user_folder("XDG_CACHE_HOME", ".cache");
        let data = around.user_folder("XDG_DATA_HOME", DATA_BELOW_HOME);
        let providers = ProviderTable::load(&|name| around.get(name), &file.providers)?;
        let allow = file.egress.allow.iter().map(|host| host.parse()).collect::<Result<_, _>>()?;
        let proxy = file.egress.proxy;
        Ok(Self { file: path, model, store, model_file, cache, data, allow, proxy, providers })
    }

    /// The folder in which an app may keep files of its own: beside the store's file, or the
    /// user's folder for data; `None` for a store in memory.
    #[must_use]
    pub fn folder(&self) -> Option<PathBuf> {
        match &self.store.value {
            StorePlace::Memory => None,
            StorePlace::Sqlite(path) => Some(path.parent().map(PathBuf::from).unwrap_or_default()),
            StorePlace::Postgres(_) => self.data.clone(),
        }
    }

    /// Changes a provider, or adds one, as a configuration file would.
    ///
    /// # Errors
    /// [`Error::Model`] when it is not set up right.
    pub fn provider(mut self, name: &str, change: ProviderOverride) -> Result<Self, Error> {
        let variable = |name: &str| std::env::var(name).ok();
        let changes = BTreeMap::from([(name.to_owned(), change)]);
        self.providers = ProviderTable::load(&variable, &changes)?;
        Ok(self)
    }
}

/// A recording is found again from another folder: threads remember the model.
fn anchored(model: &str, around: &Surroundings<'_>) -> String {
    match model.trim().strip_prefix("replay:") {
        Some(file) if !file.is_empty() => format!("replay:{}", around.folder.join(file).display()),
        _ => model.to_owned(),
    }
}

/// A value that was not understood, without what may be a password.
fn without_secrets(value: &str) -> String {
    let secret = value.contains('@') || value.contains("password");
    match value.split([':', '/', '=', ' ']).next().filter(|_| secret) {
        Some(start) => format!("{start}…"),
        None => value.to_owned(),
    }
}

/// The store when nobody names one.
fn usual_store(around: &Surroundings<'_>) -> Result<StorePlace, Error> {
    let folder = around.user_folder("XDG_DATA_HOME", DATA_BELOW_HOME).ok_or(Error::NoDataFolder)?;
    Ok(StorePlace::Sqlite(folder.join("weft.db")))
}

/// The configuration file and its text. One that was named must be there.
fn find(around: &Surroundings<'_>, flags: &Flags) -> Result<Option<(PathBuf, String)>, Error> {
    let named = flags.config.clone().or_else(|| around.get(CONFIG_VARIABLE).map(PathBuf::from));
    let candidates: Vec<PathBuf> = match &named {
        Some(path) => vec![around.folder.join(path)],
        None => {
            let user = around.user_folder("XDG_CONFIG_HOME", ".config");
            let user = user.map(|folder| folder.join("config.toml"));
            [Some(around.folder.join(LOCAL_FILE)), user].into_iter().flatten().collect()
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
