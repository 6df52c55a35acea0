//! Runs that clients of a server deleted. Their rows stay with their thread, because their usage was
//! paid for and later runs continue from them; a mark among the items of the server hides them.

use std::collections::BTreeSet;
use weftwork_store::{ItemQuery, ItemRef, ItemStore, Namespace, Prefix, StoreError};
use weftwork_types::id::InvalidId;
use weftwork_types::run::RunRef;
use weftwork_types::{OrgId, Principal, ThreadId};

/// Begin of the names of the organisations under which a server stores items of its own.
pub const SERVER_ORG: &str = "server:";
/// Longest label of a thread, in bytes; that of a longer key is a hash of it.
const LABEL_BYTES_MAX: usize = 512;

/// Returns the principal under which a server stores items of its own about the data of another one.
///
/// # Errors
/// Returns [`InvalidId`] if the name of the organisation is too long.
pub fn of_server(who: &Principal) -> Result<Principal, InvalidId> {
    let org = OrgId::new(format!("{SERVER_ORG}{}", who.org))?;
    Ok(Principal::new(org, who.subject.clone()))
}

/// Returns the ids of the deleted runs of a thread. `server` is the principal
/// [of the server](of_server).
///
/// # Errors
/// Errors of the store.
pub async fn deleted_runs(
    items: &dyn ItemStore,
    server: &Principal,
    thread: &ThreadId,
) -> Result<BTreeSet<String>, StoreError> {
    let query = ItemQuery { limit: usize::MAX, ..ItemQuery::default() };
    let within = Prefix::from(&marks_namespace(thread)?);
    let found = items.search(server, &within, &query).await?;
    Ok(found.into_iter().map(|item| item.key).collect())
}

/// Returns the place of the mark of a deleted run.
///
/// # Errors
/// [`StoreError::BadNamespace`] and [`StoreError::BadKey`] for ids that no item can have.
pub fn mark_of_run(run: &RunRef) -> Result<ItemRef, StoreError> {
    ItemRef::new(marks_namespace(&run.thread)?, run.run.as_str())
}

/// Returns the namespace of the marks of a thread.
///
/// # Errors
/// [`StoreError::BadNamespace`] for an id that no namespace can have.
pub fn marks_namespace(thread: &ThreadId) -> Result<Namespace, StoreError> {
    // A label has no dot.
    let mut label = thread.to_key().replace('.', "=2E");
    if label.len() > LABEL_BYTES_MAX {
        // No key has this beginning.
        label = format!("=h{}", uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, label.as_bytes()));
    }
    Namespace::new(["deleted_runs".to_owned(), label])
}

#[cfg(test)]
mod tests {
    use super::marks_namespace;
    use weftwork_types::ThreadId;

    #[test]
    fn every_thread_has_a_namespace_of_its_own() {
        let ids = ["t", "a.b", "a=2Eb"].map(str::to_owned);
        let long = ["月", "日", "\u{1f9f5}", "x", "."].map(|one| one.repeat(256));
        let all: Vec<_> = ids
            .iter()
            .chain(&long)
            .map(|id| marks_namespace(&ThreadId::new(id.clone()).expect("an id")).expect("fits"))
            .collect();
        for (index, one) in all.iter().enumerate() {
            assert!(!all[..index].contains(one), "{one:?}");
        }
    }
}
