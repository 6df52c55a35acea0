//! The provider table: built-in rows, changed by configuration and environment.

use crate::extras::{is_header_name, is_reserved_header};
use crate::protocol::{Protocol, Quirks, base_url, facts};
use crate::{
    Additions, ModelError, ModelFacts, ModelPrices, Price, PriceTable, RequestExtras, Secret,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// The built-in rows.
const BUILT_IN: &str = include_str!("../../providers.toml");

/// Default timeout for the response head and between two chunks of a response. It is long because a
/// model on a busy machine can take long to produce its first token.
const PATIENCE: Duration = Duration::from_secs(120);

/// Settings of a provider in a configuration: changes of a built-in provider, or a new one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderOverride {
    /// The base URL. Required for a provider that is not built in.
    pub url: Option<String>,
    /// An environment variable that replaces the base URL.
    pub url_env: Option<String>,
    /// The environment variable that holds the key.
    pub key_env: Option<String>,
    /// `true` if the server also answers without a key.
    pub key_optional: Option<bool>,
    /// The header that carries the key alone, such as `api-key`, in place of the protocol's.
    pub key_header: Option<String>,
    /// Headers of each request; see [`Additions`].
    pub headers: Option<BTreeMap<String, String>>,
    /// Members of the query of each request.
    pub query: Option<BTreeMap<String, String>>,
    /// Members of the body of each request.
    pub body: Option<Map<String, Value>>,
    /// The provider's wire protocol.
    pub protocol: Option<Protocol>,
    /// Deviations of the server from the protocol.
    pub quirks: Option<Quirks>,
    /// The page that describes the provider's address and protocol.
    pub source: Option<String>,
    /// Timeout for the response head, in milliseconds.
    pub head_timeout_ms: Option<u64>,
    /// Timeout between two chunks of a response, in milliseconds.
    pub idle_timeout_ms: Option<u64>,
    /// Prices of models, which hold at any URL.
    pub prices: Option<ModelPrices>,
}

/// A provider with resolved settings.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderRow {
    /// The provider's name: the part of a model id before the colon.
    pub name: String,
    /// The base URL.
    pub url: String,
    /// `true` if the URL is that of the built-in row, for which the table of prices is.
    pub has_built_in_url: bool,
    /// The key from the environment.
    pub key: Option<Secret>,
    /// The environment variable that holds the key.
    pub key_env: String,
    /// `true` if the server also answers without a key.
    pub key_optional: bool,
    /// The header that carries the key alone, in place of the protocol's.
    pub key_header: Option<String>,
    /// Additions to each request.
    pub extras: RequestExtras,
    /// The provider's wire protocol.
    pub protocol: Protocol,
    /// Deviations of the server from the protocol.
    pub quirks: Quirks,
    /// The page that describes the provider's address and protocol, if it is known.
    pub source: Option<String>,
    /// Timeout for the response head.
    pub head_timeout: Duration,
    /// Timeout between two chunks of a response.
    pub idle_timeout: Duration,
    /// Prices of models from the configuration.
    pub prices: ModelPrices,
}

impl ProviderRow {
    /// Checks that the key is present or optional.
    ///
    /// # Errors
    /// [`ModelError::KeyMissing`] if a required key is missing, [`ModelError::BadProvider`] if a
    /// variable of an addition is.
    pub fn ready(&self) -> Result<(), ModelError> {
        if let Some(reason) = self.extras.missing.clone() {
            return Err(ModelError::BadProvider { provider: self.name.clone(), reason });
        }
        if self.key.is_some() || self.key_optional {
            return Ok(());
        }
        Err(ModelError::KeyMissing { provider: self.name.clone(), variable: self.key_env.clone() })
    }

    /// Returns the price of a model: that of the configuration, else none on this machine, that of
    /// the table at the provider's own address, and otherwise unknown, as another server asks for
    /// another price.
    #[must_use]
    pub fn price(&self, model: &str) -> Option<Price> {
        if let Some(price) = self.prices.get(model) {
            return Some(price);
        }
        match (self.is_loopback(), self.has_built_in_url) {
            (true, _) => Some(Price::default()),
            (false, true) => PriceTable::built_in().get(&format!("{}:{model}", self.name)),
            (false, false) => None,
        }
    }

    /// Returns what is known of a model of the provider.
    #[must_use]
    pub fn facts(&self, model: &str) -> ModelFacts {
        facts(&format!("{}:{model}", self.name), self.protocol, &self.quirks)
    }

    /// The host and port of the URL, such as `localhost:11434`, in the form of an allow list entry.
    #[must_use]
    pub fn host(&self) -> &str {
        let rest = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        let authority = rest.split('/').next().unwrap_or_default();
        authority.rsplit('@').next().unwrap_or_default()
    }

    /// Returns `true` if the server runs on this machine, so that the guarded client needs
    /// permission to reach it.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let host = self.host();
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        match name.parse::<std::net::IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => name == "localhost" || name.ends_with(".localhost"),
        }
    }
}

/// All HTTP providers, by name.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderTable {
    rows: BTreeMap<String, ProviderRow>,
}

impl ProviderTable {
    /// Loads the built-in rows and applies the configuration, then the environment.
    ///
    /// # Errors
    /// [`ModelError::BadProvider`] if a row has no usable URL or an invalid name.
    pub fn load(
        env: &dyn Fn(&str) -> Option<String>,
        overrides: &BTreeMap<String, ProviderOverride>,
    ) -> Result<Self, ModelError> {
        let mut drafts: BTreeMap<String, ProviderOverride> =
            toml::from_str(BUILT_IN).map_err(|error| ModelError::BadProvider {
                provider: "built in".to_owned(),
                reason: error.message().to_owned(),
            })?;
        let own = drafts.clone();
        for (name, change) in overrides {
            let draft = drafts.entry(name.clone()).or_default();
            *draft = changed(draft, change);
        }
        let rows = drafts.into_iter().map(|(name, draft)| {
            let row = row(&name, draft, env)
                .map_err(|reason| ModelError::BadProvider { provider: name.clone(), reason });
            let mut row = row?;
            let url = own.get(&name).and_then(|own| own.url.as_deref());
            row.has_built_in_url =
                url.is_some_and(|url| base_url(url, row.protocol).as_ref() == Ok(&row.url));
            Ok((name, row))
        });
        Ok(Self { rows: rows.collect::<Result<_, ModelError>>()? })
    }

    /// The row with the given name.
    #[must_use]
    pub fn row(&self, name: &str) -> Option<&ProviderRow> {
        self.rows.get(name)
    }

    /// All rows, ordered by name.
    pub fn rows(&self) -> impl Iterator<Item = &ProviderRow> {
        self.rows.values()
    }
}

fn changed(draft: &ProviderOverride, change: &ProviderOverride) -> ProviderOverride {
    let draft = draft.clone();
    let change = change.clone();
    ProviderOverride {
        // A URL from the configuration takes precedence over the variable of the built-in row.
        url_env: change.url_env.or(if change.url.is_some() { None } else { draft.url_env }),
        url: change.url.or(draft.url),
        key_env: change.key_env.or(draft.key_env),
        key_optional: change.key_optional.or(draft.key_optional),
        key_header: change.key_header.or(draft.key_header),
        headers: change.headers.or(draft.headers),
        query: change.query.or(draft.query),
        body: change.body.or(draft.body),
        protocol: change.protocol.or(draft.protocol),
        quirks: change.quirks.or(draft.quirks),
        source: change.source.or(draft.source),
        head_timeout_ms: change.head_timeout_ms.or(draft.head_timeout_ms),
        idle_timeout_ms: change.idle_timeout_ms.or(draft.idle_timeout_ms),
        prices: change.prices.or(draft.prices),
    }
}

fn row(
    name: &str,
    draft: ProviderOverride,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<ProviderRow, String> {
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    if name.is_empty() || !name.bytes().all(plain) {
        return Err("a name consists of a-z, 0-9, `-` and `_`".to_owned());
    }
    let from_env = draft.url_env.as_deref().and_then(env).filter(|url| !url.trim().is_empty());
    let url = from_env.or(draft.url).ok_or("it has no `url`")?;
    let protocol = draft.protocol.unwrap_or_default();
    // A query in the URL, as consoles of providers show it.
    let (url, asked) = match url.split_once('?') {
        Some((url, asked)) => (url.to_owned(), asked.to_owned()),
        None => (url, String::new()),
    };
    let pairs = asked.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut query: BTreeMap<String, String> =
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    query.extend(draft.query.unwrap_or_default());
    let additions = Additions {
        headers: draft.headers.unwrap_or_default(),
        query,
        body: draft.body.unwrap_or_default(),
    };
    let extras = additions.resolve(env)?;
    if let Some(name) = &draft.key_header {
        if !is_header_name(name) {
            return Err(format!("`{name}` in `key_header` is no name of a header"));
        }
        if is_reserved_header(name) {
            return Err(format!("`key_header` cannot be `{name}`: each request has its own"));
        }
    }
    let url =
        base_url(&url, protocol).map_err(|reason| format!("its URL cannot be used: {reason}"))?;
    let key_env = draft.key_env.unwrap_or_default();
    let key = Some(&key_env).filter(|name| !name.is_empty()).and_then(|name| env(name));
    Ok(ProviderRow {
        name: name.to_owned(),
        url,
        has_built_in_url: false,
        key: key.as_deref().and_then(Secret::new),
        // A custom server without a key variable has no key.
        key_optional: draft.key_optional.unwrap_or(key_env.is_empty()),
        key_env,
        key_header: draft.key_header,
        extras,
        protocol,
        quirks: draft.quirks.unwrap_or_default(),
        source: draft.source,
        head_timeout: draft.head_timeout_ms.map_or(PATIENCE, Duration::from_millis),
        idle_timeout: draft.idle_timeout_ms.map_or(PATIENCE, Duration::from_millis),
        prices: draft.prices.unwrap_or_default(),
    })
}
