//! Pages of the stored events of a run.

use crate::context::WorkerContext;
use crate::event_bus::event_size;
use crate::live_runs::LiveRun;
use std::collections::VecDeque;
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_store::{StoreError, StoredEvent};
use weftwork_types::Principal;
use weftwork_types::event::{Piece, Position, RunEvent};
use weftwork_types::run::RunRef;

/// Maximum number of events per read.
const EVENTS_MAX: usize = 256;
/// Number of events of the first read.
const EVENTS_FIRST: usize = 32;
/// Maximum number of text pieces per read; a piece is seldom larger than the text of one commit.
const PIECES_MAX: usize = 64;
/// Maximum size of the events that wait for a follower after a read, in bytes. At least one event
/// is read.
const PAGE_BYTES_MAX: usize = 32 << 10;

/// Reads the stored events of a run.
#[derive(Debug, Clone)]
pub(crate) struct RunLog {
    pub(crate) context: Arc<WorkerContext>,
    pub(crate) who: Principal,
    pub(crate) at: RunRef,
}

/// Number of events of the next read, adapted to their size.
#[derive(Debug)]
pub(super) struct PageSize(usize);

impl PageSize {
    pub(super) fn new() -> Self {
        Self(EVENTS_FIRST)
    }
}

impl RunLog {
    /// Watches whether this process executes the run.
    pub(super) fn live(&self) -> LiveRun {
        self.context.live.run(&self.who.org, &self.at.run)
    }

    /// Returns `true` if events follow the one with this number.
    pub(super) async fn continues(&self, last: u64) -> Result<bool, StoreError> {
        Ok(!self.events(last, 1).await?.is_empty())
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        #[cfg(test)]
        super::tests::store_answers().await;
        self.context.store.events(&self.who, &self.at, after, limit).await
    }

    /// Reads a page of the stored events after a position.
    pub(super) async fn page(
        &self,
        after: Position,
        page: &mut PageSize,
    ) -> Result<VecDeque<RunEvent>, RuntimeError> {
        let Self { context, who, at } = self;
        let events = match self.events(after.seq, page.0).await {
            // Continues with the oldest stored event.
            Err(StoreError::Dropped { oldest, .. }) => {
                self.events(oldest.saturating_sub(1), page.0).await?
            }
            read => read?,
        };
        let full = events.len() == page.0;
        let mut last = events.last().map_or(after.seq, |event| event.seq);
        // Events are read first: text before an event was stored no later than the event, and
        // text that is no longer stored is void.
        #[cfg(test)]
        super::tests::store_answers().await;
        let pieces = context.store.pieces(who, at, after, PIECES_MAX).await?;
        if let Some(piece) = pieces.last().filter(|_| pieces.len() == PIECES_MAX) {
            last = last.min(piece.at.end.seq);
        }
        let events = events.into_iter().filter(|event| event.seq <= last);
        let events = events.map(|event| RunEvent::durable(event.seq, event.at, event.event));
        let pieces = pieces.into_iter().filter(|piece| piece.at.end.seq <= last);
        let mut read = merge_pieces(after, events, pieces);
        if shorten(&mut read) {
            page.0 = read.len();
        } else if full {
            page.0 = (page.0 * 2).min(EVENTS_MAX);
        }
        Ok(read)
    }
}

/// Drops the last events of a page that exceeds its limit; returns `true` if it did.
fn shorten(page: &mut VecDeque<RunEvent>) -> bool {
    let mut bytes = 0;
    let fits = |event: &RunEvent| {
        bytes += event_size(event);
        bytes <= PAGE_BYTES_MAX
    };
    let fitting = page.iter().map(fits).take_while(|fits| *fits).count();
    let is_longer = fitting.max(1) < page.len();
    if is_longer {
        page.truncate(fitting.max(1));
        page.shrink_to_fit();
    }
    is_longer
}

/// Merges events with the text after a position, in order.
pub(super) fn merge_pieces(
    after: Position,
    events: impl Iterator<Item = RunEvent>,
    pieces: impl Iterator<Item = Piece>,
) -> VecDeque<RunEvent> {
    let mut all = VecDeque::new();
    let mut events = events.peekable();
    let mut at = after;
    for piece in pieces {
        while let Some(event) = events.next_if(|event| event.seq <= Some(piece.at.end.seq)) {
            at = event.position().unwrap_or(at);
            all.push_back(event);
        }
        if let Some(rest) = piece.rest(at) {
            at = rest.at.end;
            all.push_back(rest.into());
        }
    }
    all.extend(events);
    all
}
