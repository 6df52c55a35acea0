//! Settings for playing specs: semantics, store and mode.

use crate::spec::{Act, Entry, Spec};
use crate::{GUARD, Profile, Tally};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weftwork_graph::run_loop::{Checkpointer, InMemoryCheckpointer};
use weftwork_graph::{Durability, SystemClock};
use weftwork_runtime::StoreCheckpointer;
use weftwork_store::{CheckpointStore, MemoryStore, Store};
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
    /// Straight on, with each run executed apart from the reader of its events, who reads them as
    /// they come.
    Streamed,
    /// Straight on, with hosted runs that are followed: by one who reads their frames as they come,
    /// by one who reconnects after each frame, and by another runtime after the end of each run.
    Followed,
    /// Straight on; and again for each write to the store, once cut off before it took effect and
    /// once after, and taken up by another process.
    CrashEachWrite,
}

/// Opens one store, as often as a process begins that uses it.
pub type Opener = Arc<dyn Fn() -> Arc<dyn Checkpointer> + Send + Sync>;

/// Makes a store without checkpoints, each time a spec is played.
pub type Stores = Arc<dyn Fn() -> Opener + Send + Sync>;

/// A store for the hosted runs of one play of a spec, and the principal of these runs.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) who: Principal,
}

/// Makes a store without threads, each time a spec is played.
type Homes = Arc<dyn Fn() -> Home + Send + Sync>;

/// The settings for playing specs.
#[derive(Clone)]
pub struct Setting {
    /// The semantics.
    pub profile: Profile,
    /// The mode.
    pub mode: Mode,
    /// Time at which checkpoints are stored, in runs whose spec does not set it.
    pub durability: Durability,
    stores: Stores,
    /// None for runs of this program.
    homes: Option<Homes>,
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
            let checkpointer = InMemoryCheckpointer::new();
            Arc::new(move || -> Arc<dyn Checkpointer> { checkpointer.clone() })
        });
        Self {
            profile,
            mode: Mode::Straight,
            durability: Durability::Sync,
            stores,
            homes: None,
            tally: Arc::default(),
        }
    }
}

impl Setting {
    /// Stores checkpoints elsewhere.
    #[must_use]
    pub fn with_stores(self, stores: Stores) -> Self {
        Self { stores, ..self }
    }

    /// Stores checkpoints in one store, where each spec is an organisation of its own, each time it
    /// is played. Existing content does no harm.
    #[must_use]
    pub fn over(self, store: Arc<dyn CheckpointStore>) -> Self {
        let organisations = Organisations::new();
        self.with_stores(Arc::new(move || {
            let store = Arc::clone(&store);
            let who = organisations.next();
            Arc::new(move || StoreCheckpointer::new(Arc::clone(&store), who.clone()))
        }))
    }

    /// Plays hosted runs, over a store in memory.
    #[must_use]
    pub fn hosted(self) -> Self {
        let home = || Home { store: Arc::new(MemoryStore::new()), who: Principal::local() };
        Self { homes: Some(Arc::new(home)), ..self }
    }

    /// Plays hosted runs over one store, where each spec is an organisation of its own, each time
    /// it is played.
    #[must_use]
    pub fn hosted_over(self, store: Arc<dyn Store>) -> Self {
        let organisations = Organisations::new();
        let home = move || Home { store: Arc::clone(&store), who: organisations.next() };
        Self { homes: Some(Arc::new(home)), ..self }
    }

    /// Plays in another mode.
    #[must_use]
    pub fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Stores checkpoints at another time.
    #[must_use]
    pub fn with_durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// `true` if runs are hosted by a runtime.
    #[must_use]
    pub fn is_hosted(&self) -> bool {
        self.homes.is_some()
    }

    /// `None` for runs of this program.
    pub(crate) fn home(&self) -> Option<Home> {
        self.homes.as_ref().map(|homes| homes())
    }

    pub(crate) fn store(&self) -> Opener {
        (self.stores)()
    }

    /// Time limit of a spec as a whole. Specs that are played many times are guarded each time.
    pub(crate) fn limit(&self) -> Duration {
        const TIMES: u32 = 100;
        match self.mode {
            Mode::CrashEachWrite => GUARD.saturating_mul(TIMES),
            Mode::Straight | Mode::Streamed | Mode::Followed | Mode::RebuildEachStep => GUARD,
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

    /// Reason why the mode does not apply to a spec; `None` if it applies.
    #[must_use]
    pub fn not_applicable(&self, spec: &Spec) -> Option<&'static str> {
        if let Some(reason) = self.homes.as_ref().and_then(|_| not_hosted(spec)) {
            return Some(reason);
        }
        match self.mode {
            Mode::Streamed if spec.keeps_at_exit() && spec.has_delta() => {
                Some("metadata of a checkpoint that was read before it is kept")
            }
            Mode::Straight | Mode::Streamed | Mode::Followed => None,
            _ if !spec.checkpointer => Some("it keeps no checkpoints"),
            _ if spec.keeps_at_exit() => Some("it keeps checkpoints only at the end of a run"),
            _ if spec.has_untracked() => Some("it has state that is not stored"),
            Mode::RebuildEachStep | Mode::CrashEachWrite => None,
        }
    }
}

/// Reason why hosted runs cannot play a spec.
fn not_hosted(spec: &Spec) -> Option<&'static str> {
    if spec.keeps_at_exit() {
        return Some("hosted runs that store checkpoints at their end store all of them");
    }
    if !spec.checkpointer && spec.script.iter().any(Entry::answers) {
        return Some("answers need checkpoints");
    }
    let several = |entry: &Entry| match &entry.act {
        Act::Bulk(steps) => steps.iter().any(|step| step.len() != 1),
        _ => false,
    };
    if spec.script.iter().any(several) {
        return Some("a hosted run makes one change in a superstep");
    }
    None
}

/// Principals, each of an organisation of its own, also in a store that others have used.
#[derive(Debug)]
struct Organisations {
    first: u128,
    count: AtomicU64,
}

impl Organisations {
    fn new() -> Self {
        Self { first: SystemClock::new().unique(), count: AtomicU64::new(0) }
    }

    fn next(&self) -> Principal {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let mut who = Principal::local();
        if let Ok(org) = OrgId::new(format!("spec-{:x}-{number}", self.first)) {
            who.org = org;
        }
        who
    }
}
