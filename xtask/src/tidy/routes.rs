//! Restricts the files that translate a protocol: routes reach the system through `service` only.

use super::{House, Offence};

/// Folders of routes.
const ROUTES: [&str; 1] = ["crates/server/src/routes/"];
/// Names of graphs, runtimes, stores and drivers, which routes do not use. Parameters of requests
/// are plain records and are allowed.
const INNER: [&str; 8] = [
    "CompiledGraph",
    "Runtime",
    "dyn Store",
    "ItemStore",
    "MemoryStore",
    "weftwork_engine",
    "weftwork_sqlite",
    "weftwork_postgres",
];

pub(super) fn check(house: &House<'_>) -> Vec<Offence> {
    let mut offences = Vec::new();
    let files = house.tree.rust_files();
    for (path, text) in files.filter(|(path, _)| ROUTES.iter().any(|at| path.starts_with(at))) {
        for (index, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let words: Vec<_> = code.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            let named = INNER.iter().filter(|name| match name.split_once(' ') {
                Some(_) => code.contains(**name),
                None => words.contains(name),
            });
            offences.extend(named.map(|name| {
                let message = format!("a route names `{name}`; move this to `service`");
                Offence::at(path, index + 1, message)
            }));
        }
    }
    offences
}
