//! The resources with which the run loop executes a hosted run.

use super::claimed::{ClaimedRun, RunResources};
use super::environment::HostedEnvironment;
use super::journal::RunJournal;
use super::lineage::Lineage;
use super::made_elsewhere::ReadElsewhere;
use super::past::PastCalls;
use super::remote_threads::RemoteThreadIds;
use super::writer::Writer;
use crate::stored::StoreCheckpointer;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::OnceCell;
use weftwork_graph::run_loop::{Host as Local, ReuseOrigins, Unanswered};
use weftwork_store::{Base, CheckpointStore};
use weftwork_types::InterruptId;
use weftwork_types::interrupt::Answer;
use weftwork_types::run::ReuseFrom;

/// Returns the resources of a run: checkpoints, calls and events go through its writer. `lost` is the
/// number of processes that may have made calls of the open superstep before.
pub(super) fn local_host(
    run: &ClaimedRun,
    writer: &Arc<Writer>,
    resources: &RunResources,
    answers: BTreeMap<InterruptId, Answer>,
    lost: u32,
) -> Local {
    let context = &run.context;
    let checkpointer = StoreCheckpointer::claimed(
        Arc::clone(&context.store) as _,
        run.who.clone(),
        Arc::clone(writer) as _,
        Arc::clone(&context.recent),
    );
    // All write to the log of the calls: a record that a call refers to is committed with it or
    // before it.
    let past = PastCalls::new(
        Arc::clone(&context.store),
        Arc::clone(&context.clock),
        run.who.clone(),
        run.claim.at.clone(),
        Arc::clone(&writer.calls),
    );
    let remote_threads = RemoteThreadIds::new(run, Arc::clone(&writer.calls));
    let journal = RunJournal {
        store: Arc::clone(&context.store),
        clock: Arc::clone(&context.clock),
        who: run.who.clone(),
        claim: run.claim.clone(),
        log: Arc::clone(&writer.calls),
        lost,
        lineage: read_lineage(run),
        elsewhere: read_elsewhere(run),
        past,
        remote_threads,
    };
    let environment = HostedEnvironment::new(run, writer, resources, journal, answers);
    let local = context.local.clone().with_checkpointer(checkpointer);
    let local = local.in_environment(Arc::new(environment));
    match resources.dependencies.is_empty() {
        true => local,
        false => local.with_dependencies(resources.dependencies.clone()),
    }
}

fn read_elsewhere(run: &ClaimedRun) -> ReadElsewhere {
    let store = &run.context.store;
    ReadElsewhere {
        store: Arc::clone(store),
        checkpointer: StoreCheckpointer::new(Arc::clone(store) as _, run.who.clone()),
        plan: Arc::clone(run.graph.plan()),
        clock: Arc::clone(&run.context.clock),
        who: run.who.clone(),
        run: run.claim.at.clone(),
        graph: run.row.new.graph.clone(),
        at: run.row.new.options.at,
        base: match run.row.base {
            Some(Base::At(id)) => Some(id),
            Some(Base::Nothing) | None => None,
        },
        found: OnceCell::new(),
    }
}

fn read_lineage(run: &ClaimedRun) -> Option<Lineage> {
    let new = &run.row.new;
    let waits = run.graph.semantics().unanswered == Unanswered::Wait;
    let reuses = match new.options.reuse_from {
        ReuseFrom::Origin => ReuseOrigins::Everything,
        // Answers at an older checkpoint: what the tasks did before their questions is not repeated.
        ReuseFrom::Own if waits && new.options.at.is_some() && new.input.is_answer() => {
            ReuseOrigins::FirstStep
        }
        ReuseFrom::Own => return None,
    };
    let store: Arc<dyn CheckpointStore> = Arc::clone(&run.context.store) as _;
    Some(Lineage {
        reuses,
        checkpointer: StoreCheckpointer::new(store, run.who.clone()),
        plan: Arc::clone(run.graph.plan()),
        clock: Arc::clone(&run.context.clock),
        run: run.claim.at.clone(),
        known: Mutex::default(),
    })
}
