//! Modes: which one a request has, and the nodes that all types of agents share.

mod converse;
mod error;
mod plan;

pub(crate) use converse::converse;
pub use error::RequestError;
pub(crate) use plan::plan;

use crate::agent::Agent;
use crate::definition::{Definition, Orchestration};
use crate::records::TITLE_CHARS_MAX;
use serde_json::Value;
use weftwork_types::task::{Mode, Payload};

/// Returns the mode of requests without one.
pub(crate) fn usual(modes: &[Mode]) -> Mode {
    Mode::ALL.into_iter().find(|mode| modes.contains(mode)).unwrap_or(Mode::Build)
}

/// Returns the mode of a request.
pub(crate) fn of_definition(
    slug: &str,
    definition: &Definition,
    asked: Option<&str>,
) -> Result<Mode, RequestError> {
    let modes = definition.modes();
    let Some(asked) = asked else { return Ok(usual(modes)) };
    let found = Mode::of_name(asked).filter(|mode| modes.contains(mode));
    found.ok_or_else(|| RequestError::Mode {
        agent: slug.to_owned(),
        mode: asked.to_owned(),
        declared: modes.to_vec(),
    })
}

/// Checks the input of a run: its mode, its details, and the input that the agent declares.
pub(crate) fn check_input(agent: &Agent, input: &Value) -> Result<(), RequestError> {
    let wrong = |member, found: &Value, expected: &str| RequestError::Member {
        member,
        found: found.to_string(),
        expected: expected.to_owned(),
    };
    let mode = match input.get("mode") {
        None => None,
        Some(Value::String(mode)) => Some(mode.as_str()),
        Some(other) => return Err(wrong("mode", other, "a text")),
    };
    of_definition(&agent.slug, &agent.definition, mode)?;
    let payload = payload_of(input.get("payload"))?;
    if let Some(title) = &payload.title
        && title.chars().count() > TITLE_CHARS_MAX
    {
        return Err(RequestError::Member {
            member: "payload.title",
            found: format!("{} characters", title.chars().count()),
            expected: format!("at most {TITLE_CHARS_MAX}"),
        });
    }
    if input.get("orchestration").is_some() {
        return Err(RequestError::Member {
            member: "orchestration",
            found: "a value".to_owned(),
            expected: "none: the progress of an orchestration is no input".to_owned(),
        });
    }
    check_planning(&agent.slug, &agent.definition, &payload)?;
    match OrchestrationAction::of(&payload)? {
        None => {}
        Some(OrchestrationAction::Execute) => check_steps(&agent.slug, &agent.definition)?,
        Some(_) => {
            let action = payload.orchestration_action;
            let action = action.unwrap_or_else(|| "human-response".to_owned());
            let expected = "execute in a run";
            return Err(RequestError::OrchestrationAction { action, expected });
        }
    }
    // Actions on records are no runs.
    let is_run = match payload.action.as_deref() {
        None | Some("rerun") => true,
        Some("create") => payload.content.is_none(),
        Some(_) => false,
    };
    if !is_run {
        let action = payload.action.unwrap_or_default();
        return Err(RequestError::Action { action, expected: "create, rerun in a run" });
    }
    if let Some(checker) = &agent.input {
        let value = input.get("input").unwrap_or(&Value::Null);
        // Clients that only chat send messages.
        let is_chat = value.is_null() && input.get("messages").is_some();
        if !is_chat {
            checker
                .check(value, weftwork_schema::Quotes::Values)
                .map_err(|problem| RequestError::Input { agent: agent.slug.clone(), problem })?;
        }
    }
    Ok(())
}

/// An action of an orchestration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrchestrationAction {
    Execute,
    Continue,
    Pause,
    Resume,
    HumanResponse,
    Rollback,
}

impl OrchestrationAction {
    /// Returns the action of a request; `None` for a request without an orchestration.
    pub(crate) fn of(payload: &Payload) -> Result<Option<Self>, RequestError> {
        match payload.orchestration_action.as_deref() {
            None if payload.answers_approval() => Ok(Some(Self::HumanResponse)),
            None => Ok((payload.orchestrate == Some(true)).then_some(Self::Execute)),
            Some("execute") => Ok(Some(Self::Execute)),
            Some("continue") => Ok(Some(Self::Continue)),
            Some("pause") => Ok(Some(Self::Pause)),
            Some("resume") => Ok(Some(Self::Resume)),
            Some("human-response") => Ok(Some(Self::HumanResponse)),
            Some("rollback") => Ok(Some(Self::Rollback)),
            Some(action) => Err(RequestError::OrchestrationAction {
                action: action.to_owned(),
                expected: "execute, continue, pause, resume, human-response, rollback",
            }),
        }
    }
}

/// Checks that an agent has steps, or plans them.
pub(crate) fn check_steps(slug: &str, definition: &Definition) -> Result<(), RequestError> {
    let has_steps = |of: &Orchestration| !of.steps.is_empty() || of.planning.is_some();
    match definition.orchestration.as_ref().is_some_and(has_steps) {
        true => Ok(()),
        false => Err(RequestError::Member {
            member: "payload.orchestrate",
            found: format!("for agent {slug}, which has no steps"),
            expected: "an agent with `orchestration.steps` or `orchestration.planning`".to_owned(),
        }),
    }
}

/// Checks that a request for a plan is one for an orchestration of an agent that plans its steps.
fn check_planning(
    slug: &str,
    definition: &Definition,
    payload: &Payload,
) -> Result<(), RequestError> {
    if payload.orchestration_plan != Some(true) {
        return Ok(());
    }
    let is_execution = OrchestrationAction::of(payload)? == Some(OrchestrationAction::Execute);
    let plans = definition.orchestration.as_ref().is_some_and(|of| of.planning.is_some());
    let found = match (is_execution, plans) {
        (true, true) => return Ok(()),
        (false, _) => "in a request without `orchestrate`".to_owned(),
        (true, false) => format!("for agent {slug}, whose steps are written"),
    };
    Err(RequestError::Member {
        member: "payload.orchestrationPlan",
        found,
        expected: "`orchestrate`, and an agent with `orchestration.planning`".to_owned(),
    })
}

/// Reads the details of a request.
pub(crate) fn payload_of(value: Option<&Value>) -> Result<Payload, RequestError> {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Ok(Payload::default());
    };
    serde_json::from_value(value.clone()).map_err(|error| RequestError::Member {
        member: "payload",
        found: error.to_string(),
        expected: "the members of a request".to_owned(),
    })
}
