//! How specs are played: with which semantics, over which store, and how hard it is made.

use crate::Profile;
use crate::spec::Spec;
use std::sync::Arc;
use weftwork_graph::{MemorySaver, Saver};

/// How a spec is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// From one superstep to the next, as users' runs go.
    #[default]
    Straight,
    /// What a run knows is dropped after each superstep, and read back from the store.
    RebuildEachStep,
}

/// Makes a saver without checkpoints, one for each spec.
pub type Savers = Arc<dyn Fn() -> Arc<dyn Saver> + Send + Sync>;

/// How specs are played.
#[derive(Clone)]
pub struct Setting {
    /// The semantics.
    pub profile: Profile,
    /// How hard it is made.
    pub mode: Mode,
    savers: Savers,
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
        let savers: Savers = Arc::new(|| MemorySaver::new());
        Self { profile, mode: Mode::Straight, savers }
    }
}

impl Setting {
    /// Keeps checkpoints elsewhere.
    #[must_use]
    pub fn with_savers(self, savers: Savers) -> Self {
        Self { savers, ..self }
    }

    /// Plays in another mode.
    #[must_use]
    pub fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    pub(crate) fn saver(&self) -> Arc<dyn Saver> {
        (self.savers)()
    }

    /// Why the mode says nothing about a spec; `None` when it does.
    #[must_use]
    pub fn not_applicable(&self, spec: &Spec) -> Option<&'static str> {
        match self.mode {
            Mode::Straight => None,
            _ if !spec.checkpointer => Some("it keeps no checkpoints"),
            _ if spec.keeps_at_exit() => Some("it keeps checkpoints only at the end of a run"),
            _ if spec.has_untracked() => Some("it has state that is not stored"),
            Mode::RebuildEachStep => None,
        }
    }
}
