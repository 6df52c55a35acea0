//! Errors of graphs.

use weftwork_engine::PlanProblem;
use weftwork_types::ErrorCode;

/// Everything that is wrong with a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("graph `{graph}` cannot be built:{}", list_problems(problems))]
pub struct BuildError {
    /// The graph.
    pub graph: String,
    /// The problems.
    pub problems: Vec<PlanProblem>,
}

impl BuildError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode("W0101")
    }
}

fn list_problems(problems: &[PlanProblem]) -> String {
    problems.iter().map(|p| format!("\n  - {p}")).collect()
}
