//! Generated operations on items.

use super::ops::principal;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::num::NonZeroUsize;
use std::time::Duration;
use weftwork_store::{
    Filter, Indexing, ItemQuery, ItemRef, Namespace, NamespaceQuery, Pattern, Prefix, PutOptions,
    Store, Ttl,
};
use weftwork_types::Timestamp;

/// Labels that sort before and after the dot, have a common prefix, or look like SQL operators.
const SPACES: [&[&str]; 8] = [
    &["u"],
    &["u", "a"],
    &["u", "a", "b"],
    &["u", "a!"],
    &["u", "a%"],
    &["u", "\u{10ffff}"],
    &["ua"],
    &["Ü", "a"],
];

/// An operation on one of few items, so that operations affect each other.
#[derive(Debug, Clone)]
pub(crate) enum ItemOp {
    Put {
        org: u8,
        at: (usize, u8),
        value: Value,
        options: PutOptions,
    },
    Get {
        org: u8,
        at: (usize, u8),
        ttl: Ttl,
    },
    Delete {
        org: u8,
        at: (usize, u8),
    },
    Clear {
        org: u8,
        within: Vec<&'static str>,
    },
    Sweep {
        limit: usize,
    },
    Search {
        org: u8,
        within: Vec<&'static str>,
        query: ItemQuery,
    },
    Namespaces {
        org: u8,
        query: NamespaceQuery,
    },
    /// Imports all items of the other organisation into this one.
    Take {
        org: u8,
    },
    /// Advances the time.
    Wait {
        ms: i64,
    },
    /// Reopens a store that outlives its process.
    Reopen,
}

fn at() -> impl Strategy<Value = (usize, u8)> {
    (0..SPACES.len(), 0..4u8)
}

fn value() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec!["red", "Red green", "green", "blue's \u{0} \"end\"", ""]);
    let number = prop_oneof![
        (0..3).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
    ];
    (words, number, any::<bool>()).prop_map(|(text, n, flag)| {
        json!({ "text": text, "n": n, "in": { "flag": flag, "list": [text, n] } })
    })
}

fn options() -> impl Strategy<Value = PutOptions> {
    let ttl = prop_oneof![
        4 => Just(None),
        4 => (0..60u64).prop_map(|ms| Some(Duration::from_millis(ms))),
        1 => Just(Some(Duration::MAX)),
        1 => Just(Some(Duration::from_micros(20_500))),
    ];
    let paths = vec!["text".to_owned(), "in.list[*]".to_owned()];
    let indexing = prop::sample::select(vec![Indexing::All, Indexing::Off, Indexing::Paths(paths)]);
    (ttl, indexing).prop_map(|(ttl, indexing)| PutOptions { ttl, indexing })
}

fn ttl() -> impl Strategy<Value = Ttl> {
    prop_oneof![3 => Just(Ttl::Keep), 1 => Just(Ttl::Refresh)]
}

fn query() -> impl Strategy<Value = ItemQuery> {
    let filters = vec![
        json!({}),
        json!({ "in": { "flag": true } }),
        json!({ "n": { "$gte": 1 } }),
        json!({ "text": "red" }),
    ];
    let filter =
        prop::sample::select(filters).prop_map(|json| Filter::parse(&json).expect("a filter"));
    let text =
        prop::sample::select(vec![None, Some("red"), Some("green red"), Some("e"), Some("-")]);
    let limit = prop_oneof![4 => 0..6usize, 1 => Just(usize::MAX)];
    (filter, text, limit, 0..4usize, ttl()).prop_map(|(filter, text, limit, offset, ttl)| {
        ItemQuery { filter, text: text.map(str::to_owned), limit, offset, ttl }
    })
}

fn namespaces() -> impl Strategy<Value = NamespaceQuery> {
    let patterns: Vec<Vec<&str>> = vec![vec![], vec!["u"], vec!["*", "a"], vec!["u", "*", "b"]];
    let pattern = || {
        prop::sample::select(patterns.clone())
            .prop_map(|labels| Pattern::new(labels).expect("a pattern"))
    };
    (pattern(), pattern(), 0..3usize, 0..9usize, 0..3usize).prop_map(
        |(prefix, suffix, depth, limit, offset)| {
            let depth_max = NonZeroUsize::new(depth);
            NamespaceQuery { prefix, suffix, depth_max, limit, offset }
        },
    )
}

pub(crate) fn op() -> impl Strategy<Value = ItemOp> {
    let within = || {
        prop_oneof![
            1 => Just(Vec::new()),
            3 => (0..SPACES.len()).prop_map(|space| SPACES[space].to_vec()),
        ]
    };
    let org = || prop_oneof![4 => Just(0u8), 1 => Just(1u8)];
    prop_oneof![
        12 => (org(), at(), value(), options())
            .prop_map(|(org, at, value, options)| ItemOp::Put { org, at, value, options }),
        1 => (org(), at())
            .prop_map(|(org, at)| ItemOp::Put { org, at, value: json!([]), options: PutOptions::default() }),
        4 => (org(), at(), ttl()).prop_map(|(org, at, ttl)| ItemOp::Get { org, at, ttl }),
        3 => (org(), at()).prop_map(|(org, at)| ItemOp::Delete { org, at }),
        1 => (org(), within()).prop_map(|(org, within)| ItemOp::Clear { org, within }),
        2 => (0..4usize).prop_map(|limit| ItemOp::Sweep { limit }),
        8 => (org(), within(), query())
            .prop_map(|(org, within, query)| ItemOp::Search { org, within, query }),
        3 => (org(), namespaces()).prop_map(|(org, query)| ItemOp::Namespaces { org, query }),
        2 => org().prop_map(|org| ItemOp::Take { org }),
        6 => (1..30i64).prop_map(|ms| ItemOp::Wait { ms }),
        1 => Just(ItemOp::Reopen),
    ]
}

fn item(at: (usize, u8)) -> ItemRef {
    let (space, key) = at;
    let namespace = Namespace::new(SPACES[space].iter().copied()).expect("a namespace");
    ItemRef::new(namespace, format!("k'{key}")).expect("a key")
}

/// Applies the operation and formats its result.
pub(crate) async fn apply(store: &dyn Store, op: ItemOp, now_ms: &mut i64) -> String {
    let now = Timestamp(*now_ms);
    match op {
        ItemOp::Put { org, at, value, options } => {
            format!("{:?}", store.put_item(&principal(org), &item(at), value, options, now).await)
        }
        ItemOp::Get { org, at, ttl } => {
            format!("{:?}", store.item(&principal(org), &item(at), ttl, now).await)
        }
        ItemOp::Delete { org, at } => {
            format!("{:?}", store.delete_item(&principal(org), &item(at), now).await)
        }
        ItemOp::Clear { org, within } => {
            let within = Prefix::new(within).expect("a prefix");
            format!("{:?}", store.clear_items(&principal(org), &within, now).await)
        }
        ItemOp::Sweep { limit } => format!("{:?}", store.sweep_items(limit, now).await),
        ItemOp::Search { org, within, query } => {
            let within = Prefix::new(within).expect("a prefix");
            format!("{:?}", store.search_items(&principal(org), &within, &query, now).await)
        }
        ItemOp::Namespaces { org, query } => {
            format!("{:?}", store.item_namespaces(&principal(org), &query, now).await)
        }
        ItemOp::Take { org } => {
            let all = store.stored_items(&principal(1 - org), now).await.expect("reads");
            format!("{:?}", store.put_stored_items(&principal(org), all, now).await)
        }
        ItemOp::Wait { ms } => {
            *now_ms += ms;
            String::new()
        }
        ItemOp::Reopen => String::new(),
    }
}

/// Returns all unexpired items, followed by the number of expired rows.
pub(crate) async fn dump(store: &dyn Store, now_ms: i64) -> Vec<String> {
    let mut lines = Vec::new();
    let now = Timestamp(now_ms);
    for who in [principal(0), principal(1)] {
        let query = ItemQuery { limit: usize::MAX, ..ItemQuery::default() };
        let found = store.search_items(&who, &Prefix::all(), &query, now).await.expect("searches");
        let stored = store.stored_items(&who, now).await.expect("reads");
        assert!(stored.iter().map(|stored| &stored.item).eq(&found), "they are the same");
        lines.extend(stored.iter().map(|stored| format!("{} {stored:?}", who.org)));
    }
    let swept = store.sweep_items(usize::MAX, now).await.expect("sweeps");
    lines.push(format!("{swept} had expired"));
    lines
}
