//! `weft instances terminate`: terminates instances, and reports the activities that it ends.

use crate::args::TerminateInstance;
use std::time::Duration;
use weftwork::agents::{
    AgentRuntime, DeadLetter, InstanceStatus, QueuedActivities, Statistics, Terminated,
};
use weftwork::types::InstanceId;
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::follow::to_json_line;
use weftwork_cli_base::shell;
use weftwork_cli_base::signals::Signals;
use weftwork_cli_base::terminal::{Terminal, format_moment};

pub(super) async fn terminate(
    args: TerminateInstance,
    agents: &AgentRuntime,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let TerminateInstance { id, deadline, dead_letter, json } = args;
    let id = InstanceId::new(id)?;
    let queued = match dead_letter {
        true => QueuedActivities::DeadLetter,
        false => QueuedActivities::Keep,
    };
    let mut signals = Signals::listen();
    let report = tokio::select! {
        biased;
        signal = signals.next() => {
            report_interruption(&id, agents, &context.terminal).await?;
            return Ok(signal.exit());
        }
        report = agents.terminate(&id, deadline, queued) => report?,
    };
    report_termination(&id, &report, json, context)
}

/// Prints the state in which a termination was left.
async fn report_interruption(
    id: &InstanceId,
    agents: &AgentRuntime,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let info = agents.info(id).await?;
    if info.status != InstanceStatus::Terminated {
        terminal.note(format_args!("instance {id} is not terminated, and is as before"));
        return Ok(());
    }
    let Statistics { running, asking, waiting, .. } = info.statistics;
    terminal.note(format_args!(
        "instance {id} takes no more activities; {running} executed, {asking} asking and {waiting} waiting are left, and end when the command is repeated"
    ));
    Ok(())
}

fn report_termination(
    id: &InstanceId,
    report: &Terminated,
    as_json: bool,
    context: &CommandContext,
) -> Result<Exit, CliError> {
    let terminal = &context.terminal;
    if as_json {
        terminal.line(to_json_line(report)?)?;
        return Ok(Exit::Done);
    }
    if let Some(run) = &report.ended {
        terminal.line(format_args!("activity {run}: ended"))?;
    }
    if let Some(run) = &report.cut {
        terminal.line(format_args!("activity {run}: cut off"))?;
    }
    let asking = report.asking.iter().map(|letter| ("cancelled while it waited", letter));
    let kept = report.kept.iter().map(|letter| ("kept", letter));
    let dead = report.dead_lettered.iter().map(|letter| ("dead letter", letter));
    for (kind, letter) in asking.chain(kept).chain(dead) {
        terminal.line(describe_letter(kind, letter))?;
    }
    let cut = report.cut.as_ref();
    let ended = report.asking.iter().chain(&report.dead_lettered).map(|letter| &letter.activity);
    if let Some(activity) = cut.into_iter().chain(ended).next() {
        let weft = &terminal.weft;
        let from = shell::quote_word(id.as_str());
        terminal.note(format_args!(
            "send one again with: {weft} instances resend {from} {activity} --to INSTANCE"
        ));
    }
    terminal.note(format_args!("instance {id} is terminated"));
    Ok(Exit::Done)
}

/// Describes an activity that was not executed to its end.
fn describe_letter(kind: &str, letter: &DeadLetter) -> String {
    let DeadLetter { activity, sender, sent_at, failure, again } = letter;
    let account = &sender.billing_account;
    let failure = failure.as_ref().map(|failure| format!(", {} {failure}", failure.code()));
    let members = serde_json::json!(again);
    let member = |name: &str| {
        let found = members.get(name).filter(|value| **value != serde_json::json!(0));
        found.map(|value| format!(", {} {value}", name.replace('_', " "))).unwrap_or_default()
    };
    let rest: String = ["priority", "input", "configurable"].map(member).concat();
    let limit = members["timeout"].as_u64().map(Duration::from_millis);
    let limit = limit.map(|limit| format!(", timeout {limit:?}")).unwrap_or_default();
    format!(
        "activity {activity}: {kind}, payload {}{rest}{limit}, sent {} UTC by {account}{}",
        again.payload(),
        format_moment(*sent_at),
        failure.unwrap_or_default()
    )
}
