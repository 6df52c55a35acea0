//! Code in the process of a sandbox.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod calls;
mod contained;
mod corpus;
mod jq;
#[cfg(target_os = "linux")]
mod layers;
mod values;

use serde_json::Value;
use std::sync::Mutex;
use weftwork_sandbox::{Host, HostError, NoHost, Sandbox, SandboxError, SandboxLimits, Script};
use weftwork_types::BoxFuture;

pub(crate) fn sandbox() -> Sandbox {
    Sandbox::new(env!("CARGO_BIN_EXE_weft-sandbox"), [""; 0])
}

pub(crate) fn script(code: impl Into<String>) -> Script {
    // Far beyond what they need on a busy machine.
    let limits = SandboxLimits { timeout_ms: 20_000, ..SandboxLimits::default() };
    Script { code: code.into(), limits, ..Script::default() }
}

/// Runs the body of a handler, without a host.
pub(crate) async fn body(body: &str) -> Result<Value, SandboxError> {
    run(&script(format!("async function handler(input, ctx) {{ {body} }}")), &NoHost).await
}

pub(crate) async fn run(script: &Script, host: &dyn Host) -> Result<Value, SandboxError> {
    let clock = weftwork_graph::SystemClock::new();
    sandbox().run(script, host, &clock).await
}

/// A host that records what it is asked for, and answers with it.
#[derive(Debug, Default)]
pub(crate) struct Echo(pub(crate) Mutex<Vec<(String, Value)>>);

impl Host for Echo {
    fn call(&self, member: String, args: Value) -> BoxFuture<'_, Result<Value, HostError>> {
        let mut asked = self.0.lock().expect("not poisoned");
        asked.push((member, args.clone()));
        Box::pin(async move { Ok(args) })
    }
}
