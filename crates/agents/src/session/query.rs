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

#[cfg(test)]
mod tests {
    use super::super::{Session, Slice};
    use serde::{Deserialize, Serialize};

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Lamp {
        room: String,
        on: bool,
    }

    #[derive(Serialize, Deserialize)]
    enum Change {
        Put(String),
        Switch(String),
    }

    impl Slice for Lamp {
        const NAME: &'static str = "lamps";
        type Event = Change;

        fn reduce(mut lamps: Vec<Self>, change: Change) -> Vec<Self> {
            match change {
                Change::Put(room) => lamps.push(Self { room, on: false }),
                Change::Switch(room) => {
                    lamps
                        .iter_mut()
                        .filter(|lamp| lamp.room == room)
                        .for_each(|lamp| lamp.on = true);
                }
            }
            lamps
        }
    }

    #[test]
    fn items_are_the_latest_all_or_those_of_a_predicate() {
        let session = Session::new("s").expect("an id");
        let lamps = || session.query::<Lamp>().expect("lamps");
        assert_eq!((lamps().latest(), lamps().all()), (None, &[][..]));
        for room in ["hall", "kitchen", "attic"] {
            session.dispatch::<Lamp>(&Change::Put(room.to_owned())).expect("dispatches");
        }
        session.dispatch::<Lamp>(&Change::Switch("hall".to_owned())).expect("dispatches");
        let now = lamps();
        let rooms: Vec<_> = now.all().iter().map(|lamp| lamp.room.as_str()).collect();
        assert_eq!(rooms, ["hall", "kitchen", "attic"]);
        assert_eq!(now.latest().map(|lamp| lamp.room.as_str()), Some("attic"));
        let on: Vec<_> = now.filter(|lamp| lamp.on).map(|lamp| lamp.room.as_str()).collect();
        assert_eq!(on, ["hall"]);
    }
}
