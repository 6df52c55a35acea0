//! The binary `weft`.

use mimalloc::MiMalloc;
use std::process::ExitCode;

/// The global allocator. A superstep makes about a hundred small allocations, which mimalloc serves
/// faster than the system's allocator (`docs/benchmarks.md`).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    weftwork_cli::Program::new().build_version(weftwork::build_version!()).run()
}
