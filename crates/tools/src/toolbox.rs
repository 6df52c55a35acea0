//! The collection of a program's tools and the values provided for them.

use crate::check::{arguments_checker, output_checker};
use crate::error::{ToolBoxErrors, cut};
use crate::name::{self, ASK_HUMAN};
use crate::redact::first_member;
use crate::schema::{WHOLE, declared_members};
use crate::tool::Tool;
use crate::{Need, Policy, ToolBoxError};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_schema::{Checker, Quotes};
use weftwork_types::port::Dependencies;
use weftwork_types::tool::{Effect, ToolExample, ToolSpec, UnknownOutcome};

/// The tools of a program, and the values that it provides for them. A
/// [`ToolRunner`](crate::ToolRunner) checks all of them when it is created.
///
/// ```
/// use weftwork_tools::{Deps, ToolBox, tool};
///
/// struct Prices(u32);
///
/// /// Tells the price of a lamp.
/// #[tool]
/// fn price(prices: Deps<Prices>) -> u32 {
///     prices.0.0
/// }
///
/// let tools = ToolBox::new().with(price).with_ask_human().provide(Prices(20));
/// # let runner = weftwork_tools::ToolRunner::new(tools, weftwork_tools::Policy::new());
/// # assert_eq!(runner.expect("they fit").specs().len(), 2);
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct ToolBox {
    tools: Vec<Kind>,
    pub(crate) provided: Dependencies,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Run(Arc<dyn Tool>),
    AskHuman,
}

impl ToolBox {
    /// Creates an empty tool box.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    pub fn with(self, tool: impl Tool + 'static) -> Self {
        self.with_shared(Arc::new(tool))
    }

    /// Adds a tool that the caller shares.
    pub fn with_shared(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(Kind::Run(tool));
        self
    }

    /// Adds tools that the caller shares, such as those of MCP servers.
    pub fn with_all(self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        tools.into_iter().fold(self, Self::with_shared)
    }

    /// Adds `ask_human`: the model asks the person, the run waits, and the answer is the result.
    pub fn with_ask_human(mut self) -> Self {
        self.tools.push(Kind::AskHuman);
        self
    }

    /// Provides a value that tools receive as [`Deps<T>`](crate::Deps), replacing an earlier one of
    /// the same type. A value of the same type that a run has takes precedence.
    pub fn provide<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.provide_shared(Arc::new(value))
    }

    /// Provides a value that the caller shares.
    pub fn provide_shared<T: Send + Sync + 'static>(mut self, value: Arc<T>) -> Self {
        self.provided = self.provided.with_shared(value);
        self
    }

    /// Declares a run-scoped dependency: tools receive a [`Deps<T>`](crate::Deps) that each run has
    /// of its own, from the function that their graph is hosted with.
    pub fn provide_run_scoped<T: Send + Sync + 'static>(mut self) -> Self {
        self.provided = self.provided.with_run_scoped::<T>();
        self
    }

    /// Canonical names of the tools, in the order in which they were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|kind| match kind {
            Kind::Run(tool) => tool.spec().name.as_str(),
            Kind::AskHuman => ASK_HUMAN,
        })
    }

    /// Descriptions of the tools that have code.
    pub(crate) fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.iter().filter_map(|kind| match kind {
            Kind::Run(tool) => Some(tool.spec()),
            Kind::AskHuman => None,
        })
    }

    /// Checks all tools, with the policy for them, and compiles their schemas.
    pub(crate) fn compile(&self, policy: &Policy) -> Result<Catalogue, ToolBoxErrors> {
        let mut problems = policy.problems(self);
        let mut entries: BTreeMap<String, Arc<Entry>> = BTreeMap::new();
        let mut order = Vec::new();
        for kind in &self.tools {
            match Entry::compile(kind.clone(), &self.provided, &mut problems) {
                None => {}
                Some(entry) => match entries.get(&entry.wire_name) {
                    Some(other) => problems.push(ToolBoxError::Collision {
                        other: other.spec.name.clone(),
                        name: entry.spec.name.clone(),
                        wire_name: entry.wire_name,
                    }),
                    None => {
                        order.push(entry.wire_name.clone());
                        entries.insert(entry.wire_name.clone(), Arc::new(entry));
                    }
                },
            }
        }
        ToolBoxErrors::unless_empty(problems)?;
        Ok(Catalogue { entries, order })
    }
}

/// Checked tools by wire name.
#[derive(Debug)]
pub(crate) struct Catalogue {
    entries: BTreeMap<String, Arc<Entry>>,
    order: Vec<String>,
}

impl Catalogue {
    pub(crate) fn get(&self, wire_name: &str) -> Option<&Arc<Entry>> {
        self.entries.get(wire_name)
    }

    pub(crate) fn nearest(&self, found: &str) -> Option<&str> {
        name::nearest(found, self.entries.keys().map(String::as_str))
    }

    /// The tools in the order in which they were added.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.order.iter().filter_map(|wire_name| self.entries.get(wire_name))
    }
}

/// A checked tool.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) spec: ToolSpec,
    pub(crate) wire_name: String,
    pub(crate) kind: Kind,
    pub(crate) args: Checker,
    pub(crate) output: Option<Checker>,
}

impl Entry {
    /// The members of a result that may be shown.
    pub(crate) fn shown(&self) -> &[String] {
        self.spec.shown.as_deref().unwrap_or_default()
    }

    fn compile(
        kind: Kind,
        provided: &Dependencies,
        problems: &mut Vec<ToolBoxError>,
    ) -> Option<Self> {
        let spec = match &kind {
            Kind::Run(tool) => tool.spec().clone(),
            Kind::AskHuman => ask_human_spec(),
        };
        let before = problems.len();
        let mut note = |problem: ToolBoxError| problems.push(problem);
        let wire_name = name::wire_name(&spec.name).map_err(&mut note).ok();
        let args = arguments_checker(&spec.name, &spec.parameters).map_err(&mut note).ok();
        let output = spec.output.as_ref().map(|schema| output_checker(&spec.name, schema));
        let output = output.transpose().map_err(&mut note).ok().flatten();
        if let Kind::Run(tool) = &kind {
            check_tool(&spec, tool.as_ref(), provided, &mut note);
        }
        if let Some(args) = &args {
            check_examples(&spec, args, &mut note);
        }
        check_shown(&spec, &mut note);
        if problems.len() > before {
            return None;
        }
        Some(Self { wire_name: wire_name?, args: args?, spec, kind, output })
    }
}

fn check_tool(
    spec: &ToolSpec,
    tool: &dyn Tool,
    provided: &Dependencies,
    note: &mut impl FnMut(ToolBoxError),
) {
    if spec.name == ASK_HUMAN {
        note(ToolBoxError::Collision {
            other: ASK_HUMAN.to_owned(),
            name: ASK_HUMAN.to_owned(),
            wire_name: ASK_HUMAN.to_owned(),
        });
    }
    if spec.on_unknown == UnknownOutcome::Reconcile && tool.reconcile().is_none() {
        note(ToolBoxError::NoReconcile { name: spec.name.clone() });
    }
    for Need { type_name, .. } in
        tool.needs().into_iter().filter(|need| !provided.declares(need.id))
    {
        note(ToolBoxError::MissingDependency { name: spec.name.clone(), type_name });
    }
}

fn check_examples(spec: &ToolSpec, args: &Checker, note: &mut impl FnMut(ToolBoxError)) {
    for (i, ToolExample { args: example, .. }) in spec.examples.iter().enumerate() {
        if let Err(detail) = args.check(example, Quotes::Values) {
            note(ToolBoxError::Example { name: spec.name.clone(), index: i + 1, detail });
        }
    }
}

fn check_shown(spec: &ToolSpec, note: &mut impl FnMut(ToolBoxError)) {
    let Some(declared) = spec.output.as_ref().and_then(declared_members) else { return };
    for member in spec.shown.iter().flatten() {
        let first = first_member(member).to_owned();
        if member != WHOLE && !declared.contains(member) && !declared.contains(&first) {
            note(ToolBoxError::Shown {
                name: spec.name.clone(),
                member: cut(member, 80),
                declared: if declared.is_empty() {
                    "none, because it is not an object; use `.` for the whole result".to_owned()
                } else {
                    declared.join(", ")
                },
            });
        }
    }
}

/// The tool that asks the person.
fn ask_human_spec() -> ToolSpec {
    ToolSpec {
        name: ASK_HUMAN.to_owned(),
        description: "Asks the person a question and waits for the answer. Use it when something \
            is missing that only the person knows."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {"question": {
                "type": "string", "minLength": 1, "description": "The question, as the person reads it.",
            }},
            "required": ["question"],
            "additionalProperties": false,
        }),
        output: None,
        effect: Effect::ReadOnly,
        on_unknown: UnknownOutcome::Idempotent,
        shown: Some(vec![WHOLE.to_owned()]),
        examples: vec![ToolExample {
            request: "Send it to my other address.".to_owned(),
            args: json!({"question": "Which address do you mean?"}),
        }],
    }
}
