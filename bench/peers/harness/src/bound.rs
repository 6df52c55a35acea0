//! The lower bound in the form of an engine: the handwritten loop.

use crate::inline::{Inline, State, Work};
use crate::{Case, Cell, Engine, Failure, Found, Saver};
use std::fmt;

/// The work written by hand, without an engine and without a checkpointer.
pub struct Bound(Inline);

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound").finish_non_exhaustive()
    }
}

impl Engine for Bound {
    type Input = State;
    type Output = State;

    async fn open(cell: &Cell) -> Result<Self, Failure> {
        if cell.checkpointer != Saver::None {
            return Err(cell.no_such_saver());
        }
        Ok(Self(Inline::new(cell.case.into())))
    }

    fn input(&self, _run: u64) -> Result<State, Failure> {
        Ok(self.0.input())
    }

    async fn run(&self, input: State) -> Result<State, Failure> {
        Ok(self.0.run(input).await)
    }

    fn found(output: &State) -> Found {
        Found::in_json(output.iter().map(|(key, value)| (key.as_str(), value)))
    }

    async fn stored(&self, _run: u64) -> Result<Option<u64>, Failure> {
        Ok(None)
    }
}

impl From<Case> for Work {
    fn from(case: Case) -> Self {
        match case {
            Case::Seq10 => Self::Seq10,
            Case::Fan100 => Self::Fan100,
            Case::React50 => Self::React50,
            Case::Wide100 => Self::Wide100,
        }
    }
}
