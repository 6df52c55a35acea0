//! `weft threads state`: prints the state of a thread.

use super::open_for_reading;
use crate::args::State;
use weftwork::graph::{Host, StateQuery};
use weftwork::runtime::StoreCheckpointer;
use weftwork::types::{Principal, ThreadId};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::snapshot::snapshot_to_json;

pub(super) async fn state(args: &State, context: &CommandContext) -> Result<Exit, CliError> {
    let id = ThreadId::new(&args.id)?;
    let (graph, store) = open_for_reading(&id, context).await?;
    let checkpointer = StoreCheckpointer::new(store as _, Principal::local());
    let host = Host::new().with_checkpointer(checkpointer);
    let query = StateQuery { checkpoint: args.at, ..StateQuery::thread(id.as_str()) };
    let query = if args.whole { query.whole() } else { query };
    let found = graph.state(&host, &query, args.subgraphs).await?;
    let shown = match args.full {
        true => snapshot_to_json(&found),
        // A thread without a checkpoint has no state.
        false => found.metadata.map(|_| found.values).unwrap_or_default(),
    };
    context.terminal.line(format_args!("{shown:#}"))?;
    Ok(Exit::Done)
}
