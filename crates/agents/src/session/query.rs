//! Queries of slices.

use super::{RESTORED, SessionError, Slice};
use serde::Deserialize;
use weftwork_types::session::SessionEvent;

/// The items of a slice at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Query<S> {
    items: Vec<S>,
}

impl<S> Query<S> {
    /// The newest item.
    #[must_use]
    pub fn latest(&self) -> Option<&S> {
        self.items.last()
    }

    /// All items, oldest first.
    #[must_use]
    pub fn all(&self) -> &[S] {
        &self.items
    }

    /// The items for which the predicate holds, oldest first.
    pub fn filter<'a>(
        &'a self,
        predicate: impl Fn(&S) -> bool + 'a,
    ) -> impl Iterator<Item = &'a S> {
        self.items.iter().filter(move |item| predicate(item))
    }
}

/// Computes the items of a slice from the events of a session.
pub(crate) fn fold_slices<'a, S: Slice>(
    events: impl IntoIterator<Item = &'a SessionEvent>,
) -> Result<Query<S>, SessionError> {
    let mut items = Vec::new();
    apply_events::<S>(&mut items, events)?;
    Ok(Query { items })
}

fn apply_events<'a, S: Slice>(
    items: &mut Vec<S>,
    events: impl IntoIterator<Item = &'a SessionEvent>,
) -> Result<(), SessionError> {
    let unreadable = |error: serde_json::Error| SessionError::Unreadable {
        slice: S::NAME.to_owned(),
        problem: error.to_string(),
    };
    for SessionEvent { slice, event } in events {
        if slice == RESTORED {
            items.clear();
            let restored = Vec::<SessionEvent>::deserialize(event).map_err(unreadable)?;
            apply_events::<S>(items, &restored)?;
        } else if slice == S::NAME {
            let event = S::Event::deserialize(event).map_err(unreadable)?;
            *items = S::reduce(std::mem::take(items), event);
        }
    }
    Ok(())
}
