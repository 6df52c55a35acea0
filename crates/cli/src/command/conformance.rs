//! `weft conformance`: specs from standard input, traces to standard output.

use crate::CliError;
use crate::args::{Conformance, ProfileName};
use crate::exit::Exit;
use std::io::{Read, Write};
use weftwork_conformance::{Profile, answer, batch};

pub(crate) fn conformance(args: &Conformance) -> Result<Exit, CliError> {
    let profile = match args.profile {
        ProfileName::Langgraph => Profile::LangGraph,
        ProfileName::Weft => Profile::Weft,
    };
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    if args.batch {
        batch(input, output, profile)?;
        return Ok(Exit::Done);
    }
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(|error| CliError::Input(error.to_string()))?;
    writeln!(output, "{}", answer(&String::from_utf8_lossy(&bytes), profile))?;
    output.flush()?;
    Ok(Exit::Done)
}
