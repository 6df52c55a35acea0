//! JavaScript and jq that others wrote, in a process that has no rights.
//!
//! A [`Sandbox`] starts a process for each call. Before the process reads the code it gives up, in this
//! order: memory, processor time and files beyond a limit (`rlimit`), every file and every connection
//! (`landlock`), and every call of the system but those that a program without files needs (`seccomp`).
//! Its environment has nothing of the program. What the code may do it asks for on a pipe, and the [`Host`] of the call
//! decides. A machine without one of these refuses ([`SandboxError::Unavailable`]); nothing runs with
//! less.
//!
//! The program that is started calls [`main`] before anything else.
//!
//! ```no_run
//! use serde_json::{Value, json};
//! use weftwork_sandbox::{NoHost, Sandbox, Script};
//! use weftwork_graph::SystemClock;
//!
//! # async fn run() -> Result<(), weftwork_sandbox::SandboxError> {
//! let sandbox = Sandbox::new("/usr/bin/weft", ["sandbox-process"]);
//! let script = Script {
//!     code: "async function handler(input) { return { twice: input.n * 2 }; }".to_owned(),
//!     input: json!({"n": 21}),
//!     ..Script::default()
//! };
//! let value = sandbox.run(&script, &NoHost, &SystemClock::new()).await?;
//! assert_eq!(value, json!({"twice": 42}));
//! # Ok(())
//! # }
//! ```

mod bounds;
#[cfg(feature = "process")]
mod child;
#[cfg(feature = "process")]
#[doc(hidden)]
pub mod probe {
    //! The layers of the confinement one by one, for tests.
    pub use crate::child::confine::{LAYERS, Layer, Missing};

    /// Sets up layers with the bounds of a function.
    ///
    /// # Errors
    /// The layer that is missing. The layers before it are set up.
    pub fn confine(layers: &[Layer]) -> Result<(), Missing> {
        crate::child::confine::confine(layers, &crate::bounds::Bounds::default())
    }
}
mod error;
mod frame;
mod host;
mod limits;
mod message;
mod sandbox;

#[cfg(feature = "process")]
pub use child::main;
pub use error::{LimitKind, SandboxError};
pub use host::{Host, HostError, NoHost};
pub use limits::SandboxLimits;
pub use message::{CodeKind, Script};
pub use sandbox::Sandbox;
