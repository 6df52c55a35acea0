//! Parsing of addresses. The TLS settings are parsed here, everything else by the driver.

use crate::error::StoreLocation;
use crate::tls::{Mode, Roots, Tls};
use std::ops::Range;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use weftwork_store::StoreError;

/// A parsed address: target and settings of connections.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) config: Config,
    /// TLS configuration; `None` for connections without encryption.
    pub(crate) tls: Option<Tls>,
    pub(crate) location: StoreLocation,
}

impl Address {
    pub(crate) fn read(address: &str, wait_ms: u64) -> Result<Self, StoreError> {
        let nameless = StoreLocation { name: "postgres".into(), wait_ms };
        let Parts { rest, mode, root } = split(address);
        // An invalid address is not included in the message, because it may contain a password.
        let mut config: Config = rest.parse().map_err(|error: tokio_postgres::Error| {
            let cause = std::error::Error::source(&error);
            let cause = cause.map(ToString::to_string).unwrap_or_default();
            nameless.unavailable(format!("its address is not valid: {error}; {cause}"))
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(nameless.unavailable(
                "its address names no host; expected postgres://user@host:port/database",
            ));
        }
        let location = StoreLocation { name: name_of(&config).into(), wait_ms };
        let mode = match mode.as_deref() {
            None | Some("prefer" | "disable") => None,
            Some("require") => Some(Mode::Require),
            Some("verify-full") => Some(Mode::VerifyFull),
            Some(_) => {
                return Err(location.unavailable(
                    "its address has an unknown sslmode; expected disable, prefer (not encrypted), require or verify-full (encrypted, with the server's certificate and name checked)",
                ));
            }
        };
        config.ssl_mode(if mode.is_some() { SslMode::Require } else { SslMode::Disable });
        let tls = match (mode, root) {
            // Data sent to a local socket does not leave the machine.
            (Some(_), _) if is_local(&config) => {
                config.ssl_mode(SslMode::Disable);
                None
            }
            (Some(mode), root) => {
                let roots = match root.as_deref() {
                    None | Some("system") => Roots::System,
                    Some(file) => Roots::File(file.into()),
                };
                Some(Tls::new(mode, &roots).map_err(|reason| location.unavailable(reason))?)
            }
            (None, Some(_)) => {
                return Err(location.unavailable(
                    "its address names certificates (sslrootcert) for connections that are not encrypted; add sslmode=require",
                ));
            }
            (None, None) => None,
        };
        Ok(Self { config, tls, location })
    }
}

fn is_local(config: &Config) -> bool {
    let tcp = config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(_)));
    !tcp && config.get_hostaddrs().is_empty()
}

/// Returns the database that an address refers to, without password and settings; `None` if the
/// address is not valid.
#[must_use]
pub fn name_of_address(address: &str) -> Option<String> {
    split(address).rest.parse().ok().map(|config| name_of(&config))
}

/// Returns the name of the database without password and settings.
fn name_of(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => config.get_hostaddrs().first().map(ToString::to_string).unwrap_or_default(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{user}{host}:{port}/{database}")
}

/// An address without its TLS settings, of which the driver supports fewer.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parts {
    rest: String,
    mode: Option<String>,
    root: Option<String>,
}

impl Parts {
    /// Takes a TLS setting; returns `false` for any other setting.
    fn take(&mut self, key: &str, value: &str) -> bool {
        match key {
            "sslmode" => self.mode = Some(value.to_owned()),
            "sslrootcert" => self.root = Some(value.to_owned()),
            _ => return false,
        }
        true
    }
}

fn split(address: &str) -> Parts {
    let is_url = ["postgres://", "postgresql://"].iter().any(|it| address.starts_with(it));
    if is_url { split_url(address) } else { split_pairs(address) }
}

fn split_url(address: &str) -> Parts {
    // Settings come last, because a password may contain a question mark.
    let Some((base, settings)) = address.rsplit_once('?') else {
        return Parts { rest: address.to_owned(), ..Parts::default() };
    };
    let mut parts = Parts::default();
    let others = settings.split('&').filter(|setting| {
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        !parts.take(key, &decoded(value))
    });
    let others: Vec<_> = others.collect();
    parts.rest = match others.is_empty() {
        true => base.to_owned(),
        false => format!("{base}?{}", others.join("&")),
    };
    parts
}

/// Decodes percent-encoded bytes.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text;
    while let Some((before, after)) = left.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        let digits = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(digits.unwrap_or(b'%'));
        left = digits.and_then(|_| after.get(2..)).unwrap_or(after);
    }
    bytes.extend_from_slice(left.as_bytes());
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// Splits `key=value key='quoted value'`. Other text is left unchanged, so that the driver reports
/// the error.
fn split_pairs(address: &str) -> Parts {
    let mut parts = Parts::default();
    let mut at = 0;
    let mut copied = 0;
    while let Some(Pair { key, value, range }) = pair(address, at) {
        at = range.end;
        if parts.take(key, &value) {
            parts.rest.push_str(address.get(copied..range.start).unwrap_or_default());
            copied = range.end;
        }
    }
    parts.rest.push_str(address.get(copied..).unwrap_or_default());
    parts
}

struct Pair<'a> {
    key: &'a str,
    value: String,
    range: Range<usize>,
}

/// Parses the first pair that starts at or after a byte.
fn pair(address: &str, from: usize) -> Option<Pair<'_>> {
    let text = address.get(from..)?.trim_start();
    let start = address.len() - text.len();
    let (key, text) = text.split_once('=')?;
    let text = text.trim_start();
    let quoted = text.strip_prefix('\'');
    let body = quoted.unwrap_or(text);
    let mut value = String::new();
    let mut escaped = false;
    let mut end = body.len();
    for (at, c) in body.char_indices() {
        match c {
            _ if escaped => {
                value.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '\'' if quoted.is_some() => {
                end = at + 1;
                break;
            }
            c if quoted.is_none() && c.is_whitespace() => {
                end = at;
                break;
            }
            c => value.push(c),
        }
    }
    let range = start..address.len() - body.len() + end;
    Some(Pair { key: key.trim_end(), value, range })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(rest: &str, mode: Option<&str>, root: Option<&str>) -> Parts {
        let owned = |text: &str| text.to_owned();
        Parts { rest: owned(rest), mode: mode.map(owned), root: root.map(owned) }
    }

    #[test]
    fn what_is_said_about_tls_is_taken_out() {
        let require = Some("require");
        let file = Some("/a b/root.pem");
        let all = [
            ("postgres://u:p?q@h/d", parts("postgres://u:p?q@h/d", None, None)),
            ("postgres://u@h/d?sslmode=require", parts("postgres://u@h/d", require, None)),
            (
                "postgres://u:p?q@h/d?a=b&sslrootcert=/a%20b/root.pem&sslmode=require&c=d%41",
                parts("postgres://u:p?q@h/d?a=b&c=d%41", require, file),
            ),
            ("host=h user=u", parts("host=h user=u", None, None)),
            (
                "host=h sslmode=require password='a \\' sslmode=x' sslrootcert = '/a b/root.pem' user=u",
                parts("host=h  password='a \\' sslmode=x'  user=u", require, file),
            ),
            ("sslrootcert=/a\\ b/root.pem", parts("", None, file)),
            ("s3cret", parts("s3cret", None, None)),
            ("password='s3cret", parts("password='s3cret", None, None)),
        ];
        for (address, expected) in all {
            assert_eq!(split(address), expected, "{address}");
        }
    }

    #[test]
    fn what_is_escaped_is_read() {
        for (text, expected) in [("a%2Fb", "a/b"), ("100%", "100%"), ("%zz%41", "%zzA"), ("", "")] {
            assert_eq!(decoded(text), expected);
        }
    }

    #[test]
    fn sockets_are_not_encrypted_and_modes_are_known() {
        let open = |address: &str| Address::read(address, 1);
        let mode = |address: &str| open(address).map(|read| read.config.get_ssl_mode());
        assert_eq!(mode("host=/run/postgresql user=u sslmode=require"), Ok(SslMode::Disable));
        assert_eq!(mode("postgres://u@h/d"), Ok(SslMode::Disable));
        assert_eq!(mode("postgres://u@h/d?sslmode=verify-full"), Ok(SslMode::Require));
        for address in ["postgres://u@h/d?sslmode=verify-ca", "host=h sslmode=allow"] {
            let error = open(address).expect_err("is unknown").to_string();
            assert!(error.contains("verify-full"), "{error}");
        }
        let error = open("postgres://u@h/d?sslrootcert=/x.pem").expect_err("is of no use");
        assert!(error.to_string().contains("add sslmode=require"), "{error}");
        let missing = "postgres://u@h/d?sslmode=require&sslrootcert=/missing.pem";
        let error = open(missing).expect_err("is not there").to_string();
        assert!(error.contains("sslrootcert=/missing.pem"), "{error}");
    }
}
