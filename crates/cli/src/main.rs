//! The command `weft`.

use mimalloc::MiMalloc;
use std::process::ExitCode;

/// A superstep is some hundred small allocations, which this makes in less time than the system's
/// (`docs/benchmarks.md`).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    weftwork_cli::Program::new().run()
}
