use serde_json::Value;
use std::sync::Arc;
use weftwork::runtime::thread_state;
use weftwork::store::{CheckpointStore, InterruptRow, RunRow};
use weftwork::types::message::{Message, Part, Role};
use weftwork::types::run::RunOutcome;
use weftwork::types::{Principal, ThreadId};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::question;
use weftwork_cli_base::shell;
use weftwork_cli_base::states::{state_of, with_orphans};
use weftwork_cli_base::terminal::{Style, Terminal, format_moment, shorten, to_plain};

/// Shows a thread in readable form.
pub(crate) async fn show(id: &ThreadId, context: &CommandContext) -> Result<Exit, CliError> {
    let store = context.store_of(id)?;
    let terminal = &context.terminal;
    let found = context.thread(store.as_ref(), id).await?;
    let row = &found.row;
    let weft = &terminal.weft;
    terminal.line(terminal.paint(Style::Strong, format_args!("thread {id}")))?;
    terminal.line(format_args!("agent    {}", found.graph()))?;
    terminal.line(format_args!("model    {}", found.model().unwrap_or("not on record")))?;
    terminal.line(format_args!("changed  {} UTC", format_moment(row.updated_at)))?;
    if let Some(at) = row.wakes_at {
        let wakes = format_moment(at);
        terminal.line(format_args!(
            "wakes    {wakes} UTC, in a running worker, or from then on with: {weft} threads resume {}",
            shell::quote_thread(id)
        ))?;
    }
    let questions = store.interrupts(&Principal::local(), id).await?;
    for run in &found.runs {
        run_line(run, &questions, terminal)?;
    }
    let state = read_state(id, context, Arc::clone(&store) as _, found.graph()).await?;
    let messages = state.get("messages").and_then(Value::as_array);
    let speaker = speaker_name(found.model());
    for value in messages.into_iter().flatten() {
        match serde_json::from_value::<Message>(value.clone()) {
            Ok(message) => message_lines(&message, &speaker, terminal)?,
            Err(_) => terminal.line(shorten(&value.to_string(), 400))?,
        }
    }
    let open = question::open_questions_of(store.as_ref(), id).await?;
    for interrupt in &open {
        question::question_lines(interrupt, terminal)
            .iter()
            .try_for_each(|line| terminal.line(line))?;
        terminal.line(format_args!(
            "  answer with: {}",
            question::how_to_answer(interrupt, &open, id, weft)
        ))?;
    }
    if let Some(run) = found.unfinished() {
        let is_left = with_orphans(store.as_ref()).await?.contains(id);
        let why = if is_left { "no process executes it" } else { "if its process is dead" };
        terminal
            .line(format_args!("  {why}: {weft} threads resume {}", shell::quote_thread(id)))?;
        terminal.line(format_args!("  cancel it: {weft} runs cancel {}", run.new.at.run))?;
    }
    Ok(Exit::Done)
}

async fn read_state(
    id: &ThreadId,
    context: &CommandContext,
    store: Arc<dyn CheckpointStore>,
    graph: &str,
) -> Result<Value, CliError> {
    let graph = context.graph_of(graph)?;
    let state = thread_state(&graph, store, &Principal::local(), id).await?;
    Ok(state.unwrap_or_default())
}

fn run_line(run: &RunRow, questions: &[InterruptRow], terminal: &Terminal) -> Result<(), CliError> {
    let fault = match &run.outcome {
        Some(RunOutcome::Failed { fault }) => {
            let id = &run.new.at.run;
            format!(": {} {} (run {id})", to_plain(&fault.code), shorten(&fault.message, 200))
        }
        _ => String::new(),
    };
    let begun = format_moment(run.new.created_at);
    let word = state_of(run, questions);
    terminal.line(format_args!("run      {begun}  {word}{fault}"))
}

/// Returns the label of the agent's messages, which marks answers of replayed models; answers of the
/// scripted model begin with a mark.
fn speaker_name(model: Option<&str>) -> String {
    let provider = model.and_then(|model| model.split(':').next()).unwrap_or_default();
    match provider {
        "replay" => format!("agent [{provider}]"),
        _ => "agent".to_owned(),
    }
}

fn message_lines(message: &Message, speaker: &str, terminal: &Terminal) -> Result<(), CliError> {
    let who = match message.role {
        Role::System => "system",
        Role::User => "you",
        Role::Assistant => speaker,
        Role::Tool => "tool",
    };
    let who = terminal.paint(Style::Strong, format_args!("{who}>"));
    for part in &message.parts {
        let said = match part {
            Part::Text { text } | Part::Reasoning { text, .. } if text.is_empty() => continue,
            Part::Text { text } => to_plain(text),
            Part::Reasoning { text, .. } => format!("(reasoning) {}", to_plain(text)),
            Part::Media(media) => {
                format!("({} at {})", to_plain(&media.media_type), shorten(&media.url, 100))
            }
            Part::ToolCall(call) => to_plain(&format!("→ {} {}", call.name, call.args)),
            Part::ToolResult(result) => {
                format!("← {} {}", to_plain(&result.name), shorten(&result.value.to_string(), 400))
            }
        };
        terminal.line(format_args!("{who} {said}"))?;
    }
    Ok(())
}
