//! Arguments that select frames of stream modes.

use super::parse;
use clap::Args;
use weftwork::graph::{Modes, StateForm};
use weftwork::runtime::{Selection, Subgraphs};

/// Selection of the frames of a run.
#[derive(Debug, Args)]
pub struct FrameFlags {
    /// Print the frames of these stream modes as lines of JSON, such as `values,updates`
    #[arg(long, value_name = "MODES", value_parser = parse::modes)]
    mode: Option<Modes>,
    /// Include the frames of subgraphs
    #[arg(long, requires = "mode")]
    subgraphs: bool,
    /// Print in mode `values` the parts of tool results that only the model reads as well
    #[arg(long, requires = "mode")]
    whole: bool,
}

impl FrameFlags {
    /// Returns the selected frames; `None` if no mode is named.
    pub fn options(&self) -> Option<Selection> {
        let subgraphs = if self.subgraphs { Subgraphs::Include } else { Subgraphs::Omit };
        let form = if self.whole { StateForm::Whole } else { StateForm::Shown };
        self.mode.map(|modes| Selection { subgraphs, form, ..Selection::frames(modes) })
    }
}
