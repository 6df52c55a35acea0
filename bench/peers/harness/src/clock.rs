//! Elapsed time: CPU time of all threads of this process, and wall time.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Both clocks at one point in time.
#[derive(Debug)]
pub(crate) struct Watch {
    cpu: Timespec,
    wall: Timespec,
}

impl Watch {
    pub(crate) fn start() -> Self {
        let wall = clock_gettime(ClockId::Monotonic);
        Self { cpu: clock_gettime(ClockId::ProcessCPUTime), wall }
    }

    /// CPU and wall time in seconds since the start.
    pub(crate) fn stop(&self) -> (f64, f64) {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let wall = clock_gettime(ClockId::Monotonic);
        (seconds(cpu) - seconds(self.cpu), seconds(wall) - seconds(self.wall))
    }
}

fn seconds(at: Timespec) -> f64 {
    at.tv_sec as f64 + at.tv_nsec as f64 / 1e9
}

/// Time used by a number of runs.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Spent {
    pub(crate) runs: u64,
    pub(crate) cpu_s: f64,
    pub(crate) wall_s: f64,
}

impl Spent {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            runs: self.runs + other.runs,
            cpu_s: self.cpu_s + other.cpu_s,
            wall_s: self.wall_s + other.wall_s,
        }
    }
}
