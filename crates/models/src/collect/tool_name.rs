//! Names of tools as models write them.

use crate::chat::ChatRequest;
use weftwork_types::tool::ToolSpec;

/// Returns the name of the tool that a call means. Some models write the name with the namespace or the
/// number of the call, or with a token of their template, as in `functions.find:0` or
/// `find<|channel|>commentary`. A name that fits no tool, or several ones, stays as it is.
pub(super) fn resolve_name(name: &str, request: &ChatRequest) -> String {
    let tools = || request.tools.iter().map(ToolSpec::wire_name);
    if tools().any(|tool| tool == name) {
        return name.to_owned();
    }
    let plain = name.split("<|").find(|piece| !piece.trim().is_empty()).unwrap_or(name).trim();
    let unnumbered = match plain.rsplit_once(':') {
        Some((rest, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => plain,
    };
    let last = |name: &str| name.rsplit_once(['.', ':']).map(|(_, last)| last.to_owned());
    let forms = [Some(plain.to_owned()), Some(unnumbered.to_owned()), last(unnumbered)];
    let mut found: Vec<String> =
        tools().filter(|tool| forms.contains(&Some(tool.clone()))).collect();
    found.dedup();
    match (found.pop(), found.is_empty()) {
        (Some(tool), true) => tool,
        _ => name.to_owned(),
    }
}
