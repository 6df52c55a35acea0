//! Bounds of a process, which the system enforces.

use crate::message::{CodeKind, Script};
use std::ffi::OsString;

/// Bounds of a process. It gets them as an argument, before it reads anything of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Address space in bytes.
    pub(crate) space: Space,
    /// Processor time in seconds.
    pub(crate) cpu_seconds: u64,
}

/// Bounds of address space in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    /// The whole space.
    Whole(u64),
    /// Space that is added to that of the process at its start.
    Added(u64),
}

/// Name of the argument.
const ARGUMENT: &str = "bounds=";

impl Default for Bounds {
    /// Bounds of an engine that has limits of its own.
    fn default() -> Self {
        Self { space: Space::Whole(2 << 30), cpu_seconds: 600 }
    }
}

impl Bounds {
    /// Returns the bounds of a call. Of jq they are its only limits of memory.
    pub(crate) fn of(script: &Script) -> Self {
        match script.code_kind {
            CodeKind::Function => Self::default(),
            CodeKind::Jq | CodeKind::JqCheck => Self {
                space: Space::Added(script.limits.memory_bytes as u64),
                // Processor time is no more than wall time, at which the program ends the process.
                cpu_seconds: script.limits.timeout_ms.div_ceil(1_000).saturating_add(1),
            },
        }
    }

    /// Returns the argument for a process.
    pub(crate) fn argument(self) -> OsString {
        let space = match self.space {
            Space::Whole(bytes) => format!("{bytes}"),
            Space::Added(bytes) => format!("+{bytes}"),
        };
        format!("{ARGUMENT}{space},{}", self.cpu_seconds).into()
    }

    /// Reads the argument of a process.
    #[cfg(any(feature = "process", test))]
    pub(crate) fn read(argument: &str) -> Option<Self> {
        let (space, cpu_seconds) = argument.strip_prefix(ARGUMENT)?.split_once(',')?;
        let space = match space.strip_prefix('+') {
            Some(added) => Space::Added(added.parse().ok()?),
            None => Space::Whole(space.parse().ok()?),
        };
        Some(Self { space, cpu_seconds: cpu_seconds.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_reads_the_bounds_of_its_call() {
        for kind in [CodeKind::Function, CodeKind::Jq, CodeKind::JqCheck] {
            let bounds = Bounds::of(&Script { code_kind: kind, ..Script::default() });
            let argument = bounds.argument();
            assert_eq!(argument.to_str().and_then(Bounds::read), Some(bounds), "{kind:?}");
        }
        for other in ["", "bounds=", "bounds=1", "bounds=x,1", "bounds=+1,", "1,1"] {
            assert_eq!(Bounds::read(other), None, "{other}");
        }
    }
}
