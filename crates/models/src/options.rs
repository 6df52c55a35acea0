//! Values of the options of a request that no model could follow.

use crate::chat::{ChatRequest, ToolChoice};

/// Checks the values of options that hold for all models.
///
/// # Errors
/// The option, what was found and expected, and the fix.
pub(crate) fn check_values(request: &ChatRequest) -> Result<(), String> {
    // Written so that a value that is no number is refused, too.
    if let Some(found) = request.temperature
        && !(found >= 0.0 && found.is_finite())
    {
        return Err(format!(
            "`temperature` is {found}, expected a number of at least 0; correct it or leave it out"
        ));
    }
    if let Some(found) = request.top_p
        && !(found > 0.0 && found <= 1.0)
    {
        return Err(format!(
            "`top_p` is {found}, expected a number above 0 and at most 1; correct it or leave it \
             out"
        ));
    }
    if let Some(at) = request.stop.iter().position(String::is_empty) {
        return Err(format!(
            "text {} of `stop` is empty, expected one character or more; leave the text out",
            at + 1
        ));
    }
    check_choice(request)
}

/// Checks that a choice of tools can be followed.
fn check_choice(request: &ChatRequest) -> Result<(), String> {
    let offered = |name: &String| request.tools.iter().any(|tool| tool.wire_name() == *name);
    match &request.tool_choice {
        ToolChoice::Named(name) if !offered(name) => {
            Err(format!("tool choice names `{name}`, which is not among the tools"))
        }
        ToolChoice::Required if request.tools.is_empty() => {
            Err("tool choice is `required`, but there are no tools".to_owned())
        }
        _ => Ok(()),
    }
}
