//! Ids as the protocol has them: UUIDs with hyphens, and 32 hexadecimal digits for questions. Ids of
//! threads are texts.

use crate::error::{ApiError, Result};
use uuid::Uuid;
use weftwork_types::{CheckpointId, RunId};

/// Namespace of the ids of assistants that stand for hosted graphs.
const GRAPHS: Uuid = Uuid::from_u128(0x6ba7_b821_9dad_11d1_80b4_00c0_4fd4_30c8);

/// Returns the id of the assistant that stands for a hosted graph.
pub(crate) fn assistant_of(graph: &str) -> Uuid {
    Uuid::new_v5(&GRAPHS, graph.as_bytes())
}

/// Returns a UUID that is derived from a text.
pub(crate) fn derive_uuid(text: &str) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes()).to_string()
}

/// Returns 128 bits as a UUID with hyphens.
pub(crate) fn to_hyphenated(bits: u128) -> String {
    Uuid::from_u128(bits).hyphenated().to_string()
}

/// Reads the id of a run.
pub(crate) fn parse_run(text: &str) -> Result<RunId> {
    parse_uuid("run", text).map(RunId::from_uuid)
}

/// Reads the id of a checkpoint.
pub(crate) fn parse_checkpoint(text: &str) -> Result<CheckpointId> {
    parse_uuid("checkpoint", text).map(|uuid| CheckpointId(uuid.as_u128()))
}

/// Reads a UUID.
pub(crate) fn parse_uuid(kind: &str, text: &str) -> Result<Uuid> {
    let refuse = |_| ApiError::invalid(format!("Invalid {kind} ID: must be a UUID"));
    Uuid::try_parse(text).map_err(refuse)
}

/// Returns a namespace with the ids of its tasks as UUIDs: `sub:3df8e188-67ce-…|…`.
pub(crate) fn join_namespace<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    let part = |part: &str| match part.rsplit_once(':') {
        Some((node, task)) => match u128::from_str_radix(task, 16) {
            Ok(bits) if task.len() == 32 => format!("{node}:{}", to_hyphenated(bits)),
            _ => part.to_owned(),
        },
        None => part.to_owned(),
    };
    parts.map(part).collect::<Vec<_>>().join("|")
}

/// Returns the parts of a namespace of the log, with the ids of its tasks as UUIDs.
pub(crate) fn split_namespace(ns: &str) -> Vec<String> {
    if ns.is_empty() {
        return Vec::new();
    }
    ns.split('|').map(|part| join_namespace(std::iter::once(part))).collect()
}

/// Reads a namespace that [`join_namespace`] wrote.
pub(crate) fn read_namespace(text: &str) -> String {
    let part = |part: &str| match part.rsplit_once(':') {
        Some((node, task)) => match Uuid::try_parse(task) {
            Ok(uuid) => format!("{node}:{}", uuid.simple()),
            Err(_) => part.to_owned(),
        },
        None => part.to_owned(),
    };
    text.split('|').map(part).collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_have_the_ids_that_clients_know() {
        for (graph, id) in [
            ("agent", "fe096781-5601-53d2-b2f6-0d3403f7e9ca"),
            ("parent", "0b226d00-e4ec-5b58-8e33-88f4bd4debe7"),
            ("failing", "7dfb5300-69cc-586d-be0d-9adc6b95ff79"),
            ("echo", "046b5dc7-2108-582c-9c6c-31d556d138f0"),
            ("inter", "94616a42-9c87-50aa-a571-de46c808f026"),
        ] {
            assert_eq!(assistant_of(graph).to_string(), id, "{graph}");
        }
    }

    #[test]
    fn namespaces_read_back() {
        let ours = ["sub:3df8e18867ceafa4acbb25e02046c416", "in:0000000000000000000000000000000a"];
        let text = join_namespace(ours.into_iter());
        assert_eq!(
            text,
            "sub:3df8e188-67ce-afa4-acbb-25e02046c416|in:00000000-0000-0000-0000-00000000000a"
        );
        assert_eq!(read_namespace(&text), ours.join("|"));
        assert_eq!(read_namespace(""), "");
    }
}
