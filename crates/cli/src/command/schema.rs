//! `weft schema`: prints the schemas of records that other programs read.

use crate::args::Schema;
use weftwork::platform;
use weftwork::types::schema;
use weftwork_cli_base::CliError;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::Terminal;

pub(crate) fn schema(command: &Schema, terminal: &Terminal) -> Result<Exit, CliError> {
    match command {
        Schema::Events { typescript: true } => {
            terminal.piece(schema::typescript(&schema::events()))?;
        }
        Schema::Events { typescript: false } => {
            terminal.line(format_args!("{:#}", schema::events()))?;
        }
        Schema::Ctx => terminal.piece(platform::FUNCTION_TYPES)?,
        Schema::Agent => terminal.line(format_args!("{:#}", platform::schema()))?,
    }
    Ok(Exit::Done)
}
