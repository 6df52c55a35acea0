//! `weft run`: one non-interactive run.

use crate::args::Run;
use serde_json::Value;
use std::io::Read;
use uuid::Uuid;
use weftwork::App;
use weftwork::store::StoreError;
use weftwork::types::ThreadId;
use weftwork::types::canonical;
use weftwork::types::interrupt::Interrupt;
use weftwork::types::json;
use weftwork::types::run::{RunInput, RunOptions};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::{CommandContext, RunSettings};
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::question;
use weftwork_cli_base::run::{input_of, to_end};

/// Maximum size of the input, in bytes.
const INPUT_BYTES_MAX: u64 = 16 << 20;

pub(crate) async fn run(args: &Run, context: &CommandContext) -> Result<Exit, CliError> {
    let agent = context.find_agent(&args.agent).await?;
    let named = args.thread.as_deref().map(ThreadId::new).transpose()?;
    let text =
        read_input(args.input.as_deref().or(args.input_json.as_deref()).unwrap_or_default())?;
    let json = args.input_json.is_some().then(|| parse_object(&text)).transpose()?;
    let settings =
        RunSettings { durability: args.keeping.durability(), multitask: args.busy.multitask() };
    let app = context.open(&agent, None, None, settings).await?;
    let key = args.options.idempotency_key.as_deref();
    let thread = named.unwrap_or_else(|| thread_of(&app, key));
    context.terminal.note(format_args!("thread {thread}"));
    let input = json.unwrap_or_else(|| input_of(&app, &text, key));
    let before = open_questions_of(&app, &thread).await?;
    let options = args.options.apply(RunOptions {
        model: Some(app.model_setting().value.clone()),
        durability: settings.durability,
        multitask: settings.multitask,
        ..RunOptions::default()
    });
    let run = app.runtime().thread(agent.id(), thread.as_str())?.start(RunInput::Start { input });
    let run = run.options(options);
    let run = match args.options.limits.deadline {
        Some(limit) => run.deadline(limit),
        None => run,
    };
    let exit = to_end(run.begin().await?, &app, context, args.frames.options(), args.json).await?;
    if !before.is_empty() {
        // A read error here must not change the exit status of the run.
        let open = open_questions_of(&app, &thread).await.unwrap_or_else(|_| before.clone());
        let closed = before.iter().filter(|one| open.iter().all(|other| other.id != one.id));
        for interrupt in closed {
            let terminal = &context.terminal;
            terminal.note("the input replaced this open question:");
            question::question_lines(interrupt, terminal)
                .iter()
                .for_each(|line| terminal.note(line));
        }
    }
    Ok(exit)
}

/// Returns a new thread, and the same one for a repeated request.
fn thread_of(app: &App, key: Option<&str>) -> ThreadId {
    let repeated = |key| ThreadId::from_uuid(Uuid::from_u128(canonical::first_128(key)));
    key.map_or_else(|| app.new_thread(), repeated)
}

/// Reads the open questions of a thread, none if the thread does not exist.
async fn open_questions_of(app: &App, thread: &ThreadId) -> Result<Vec<Interrupt>, CliError> {
    match question::open_questions_of(app.store().as_ref(), thread).await {
        Err(CliError::App(weftwork::Error::Store(StoreError::NotFound { .. }))) => Ok(Vec::new()),
        open => open,
    }
}

/// Returns the given text, or all of standard input for `-`.
fn read_input(given: &str) -> Result<String, CliError> {
    let bad = |reason: String| CliError::BadInput { reason };
    let text = if given == "-" {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| CliError::Input(error.to_string()))?;
        if bytes.len() as u64 > INPUT_BYTES_MAX {
            return Err(bad(format!("more than {INPUT_BYTES_MAX} bytes")));
        }
        String::from_utf8(bytes).map_err(|error| bad(format!("not UTF-8: {error}")))?
    } else {
        given.to_owned()
    };
    if text.trim().is_empty() {
        return Err(bad("empty, expected a message for the agent".to_owned()));
    }
    Ok(text)
}

fn parse_object(text: &str) -> Result<Value, CliError> {
    let bad = |reason: String| CliError::BadInput { reason };
    let value: Value = json::read(text.as_bytes()).map_err(|error| bad(error.to_string()))?;
    if !value.is_object() {
        return Err(bad(
            "expected a JSON object of channel values, such as {\"messages\": [...]}".to_owned()
        ));
    }
    Ok(value)
}
