//! The reference's names for what fails.

use serde_json::{Value as Json, json};
use weftwork_types::code::Fault;

/// Exceptions that reducers raise; they come through the channel as the start of a reason.
const RAISED: [&str; 4] = ["TypeError", "ValueError", "NotImplementedError", "ValidationError"];

/// The refusal of a conversation to remove a message that it does not have.
const NO_SUCH_MESSAGE: &str = "there is no message `";

/// The class of a failure.
pub(crate) fn of(fault: &Fault) -> String {
    if let Some(kind) = &fault.kind {
        return match kind.as_ref() {
            "LimitReached" => "GraphRecursionError".to_owned(),
            "Drained" => "GraphDrained".to_owned(),
            kind => kind.to_owned(),
        };
    }
    let raised = RAISED.iter().find(|class| fault.message.contains(&format!("{class}: ")));
    match (fault.code.as_str(), raised) {
        ("W0103", Some(class)) => class,
        ("W0103", None) if fault.message.contains(NO_SUCH_MESSAGE) => "ValueError",
        ("W0102" | "W0103" | "W0104" | "W0105" | "W0115" | "W0116" | "W0122", _) => {
            "InvalidUpdateError"
        }
        ("W0117", _) => "NodeTimeoutError",
        ("W0114" | "W0118", _) => "EmptyInputError",
        ("W0119" | "W0120", _) => "RuntimeError",
        ("W0101" | "W0121", _) => "ValueError",
        ("W0123", _) => "ParentCommand",
        ("W0110", _) => "Panic",
        _ => "Exception",
    }
    .to_owned()
}

/// Returns `true` if a class is the other one or a subclass of it.
pub(crate) fn is_a(class: &str, other: &str) -> bool {
    let above = match class {
        "GraphRecursionError" | "NotImplementedError" => "RuntimeError",
        "InvalidNamespaceError" | "ValidationError" => "ValueError",
        _ => "",
    };
    class == other || above == other
}

/// Returns `true` if the reference retries this class by default.
pub(crate) fn is_retried(class: &str) -> bool {
    const NEVER: [&str; 12] = [
        "ValueError",
        "ValidationError",
        "TypeError",
        "RuntimeError",
        "KeyError",
        "IndexError",
        "GraphRecursionError",
        "NotImplementedError",
        "InvalidNamespaceError",
        "ParentCommand",
        "GraphDrained",
        "CancelledError",
    ];
    !NEVER.contains(&class)
}

/// A class and the first line of a message.
pub(crate) fn shown(class: &str, message: &str) -> Json {
    json!([class, message.lines().next().unwrap_or_default()])
}

/// A failure as a trace shows it.
pub(crate) fn error(fault: &Fault) -> Json {
    shown(&of(fault), &fault.message)
}

/// A stored failure as a trace shows it. The reference stores some exceptions as texts that do not
/// name their class.
pub(crate) fn stored_error(fault: &Fault) -> Json {
    match of(fault).as_str() {
        "ValidationError" => shown("", &fault.message),
        class => shown(class, &fault.message),
    }
}

#[cfg(test)]
mod tests {
    use super::{error, is_a, is_retried, of};
    use serde_json::json;
    use weftwork_types::ErrorCode;
    use weftwork_types::code::Fault;

    #[test]
    fn classes_come_from_the_kind_or_the_code() {
        let own = Fault::new(ErrorCode("W0109"), "boom 1\nmore").of_kind("KeyError");
        assert_eq!(error(&own), json!(["KeyError", "boom 1"]));
        let conflict = Fault::new(ErrorCode("W0102"), "two writes");
        assert_eq!(of(&conflict), "InvalidUpdateError");
        let reducer = Fault::new(ErrorCode("W0103"), "channel `n`: TypeError: no sum");
        assert_eq!(of(&reducer), "TypeError");
    }

    #[test]
    fn what_is_tried_again_is_what_the_reference_tries_again() {
        assert!(is_retried("ConnectionError") && is_retried("NodeTimeoutError"));
        assert!(!is_retried("KeyError") && !is_retried("ValueError"));
        assert!(is_a("GraphRecursionError", "RuntimeError") && !is_a("KeyError", "ValueError"));
    }
}
