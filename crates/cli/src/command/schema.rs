//! `weft schema`: prints the schemas of records that other programs read.

use crate::args::Schema;
use weftwork::types::schema;
use weftwork_cli_base::CliError;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::Terminal;

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
