//! Applying the writes of a superstep, with panics of reducers caught and errors named.

use crate::channel::Refused;
use crate::error::{EngineError, name_origin};
use crate::plan::{ChannelIdx, ChannelPlan, Plan};
use crate::value::{Slots, Value, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The writes of one channel in one superstep, with the writer of each.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) writes: Vec<Write>,
    pub(crate) by: Vec<usize>,
}

impl Plan {
    /// Applies the writes of one channel; `by` has the writer of each. After an error the slot is
    /// empty and the state is invalid.
    pub(crate) fn fold_writes(
        &self,
        slots: &mut Slots,
        index: usize,
        writes: &[Write],
        by: &[usize],
        name_of: &dyn Fn(usize) -> String,
    ) -> Result<(), EngineError> {
        let Some(channel) = self.channels.get(index) else { return Ok(()) };
        let (first, slots) = slots.chunk_with(index);
        let Some(slot) = slots.get_mut(index - first) else { return Ok(()) };
        *slot = apply_writes(channel, slot.take(), writes, by, name_of)?;
        Ok(())
    }

    /// Applies the writes of one task, each to a different channel, by index.
    pub(crate) fn fold_each(
        &self,
        slots: &mut Slots,
        writes: &[(ChannelIdx, Write)],
        name_of: &dyn Fn(usize) -> String,
    ) -> Result<(), EngineError> {
        let mut rest = writes;
        while let [(ChannelIdx(index), _), ..] = rest {
            let (first, slots) = slots.chunk_with(*index);
            let together = rest.partition_point(|(i, _)| i.0 < first + slots.len());
            if together == 0 {
                return Ok(());
            }
            let (now, later) = rest.split_at(together);
            for (ChannelIdx(index), write) in now {
                let slot = slots.get_mut(*index - first);
                if let Some((channel, slot)) = self.channels.get(*index).zip(slot) {
                    let write = std::slice::from_ref(write);
                    *slot = apply_writes(channel, slot.take(), write, &[0], name_of)?;
                }
            }
            rest = later;
        }
        Ok(())
    }
}

fn apply_writes(
    channel: &ChannelPlan,
    current: Option<Value>,
    writes: &[Write],
    by: &[usize],
    name_of: &dyn Fn(usize) -> String,
) -> Result<Option<Value>, EngineError> {
    let applied = catch_unwind(AssertUnwindSafe(|| channel.channel.apply(current, writes)));
    match applied {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(Refused::Conflict)) => {
            let by: Vec<_> = by.iter().map(|t| name_origin(&name_of(*t))).collect();
            Err(EngineError::Conflict {
                channel: channel.name.clone(),
                writes: writes.len(),
                by: by.join(", "),
            })
        }
        Ok(Err(Refused::Bad { index, reason })) => Err(EngineError::BadWrite {
            channel: channel.name.clone(),
            by: by.get(index).map_or_else(String::new, |t| name_origin(&name_of(*t))),
            reason,
        }),
        Err(panic) => Err(EngineError::ReducerPanicked {
            channel: channel.name.clone(),
            message: panic_message(panic.as_ref()),
        }),
    }
}

/// The text of a caught panic.
#[must_use]
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_owned())
}
