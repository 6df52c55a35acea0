//! The command `weft`.

use mimalloc::MiMalloc;
use std::process::ExitCode;

/// A superstep is some hundred small allocations, a quarter of its time with that of the system.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    weftwork_cli::Program::new().run()
}
