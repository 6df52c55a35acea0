//! Restricts the crate that uses the engine only as a user does.

use super::{House, Offence};
use crate::workspace::Kind;

/// The crate that runs graphs through the public builder, and the crates that it may use: the
/// builder, the runtime, the store ports, and the records. The table of dependencies cannot extend this.
const PLAYER: (&str, [&str; 4]) = ("conformance", ["graph", "runtime", "store", "types"]);
/// Names that are public only for technical reasons.
const HIDDEN: [&str; 2] = ["__private", "weftwork_engine"];

pub(super) fn check(house: &House<'_>) -> Vec<Offence> {
    let (name, doors) = PLAYER;
    let mut offences = Vec::new();
    for one in house.crates.all.iter().filter(|one| one.name == name) {
        let used = one.ours(Kind::Normal);
        let used = used.iter().filter(|used| !doors.contains(&used.as_str()));
        offences.extend(used.map(|used| {
            let message = format!("`{name}` plays graphs as a user does; it may not use `{used}`");
            Offence::of(&one.manifest_path, message)
        }));
    }
    let folder = format!("crates/{name}/");
    for (path, text) in house.tree.rust_files().filter(|(path, _)| path.starts_with(&folder)) {
        for (index, line) in text.lines().enumerate() {
            let hidden = HIDDEN.iter().filter(|hidden| line.contains(**hidden));
            offences.extend(hidden.map(|hidden| {
                let message = format!("`{hidden}` is not public API; use `weftwork_graph`");
                Offence::at(path, index + 1, message)
            }));
        }
    }
    offences
}
