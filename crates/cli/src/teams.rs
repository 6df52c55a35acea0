//! The built-in teams: `supervisor`, whose members are a calculator, a clock and the order desk, and
//! `swarm`, in which the calculator and the clock hand the conversation to each other.

use crate::demo_agent::{self, multiply};
use std::sync::Arc;
use weftwork::agents::{ReactAgent, Supervisor, Swarm};
use weftwork::models::ChatModel;
use weftwork::tools::builtin::{Builtin, tool_box};
use weftwork::tools::{Policy, ToolBox, ToolError, tool};
use weftwork::{AgentDef, Config};

const CALCULATOR: (&str, &str) = ("calculator", "adds, subtracts, multiplies and divides numbers");
const CLOCK: (&str, &str) = ("clock", "tells the date and the time");
const DESK: (&str, &str) = ("desk", "orders, refunds and weather of a lamp shop");

/// Requests by the member whose work they are.
const EXAMPLES: [(&str, &str); 9] = [
    ("calculator", "What is 6 plus 7?"),
    ("calculator", "What is 9 minus 4?"),
    ("calculator", "What is 6 times 7?"),
    ("calculator", "What is 8 divided by 2?"),
    ("clock", "What time is it?"),
    ("clock", "What day is it today?"),
    ("desk", "Where is order A1003?"),
    ("desk", "Refund order A1002, amount 40."),
    ("desk", "What is the weather in Oslo?"),
];

/// Creates the team with a supervisor.
pub(crate) fn supervisor(config: &Config) -> AgentDef {
    let desk = demo_agent::desk_graph(config);
    let rules = team_rules(config);
    AgentDef::new("builtin:supervisor", move |model| {
        let team = Supervisor::new("supervisor", Arc::clone(&model))
            .instructions(
                "You lead a team. Hand each request to the member whose work it is, and answer with \
                 what the members report.",
            )
            .policy(rules.clone())
            .member(calculator(&model, &rules), CALCULATOR.1)
            .member(clock(&model, &rules), CLOCK.1)
            .member(desk(model), DESK.1);
        EXAMPLES.iter().fold(team, |team, (member, request)| team.example(*member, *request))
    })
    .about("a team: a supervisor of a calculator, a clock and the order desk")
}

/// Creates the swarm.
pub(crate) fn swarm(config: &Config) -> AgentDef {
    let rules = team_rules(config);
    AgentDef::new("builtin:swarm", move |model| {
        let swarm = Swarm::new("swarm")
            .member(calculator(&model, &rules), CALCULATOR.1)
            .member(clock(&model, &rules), CLOCK.1);
        let examples = EXAMPLES.iter().filter(|(member, _)| *member != DESK.0);
        examples.fold(swarm, |swarm, (member, request)| swarm.example(*member, *request))
    })
    .about("a team: a calculator and a clock that hand the conversation to each other")
}

fn team_rules(config: &Config) -> Policy {
    config.rules.as_ref().map(|rules| rules.policy()).unwrap_or_default()
}

fn calculator(model: &Arc<dyn ChatModel>, rules: &Policy) -> ReactAgent {
    let tools = ToolBox::new().with(add).with(subtract).with(multiply).with(divide);
    member(CALCULATOR.0, model, rules)
        .instructions(
            "You are a calculator. Use your tools for sums, and say only what they tell you.",
        )
        .tools(tools.with_ask_human())
}

fn clock(model: &Arc<dyn ChatModel>, rules: &Policy) -> ReactAgent {
    member(CLOCK.0, model, rules)
        .instructions(
            "You are a clock. Use your tool for date and time, and say only what it tells you.",
        )
        .tools(tool_box([Builtin::Clock]))
}

fn member(name: &str, model: &Arc<dyn ChatModel>, rules: &Policy) -> ReactAgent {
    ReactAgent::new(name, Arc::clone(model)).policy(rules.clone())
}

/// Adds two numbers.
#[tool(example(request = "What is 6 plus 7?", args = {"a": 6, "b": 7}))]
fn add(
    /// The first number.
    a: f64,
    /// The second number.
    b: f64,
) -> f64 {
    a + b
}

/// Subtracts a number from another one.
#[tool(example(request = "What is 9 minus 4?", args = {"a": 9, "b": 4}))]
fn subtract(
    /// The number from which `b` is subtracted.
    a: f64,
    /// The number that is subtracted.
    b: f64,
) -> f64 {
    a - b
}

/// Divides a number by another one.
#[tool(example(request = "What is 8 divided by 2?", args = {"a": 8, "b": 2}))]
fn divide(
    /// The number that is divided.
    a: f64,
    /// The number by which `a` is divided.
    b: f64,
) -> Result<f64, ToolError> {
    if b == 0.0 { Err(ToolError::failed("a division by zero")) } else { Ok(a / b) }
}
