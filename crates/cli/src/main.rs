//! The command `weft`.

use std::process::ExitCode;

fn main() -> ExitCode {
    weftwork_cli::Program::new().run()
}
