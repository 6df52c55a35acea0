//! Invariants of every thread.

use super::Broken;
use super::model::Point;
use super::saver::{Kept, Watching, point};
use super::script::Stage;
use super::spec::Spec;
use futures_util::FutureExt;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_graph::Durability;
use weftwork_graph::run_loop::Checkpointer;
use weftwork_graph::run_loop::{CheckpointAddress, Source, StoredCheckpoint, TaskKey};
use weftwork_types::CheckpointId;

/// All laws that need no model.
pub(super) fn check(spec: &Spec, stage: &Stage, durability: Durability) -> Result<(), Broken> {
    let kept = stage.checkpointer.kept().clone();
    for (place, kept) in &kept {
        let saved = saved(&stage.checkpointer, place);
        is_a_tree(place, kept)?;
        values_stay(place, kept, &saved)?;
    }
    let outermost = kept.iter().find(|(place, _)| place.ns.is_empty());
    // At the end no more is kept than where a thread stands.
    if let (Some((place, outermost)), false) = (outermost, durability == Durability::Exit) {
        ids_follow(outermost, &kept)?;
        let kept = outermost;
        counted_once(spec, kept, &saved(&stage.checkpointer, place))?;
        joins_run_once(spec, kept, &saved(&stage.checkpointer, place))?;
    }
    if let Some(node) = stage.probe.made_again().first() {
        let what = format!("a call of `{node}`");
        return Err(Broken::new("what is on record is not called again", what));
    }
    match stage.probe.repeated().first() {
        Some(node) => Err(Broken::new(
            "what finished and was kept does not run again",
            format!("`{node}` ran again"),
        )),
        None => Ok(()),
    }
}

fn saved(saver: &Watching, place: &CheckpointAddress) -> BTreeMap<CheckpointId, StoredCheckpoint> {
    // In memory checkpoints are kept as they are, whatever the plan.
    let plan = Arc::new(weftwork_engine::Plan::default());
    let listed = saver.inner().list(place, &plan, None, usize::MAX).now_or_never();
    let listed = listed.expect("it is in memory").expect("it can be read");
    listed.into_iter().map(|saved| (saved.checkpoint.id, saved)).collect()
}

fn is_a_tree(place: &CheckpointAddress, kept: &[Kept]) -> Result<(), Broken> {
    let law = "the history is a tree, one step after the other";
    for (index, one) in kept.iter().enumerate() {
        let earlier = &kept[..index];
        if earlier.iter().any(|other| other.id >= one.id) {
            return Err(Broken::new(law, format!("{} of {place:?} is not the newest", one.id)));
        }
        let Some(parent) = one.parent else { continue };
        let step = earlier.iter().find(|other| other.id == parent).map(|parent| parent.step);
        if step.is_none_or(|step| step >= one.step) {
            let what = format!("step {} follows {step:?} in {place:?}", one.step);
            return Err(Broken::new(law, what));
        }
    }
    Ok(())
}

/// A checkpoint of the outermost graph is newer than all that its thread had then.
fn ids_follow(
    outermost: &[Kept],
    all: &BTreeMap<CheckpointAddress, Vec<Kept>>,
) -> Result<(), Broken> {
    for (place, kept) in all.iter().filter(|(place, _)| !place.ns.is_empty()) {
        for within in kept {
            let mut later = outermost.iter().filter(|one| one.order > within.order);
            if let Some(one) = later.find(|one| one.id <= within.id) {
                let what = format!("{} came after {} of {place:?}", one.id, within.id);
                return Err(Broken::new("ids of all graphs of a thread sort by age", what));
            }
        }
    }
    Ok(())
}

/// A checkpoint shows at the end what it showed when it was kept.
fn values_stay(
    place: &CheckpointAddress,
    kept: &[Kept],
    saved: &BTreeMap<CheckpointId, StoredCheckpoint>,
) -> Result<(), Broken> {
    for one in kept {
        let now = saved.get(&one.id).map(|saved| point(&saved.checkpoint.machine));
        if now.as_ref() != Some(&one.point) {
            let what = format!("{} of {place:?} was {:?}, is {now:?}", one.id, one.point);
            return Err(Broken::new("a checkpoint never changes", what));
        }
    }
    Ok(())
}

/// The nodes of a superstep whose results are on record.
fn finished(saved: &StoredCheckpoint) -> impl Iterator<Item = &str> {
    saved.tasks.iter().filter_map(|(key, record)| match key {
        TaskKey::Node { node, .. } if record.output().is_some() => Some(&**node),
        _ => None,
    })
}

/// Each task adds one to `total`: between two checkpoints it grows by what is on record.
fn counted_once(
    spec: &Spec,
    kept: &[Kept],
    saved: &BTreeMap<CheckpointId, StoredCheckpoint>,
) -> Result<(), Broken> {
    let total = |point: &Point| point.values["total"].as_i64().unwrap_or_default();
    for one in kept.iter().filter(|one| one.source == Source::Loop) {
        let parent = one.parent.and_then(|id| kept.iter().find(|kept| kept.id == id));
        let Some((parent, before)) = parent.and_then(|p| Some((p, saved.get(&p.id)?))) else {
            continue;
        };
        if one.step != parent.step + 1 {
            continue;
        }
        let counts = |name: &&str| {
            let name = name.strip_prefix("__error_handler__").unwrap_or(name);
            spec.index(name).is_some_and(|index| spec.nodes[index].inner.is_none())
        };
        let recorded = finished(before).filter(counts).count();
        let grown = total(&one.point) - total(&parent.point);
        if usize::try_from(grown) != Ok(recorded) {
            let what = format!("step {} counts {grown}, on record are {recorded}", one.step);
            return Err(Broken::new("what finished counts once", what));
        }
    }
    Ok(())
}

/// A node that only a join leads to runs at most as often as each of the join's sources finished.
fn joins_run_once(
    spec: &Spec,
    kept: &[Kept],
    saved: &BTreeMap<CheckpointId, StoredCheckpoint>,
) -> Result<(), Broken> {
    let led_otherwise = |node: usize| {
        let led = |from: &super::spec::Node| {
            let route = from.route.iter().flatten();
            let all = from.edges.iter().chain(&from.goto).chain(&from.sends).chain(route);
            all.into_iter().any(|to| *to == node)
        };
        let start = spec.entry.iter().chain(spec.start_route.iter().flatten());
        let joins = spec.joins.iter().filter(|(_, to)| *to == node).count();
        start.into_iter().any(|to| *to == node) || joins > 1 || spec.nodes.iter().any(led)
    };
    // On a thread without branches of its history.
    if kept.iter().any(|one| one.source == Source::Fork) {
        return Ok(());
    }
    let mut runs: BTreeMap<&str, usize> = BTreeMap::new();
    for one in kept {
        for name in saved.get(&one.id).into_iter().flat_map(finished) {
            let name = name.strip_prefix("__error_handler__").unwrap_or(name);
            *runs.entry(name).or_default() += 1;
        }
    }
    let ran = |node: usize| runs.get(spec.nodes[node].name.as_str()).copied().unwrap_or_default();
    for (sources, to) in spec.joins.iter().filter(|(_, to)| !led_otherwise(*to)) {
        // The sources that failed for good do not arrive; they count nevertheless.
        let most = sources.iter().map(|source| ran(*source)).min().unwrap_or_default();
        if ran(*to) > most {
            let name = &spec.nodes[*to].name;
            let what = format!("`{name}` ran {} times after {most} rounds", ran(*to));
            return Err(Broken::new("a join runs once a round", what));
        }
    }
    Ok(())
}
