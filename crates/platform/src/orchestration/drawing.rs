//! The steps of a definition as a graph that is drawn, and never executed.

use crate::definition::{
    DefinitionFolder, ForEach, Orchestration, OrchestrationMode, OrchestrationStep, Outline,
    OutlineStep,
};
use crate::state::AgentState;
use std::collections::BTreeSet;
use weftwork_graph::{BuildError, CompiledGraph, END, Graph, START, State, SubgraphState};
use weftwork_types::task::Mode;

/// Name of the agent's own work in a drawing.
const OWN_WORK: &str = "own work";
/// Maximum length of a name in a drawing, in characters.
const NAME_CHARS_MAX: usize = 100;

impl DefinitionFolder {
    /// Returns the steps of the agent as a graph to be drawn: groups are subgraphs, and dashed lines
    /// are rejections and conditions. `None` for an agent without steps.
    ///
    /// # Errors
    /// [`BuildError`] if the definition has problems.
    pub fn steps_graph(&self) -> Result<Option<CompiledGraph>, BuildError> {
        let Some(orchestration) = &self.definition.orchestration else { return Ok(None) };
        let Orchestration { steps, default_mode, .. } = orchestration;
        if steps.is_empty() {
            return Ok(None);
        }
        let outline = Outline::of(orchestration);
        let is_first = |step: &&OutlineStep| step.needs.is_empty() && step.rejections.is_empty();
        let first = outline.steps.iter().filter(is_first).map(|step| step.id.as_str()).collect();
        let level = Level::of(steps, default_mode.unwrap_or_default());
        level.draw(&self.slug, &first, Some(OWN_WORK)).map(Some)
    }
}

/// The steps of a group, or the outermost ones.
struct Level<'a> {
    steps: &'a [OrchestrationStep],
    /// Names of the boxes, in the order of the steps.
    names: Vec<String>,
    links: Vec<Link>,
}

/// A line between two steps of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Link {
    from: usize,
    to: usize,
    kind: LinkKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkKind {
    /// The second step begins after the first one.
    Order,
    /// The second step begins if the first one is rejected.
    Rejection,
}

impl<'a> Level<'a> {
    fn of(steps: &'a [OrchestrationStep], mode: OrchestrationMode) -> Self {
        let mut names = Vec::new();
        for step in steps {
            let name = label(step);
            let number = names.iter().filter(|other: &&String| other.starts_with(&name)).count();
            names.push(if number == 0 { name } else { format!("{name} {}", number + 1) });
        }
        let mut level = Self { steps, names, links: Vec::new() };
        level.link_rejections();
        for place in 0..steps.len() {
            level.link_order(place, mode);
        }
        level
    }

    fn link_rejections(&mut self) {
        for (from, step) in self.steps.iter().enumerate() {
            for id in rejections_of(step) {
                if let Some(to) = self.find(id).filter(|to| *to != from) {
                    self.links.push(Link { from, to, kind: LinkKind::Rejection });
                }
            }
        }
    }

    /// Links a step with those before it. Those that others before it need already are left out.
    fn link_order(&mut self, place: usize, mode: OrchestrationMode) {
        let Some(step) = self.steps.get(place) else { return };
        let mut before: BTreeSet<usize> =
            needs_of(step).into_iter().filter_map(|id| self.find(id)).collect();
        if step.needs.is_none() && mode == OrchestrationMode::Sequential && !self.is_target(place) {
            before.extend((0..place).filter(|other| !self.is_target(*other)));
        }
        before.remove(&place);
        let is_needed = |from: usize| {
            let leads_on = |link: &Link| link.from == from && before.contains(&link.to);
            self.links.iter().filter(|link| link.kind == LinkKind::Order).any(leads_on)
        };
        let kept: Vec<usize> = before.iter().copied().filter(|from| !is_needed(*from)).collect();
        let links = kept.into_iter().map(|from| Link { from, to: place, kind: LinkKind::Order });
        self.links.extend(links);
    }

    fn is_target(&self, place: usize) -> bool {
        self.links.iter().any(|link| link.to == place && link.kind == LinkKind::Rejection)
    }

    /// Finds the step with an id, or the group that has it.
    fn find(&self, id: &str) -> Option<usize> {
        self.steps.iter().position(|step| contains(step, id))
    }

    /// Returns `true` if a link is followed only sometimes.
    fn is_dashed(&self, link: &Link) -> bool {
        let is_conditional = self.steps.get(link.to).is_some_and(|step| step.when.is_some());
        link.kind == LinkKind::Rejection || is_conditional
    }

    fn name(&self, place: usize) -> &str {
        self.names.get(place).map(String::as_str).unwrap_or_default()
    }

    /// Draws the level. Its last steps lead to the box `then`, or to the end. The steps `first` need no
    /// others: a group with one of them begins with the orchestration, whatever its other steps need.
    fn draw(
        &self,
        name: &str,
        first: &BTreeSet<&str>,
        then: Option<&str>,
    ) -> Result<CompiledGraph, BuildError> {
        let mut graph = Graph::<AgentState>::new(name);
        for (place, step) in self.steps.iter().enumerate() {
            let name = self.name(place);
            graph = match group_of(step) {
                Some(level) => {
                    graph.subgraph(name, level.draw(name, first, None)?, SubgraphState::PerTask)
                }
                None => graph.node(name, drawn),
            };
        }
        if let Some(then) = then {
            graph = graph.node(then, drawn);
        }
        for (place, step) in self.steps.iter().enumerate() {
            let own = self.name(place);
            let links = || self.links.iter().filter(|link| link.to == place);
            // A dashed line is declared at its source.
            for link in links().filter(|link| !self.is_dashed(link)) {
                graph = graph.edge(self.name(link.from), own);
            }
            if links().next().is_none() || first.iter().any(|id| contains(step, id)) {
                graph = graph.edge(START, own);
            }
            let leads_on = |link: &Link| link.from == place && link.kind == LinkKind::Order;
            if !self.links.iter().any(leads_on) {
                graph = graph.edge(own, then.unwrap_or(END));
            }
            let dashed =
                self.links.iter().filter(|link| link.from == place && self.is_dashed(link));
            let end = is_abort(step).then_some(END);
            let targets: Vec<&str> = dashed.map(|link| self.name(link.to)).chain(end).collect();
            if !targets.is_empty() {
                graph = graph.ends(own, targets);
            }
        }
        graph.build()
    }
}

/// Work of a box, which is never executed.
async fn drawn(_: State<AgentState>) {}

/// The steps of a group; `None` for a step that is none.
fn group_of(step: &OrchestrationStep) -> Option<Level<'_>> {
    match (step.steps.is_empty(), step.parallel.is_empty()) {
        (false, _) => Some(Level::of(&step.steps, OrchestrationMode::Sequential)),
        (true, false) => Some(Level::of(&step.parallel, OrchestrationMode::Parallel)),
        (true, true) => None,
    }
}

fn within(step: &OrchestrationStep) -> impl Iterator<Item = &OrchestrationStep> {
    step.steps.iter().chain(&step.parallel)
}

fn contains(step: &OrchestrationStep, id: &str) -> bool {
    step.id.as_deref() == Some(id) || within(step).any(|inner| contains(inner, id))
}

/// Ids that a step needs, or the steps of a group.
fn needs_of(step: &OrchestrationStep) -> Vec<&str> {
    let own = step.needs.iter().flatten().map(String::as_str);
    own.chain(within(step).flat_map(needs_of)).collect()
}

/// Steps that a rejection of a step leads to, or of the steps of a group.
fn rejections_of(step: &OrchestrationStep) -> Vec<&str> {
    let own = step.checkpoint.iter().filter_map(|of| of.on_reject.as_deref());
    own.chain(within(step).flat_map(rejections_of)).collect()
}

/// Returns `true` for a checkpoint whose rejection ends the orchestration.
fn is_abort(step: &OrchestrationStep) -> bool {
    let target = step.checkpoint.as_ref().map(|of| of.on_reject.as_deref());
    target.is_some_and(|target| target.is_none_or(|target| target == "abort"))
}

/// Name of the box of a step.
fn label(step: &OrchestrationStep) -> String {
    let mut parts: Vec<String> = step.id.iter().cloned().collect();
    if let Some(agent) = &step.agent {
        parts.push(agent.clone());
        parts.extend(step.mode.filter(|mode| *mode != Mode::Build).map(|mode| mode.name().into()));
    }
    if let Some(ForEach { max, mode, .. }) = &step.for_each {
        let order = match mode {
            Some(OrchestrationMode::Parallel) => ", all at once",
            _ => "",
        };
        let max = max.map(|max| format!(", at most {max}")).unwrap_or_default();
        parts.push(format!("for each item{max}{order}"));
    }
    if let Some(checkpoint) = &step.checkpoint {
        let time = checkpoint.timeout.as_ref().map(|time| format!(" within {time}"));
        parts.push(format!("checkpoint{}", time.unwrap_or_default()));
    }
    parts.extend(step.wait.iter().map(|time| format!("wait {time}")));
    match (step.steps.is_empty(), step.parallel.is_empty()) {
        (false, _) => parts.push("sequence".to_owned()),
        (true, false) => parts.push("parallel".to_owned()),
        (true, true) => {}
    }
    parts.extend(step.when.iter().map(|when| format!("if {when}")));
    // Names of nodes have no separators of paths, and no control characters: signs like them are shown.
    let shown = |c: char| match c {
        ':' => '∶',
        '|' => '∣',
        c if c.is_control() => ' ',
        c => c,
    };
    let text = parts.join(" · ");
    let rest = text.chars().nth(NAME_CHARS_MAX).map(|_| '…');
    text.chars().take(NAME_CHARS_MAX).map(shown).chain(rest).collect()
}
