//! Settings for playing specs: semantics, store and mode.

use crate::spec::Spec;
use crate::{GUARD, Profile, Tally};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weftwork_graph::run_loop::{Checkpointer, InMemoryCheckpointer};
use weftwork_graph::{Durability, SystemClock};
use weftwork_runtime::StoreCheckpointer;
use weftwork_store::CheckpointStore;
use weftwork_types::port::Clock;
use weftwork_types::{OrgId, Principal};

/// The mode in which a spec is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// From one superstep to the next, as users' runs go.
    #[default]
    Straight,
    /// The in-memory state of a run is dropped after each superstep, and read back from the store.
    RebuildEachStep,
    /// Straight on; and again for each write to the store, once cut off before it took effect and
    /// once after, and taken up by another process.
    CrashEachWrite,
}

/// Opens one store, as often as a process begins that uses it.
pub type Opener = Arc<dyn Fn() -> Arc<dyn Checkpointer> + Send + Sync>;

/// Makes a store without checkpoints, each time a spec is played.
pub type Stores = Arc<dyn Fn() -> Opener + Send + Sync>;

/// The settings for playing specs.
#[derive(Clone)]
pub struct Setting {
    /// The semantics.
    pub profile: Profile,
    /// The mode.
    pub mode: Mode,
    /// When checkpoints are kept, in runs of which the spec does not say so.
    pub durability: Durability,
    stores: Stores,
    tally: Arc<Mutex<Tally>>,
}

impl std::fmt::Debug for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Setting");
        shown.field("profile", &self.profile).field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl From<Profile> for Setting {
    /// Straight on, with checkpoints as values in memory.
    fn from(profile: Profile) -> Self {
        let stores: Stores = Arc::new(|| {
            let saver = InMemoryCheckpointer::new();
            Arc::new(move || -> Arc<dyn Checkpointer> { saver.clone() })
        });
        let (mode, durability) = (Mode::Straight, Durability::Sync);
        Self { profile, mode, durability, stores, tally: Arc::default() }
    }
}

impl Setting {
    /// Keeps checkpoints elsewhere.
    #[must_use]
    pub fn with_stores(self, stores: Stores) -> Self {
        Self { stores, ..self }
    }

    /// Keeps checkpoints in one store, where each spec is an organisation of its own, each time it
    /// is played. What is there from before does no harm.
    #[must_use]
    pub fn over(self, store: Arc<dyn CheckpointStore>) -> Self {
        let (first, count) = (SystemClock::new().unique(), AtomicU64::new(0));
        self.with_stores(Arc::new(move || {
            let number = count.fetch_add(1, Ordering::Relaxed);
            let mut who = Principal::local();
            if let Ok(org) = OrgId::new(format!("spec-{first:x}-{number}")) {
                who.org = org;
            }
            let store = Arc::clone(&store);
            Arc::new(move || StoreCheckpointer::new(Arc::clone(&store), who.clone()))
        }))
    }

    /// Plays in another mode.
    #[must_use]
    pub fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Keeps checkpoints at another time.
    #[must_use]
    pub fn with_durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    pub(crate) fn store(&self) -> Opener {
        (self.stores)()
    }

    /// Time limit of a spec as a whole. Specs that are played many times are guarded each time.
    pub(crate) fn limit(&self) -> Duration {
        const TIMES: u32 = 100;
        match self.mode {
            Mode::CrashEachWrite => GUARD.saturating_mul(TIMES),
            Mode::Straight | Mode::RebuildEachStep => GUARD,
        }
    }

    /// Returns the counts of the specs that were answered with this setting, or with clones of it.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Tally)) {
        change(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Why the mode says nothing about a spec; `None` when it does.
    #[must_use]
    pub fn not_applicable(&self, spec: &Spec) -> Option<&'static str> {
        match self.mode {
            Mode::Straight => None,
            _ if !spec.checkpointer => Some("it keeps no checkpoints"),
            _ if spec.keeps_at_exit() => Some("it keeps checkpoints only at the end of a run"),
            _ if spec.has_untracked() => Some("it has state that is not stored"),
            Mode::RebuildEachStep | Mode::CrashEachWrite => None,
        }
    }
}
