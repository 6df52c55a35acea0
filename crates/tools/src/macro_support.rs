//! Support code for the expansion of `#[tool]`.

use crate::{IntoToolError, ToolError};

/// The return type of a `#[tool]` function.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned by a tool",
    note = "return a value, or `Result` of a value and an error that can be displayed"
)]
pub trait ToolReturn {
    /// The type of the value.
    type Output;

    /// Returns the value or the tool's failure.
    ///
    /// # Errors
    /// The tool's failure.
    fn into_result(self) -> Result<Self::Output, ToolError>;
}

impl<T, E: IntoToolError> ToolReturn for Result<T, E> {
    type Output = T;

    fn into_result(self) -> Result<T, ToolError> {
        self.map_err(IntoToolError::into_tool_error)
    }
}

/// Wrapper for a value that is returned without `Result`.
#[derive(Debug)]
pub struct Plain<T>(pub T);

impl<T> ToolReturn for Plain<T> {
    type Output = T;

    fn into_result(self) -> Result<T, ToolError> {
        Ok(self.0)
    }
}
