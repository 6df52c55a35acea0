//! Results of nodes that are used again: a limited number, the least recently used are dropped
//! first.

use crate::policy::Cache;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use weftwork_engine::TaskOutput;
use weftwork_types::canonical::Hash;

/// The default limit of results.
pub const CACHED_MAX: usize = 1_000;

/// The key under which a node's result is cached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CacheKey {
    graph: String,
    node: String,
    input: Hash,
    time: Option<Duration>,
}

impl CacheKey {
    pub(crate) fn new(graph: &str, node: &str, input: &Json, cache: Cache) -> Self {
        let input = weftwork_types::canonical::hash(input);
        Self { graph: graph.to_owned(), node: node.to_owned(), input, time: cache.time }
    }
}

/// The cached results of a host.
#[derive(Debug)]
pub(crate) struct NodeCache {
    results_max: usize,
    results: BTreeMap<Arc<CacheKey>, Cached>,
    /// Keys by their last use, the longest ago first.
    by_use: BTreeMap<u64, Arc<CacheKey>>,
    /// Keys by when their results expire, the soonest first.
    by_end: BTreeSet<(Duration, Arc<CacheKey>)>,
    uses: u64,
}

#[derive(Debug)]
struct Cached {
    output: Arc<TaskOutput>,
    until: Option<Duration>,
    last_use: u64,
}

impl Default for NodeCache {
    fn default() -> Self {
        Self::new(CACHED_MAX)
    }
}

impl NodeCache {
    pub(crate) fn new(results_max: usize) -> Self {
        let (results, by_use, by_end) = <(BTreeMap<_, _>, BTreeMap<_, _>, BTreeSet<_>)>::default();
        Self { results_max, results, by_use, by_end, uses: 0 }
    }

    /// Returns an empty cache with the same limit.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(self.results_max)
    }

    /// The result of a key, unless it has expired. It becomes the most recently used one.
    pub(crate) fn get(&mut self, key: &CacheKey, now: Duration) -> Option<Arc<TaskOutput>> {
        self.drop_expired(now);
        let found = self.results.get_mut(key)?;
        self.uses += 1;
        let key = self.by_use.remove(&found.last_use)?;
        found.last_use = self.uses;
        self.by_use.insert(self.uses, key);
        Some(Arc::clone(&found.output))
    }

    /// Stores a result. Beyond the limit, expired results are dropped first, then the least
    /// recently used ones.
    pub(crate) fn put(&mut self, key: CacheKey, output: Arc<TaskOutput>, now: Duration) {
        self.drop_expired(now);
        // Its old entry in `by_end` would remove the new result before its time.
        self.remove(&key);
        if self.results_max == 0 {
            return;
        }
        while self.results.len() >= self.results_max
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.remove(&oldest);
        }
        self.uses += 1;
        let key = Arc::new(key);
        let last_use = self.uses;
        let until = key.time.map(|time| now.saturating_add(time));
        self.by_use.insert(last_use, Arc::clone(&key));
        self.by_end.extend(until.map(|until| (until, Arc::clone(&key))));
        self.results.insert(key, Cached { output, until, last_use });
    }

    fn drop_expired(&mut self, now: Duration) {
        while self.by_end.first().is_some_and(|(until, _)| *until <= now)
            && let Some((_, key)) = self.by_end.pop_first()
        {
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &CacheKey) {
        let Some((key, gone)) = self.results.remove_entry(key) else { return };
        self.by_use.remove(&gone.last_use);
        if let Some(until) = gone.until {
            self.by_end.remove(&(until, key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SECOND: Duration = Duration::from_secs(1);

    fn key(n: usize, cache: Cache) -> CacheKey {
        CacheKey::new("graph", "node", &json!(n), cache)
    }

    fn put(kept: &mut NodeCache, n: usize, cache: Cache, now: Duration) {
        kept.put(key(n, cache), Arc::new(TaskOutput::default()), now);
    }

    /// The inputs of 0 to 9 that have results, without using them.
    fn inputs(kept: &NodeCache, cache: Cache) -> Vec<usize> {
        (0..10).filter(|n| kept.results.contains_key(&key(*n, cache))).collect()
    }

    #[test]
    fn the_result_that_was_not_used_for_longest_makes_room() {
        let mut kept = NodeCache::new(3);
        let cache = Cache::forever();
        for n in 0..3 {
            put(&mut kept, n, cache, SECOND);
        }
        assert!(kept.get(&key(0, cache), SECOND).is_some(), "it was put there");
        put(&mut kept, 3, cache, SECOND);
        assert_eq!(inputs(&kept, cache), [0, 2, 3]);
        // The same key again is no further result.
        put(&mut kept, 2, cache, SECOND);
        put(&mut kept, 4, cache, SECOND);
        assert_eq!(inputs(&kept, cache), [2, 3, 4]);
    }

    #[test]
    fn what_has_expired_makes_room_before_what_has_not() {
        let mut kept = NodeCache::new(2);
        let long = Cache::forever();
        let short = Cache::for_time(SECOND);
        put(&mut kept, 0, long, Duration::ZERO);
        put(&mut kept, 1, short, Duration::ZERO);
        put(&mut kept, 2, long, SECOND);
        assert_eq!((inputs(&kept, long), inputs(&kept, short)), (vec![0, 2], vec![]));
    }

    #[test]
    fn a_result_that_is_put_again_lasts_its_time_from_then_on() {
        let mut kept = NodeCache::new(2);
        let cache = Cache::for_time(SECOND * 2);
        put(&mut kept, 0, cache, Duration::ZERO);
        put(&mut kept, 0, cache, SECOND);
        assert!(kept.get(&key(0, cache), SECOND * 2).is_some(), "two seconds from the second on");
        assert!(kept.get(&key(0, cache), SECOND * 3).is_none(), "and no longer");
        assert!(kept.results.is_empty() && kept.by_use.is_empty() && kept.by_end.is_empty());
    }

    #[test]
    fn ten_thousand_inputs_leave_no_more_than_the_limit() {
        let mut kept = NodeCache::default();
        for n in 0..10_000 {
            let cache = if n % 3 == 0 { Cache::for_time(SECOND) } else { Cache::forever() };
            put(&mut kept, n, cache, SECOND * u32::try_from(n / 100).unwrap_or_default());
            assert!(kept.results.len() <= CACHED_MAX);
            assert_eq!(kept.by_use.len(), kept.results.len());
            assert!(kept.by_end.len() <= kept.results.len());
        }
        assert_eq!(kept.results.len(), CACHED_MAX);
    }

    #[test]
    fn a_limit_of_none_keeps_nothing() {
        let mut kept = NodeCache::new(0);
        let cache = Cache::forever();
        put(&mut kept, 0, cache, SECOND);
        assert!(kept.get(&key(0, cache), SECOND).is_none() && kept.results.is_empty());
    }
}
