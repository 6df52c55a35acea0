use serde::{Deserialize, Serialize};

/// Limits of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxLimits {
    /// Maximum wall time in milliseconds, what the call waits for its host included.
    pub timeout_ms: u64,
    /// Maximum memory of the values of the code in bytes; of jq, all that its process adds.
    pub memory_bytes: usize,
    /// Maximum stack of a function in bytes. jq has that of its process, 8 MiB.
    pub stack_bytes: usize,
    /// Maximum size of a result, or of the arguments of a call to the host, as JSON in bytes.
    pub output_bytes: usize,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        Self {
            timeout_ms: 20_000,
            memory_bytes: 64 << 20,
            stack_bytes: 512 << 10,
            output_bytes: 1 << 20,
        }
    }
}
