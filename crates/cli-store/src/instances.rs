//! `weft instances`: creates, lists, shows, watches and terminates instances of agents, and sends
//! them activities.

mod terminate;

use crate::args::{Begin, CreateInstance, Instances, ResendActivity, SendActivity};
use futures_util::StreamExt;
use serde_json::json;
use std::time::Duration;
use weftwork::App;
use weftwork::agents::{
    Activity, ActivityEnd, AgentError, AgentRuntime, AgentRuntimeError,
    AgentRuntimeErrorKind as Kind, InstanceInfo, InstanceOptions, OnQuestion, Sent,
};
use weftwork::config::{Origin, format_limits};
use weftwork::runtime::Runtime;
use weftwork::store::{Store, StoreError};
use weftwork::types::interrupt::Interrupt;
use weftwork::types::run::{Mailbox, RunOptions, RunOutcome};
use weftwork::types::{InstanceId, Principal, RunId, ThreadId};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::{CommandContext, default_model};
use weftwork_cli_base::error::report_fault;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::follow::{tell_end, to_json_line, usage_unread};
use weftwork_cli_base::question;
use weftwork_cli_base::run::input_of;
use weftwork_cli_base::shell;
use weftwork_cli_base::signals::Signals;
use weftwork_cli_base::spent::Spent;
use weftwork_cli_base::terminal::Table;

/// Interval at which an activity that waits is tried again.
const ATTEND_EVERY: Duration = Duration::from_secs(1);
/// Number of looks for the thread of an activity that is set aside, and the time between two.
const ASIDE_LOOKS: usize = 100;
const ASIDE_LOOK_EVERY: Duration = Duration::from_millis(20);

pub async fn instances(command: Instances, context: &CommandContext) -> Result<Exit, CliError> {
    if !context.lasting {
        let reason = "instances need a store that outlives the command; set one with --store";
        return Err(CliError::BadInput { reason: reason.to_owned() });
    }
    match command {
        Instances::Send(args) => {
            let id = InstanceId::new(&args.id)?;
            with_app(&id, context, async |app| send_activity(*args, app, context).await).await
        }
        Instances::Resend(args) => {
            let to = InstanceId::new(&args.to)?;
            with_app(&to, context, async |app| resend_activity(args, app, context).await).await
        }
        Instances::Create(args) => {
            with_reader(context, async |agents| create_instance(*args, agents, context).await).await
        }
        Instances::List { .. } if context.is_new() => {
            let weft = &context.terminal.weft;
            context.terminal.note(format_args!(
                "no instances yet; create one with: {weft} instances create AGENT"
            ));
            Ok(Exit::Done)
        }
        Instances::List { limit, json } => {
            context.is_there()?;
            with_reader(context, async |agents| list_instances(limit, json, agents, context).await)
                .await
        }
        Instances::Show { id, json } => {
            let id = InstanceId::new(id)?;
            check_there(&id, context)?;
            with_reader(context, async |agents| show_instance(&id, json, agents, context).await)
                .await
        }
        Instances::Watch { id } => {
            let id = InstanceId::new(id)?;
            check_there(&id, context)?;
            with_reader(context, async |agents| watch_instance(&id, agents, context).await).await
        }
        Instances::Terminate(args) => {
            check_there(&InstanceId::new(&args.id)?, context)?;
            let terminate = async |agents: &_| terminate::terminate(args, agents, context).await;
            with_reader(context, terminate).await
        }
    }
}

/// Fails if the store of an instance does not exist: only a creation creates one.
fn check_there(id: &InstanceId, context: &CommandContext) -> Result<(), CliError> {
    if context.is_new() {
        return Err(AgentRuntimeError::unknown_instance(id.as_str()).into());
    }
    context.is_there()
}

/// Does something with an app that executes the activities of an instance, and shuts it down:
/// activities that wait stay in the store. Without a configured model, the app has that of the
/// instance.
async fn with_app(
    id: &InstanceId,
    context: &CommandContext,
    act: impl AsyncFnOnce(&App) -> Result<Exit, CliError>,
) -> Result<Exit, CliError> {
    check_there(id, context)?;
    let own = match &context.config.model {
        Some(_) => None,
        None => {
            let agents = open_reader(context).await?;
            let info = agents.info(id).await;
            agents.runtime().shutdown(Duration::from_secs(1)).await?;
            info?.options.run_model
        }
    };
    let app = context.open_all(own.as_deref().unwrap_or(default_model()), None).await?;
    let done = act(&app).await;
    app.shutdown(Duration::from_secs(1)).await?;
    done
}

/// Does something with an agent runtime that executes no activities, and shuts it down.
async fn with_reader(
    context: &CommandContext,
    act: impl AsyncFnOnce(&AgentRuntime) -> Result<Exit, CliError>,
) -> Result<Exit, CliError> {
    let agents = open_reader(context).await?;
    let done = act(&agents).await;
    agents.runtime().shutdown(Duration::from_secs(1)).await?;
    done
}

/// Opens an agent runtime that executes no activities: the models of its agents are scripted.
async fn open_reader(context: &CommandContext) -> Result<AgentRuntime, CliError> {
    let mut builder = Runtime::builder(context.store()?);
    for agent in &context.agents {
        builder = builder.graph(agent.id(), context.graph_of(agent.id())?);
    }
    let agents = AgentRuntime::over(builder.open().await?).build();
    let agents =
        agents.map_err(|source| AgentError::Tools { agent: "agent runtime".to_owned(), source });
    Ok(agents?)
}

async fn create_instance(
    args: CreateInstance,
    agents: &AgentRuntime,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let agent = context.agent(&args.agent)?;
    let options = InstanceOptions::new().mailbox_capacity(args.mailbox);
    let options = options.on_question(args.on_question.into());
    let flag = context.config.model.as_ref().filter(|s| matches!(s.origin, Origin::Flag(_)));
    if let Some(model) = flag {
        // A model that cannot be opened would fail each activity.
        context.config.open_model(&model.value)?;
    }
    let options = options.run_options(RunOptions {
        configurable: args.configurable.unwrap_or_default(),
        run_model: flag.map(|model| model.value.clone()),
        budget: args.budget,
        step_limit: args.step_limit,
        ..RunOptions::default()
    });
    let options = match args.id {
        Some(id) => options.id(InstanceId::new(id)?),
        None => options,
    };
    let state = args.state.unwrap_or_else(|| json!({}));
    let instance = agents.create_of(agent.id(), state, options).await?;
    context.terminal.line(instance.id())?;
    Ok(Exit::Done)
}

async fn list_instances(
    limit: usize,
    as_json: bool,
    agents: &AgentRuntime,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let columns =
        ["INSTANCE", "AGENT", "STATUS", "QUESTIONS", "WAITING", "SUCCEEDED", "FAILED", "CANCELLED"];
    let mut table = Table::new(&columns);
    // One more than asked for, to know that there are more.
    let mut found = agents.list(limit.saturating_add(1)).await?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    for id in found {
        let info = agents.info(&id).await?;
        if as_json {
            context.terminal.line(to_json_line(&info)?)?;
            continue;
        }
        let counts = info.statistics;
        table.row([
            id.to_string(),
            info.graph,
            info.status.word().to_owned(),
            (info.questions.len() + info.set_aside.len()).to_string(),
            counts.waiting.to_string(),
            counts.succeeded.to_string(),
            counts.failed.to_string(),
            counts.cancelled.to_string(),
        ]);
    }
    if !as_json {
        table.write(&context.terminal)?;
    }
    if has_more {
        context.terminal.note(format_args!(
            "these are the oldest {limit} instances, and there are more; --limit sets the number"
        ));
    }
    Ok(Exit::Done)
}

async fn show_instance(
    id: &InstanceId,
    as_json: bool,
    agents: &AgentRuntime,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let terminal = &context.terminal;
    let info = agents.info(id).await?;
    let state = match agents.get_state(id).await {
        Err(error) if error.kind == Kind::GraphUnavailable => None,
        state => Some(state?),
    };
    if as_json {
        terminal.line(to_json_line(&json!({"instance": info, "state": state}))?)?;
        return Ok(Exit::Done);
    }
    let counts = info.statistics;
    terminal.line(format_args!("instance {id} of {}: {}", info.graph, info.status.word()))?;
    terminal.line(format_args!(
        "activities: {} waiting (at most {}), {} running, {} asking, {} succeeded, {} failed, {} cancelled",
        counts.waiting,
        info.mailbox_capacity,
        counts.running,
        counts.asking,
        counts.succeeded,
        counts.failed,
        counts.cancelled
    ))?;
    terminal.line(format_args!("each activity: {}", describe_options(&info)))?;
    if let Some(error) = info.error {
        terminal.line(format_args!("error: {} {error}", error.code()))?;
    }
    question::tell_open(&info.questions, &ThreadId::from(id), terminal);
    for aside in &info.set_aside {
        terminal.line(format_args!("set aside: thread {}", aside.thread))?;
        question::tell_open(&aside.questions, &aside.thread, terminal);
    }
    if let Some(state) = state {
        terminal.line(format_args!("state: {state}"))?;
    }
    Ok(Exit::Done)
}

/// Describes the options that hold for each activity of an instance.
fn describe_options(info: &InstanceInfo) -> String {
    let options = &info.options;
    let budget = options.budget.map(|limits| format!("budget {}", format_limits(&limits)));
    let steps = options.step_limit.map(|limit| format!("at most {limit} supersteps"));
    let model = options.run_model.as_ref().map(|model| format!("model {model}"));
    let entries = Some(&options.configurable).filter(|entries| !entries.is_empty());
    let entries = entries.map(|entries| format!("configurable {}", json!(entries)));
    let question = match info.on_question {
        OnQuestion::Hold => "a question holds the mailbox",
        OnQuestion::SetAside => "one that asks is set aside",
    };
    let told = [budget, steps, model, entries].into_iter().flatten();
    told.chain([question.to_owned()]).collect::<Vec<_>>().join(", ")
}

/// Sends an activity of an instance again.
async fn resend_activity(
    args: ResendActivity,
    app: &App,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let agents = app.instances();
    let from = InstanceId::new(&args.id)?;
    let to = InstanceId::new(&args.to)?;
    let letter = agents.letter(&from, &RunId::new(&args.activity)?).await?;
    let mut again = letter.again;
    if let Some(key) = args.key {
        again = again.idempotency_key(key);
    }
    if let Some(limit) = args.timeout {
        again = again.timeout(limit);
    }
    // The other instance may have the message, or this one.
    let again = again.with_new_message_ids(agents.runtime().clock().as_ref());
    deliver(again, &to, args.leave, app, context).await
}

async fn send_activity(
    args: SendActivity,
    app: &App,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let id = InstanceId::new(&args.id)?;
    let agents = app.instances();
    let mut activity = Activity::new(args.payload.unwrap_or_default()).priority(args.priority);
    if let Some(text) = &args.message {
        activity = activity.input(input_of(app, text, args.key.as_deref()));
    }
    if let Some(begin) = args.not_before {
        activity = activity.not_before(match begin {
            Begin::At(at) => at,
            Begin::After(delay) => agents.runtime().clock().now().plus(delay),
        });
    }
    if let Some(entries) = args.configurable {
        activity = activity.configurable(entries);
    }
    if let Some(limit) = args.timeout {
        activity = activity.timeout(limit);
    }
    if let Some(key) = args.key {
        activity = activity.idempotency_key(key);
    }
    deliver(activity, &id, args.leave, app, context).await
}

/// Sends an activity to an instance, and waits for its end, unless it is left to a worker.
async fn deliver(
    activity: Activity,
    id: &InstanceId,
    leave: bool,
    app: &App,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let agents = app.instances();
    let terminal = &context.terminal;
    let sent = match leave {
        true => agents.leave(id, activity).await?,
        false => agents.send(id, activity).await?,
    };
    terminal.note(format_args!("activity {} for instance {id}", sent.activity().run));
    if leave {
        return Ok(Exit::Done);
    }
    let info = agents.info(id).await?;
    if !info.questions.is_empty() && info.statistics.waiting > 0 {
        terminal.note("the activity waits behind one that asks");
        question::tell_open(&info.questions, &ThreadId::from(id), terminal);
    }
    if let Some(error) = info.error.filter(|error| error.kind == Kind::GraphUnavailable) {
        let code = error.code();
        terminal.note(format_args!("{code} {error}; a process with this agent has to execute it"));
    }
    let mut signals = Signals::listen();
    let mut ended = Box::pin(sent.ended());
    let ended = loop {
        tokio::select! {
            biased;
            signal = signals.next() => {
                terminal.note("the activity stays in the store; a worker continues it");
                return Ok(signal.exit());
            }
            ended = &mut ended => break ended,
            // Another process may have answered the question before it, and have ended.
            () = tokio::time::sleep(ATTEND_EVERY) => agents.attend(id),
        }
    };
    match Spent::of(app, sent.activity()).await {
        Ok(spent) => spent.into_iter().for_each(|spent| terminal.note(spent)),
        Err(error) => terminal.note(usage_unread(&error)),
    }
    let end = match ended {
        Ok(end) => end,
        Err(error) => return Ok(report_failure(&error, context)),
    };
    match agents.get_state(id).await {
        // A process with this agent has executed it.
        Err(error) if error.kind == Kind::GraphUnavailable => {}
        state => terminal.line(state?)?,
    }
    match end {
        ActivityEnd::Asks => report_questions(&sent, app, context).await,
        _ => Ok(Exit::Done),
    }
}

/// Prints the questions at which an activity ended, with the commands that answer them.
async fn report_questions(
    sent: &Sent,
    app: &App,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let at = sent.activity();
    let store = app.runtime().store();
    let run = store.run(&Principal::local(), at).await?;
    let Some(outcome) = &run.outcome else { return Ok(Exit::Done) };
    let asks = matches!(outcome, RunOutcome::Interrupted { .. });
    if asks && run.new.options.mailbox.as_ref().is_some_and(Mailbox::sets_aside) {
        let aside = Runtime::aside_of(&Principal::local(), at);
        if let Some(open) = open_aside(store.as_ref(), &aside).await? {
            question::tell_open(&open, &aside, &context.terminal);
        } else {
            let id = shell::quote_thread(&at.thread);
            let weft = &context.terminal.weft;
            context.terminal.note(format_args!(
                "its question is being set aside; {weft} instances show {id} prints it"
            ));
        }
    } else if asks {
        let open = question::open_questions_of(store.as_ref(), &at.thread).await?;
        question::tell_open(&open, &at.thread, &context.terminal);
    }
    Ok(tell_end(store.as_ref(), at, outcome, &context.terminal).await)
}

/// Waits a little for the thread of an activity that is set aside; returns its questions.
async fn open_aside(
    store: &dyn Store,
    aside: &ThreadId,
) -> Result<Option<Vec<Interrupt>>, CliError> {
    for _ in 0..ASIDE_LOOKS {
        match store.thread(&Principal::local(), aside).await {
            Ok(_) => return Ok(Some(question::open_questions_of(store, aside).await?)),
            Err(StoreError::NotFound { .. }) => {
                tokio::time::sleep(ASIDE_LOOK_EVERY).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// Reports the error of an activity.
fn report_failure(error: &AgentRuntimeError, context: &CommandContext) -> Exit {
    report_fault(&error.fault, &context.terminal);
    if error.kind == Kind::Cancelled { Exit::Cancelled } else { Exit::Failed }
}

async fn watch_instance(
    id: &InstanceId,
    agents: &AgentRuntime,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let mut events = agents.subscribe(id).await?;
    let mut signals = Signals::listen();
    loop {
        let event = tokio::select! {
            biased;
            signal = signals.next() => return Ok(signal.exit()),
            event = events.next() => event,
        };
        let Some(event) = event else { return Ok(Exit::Done) };
        context.terminal.line(to_json_line(&event?)?)?;
    }
}
