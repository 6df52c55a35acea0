//! The key under which a call is on record.

use super::TaskPosition;
use serde::Serialize;
use weftwork_types::CheckpointId;
use weftwork_types::canonical::{Hash, hash_bytes};
use weftwork_types::port::{CallKey, CallKind, Intent};

/// Identity of a call among calls of the task with the same input.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Occurrence {
    /// Its own id.
    Id(String),
    /// Number among the calls of the tool that the node makes itself. Their ids are those of one branch.
    Own(u32),
    /// Number of equal calls up to this one, inclusive.
    Nth(u32),
}

/// Input of the hash that forms a key: members in the order of their names, as in canonical JSON.
/// Keys are stored, so this must not change.
#[derive(Serialize)]
struct Hashed<'a> {
    attempt: u32,
    branch: Option<CheckpointId>,
    input: Hash,
    kind: CallKind,
    name: &'a str,
    occurrence: &'a Occurrence,
    path: &'a [(String, String, i64)],
    v: u32,
}

/// Bytes that are enough for most calls.
const ROOM: usize = 512;

/// The key of a call of a task.
pub(super) fn call_key(
    intent: &Intent,
    occurrence: &Occurrence,
    position: &TaskPosition,
    attempt: u32,
) -> CallKey {
    let hashed = Hashed {
        attempt,
        branch: position.branch,
        input: intent.input,
        kind: intent.kind,
        name: &intent.name,
        occurrence,
        path: &position.path,
        v: 1,
    };
    let mut bytes = Vec::with_capacity(ROOM);
    #[expect(clippy::expect_used, reason = "it is made of texts and numbers, and there is room")]
    serde_json::to_writer(&mut bytes, &hashed).expect("it can be written as JSON");
    CallKey(hash_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use weftwork_types::canonical::hash;
    use weftwork_types::port::Attempts;
    use weftwork_types::tool::Effect;

    fn intent() -> Intent {
        Intent {
            kind: CallKind::Tool,
            name: "say \"ü\"\n".to_owned(),
            input: hash(&json!({"a": 1})),
            call_id: None,
            effect: Effect::ReadOnly,
            attempts: Attempts::Each,
        }
    }

    fn position(branch: Option<CheckpointId>) -> TaskPosition {
        let path = vec![
            ("agent".to_owned(), "pull".to_owned(), 3),
            ("tool / \u{1}".to_owned(), "push:12".to_owned(), -1),
        ];
        TaskPosition { branch, path, node: "tool".to_owned(), step: 4, attempt: 1 }
    }

    #[test]
    fn keys_are_the_hash_of_canonical_json() {
        let occurrences = [
            (Occurrence::Id("c 1".to_owned()), json!({"id": "c 1"})),
            (Occurrence::Own(3), json!({"own": 3})),
            (Occurrence::Nth(2), json!({"nth": 2})),
        ];
        for branch in [None, Some(CheckpointId(7 << 80))] {
            for (occurrence, as_json) in &occurrences {
                let intent = intent();
                let position = position(branch);
                let canonical = hash(&json!({
                    "v": 1,
                    "branch": position.branch,
                    "path": position.path,
                    "kind": intent.kind,
                    "name": intent.name,
                    "input": intent.input,
                    "occurrence": as_json,
                    "attempt": 5,
                }));
                assert_eq!(call_key(&intent, occurrence, &position, 5), CallKey(canonical));
            }
        }
    }

    #[test]
    fn a_key_on_record_is_found_by_later_releases() {
        let found = call_key(&intent(), &Occurrence::Nth(1), &position(Some(CheckpointId(1))), 0);
        assert_eq!(
            found.0.to_string(),
            "f1db122c0a825a11fe29b65795d1de3cfabdd21849ae314ada227dd92d742dbf"
        );
    }
}
