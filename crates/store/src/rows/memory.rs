use super::{Batch, Key, KeyRange, Order, Rows, Value, Written};
use crate::table::Result;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weftwork_types::BoxFuture;

/// Rows in memory, behind a lock. Every future is ready at its first poll.
#[derive(Debug, Default)]
pub struct MemoryRows(Mutex<BTreeMap<Key, Value>>);

impl MemoryRows {
    fn rows(&self) -> MutexGuard<'_, BTreeMap<Key, Value>> {
        // A batch is compared before its first write, so a panic cannot leave a part of it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows for MemoryRows {
    fn location(&self) -> &str {
        "memory rows"
    }

    fn get(&self, keys: Vec<Key>) -> BoxFuture<'_, Result<Vec<Option<Value>>>> {
        Box::pin(async move {
            let rows = self.rows();
            Ok(keys.iter().map(|key| rows.get(key).cloned()).collect())
        })
    }

    fn scan(
        &self,
        range: KeyRange,
        order: Order,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(Key, Value)>>> {
        Box::pin(async move {
            if range.is_empty() {
                return Ok(Vec::new());
            }
            let rows = self.rows();
            let found = rows.range(range.first..range.end);
            let found = found.map(|(key, value)| (key.clone(), value.clone()));
            Ok(match order {
                Order::Ascending => found.take(limit).collect(),
                Order::Descending => found.rev().take(limit).collect(),
            })
        })
    }

    fn write(&self, batch: Batch) -> BoxFuture<'_, Result<Written>> {
        Box::pin(async move {
            let mut rows = self.rows();
            if batch.expected.iter().any(|(key, value)| rows.get(key) != value.as_ref()) {
                return Ok(Written::Conflict);
            }
            for (key, value) in batch.writes {
                match value {
                    Some(value) => rows.insert(key, value),
                    None => rows.remove(&key),
                };
            }
            Ok(Written::Done)
        })
    }
}
