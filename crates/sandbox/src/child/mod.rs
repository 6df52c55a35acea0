//! The side of the process.

pub(crate) mod confine;
mod pipe;
mod script;

use crate::message::{FromProcess, Script, ToProcess};
use std::io::{self, Stdin, Stdout};
use std::process::ExitCode;

/// Gives up the rights of this process, and executes the code that it reads from its standard input.
///
/// A program calls this before it starts threads, opens files or reads anything.
pub fn main() -> ExitCode {
    let mut pipes = Pipes { from: io::stdin(), to: io::stdout() };
    match serve(&mut pipes) {
        Ok(()) => ExitCode::SUCCESS,
        // The program reads no reason from a process whose pipe is broken.
        Err(_) => ExitCode::FAILURE,
    }
}

/// The pipes to the program.
struct Pipes {
    from: Stdin,
    to: Stdout,
}

impl Pipes {
    fn send(&mut self, message: &FromProcess) -> io::Result<()> {
        pipe::write(&mut self.to, message)
    }

    fn receive(&mut self) -> io::Result<ToProcess> {
        Ok(serde_json::from_slice(&pipe::read(&mut self.from)?)?)
    }
}

fn serve(pipes: &mut Pipes) -> io::Result<()> {
    // Nothing that others wrote is read before.
    if let Err(missing) = confine::confine(&confine::LAYERS) {
        let confine::Missing { missing, reason } = missing;
        return pipes.send(&FromProcess::Unavailable { missing: missing.to_owned(), reason });
    }
    pipes.send(&FromProcess::Ready)?;
    let ToProcess::Script(script) = pipes.receive()? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let script: Script = *script;
    let last = match script::execute(script, pipes)? {
        Ok(value) => FromProcess::Done { value },
        Err(failure) => FromProcess::Failed { failure },
    };
    pipes.send(&last)
}
