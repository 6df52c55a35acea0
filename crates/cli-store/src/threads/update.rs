//! `weft threads update`: changes the state of a thread in the name of a node.

use crate::args::Update;
use serde_json::Value;
use std::sync::Arc;
use weftwork::types::ThreadId;
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::follow::tell_end;
use weftwork_cli_base::question;
use weftwork_cli_base::shell;

pub(super) async fn update(args: Update, context: &CommandContext) -> Result<Exit, CliError> {
    let id = ThreadId::new(&args.id)?;
    let store = context.store_of(&id)?;
    let found = context.thread(store.as_ref(), &id).await?;
    // An update executes no node, so that the model is not needed.
    let runtime = context.reader(found.graph(), Arc::clone(&store)).await?;
    let agent = context.agent(found.graph())?;
    let thread = runtime.thread(agent.id(), id.as_str())?;
    let thread = match args.at {
        Some(checkpoint) => thread.at(checkpoint),
        None => thread,
    };
    let ended = thread.update_as(&args.node, Value::Object(args.values)).await?;
    let terminal = &context.terminal;
    let exit = tell_end(store.as_ref(), ended.run(), ended.outcome(), terminal).await;
    if exit == Exit::Waiting {
        let open = question::open_questions_of(store.as_ref(), &id).await?;
        question::tell_open(&open, &id, terminal);
    }
    if let Ok(state) = thread.view().state().await
        && exit == Exit::Done
    {
        let due = match state.next.is_empty() {
            true => "no node is due".to_owned(),
            false => {
                format!(
                    "due: {}; continue with: {} threads resume {}",
                    state.next.join(", "),
                    terminal.weft,
                    shell::quote_thread(&id)
                )
            }
        };
        terminal.note(format_args!("updated thread {id} as {}; {due}", args.node));
    }
    Ok(exit)
}
