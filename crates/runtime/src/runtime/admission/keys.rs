//! Checks of requests that need nothing of their thread.

use serde_json::json;
use weftwork_graph::RuntimeError;
use weftwork_store::mailbox::RESERVED;
use weftwork_types::canonical::can_be_read_back;
use weftwork_types::run::RunInput;

/// Checks an idempotency key of a client. Keys that begin with
/// [`RESERVED`](weftwork_store::mailbox::RESERVED) are those of the runtime.
///
/// # Errors
/// [`RuntimeError::InvalidKey`] if the key is empty or reserved.
pub fn check_key(key: &str) -> Result<(), RuntimeError> {
    let problem = if key.is_empty() {
        "it is empty; give it at least one character, or leave it out"
    } else if key.starts_with(RESERVED) {
        "keys that begin with `weft:` are those of the runtime; choose another one"
    } else {
        return Ok(());
    };
    Err(RuntimeError::InvalidKey { found: key.to_owned(), problem })
}

/// Refuses values that would make the thread unreadable.
pub(in crate::runtime) fn check_depth(input: &RunInput) -> Result<(), RuntimeError> {
    let (what, sound) = match input {
        RunInput::Start { input } => ("the input", can_be_read_back(input)),
        RunInput::Update { writes, .. } => ("the update", can_be_read_back(writes)),
        RunInput::Command(command) => ("the command", can_be_read_back(&json!(command))),
        RunInput::Continue => return Ok(()),
    };
    if sound { Ok(()) } else { Err(RuntimeError::TooDeep { what }) }
}
