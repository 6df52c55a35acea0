//! A cashier with a clerk or a lead before it, as a team of each form.

use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use weftwork_agents::{ReactAgent, Supervisor, Swarm};
use weftwork_graph::CompiledGraph;
use weftwork_models::scripted::ScriptedModel;
use weftwork_models::scripted::Step;
use weftwork_runtime::{Runtime, Thread};
use weftwork_store::memory::MemoryStore;
use weftwork_testkit::ManualClock;
use weftwork_tools::{Deps, Policy, ToolBox, ToolContext, tool};
use weftwork_types::interrupt::Interrupt;
use weftwork_types::message::{Message, Role};
use weftwork_types::port::Limits;
use weftwork_types::{OrgId, Principal};

/// The forms in which a cashier works for another agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A member that a supervisor hands the work to.
    Supervisor,
    /// The same, within a team within another graph.
    Nested,
    /// A member that another one hands the conversation to.
    Swarm,
    /// A tool of another agent.
    Tool,
}

pub(super) const FORMS: [Form; 4] = [Form::Supervisor, Form::Nested, Form::Swarm, Form::Tool];

/// Payments that were made, and for whom.
#[derive(Debug, Default)]
pub(super) struct Till {
    paid: AtomicU32,
    by: Mutex<Vec<String>>,
}

/// Pays an amount out.
#[tool(effect = external_side_effect, on_unknown = idempotent)]
fn pay(euros: u32, context: ToolContext, till: Deps<Till>) -> String {
    till.paid.fetch_add(1, Ordering::SeqCst);
    let who = context.principal();
    let by = format!("{}/{}/{}", who.org, who.subject, context.thread());
    till.by.lock().expect("no panic").push(by);
    format!("paid {euros} euros")
}

/// Refunds an amount, which a person approves.
#[tool(effect = external_side_effect, on_unknown = idempotent)]
fn refund(euros: u32, till: Deps<Till>) -> String {
    till.paid.fetch_add(1, Ordering::SeqCst);
    format!("refunded {euros} euros")
}

/// A store, the models and the till, which outlive processes.
pub(super) struct World {
    pub(super) form: Form,
    pub(super) lead: Arc<ScriptedModel>,
    pub(super) cashier: Arc<ScriptedModel>,
    pub(super) till: Arc<Till>,
    pub(super) clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
}

impl World {
    /// A world in which the cashier's model takes these steps.
    pub(super) fn new(form: Form, cashier: Vec<Step>) -> Self {
        let hand_off = match form {
            Form::Tool => Step::call("ask_cashier", json!({"request": "Pay 5 euros."})),
            _ => Step::call("transfer_to_cashier", json!({})),
        };
        let lead = match form {
            Form::Swarm => vec![hand_off],
            _ => vec![hand_off, Step::text("All is done.")],
        };
        let clock = Arc::new(ManualClock::new());
        let model = |steps| {
            let model = ScriptedModel::from_steps(steps);
            Arc::new(model.paced(Arc::clone(&clock) as _, std::time::Duration::ZERO))
        };
        Self {
            form,
            lead: model(lead),
            cashier: model(cashier),
            till: Arc::default(),
            store: Arc::default(),
            clock: Arc::clone(&clock),
        }
    }

    fn cashier(&self) -> ReactAgent {
        let tools = ToolBox::new().with(pay).with(refund).with_ask_human();
        let policy = Policy::new().allow("pay").and_then(|p| p.ask_human("refund", "it is money"));
        ReactAgent::new("cashier", Arc::clone(&self.cashier))
            .tools(tools.provide_shared(Arc::clone(&self.till)))
            .policy(policy.expect("names"))
    }

    pub(super) fn graph(&self) -> CompiledGraph {
        let lead = Arc::clone(&self.lead);
        let name = "team";
        let about = "pays and refunds";
        let built = match self.form {
            Form::Supervisor | Form::Nested => {
                let cashier = self.cashier().build().expect("sound");
                Supervisor::new(name, lead).member(cashier, about).build()
            }
            Form::Swarm => Swarm::new(name)
                .member(ReactAgent::new("clerk", lead), "greets people")
                .member(self.cashier(), about)
                .build(),
            Form::Tool => {
                let cashier = self.cashier().as_tool("ask_cashier", about).expect("sound");
                ReactAgent::new(name, lead).tools(ToolBox::new().with(cashier)).build()
            }
        };
        let team = built.expect("a sound team");
        match self.form {
            Form::Nested => super::office(team),
            _ => team,
        }
    }

    /// Opens a process with a budget for each run.
    pub(super) async fn process(&self, limits: Limits) -> Process {
        let runtime = Runtime::builder(Arc::clone(&self.store) as _)
            .clock(Arc::clone(&self.clock) as _)
            .budgets(limits)
            .graph("team", self.graph())
            .open()
            .await
            .expect("opens");
        let who = Principal::new(OrgId::new("north").expect("an id"), "ada");
        let thread = runtime.thread("team", "t").expect("valid names").with_principal(who);
        Process { thread, _runtime: runtime }
    }

    pub(super) fn paid(&self) -> u32 {
        self.till.paid.load(Ordering::SeqCst)
    }

    pub(super) fn paid_by(&self) -> Vec<String> {
        self.till.by.lock().expect("no panic").clone()
    }

    /// The numbers of model calls of the lead and the cashier.
    pub(super) fn asked(&self) -> (usize, usize) {
        (self.lead.calls(), self.cashier.calls())
    }

    /// The number of model calls of the lead in a run that completes.
    pub(super) fn lead_calls(&self) -> usize {
        if self.form == Form::Swarm { 1 } else { 2 }
    }
}

/// A runtime with the thread of the team.
pub(super) struct Process {
    pub(super) thread: Thread,
    _runtime: Runtime,
}

impl Process {
    pub(super) async fn question(&self) -> Interrupt {
        let mut open = self.thread.questions().await.expect("reads");
        assert_eq!(open.len(), 1, "{open:?}");
        open.remove(0)
    }
}

/// Input in which a person says something.
pub(super) fn said(text: &str) -> Value {
    crate::desk::said(text)
}

pub(super) fn text_of(output: &Value) -> Vec<String> {
    let messages: Vec<Message> =
        serde_json::from_value(output["messages"].clone()).expect("messages");
    let text = |message: &Message| {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
            Role::System => "system",
        };
        let calls: Vec<&str> = message.tool_calls().map(|call| call.name.as_str()).collect();
        let results: Vec<String> =
            message.tool_results().map(|result| result.value.to_string()).collect();
        format!("{role}: {}{}{}", message.joined_text(), calls.join(","), results.join(","))
    };
    messages.iter().map(text).collect()
}
