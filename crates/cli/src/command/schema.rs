//! `weft schema`: prints the schemas of records that other programs read.

use crate::CliError;
use crate::args::Schema;
use crate::exit::Exit;
use crate::terminal::Terminal;
use weftwork::types::schema;

pub(crate) fn schema(command: &Schema, terminal: &Terminal) -> Result<Exit, CliError> {
    let Schema::Events { typescript } = command;
    let events = schema::events();
    if *typescript {
        terminal.piece(schema::typescript(&events))?;
    } else {
        terminal.line(format_args!("{events:#}"))?;
    }
    Ok(Exit::Done)
}
