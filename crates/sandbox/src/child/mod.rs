//! The side of the process.

pub(crate) mod confine;
mod jq;
mod pipe;
mod script;

use crate::bounds::Bounds;
use crate::message::{CodeKind, FromProcess, Script, ScriptFailure, ToProcess};
use std::io::{self, Stdin, Stdout};
use std::process::ExitCode;

/// Gives up the rights of this process, and executes the code that it reads from its standard input. Its
/// last argument has its bounds.
///
/// A program calls this before it starts threads, opens files or reads anything.
pub fn main() -> ExitCode {
    let bounds = std::env::args_os().next_back();
    // Without them it has those of a function, and takes no other call.
    let bounds = bounds.and_then(|last| Bounds::read(last.to_str()?)).unwrap_or_default();
    let mut pipes = Pipes { from: io::stdin(), to: io::stdout() };
    match serve(&bounds, &mut pipes) {
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

fn serve(bounds: &Bounds, pipes: &mut Pipes) -> io::Result<()> {
    // Nothing that others wrote is read before.
    if let Err(missing) = confine::confine(&confine::LAYERS, bounds) {
        let confine::Missing { missing, reason } = missing;
        return pipes.send(&FromProcess::Unavailable { missing: missing.to_owned(), reason });
    }
    pipes.send(&FromProcess::Ready)?;
    let ToProcess::Script(script) = pipes.receive()? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let script: Script = *script;
    // The program has asked for the process of another call.
    if Bounds::of(&script) != *bounds {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let ended = match script.code_kind {
        CodeKind::Function => script::execute(script, pipes)?,
        CodeKind::Jq | CodeKind::JqCheck => jq::execute(script),
    };
    let last = match ended {
        Ok(value) => FromProcess::Done { value },
        Err(failure) => FromProcess::Failed { failure },
    };
    pipes.send(&last)?;
    if matches!(last, FromProcess::Failed { failure: ScriptFailure::Null }) {
        // Its end: the program sends nothing more.
        pipes.receive()?;
    }
    Ok(())
}
