use super::Bench;
use super::fixture::{lives, path, prefix, us};
use serde_json::json;
use std::collections::BTreeSet;
use weftwork_store::items::{ItemQuery, NamespaceQuery, PutOptions, Ttl};
use weftwork_types::Timestamp;
use weftwork_types::port::Clock;

/// A pseudorandom number generator with a fixed sequence: SplitMix64.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

#[derive(Debug, Clone)]
struct Known {
    path: String,
    n: u64,
    ttl: Option<u64>,
    expires_at: Option<i64>,
    created_at: i64,
}

/// A model: items and namespaces as lists, in the order in which they were first put.
#[derive(Debug, Default)]
struct Plain {
    items: Vec<Known>,
    spaces: Vec<String>,
}

fn space(path: &str) -> &str {
    path.split('/').next().unwrap_or_default()
}

impl Plain {
    fn forget(&mut self, now: i64) {
        self.items.retain(|item| item.expires_at.is_none_or(|at| at > now));
        let held: BTreeSet<_> = self.items.iter().map(|item| space(&item.path)).collect();
        self.spaces.retain(|space| held.contains(space.as_str()));
    }

    fn put(&mut self, path: &str, n: u64, ttl: Option<u64>, now: i64) {
        let expires_at = ttl.map(|ttl| now + i64::try_from(ttl).unwrap_or(i64::MAX));
        let new = Known { path: path.to_owned(), n, ttl, expires_at, created_at: now };
        if !self.spaces.iter().any(|known| known == space(path)) {
            self.spaces.push(space(path).to_owned());
        }
        match self.items.iter_mut().find(|item| item.path == path) {
            Some(known) => *known = Known { created_at: known.created_at, ..new },
            None => self.items.push(new),
        }
    }

    fn refresh(&mut self, path: &str, now: i64) {
        for item in self.items.iter_mut().filter(|item| item.path == path) {
            item.expires_at = item.ttl.map(|ttl| now + i64::try_from(ttl).unwrap_or(i64::MAX));
        }
    }

    fn found(&self, within: &str) -> Vec<&Known> {
        let begins = |space: &str| {
            within.is_empty() || space == within || space.starts_with(&format!("{within}."))
        };
        let spaces = self.spaces.iter().filter(|space| begins(space));
        spaces.flat_map(|s| self.items.iter().filter(move |i| space(&i.path) == s)).collect()
    }
}

const SPACES: [&str; 6] = ["u", "u.a", "u.a.b", "u.b", "ua", "v"];

pub(super) async fn agrees_with_a_plain_list(bench: Bench) {
    for seed in 0..8 {
        let mut numbers = Numbers(seed);
        let mut plain = Plain::default();
        for n in 0..150 {
            let now = bench.clock.now().0;
            plain.forget(now);
            let space = usize::try_from(numbers.below(6)).unwrap_or_default();
            let path = format!("{}/k{}", SPACES[space], numbers.below(4));
            match numbers.below(10) {
                0..=3 => {
                    let ttl = Some(numbers.below(60)).filter(|ttl| *ttl < 30);
                    plain.put(&path, n, ttl, now);
                    let options = ttl.map_or_else(PutOptions::default, lives);
                    bench.put_with(&path, json!({"n": n}), options).await;
                }
                4 | 5 => {
                    let before = plain.items.len();
                    plain.items.retain(|item| item.path != path);
                    assert_eq!(bench.delete(&path).await, plain.items.len() < before);
                }
                6 => {
                    plain.refresh(&path, now);
                    let at = super::fixture::at(&path);
                    bench.store.get(&us(), &at, Ttl::Refresh).await.expect("gets");
                }
                7 => {
                    bench.store.sweep(2).await.expect("sweeps");
                }
                _ => bench.wait(numbers.below(9)),
            }
            check(&bench, &mut plain, seed, n).await;
        }
        clear(&bench, &plain).await;
    }
}

async fn check(bench: &Bench, plain: &mut Plain, seed: u64, n: u64) {
    plain.forget(bench.clock.now().0);
    let query = ItemQuery { limit: 99, ..ItemQuery::default() };
    for within in SPACES.into_iter().chain([""]) {
        let found = bench.store.search(&us(), &prefix(within), &query).await.expect("searches");
        let found: Vec<_> = found
            .iter()
            .map(|item| (path(item), item.value.clone(), item.created_at, item.expires_at))
            .collect();
        let expected: Vec<_> = plain
            .found(within)
            .into_iter()
            .map(|known| {
                let times = (Timestamp(known.created_at), known.expires_at.map(Timestamp));
                (known.path.clone(), json!({"n": known.n}), times.0, times.1)
            })
            .collect();
        assert_eq!(found, expected, "seed {seed}, operation {n}, within `{within}`");
    }
    let mut spaces = plain.spaces.clone();
    spaces.sort();
    assert_eq!(bench.namespaces(&NamespaceQuery::default()).await, spaces, "seed {seed}, {n}");
}

async fn clear(bench: &Bench, plain: &Plain) {
    for item in &plain.items {
        bench.delete(&item.path).await;
    }
}
