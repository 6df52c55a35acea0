use serde::{Deserialize, Serialize};
use serde_json::Value;
use weftwork_types::BoxFuture;

/// A party that answers what code asks for.
pub trait Host: Send + Sync {
    /// Answers a call of a member of `ctx`. Calls are made in the order in which the code makes them,
    /// may overlap, and are answered in that order too: code that is executed again makes the same
    /// calls.
    fn call(&self, member: String, args: Value) -> BoxFuture<'_, Result<Value, HostError>>;
}

/// An error of a host, which the code can catch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostError {
    /// Stable code.
    pub code: String,
    /// Message.
    pub message: String,
}

/// A host that grants nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHost;

impl Host for NoHost {
    fn call(&self, member: String, _: Value) -> BoxFuture<'_, Result<Value, HostError>> {
        let message = format!("`ctx.{member}` is not granted");
        let error = HostError { code: "W1055".to_owned(), message };
        Box::pin(std::future::ready(Err(error)))
    }
}
