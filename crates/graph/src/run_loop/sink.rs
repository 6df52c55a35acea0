//! Destination of the events of a run.

use crate::run_loop::event::{Modes, StreamEvent, StreamItem};
use crate::run_loop::sync::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc::UnboundedSender;
use weftwork_types::shown::StateForm;

/// Receiver of the events of a run, in its modes.
#[derive(Debug, Clone)]
pub(crate) struct Sink {
    pub(crate) modes: Modes,
    /// Form of the state in the mode `values`.
    pub(crate) values: StateForm,
    pub(crate) to: Destination,
}

/// Destination of the events of a run.
#[derive(Debug, Clone)]
pub(crate) enum Destination {
    /// A queue that the driver of the run reads. Events that were not read can still be changed.
    Queue(Arc<Mutex<VecDeque<StreamItem>>>),
    /// A channel that anyone reads.
    Channel(UnboundedSender<StreamItem>),
}

impl Sink {
    pub(crate) fn push(&self, ns: &str, event: StreamEvent) {
        let item = StreamItem { ns: namespace_parts(ns), event }.in_form(self.values);
        match &self.to {
            Destination::Queue(queue) => lock(queue).push_back(item),
            // Fails without a receiver: the events are not read then.
            Destination::Channel(channel) => drop(channel.send(item)),
        }
    }
}

/// The parts of a namespace.
pub(crate) fn namespace_parts(ns: &str) -> Vec<String> {
    if ns.is_empty() { Vec::new() } else { ns.split('|').map(str::to_owned).collect() }
}
