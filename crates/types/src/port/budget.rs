use crate::ErrorCode;
use crate::usage::UsageFact;

/// Remaining budget of a run, shared by everything the run starts. It is checked before each call
/// and charged after it.
pub trait Budget: Send + Sync + std::fmt::Debug {
    /// Checks that one more model call may start.
    ///
    /// # Errors
    /// Returns [`BudgetExceeded`] with the limit that was reached.
    fn admit_model_call(&self) -> Result<(), BudgetExceeded>;

    /// Checks that one more tool call may start.
    ///
    /// # Errors
    /// Returns [`BudgetExceeded`] with the limit that was reached.
    fn admit_tool_call(&self) -> Result<(), BudgetExceeded>;

    /// Charges the usage of an attempt. Usage beyond the limit is charged too.
    fn record(&self, fact: &UsageFact);
}

/// An error for a limit that was reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("budget is used up: {used} of {limit} {unit}; raise the limit to go on")]
pub struct BudgetExceeded {
    /// Counted unit, such as `model calls`.
    pub unit: &'static str,
    /// Amount used.
    pub used: u64,
    /// Amount allowed.
    pub limit: u64,
}

impl BudgetExceeded {
    /// Returns the stable error code.
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
