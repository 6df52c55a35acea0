//! Manifests and the lock file.

use toml::{Table, Value};

use super::{House, Offence};
use crate::workspace::{Crate, Kind};

const ROOT: &str = "Cargo.toml";
const LOCK: &str = "Cargo.lock";
const INDEX: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// Maximum number of direct external dependencies of a crate.
const DEPENDENCIES_MAX: usize = 25;
/// Maximum for the engine, which does no I/O.
const ENGINE_DEPENDENCIES_MAX: usize = 8;
/// Packages that must not be in the lock file, with the reasons.
const BANNED: [(&str, &str); 2] = [
    ("aws-lc-sys", "it needs cmake; use the ring provider of rustls"),
    ("openssl-sys", "it needs the system's OpenSSL; use rustls"),
];
/// Dependencies that only the named crates may use: requests go through the guarded client, the
/// server accepts connections, and only the client and the database connection use TLS.
const HOMES: [(&str, &[&str]); 6] = [
    ("hyper", &["egress", "server"]),
    ("hyper-util", &["egress", "server"]),
    ("reqwest", &["egress"]),
    ("rustls", &["egress", "postgres"]),
    ("tokio-rustls", &["postgres"]),
    ("ureq", &["egress"]),
];
/// Keys that each crate inherits from the workspace.
const INHERITED: [&str; 6] =
    ["version", "edition", "rust-version", "license", "repository", "publish"];

pub(super) fn manifests(house: &House<'_>) -> Vec<Offence> {
    let broken = house.crates.broken.iter();
    let mut offences: Vec<Offence> =
        broken.map(|(path, error)| Offence::of(path, format!("is not TOML: {error}"))).collect();
    let workspace = house.tree.text(ROOT).unwrap_or_default().parse::<Table>();
    if let Err(error) = workspace {
        offences.push(Offence::of(ROOT, format!("is not TOML: {}", error.message())));
    }
    offences.extend(house.crates.all.iter().flat_map(manifest));
    offences
}

fn manifest(one: &Crate) -> Vec<Offence> {
    let package = one.manifest.get("package").and_then(Value::as_table);
    let text = |key: &str| package.and_then(|package| package.get(key)).and_then(Value::as_str);
    let mut messages = Vec::new();
    if text("name") != Some(&one.expected_package()) {
        messages.push(format!("the package is named `{}`, as its folder", one.expected_package()));
    }
    if text("description").is_none_or(str::is_empty) {
        messages.push("the package has a `description`".to_owned());
    }
    for key in INHERITED {
        if !package.and_then(|package| package.get(key)).is_some_and(is_inherited) {
            messages.push(format!("`{key}.workspace = true` is missing"));
        }
    }
    if !one.manifest.get("lints").is_some_and(is_inherited) {
        messages.push("`[lints] workspace = true` is missing".to_owned());
    }
    for kind in [Kind::Normal, Kind::Dev] {
        let own = one.dependencies(kind).into_iter().filter(|(_, value)| !is_inherited(value));
        messages.extend(
            own.map(|(key, _)| {
                format!("`{key}` takes its version from `[workspace.dependencies]`")
            }),
        );
    }
    messages.into_iter().map(|message| Offence::of(&one.manifest_path, message)).collect()
}

fn is_inherited(value: &Value) -> bool {
    value.get("workspace").and_then(Value::as_bool) == Some(true)
}

pub(super) fn dependencies(house: &House<'_>) -> Vec<Offence> {
    let over = house.crates.all.iter().filter_map(|one| {
        let most = if one.name == "engine" { ENGINE_DEPENDENCIES_MAX } else { DEPENDENCIES_MAX };
        let count = one.external().len();
        let message =
            format!("`{}` has {count} direct external dependencies; at most {most}", one.name);
        (count > most).then(|| Offence::of(&one.manifest_path, message))
    });
    over.collect()
}

pub(super) fn homes(house: &House<'_>) -> Vec<Offence> {
    let mut offences = Vec::new();
    for one in &house.crates.all {
        let external = one.external();
        let astray = HOMES
            .iter()
            .filter(|(name, homes)| external.contains(name) && !homes.contains(&one.name.as_str()));
        offences.extend(astray.map(|(name, homes)| {
            let homes = homes.join("` and `");
            let message = format!("`{name}` is for `{homes}` alone; go through its port");
            Offence::of(&one.manifest_path, message)
        }));
    }
    offences
}

pub(super) fn lockfile(house: &House<'_>) -> Vec<Offence> {
    let Some(text) = house.tree.text(LOCK) else {
        return vec![Offence::of(LOCK, "is missing; commit it")];
    };
    let lock = match text.parse::<Table>() {
        Ok(lock) => lock,
        Err(error) => {
            return vec![Offence::of(LOCK, format!("is not TOML: {}", error.message()))];
        }
    };
    let packages = lock.get("package").and_then(Value::as_array);
    packages.into_iter().flatten().flat_map(locked).collect()
}

fn locked(package: &Value) -> Vec<Offence> {
    let text = |key: &str| package.get(key).and_then(Value::as_str);
    let name = text("name").unwrap_or_default();
    let banned = BANNED.iter().find(|(banned, _)| *banned == name);
    let mut offences: Vec<Offence> = banned
        .map(|(_, why)| Offence::of(LOCK, format!("`{name}` is banned: {why}")))
        .into_iter()
        .collect();
    if let Some(source) = text("source").filter(|source| *source != INDEX) {
        let message = format!("`{name}` comes from `{source}`, expected crates.io");
        offences.push(Offence::of(LOCK, message));
    }
    offences
}
