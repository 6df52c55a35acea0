//! The pieces that `#[tool]` expands to.

use crate::{IntoToolError, ToolError};

/// What a `#[tool]` function returns.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned by a tool",
    note = "return a value, or `Result` of a value and an error that can be displayed"
)]
pub trait ToolReturn {
    /// The value.
    type Output;

    /// The value, or the tool's failure.
    ///
    /// # Errors
    /// The failure.
    fn into_result(self) -> Result<Self::Output, ToolError>;
}

impl<T, E: IntoToolError> ToolReturn for Result<T, E> {
    type Output = T;

    fn into_result(self) -> Result<T, ToolError> {
        self.map_err(IntoToolError::into_tool_error)
    }
}

/// A value that is returned without `Result`.
#[derive(Debug)]
pub struct Plain<T>(pub T);

impl<T> ToolReturn for Plain<T> {
    type Output = T;

    fn into_result(self) -> Result<T, ToolError> {
        Ok(self.0)
    }
}
