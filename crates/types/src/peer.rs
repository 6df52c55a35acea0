//! Servers of other programs that agents ask, as this process sees them.

use serde::Serialize;

/// The state of the circuit to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerState {
    /// Requests are sent.
    Closed,
    /// The server failed, and gets no request for a time.
    Open,
    /// The next request is a trial.
    HalfOpen,
}

impl PeerState {
    /// Returns the word for the state.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// Numbers of servers by the states of their circuits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerCounts {
    /// Servers that get requests.
    pub closed: usize,
    /// Servers that get none for a time.
    pub open: usize,
    /// Servers that get trials.
    pub half_open: usize,
}

impl PeerCounts {
    /// Counts a server.
    pub fn add(&mut self, state: PeerState) {
        let count = match state {
            PeerState::Closed => &mut self.closed,
            PeerState::Open => &mut self.open,
            PeerState::HalfOpen => &mut self.half_open,
        };
        *count += 1;
    }
}
