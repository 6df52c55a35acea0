//! Saves of a session: the events that are sent, and the end of a save that is not known.

use super::{Session, SessionError};
use weftwork_types::ThreadId;
use weftwork_types::session::SessionEvent;

/// A save, until its end is known.
#[derive(Debug, Clone)]
pub(super) struct Saving {
    /// Idempotency key of its run.
    key: String,
    /// Number of the events that the thread has after it, as far as this copy knows.
    sent: usize,
}

/// The request of a save.
#[derive(Debug)]
pub(crate) struct Save {
    pub(crate) key: String,
    pub(crate) events: Vec<SessionEvent>,
    /// `true` if this copy was neither read from its thread nor stored there.
    pub(crate) is_first: bool,
    /// `true` if an earlier save was begun with the key, and its end is not known.
    pub(crate) is_repeated: bool,
    sent: usize,
}

/// Events that an evaluation sent to the thread of a session, until they are known to be stored.
#[derive(Debug, Clone)]
pub(crate) struct UnconfirmedEvents {
    /// Id of the evaluation.
    pub(crate) evaluation: String,
    pub(crate) events: Vec<SessionEvent>,
    /// Number of all events with them.
    pub(crate) sent: usize,
}

/// A session of an evaluation that was begun. Until it is dropped, no save begins.
#[derive(Debug)]
pub(crate) struct InEvaluation<'a> {
    session: &'a Session,
    sends: Option<UnconfirmedEvents>,
}

impl Session {
    /// Begins a save, or repeats the one whose end is not known; `None` if the thread has all events.
    ///
    /// # Errors
    /// [`SessionError::InUse`] during an evaluation.
    pub(crate) fn begin_save(
        &self,
        new_id: impl FnOnce() -> ThreadId,
    ) -> Result<Option<Save>, SessionError> {
        let mut log = self.lock_log();
        if log.evaluating > 0 {
            return Err(self.in_use());
        }
        let stored = log.stored.get(&self.id).copied();
        let all = log.events.len();
        let is_repeated = log.saving.is_some();
        if !is_repeated && stored == Some(all) {
            return Ok(None);
        }
        let new_key = || match (&self.parent, stored) {
            // The state of the parent is sent once, also if two processes make the same child.
            (Some(_), None) => format!("session:{}", self.id),
            _ => format!("session:{}#{}", self.id, new_id()),
        };
        let saving = log.saving.get_or_insert_with(|| Saving { key: new_key(), sent: all });
        let Saving { key, sent } = saving.clone();
        let events = log.events.get(stored.unwrap_or_default()..sent);
        let events = events.unwrap_or_default().to_vec();
        Ok(Some(Save { key, events, is_first: stored.is_none(), is_repeated, sent }))
    }

    /// Takes over the events of the thread after a save. One that was repeated meanwhile changes
    /// nothing more.
    pub(crate) fn end_save(&self, save: &Save, events: Vec<SessionEvent>) {
        let mut log = self.lock_log();
        if log.saving.take_if(|saving| saving.key == save.key).is_some() {
            log.take_over(&self.id, events, save.sent);
        }
    }

    /// Ends a save of which the thread has nothing: the next one has a key of its own.
    pub(crate) fn fail_save(&self, save: &Save) {
        self.lock_log().saving.take_if(|saving| saving.key == save.key);
    }

    /// Returns `true` if this copy was read from the session's thread, or stored there.
    pub(crate) fn is_stored(&self) -> bool {
        self.lock_log().stored.contains_key(&self.id)
    }

    /// Begins an evaluation; `None` while the end of a save is not known.
    pub(crate) fn begin_evaluation(&self) -> Option<InEvaluation<'_>> {
        let mut log = self.lock_log();
        if log.saving.is_some() {
            return None;
        }
        log.evaluating += 1;
        Some(InEvaluation { session: self, sends: None })
    }

    /// The events that an evaluation sent, and that may be stored.
    pub(crate) fn unconfirmed(&self) -> Option<UnconfirmedEvents> {
        self.lock_log().unconfirmed.clone()
    }

    /// Ends the doubt about the events that an evaluation sent.
    pub(crate) fn clear_unconfirmed(&self) {
        self.lock_log().unconfirmed = None;
    }

    pub(crate) fn in_use(&self) -> SessionError {
        SessionError::InUse { session: self.id.clone() }
    }
}

impl InEvaluation<'_> {
    /// Records that the events which a thread does not have are about to be sent to it. Threads other
    /// than that of the session are read to their end, or deleted.
    pub(crate) fn sends(&mut self, thread: &ThreadId, evaluation: &str) {
        let (events, sent) = self.session.pending(thread);
        let sends = *thread == self.session.id && !events.is_empty();
        let evaluation = evaluation.to_owned();
        self.sends = sends.then_some(UnconfirmedEvents { evaluation, events, sent });
    }
}

impl Drop for InEvaluation<'_> {
    fn drop(&mut self) {
        let mut log = self.session.lock_log();
        log.evaluating -= 1;
        let stored = log.stored.get(&self.session.id).copied().unwrap_or_default();
        if let Some(unconfirmed) = self.sends.take_if(|sends| stored < sends.sent) {
            log.unconfirmed = Some(unconfirmed);
        }
    }
}
