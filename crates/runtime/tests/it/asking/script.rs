//! Takes the graph of a seed to its end by drawn requests, and compares what becomes of its
//! questions and answers with what must.

use super::build::{self, Scene, Witness};
use super::front::{Ended, Front, Listed, Request, Told, WITHIN};
use super::spec::Shape;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use weftwork_graph::Semantics;
use weftwork_graph::run_loop::SubState;
use weftwork_store::Store;
use weftwork_testkit::sim::Draw;
use weftwork_types::interrupt::{Ask, Interrupt};
use weftwork_types::{CheckpointId, InterruptId, OrgId, Principal};

/// Drawn requests of a thread, before the ones that take it to its end.
const STEPS: usize = 12;
/// Requests that may be needed to take a thread to its end.
const ROUNDS_MAX: usize = 60;

/// Conditions under which a graph is run.
#[derive(Debug, Clone)]
pub(super) struct Manner {
    pub(super) semantics: Profile,
    /// The store of hosted runs; none: the runs are those of this program.
    pub(super) store: Option<Arc<dyn Store>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Profile {
    Weft,
    LangGraph,
}

/// A broken law.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Flaw {
    /// An answer reached another question, or a question took another answer.
    Answer(String),
    /// The places that list open questions differ.
    Listing(String),
    /// An open question is gone without an answer.
    Lost(String),
    /// A question is asked again after its answer.
    Again(String),
    /// A request is refused that must not be, or accepted that must be refused.
    Refusal(String),
    /// The thread does not come to its end, or to another one.
    End(String),
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

type Questions = BTreeMap<InterruptId, String>;

fn questions(all: &[Interrupt]) -> Questions {
    let text = |asked: &Interrupt| match &asked.ask {
        Ask::Value { value: Value::String(text) } => text.clone(),
        other => format!("{other:?}"),
    };
    all.iter().map(|asked| (asked.id, text(asked))).collect()
}

/// Questions in an order that does not depend on ids, which no seed determines.
fn in_order(all: &Questions) -> Vec<(InterruptId, String)> {
    let mut all: Vec<_> = all.clone().into_iter().collect();
    all.sort_by(|(_, one), (_, other)| one.cmp(other));
    all
}

/// Effect of a request on the questions that were open before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// They stay open unless it answers them.
    Keeps,
    /// Another branch begins, with questions of its own.
    Leaves,
}

/// A thread and what is known of its questions.
pub(super) struct Play {
    front: Front,
    witness: Arc<Witness>,
    draw: Draw,
    profile: Profile,
    /// `true` for runs of this program, which no log of answers outlives.
    is_local: bool,
    crashes: bool,
    expected: Vec<String>,
    open: Questions,
    answered: Questions,
    /// Texts that are asked anew: a branch or a change has left their answers behind.
    anew: BTreeSet<String>,
    /// Beginnings of the texts of changed subgraphs.
    changed: Vec<String>,
    /// Texts of questions whose answers may be on record, or lost with a process of this program.
    unsure: BTreeSet<String>,
    answers: u64,
    is_over: bool,
    /// `true` if the log may have other questions than the graph asks in one run of all its nodes.
    skips: bool,
    loud: bool,
    flaws: Vec<Flaw>,
}

impl Play {
    pub(super) fn new(seed: u64, manner: &Manner) -> Self {
        let shape = Shape::draw(seed);
        let mut draw = Draw::new(seed ^ 0xa_54ed);
        let witness = Witness::new();
        let profile = manner.semantics;
        let semantics = match profile {
            Profile::Weft => Semantics::weft(),
            Profile::LangGraph => Semantics::langgraph(),
        };
        let scene = Scene { semantics, witness: Arc::clone(&witness) };
        let graph = build::graph(&shape, &scene);
        let rebuilds = draw.chance(30);
        let loud = super::number("WEFT_SEED").is_some();
        if loud {
            println!("{shape:#?}");
        }
        let front = match &manner.store {
            None => Front::local(graph, rebuilds),
            Some(store) => {
                let org = OrgId::new(format!("asking-{profile:?}-{seed}").to_lowercase());
                let who = Principal { org: org.expect("an id"), ..Principal::local() };
                Front::hosted(graph, Arc::clone(store), who, rebuilds)
            }
        };
        let crashes = draw.chance(30);
        let expected = shape.questions();
        Self {
            front,
            witness,
            draw,
            profile,
            is_local: manner.store.is_none(),
            crashes,
            expected,
            open: Questions::new(),
            answered: Questions::new(),
            anew: BTreeSet::new(),
            changed: Vec::new(),
            unsure: BTreeSet::new(),
            answers: 0,
            is_over: false,
            skips: false,
            loud,
            flaws: Vec::new(),
        }
    }

    /// Plays to the end, and returns what was wrong.
    pub(super) fn play(mut self) -> Vec<Flaw> {
        self.request_unchanged(&Request::Start, "start");
        for _ in 0..STEPS {
            if self.is_over && self.draw.chance(50) {
                break;
            }
            self.step();
        }
        self.finish();
        let misled = self.witness.misled().into_iter().map(Flaw::Answer);
        self.flaws.extend(misled);
        self.flaws
    }

    fn is_weft(&self) -> bool {
        self.profile == Profile::Weft
    }

    fn step(&mut self) {
        let number = self.draw.below(100);
        if self.is_over {
            return if number < 50 { self.fork() } else { self.answer_the_past() };
        }
        match number {
            0..12 => self.request_unchanged(&Request::Continue, "continue"),
            12..20 => self.request_unchanged(&Request::Note, "note"),
            20..25 => self.answer_nothing_open(),
            25..29 => self.answer_again(),
            29..34 => self.fork(),
            34..39 => self.answer_the_past(),
            39..45 => self.change_within(),
            45..47 => self.change(),
            47..50 => self.front.restart(),
            _ => self.answer_some(),
        }
    }

    fn finish(&mut self) {
        for _ in 0..ROUNDS_MAX {
            if self.is_over {
                return;
            }
            self.answer_some();
        }
        self.flaws.push(Flaw::End(format!("no end; open are {:?}", self.open)));
    }

    fn answer_some(&mut self) {
        let all = in_order(&self.open);
        let mut chosen = self.draw.some(&all, 50);
        if chosen.is_empty() {
            chosen = self.draw.pick(&all).cloned().into_iter().collect();
        }
        if chosen.is_empty() {
            return self.request_unchanged(&Request::Continue, "continue");
        }
        let answers = self.answers_to(chosen);
        self.request(&Request::Answer(answers), None, Effect::Keeps);
    }

    /// Answers to questions, which must get them.
    fn answers_to(&mut self, chosen: Vec<(InterruptId, String)>) -> BTreeMap<InterruptId, Value> {
        let mut answers = BTreeMap::new();
        for (id, text) in chosen {
            self.answers += 1;
            self.witness.expect(&text, self.answers);
            answers.insert(id, build::answer(&text, self.answers));
        }
        answers
    }

    /// Answers a question that does not exist.
    fn answer_nothing_open(&mut self) {
        let id = InterruptId(u128::from(self.draw.bits()));
        self.answer_refused(id, "nothing");
    }

    /// Answers a question that has its answer.
    fn answer_again(&mut self) {
        let all = in_order(&self.answered);
        let Some((id, _)) = self.draw.pick(&all).cloned() else { return };
        // In the reference the answer goes on to the next question of the task.
        if self.is_weft() {
            self.answer_refused(id, "again");
        }
    }

    fn answer_refused(&mut self, id: InterruptId, law: &str) {
        let answers = BTreeMap::from([(id, build::answer("nothing", 0))]);
        let told = self.run(&Request::Answer(answers), None);
        match &told.ended {
            Ended::Refused(fault) if self.is_weft() => {
                let named = |id: &InterruptId| fault.message.contains(&id.to_string());
                if law == "nothing" && !self.open.keys().all(named) {
                    let what = format!("{}: {} does not name the open ones", law, fault.message);
                    self.flaws.push(Flaw::Refusal(what));
                }
            }
            Ended::Refused(fault) => {
                self.flaws.push(Flaw::Refusal(format!("{law}: {fault:?}")));
            }
            _ if self.is_weft() => {
                self.flaws.push(Flaw::Refusal(format!("{law}: an answer to {id} is accepted")));
            }
            _ => {}
        }
        self.check(&told, Effect::Keeps);
    }

    /// Runs the tasks due at a checkpoint again.
    fn fork(&mut self) {
        let history = self.front.history();
        let due: Vec<_> = history.iter().filter(|one| !one.next.is_empty()).collect();
        let Some(at) = self.draw.pick(&due).and_then(|one| one.checkpoint()) else { return };
        self.leave();
        self.request(&Request::Continue, Some(at), Effect::Leaves);
    }

    /// Answers a question of a checkpoint that is not the newest.
    fn answer_the_past(&mut self) {
        let history = self.front.history();
        let mut asked = Vec::new();
        for past in history.iter().skip(1) {
            let Some(at) = past.checkpoint() else { continue };
            let past = in_order(&questions(&past.interrupts));
            asked.extend(past.into_iter().map(|question| (at, question)));
        }
        let Some((at, question)) = self.draw.pick(&asked).cloned() else { return };
        self.leave();
        if !self.is_weft() {
            // In the reference a task keeps the answer that it took there before.
            self.witness.expect_any(&question.1);
        }
        let answers = self.answers_to(vec![question]);
        self.request(&Request::Answer(answers), Some(at), Effect::Leaves);
    }

    fn leave(&mut self) {
        self.witness.expect_nothing();
        self.anew.extend(self.answered.values().cloned());
        self.is_over = false;
    }

    /// Changes a waiting subgraph.
    fn change_within(&mut self) {
        let Some((ns, name)) = self.waiting_subgraph() else { return };
        let before = self.open.clone();
        let request = Request::Update { ns: ns.clone(), as_node: None };
        let told = self.run(&request, None);
        if !matches!(told.ended, Ended::Completed(_)) {
            // Several nodes ran last, so that none can be inferred.
            return;
        }
        self.changed.push(format!("{name}_"));
        self.anew.extend(self.answered.values().cloned());
        let has_note = |ns: &str| {
            let state = self.front.state(ns).ok();
            let notes = state.and_then(|state| state.values["note"].as_array().cloned());
            notes.is_some_and(|notes| notes.iter().any(|note| note == WITHIN))
        };
        if !has_note(&ns) || has_note("") {
            self.flaws.push(Flaw::End(format!("the change of `{ns}` went elsewhere")));
        }
        let listed = self.front.listed();
        self.compare(&listed);
        self.open = self.unanswered(&listed);
        let due = self.front.state(&ns).map(|state| state.next).unwrap_or_default();
        let stays = |text: &str| {
            let is_within = text.starts_with(&format!("{name}_"));
            !is_within || due.iter().any(|node| text.starts_with(node.as_str()))
        };
        let mut gone = before.iter().filter(|(id, _)| !self.open.contains_key(id));
        if let Some((_, text)) = gone.find(|(_, text)| self.is_weft() && stays(text)) {
            self.flaws.push(Flaw::Lost(format!("`{text}` is not open after a change of `{ns}`")));
        }
        let acts = self.witness.acts();
        if self.draw.chance(50) {
            self.request_unchanged(&Request::Continue, "continue after a change");
            if acts == self.witness.acts() && !self.is_over {
                self.flaws.push(Flaw::End("nothing runs after a change within".to_owned()));
            }
        }
    }

    /// Namespace of a waiting subgraph, and the name of its node.
    fn waiting_subgraph(&mut self) -> Option<(String, String)> {
        let mut found = Vec::new();
        let mut places = vec![String::new()];
        while let Some(place) = places.pop() {
            let Ok(state) = self.front.state(&place) else { continue };
            for task in state.tasks.iter().filter(|task| !task.interrupts.is_empty()) {
                if let Some(SubState::Checkpoint(config)) = &task.state {
                    found.push((config.ns.clone(), task.name.clone()));
                    places.push(config.ns.clone());
                }
            }
        }
        self.draw.pick(&found).cloned()
    }

    /// Changes the thread so that all begins again.
    fn change(&mut self) {
        self.leave();
        self.skips = true;
        let as_node = Some("__start__".to_owned());
        self.request(&Request::Update { ns: String::new(), as_node }, None, Effect::Leaves);
        self.is_over = false;
    }

    fn request_unchanged(&mut self, request: &Request, why: &str) {
        if self.loud {
            println!("-- {why}");
        }
        self.request(request, None, Effect::Keeps);
    }

    /// A request that must be accepted.
    fn request(&mut self, request: &Request, at: Option<CheckpointId>, effect: Effect) {
        let told = self.run(request, at);
        if let Ended::Refused(fault) = &told.ended {
            let what = format!("{request:?} at {at:?}: {} {}", fault.code, fault.message);
            self.flaws.push(Flaw::Refusal(what));
        }
        if let Request::Answer(answers) = request {
            let known = |id: &InterruptId| self.open.get(id).cloned().unwrap_or_default();
            for id in answers.keys() {
                let text = known(id);
                if matches!(told.ended, Ended::Died) {
                    self.witness.expect_any(&text);
                }
                if !matches!(told.ended, Ended::Refused(_)) && effect == Effect::Keeps {
                    self.anew.remove(&text);
                    self.answered.insert(*id, text);
                }
            }
        }
        self.check(&told, effect);
    }

    fn run(&mut self, request: &Request, at: Option<CheckpointId>) -> Told {
        let dies = self.crashes && self.draw.chance(30);
        let acts = 1 + self.draw.below(5) as u64;
        self.witness.dies_after(dies.then_some(acts));
        let told = self.front.request(request, at, &self.witness);
        self.witness.dies_after(None);
        if self.loud {
            println!("{request:?} at {at:?} -> {told:?}");
        }
        told
    }

    /// Compares what is listed after a request with what must be.
    fn check(&mut self, told: &Told, effect: Effect) {
        let listed = self.front.listed();
        if self.loud {
            println!("   listed {listed:?}");
        }
        let now = self.unanswered(&listed);
        if let (Ended::Waits(asked), true) = (&told.ended, self.is_weft()) {
            let asked = questions(asked);
            self.same("outcome", &asked, "state", &now);
            let streamed = questions(&told.streamed);
            let unseen = now.keys().filter(|id| !self.open.contains_key(id));
            if let Some(id) = unseen.into_iter().find(|id| !streamed.contains_key(id)) {
                let what = format!("{id} is asked, the stream has {streamed:?}");
                self.flaws.push(Flaw::Listing(what));
            }
        }
        if let (Ended::Failed | Ended::Died, true) = (&told.ended, self.is_local) {
            // Nothing recorded answers that no question took before the failure.
            for (id, text) in questions(&listed.state) {
                if self.answered.remove(&id).is_some() {
                    self.witness.expect_any(&text);
                    self.unsure.insert(text);
                }
            }
        }
        let now = self.unanswered(&listed);
        // In the reference a question that waits is asked again, after those before it.
        if effect == Effect::Keeps && self.is_weft() {
            let before = std::mem::take(&mut self.open);
            for (id, text) in before {
                let gone = !now.contains_key(&id) && !self.answered.contains_key(&id);
                if gone && !self.is_unsure(&text) {
                    self.flaws.push(Flaw::Lost(format!("`{text}` is not open after {told:?}")));
                }
            }
        }
        self.compare(&listed);
        for text in now.values() {
            let answered = self.answered.values().any(|answered| answered == text);
            if answered && !self.anew.contains(text) && !self.is_unsure(text) {
                self.flaws.push(Flaw::Again(format!("`{text}` after {:?}", told.ended)));
            }
        }
        self.open = now;
        if let Ended::Completed(log) = &told.ended {
            self.end(log);
        }
    }

    fn end(&mut self, log: &[String]) {
        self.is_over = true;
        let mut found = log.to_vec();
        found.sort();
        if found != self.expected && !self.skips {
            let what = format!("found {found:?}, expected {:?}", self.expected);
            self.flaws.push(Flaw::End(what));
        }
    }

    /// Returns `true` if a question may come again, or not: its subgraph was changed, or a process
    /// died with its answer before it was recorded.
    fn is_unsure(&self, text: &str) -> bool {
        let changed = self.changed.iter().any(|start| text.starts_with(start.as_str()));
        changed || self.unsure.contains(text)
    }

    /// The questions of a state that have no answer yet. The reference shows answered ones too.
    fn unanswered(&self, listed: &Listed) -> Questions {
        let mut all = questions(&listed.state);
        if !self.is_weft() {
            all.retain(|id, _| !self.answered.contains_key(id));
        }
        all
    }

    /// Compares the places that list open questions.
    fn compare(&mut self, listed: &Listed) {
        let state = self.unanswered(listed);
        for id in state.keys().filter(|id| self.answered.contains_key(id)) {
            self.flaws.push(Flaw::Again(format!("{id} is listed after its answer")));
        }
        if let Some(stored) = &listed.stored {
            self.same("thread", &questions(&stored.thread), "state", &state);
            self.same("inbox", &questions(&stored.inbox), "state", &state);
        }
    }

    fn same(&mut self, one: &str, listed: &Questions, other: &str, expected: &Questions) {
        if listed != expected {
            let what = format!("{one} has {listed:?}, {other} has {expected:?}");
            self.flaws.push(Flaw::Listing(what));
        }
    }
}
