use crate::ErrorCode;
use crate::usage::UsageFact;

/// What may still be spent. Shared by everything a run starts; asked before each call and told
/// after it.
pub trait Budget: Send + Sync + std::fmt::Debug {
    /// Asks whether one more model call may begin.
    ///
    /// # Errors
    /// [`BudgetExceeded`] with the limit that was reached.
    fn admit_model_call(&self) -> Result<(), BudgetExceeded>;

    /// Asks whether one more tool call may begin.
    ///
    /// # Errors
    /// [`BudgetExceeded`] with the limit that was reached.
    fn admit_tool_call(&self) -> Result<(), BudgetExceeded>;

    /// Counts what an attempt used. It is counted even when it passes the limit.
    fn record(&self, fact: &UsageFact);
}

/// A limit was reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("budget is used up: {used} of {limit} {unit}; raise the limit to go on")]
pub struct BudgetExceeded {
    /// What is counted, such as `model calls`.
    pub unit: &'static str,
    /// How much was used.
    pub used: u64,
    /// How much was allowed.
    pub limit: u64,
}

impl BudgetExceeded {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode("W0601")
    }
}

/// A budget without limits.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unlimited;

impl Budget for Unlimited {
    fn admit_model_call(&self) -> Result<(), BudgetExceeded> {
        Ok(())
    }

    fn admit_tool_call(&self) -> Result<(), BudgetExceeded> {
        Ok(())
    }

    fn record(&self, _fact: &UsageFact) {}
}
