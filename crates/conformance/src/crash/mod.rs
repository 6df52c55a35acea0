//! Playing a script with crashes: for each write of each entry, once with a crash before the write
//! took effect and once with one after.
//!
//! Runs of this program: a crash drops the run at the await point of its write. What is left is what another process
//! would find: the store, the long-term store, and the side effects of the nodes. It continues as
//! [`recover`] says, plays the rest of the script, and its trace is compared as [`rule`] says. For
//! hosted runs see [`hosted`].

mod clock;
mod cut;
mod hosted;
mod pass_on;
mod recover;
mod rule;

use crate::front::{Front, Local};
use crate::node::Shared;
use crate::play::{self, Play, items, made};
use crate::spec::{Entry, Spec};
use crate::{GUARD, Opener, Setting};
use clock::Ids;
use cut::{At, Side, Watch, Watched};
use recover::{Before, Recovery, Taken};
use serde_json::{Map, Value as Json, json};
use std::fmt;
use std::sync::Arc;
use weftwork_graph::CompiledGraph;
use weftwork_graph::run_loop::Host;
use weftwork_store::items::MemoryItems;

/// Reason to pass over crashes after which a node finds its own changes.
const CHANGED_ITEMS: &str = "a node that runs again finds its own changes of the long-term store";

/// A crash in one entry.
#[derive(Debug, Clone, Copy)]
struct Crash<'a> {
    entry: usize,
    at: At,
    /// After the last write of the entry: what all writes were about. When these took effect,
    /// nothing is left to do.
    all: Option<&'a [String]>,
}

impl fmt::Display for Crash<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.at.side {
            Side::Before => "before",
            Side::After => "after",
        };
        write!(f, "crash {side} write {} of entry {}", self.at.write, self.entry)
    }
}

/// The result of playing a script once.
struct PlayedScript {
    trace: Json,
    /// Signatures of the writes of each entry.
    writes: Vec<Vec<String>>,
    /// A violation that no crash may cause, whatever the trace shows.
    fault: Option<String>,
    /// `true` if the intended crash occurred.
    crashed: bool,
    /// Reason why there is nothing to compare.
    passed_over: Option<&'static str>,
}

/// Plays a spec undisturbed, and then with each crash. Returns the undisturbed trace if all
/// crashes led to the same one; otherwise reports the crashes that did not.
pub(crate) async fn play(spec: &Spec, setting: &Setting) -> Json {
    let undisturbed = match through(spec, setting, None).await {
        Ok(played) => played,
        Err(refused) => return refused,
    };
    let mut differences = Vec::new();
    for (entry, writes) in undisturbed.writes.iter().enumerate() {
        let sides = |write| [Side::Before, Side::After].map(|side| At { write, side });
        for at in (1..=writes.len()).flat_map(sides) {
            let last = at == At { write: writes.len(), side: Side::After };
            let last = last && !setting.is_hosted();
            let crash = Crash { entry, at, all: last.then_some(writes.as_slice()) };
            let played = tokio::time::timeout(GUARD, through(spec, setting, Some(crash))).await;
            let found = match played {
                Ok(Ok(played)) => judge(&undisturbed.trace, played, &crash, setting),
                Ok(Err(refused)) => Some(refused.to_string()),
                Err(_) => Some(format!("no result within {} s", GUARD.as_secs())),
            };
            differences.extend(found.map(|found| format!("{crash}: {found}")));
        }
    }
    if differences.is_empty() { undisturbed.trace } else { json!({ "crash_error": differences }) }
}

/// Returns the problem found after a crash, if there is one.
fn judge(
    undisturbed: &Json,
    played: PlayedScript,
    crash: &Crash<'_>,
    setting: &Setting,
) -> Option<String> {
    if let Some(reason) = played.passed_over {
        setting.count(|tally| *tally.passed_over.entry(reason).or_default() += 1);
        return None;
    }
    setting.count(|tally| {
        let count = if played.crashed { &mut tally.crashes } else { &mut tally.missed };
        *count += 1;
    });
    played.fault.or_else(|| rule::difference(undisturbed, played.trace, crash))
}

/// The environment in which a spec is played, including the parts that outlive a process.
struct Ground {
    graph: CompiledGraph,
    store: Opener,
    items: Arc<MemoryItems>,
    world: Arc<Shared>,
    watch: Arc<Watch>,
}

impl Ground {
    fn new(spec: &Spec, setting: &Setting) -> Result<Self, Json> {
        let world = Arc::new(Shared::default());
        let graph = made(spec, setting, &world)?;
        let watch = Watch::new(Arc::clone(&world));
        Ok(Self { graph, store: setting.store(), items: items(), world, watch })
    }

    /// The way to run the graph in a new process.
    fn front(&self, ids: Ids) -> Front {
        let checkpointer = (self.store)();
        let watch = Arc::clone(&self.watch);
        let items = Arc::clone(&self.items);
        let host = Host::new().with_items(items).with_clock(ids.clock());
        let host = host.with_checkpointer(Arc::new(Watched { checkpointer, watch }));
        Front::Local(Local { graph: self.graph.clone(), host, streamed: false })
    }
}

/// Plays the script once, with a crash or undisturbed; the inner error is a trace as well.
async fn through(
    spec: &Spec,
    setting: &Setting,
    crash: Option<Crash<'_>>,
) -> Result<PlayedScript, Json> {
    if setting.is_hosted() {
        return hosted::through(spec, setting, crash);
    }
    let ground = Ground::new(spec, setting)?;
    let mut play = Play::new(ground.front(Ids::OfNow), spec, setting.durability);
    let mut entries = Vec::new();
    let mut writes = Vec::new();
    let mut fault = None;
    let mut crashed = false;
    for (index, entry) in spec.script.iter().enumerate() {
        let mut shown = Map::new();
        let crash = crash.filter(|crash| crash.entry == index);
        ground.watch.begin(crash.map(|crash| crash.at));
        let acted = match crash {
            None => play.act(entry, &mut shown).await,
            Some(crash) => {
                let one = One { spec, setting, ground: &ground, entry, crash };
                let taken = one.crashed(&mut play, &mut shown).await;
                let again = ground.watch.again();
                fault = again.map(|task| format!("`{task}` ran again after it was kept"));
                crashed = !matches!(taken, Ok(Taken::Uncut(_)));
                match taken {
                    Ok(Taken::Up(acted) | Taken::Uncut(acted)) => acted,
                    Ok(Taken::PassedOver(reason)) => {
                        return Ok(PlayedScript {
                            trace: Json::Null,
                            writes,
                            fault,
                            crashed,
                            passed_over: Some(reason),
                        });
                    }
                    Err(raised) => Err(raised),
                }
            }
        };
        writes.push(ground.watch.kept());
        play.show(entry, acted, &ground.world.counts, &mut shown).await;
        entries.push(Json::Object(shown));
    }
    let trace = play.whole(entries).await;
    Ok(PlayedScript { trace, writes, fault, crashed, passed_over: None })
}

/// An entry with its crash.
struct One<'a> {
    spec: &'a Spec,
    setting: &'a Setting,
    ground: &'a Ground,
    entry: &'a Entry,
    crash: Crash<'a>,
}

impl One<'_> {
    /// Plays the entry up to its crash, and takes it up as the next process does.
    async fn crashed(
        &self,
        play: &mut Play<'_>,
        shown: &mut Map<String, Json>,
    ) -> play::Played<Taken> {
        let ground = self.ground;
        let entry = self.entry;
        let before = Before::of(play, entry).await?;
        let survived = ground.watch.survive(play.act(entry, shown)).await;
        if let Some(acted) = survived {
            return Ok(Taken::Uncut(acted));
        }
        shown.clear();
        let kept = ground.watch.kept();
        let answered = ground.watch.answered();
        ground.watch.revive();
        play.front = ground.front(self.crash.at.ids());
        if ground.world.has_changed_items() && self.spec.has_changing_nodes() {
            return Ok(Taken::PassedOver(CHANGED_ITEMS));
        }
        let over = self.crash.all.is_some_and(|all| *all == kept);
        let recovery = Recovery {
            spec: self.spec,
            profile: self.setting.profile,
            entry,
            before,
            kept: kept.len(),
            answered,
            over,
        };
        recovery.take_up(play, shown).await
    }
}
