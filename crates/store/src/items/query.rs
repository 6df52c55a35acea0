use super::filter::Filter;
use super::item::{Indexing, Ttl};
use super::namespace::{Namespace, Pattern};
use super::text::Terms;
use serde_json::Value;
use std::num::NonZeroUsize;

/// What a search is for.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemQuery {
    /// What the values must be like.
    pub filter: Filter,
    /// Words of which at least one must be in the value; see [`Terms`]. Off when absent or without
    /// a letter or digit.
    pub text: Option<String>,
    /// At most how many items.
    pub limit: usize,
    /// How many to skip.
    pub offset: usize,
    /// Whether the items that are returned live on.
    pub ttl: Ttl,
}

impl Default for ItemQuery {
    /// The first 10 items, whatever they are.
    fn default() -> Self {
        let filter = Filter::default();
        Self { filter, text: None, limit: 10, offset: 0, ttl: Ttl::Keep }
    }
}

impl ItemQuery {
    /// Picks what is asked for out of all items there are in the order of the store, each with
    /// whatever the store knows it by. The scores come with it when a text is searched for, the
    /// best first and equal ones in the order of the store.
    pub fn select<'a, T>(
        &self,
        rows: impl Iterator<Item = (&'a Value, &'a Indexing, T)>,
    ) -> Vec<(T, Option<f64>)> {
        let rows = rows.filter(|(value, ..)| self.filter.matches(value));
        let Some(terms) = self.text.as_deref().and_then(Terms::of) else {
            let page = rows.skip(self.offset).take(self.limit);
            return page.map(|(.., row)| (row, None)).collect();
        };
        let mut found: Vec<(T, f64)> = rows
            .filter_map(|(value, indexing, row)| {
                terms.score(value, indexing).map(|score| (row, score))
            })
            .collect();
        found.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let page = found.into_iter().skip(self.offset).take(self.limit);
        page.map(|(row, score)| (row, Some(score))).collect()
    }
}

/// Which namespaces to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceQuery {
    /// How they begin.
    pub prefix: Pattern,
    /// How they end.
    pub suffix: Pattern,
    /// After how many labels they are cut off; those that are alike then are listed once.
    pub depth_max: Option<NonZeroUsize>,
    /// At most how many.
    pub limit: usize,
    /// How many to skip.
    pub offset: usize,
}

impl Default for NamespaceQuery {
    /// The first 100 namespaces.
    fn default() -> Self {
        let (prefix, suffix) = (Pattern::default(), Pattern::default());
        Self { prefix, suffix, depth_max: None, limit: 100, offset: 0 }
    }
}

impl NamespaceQuery {
    /// Picks what is asked for out of all namespaces that hold items, given in their order.
    pub fn select<'a>(&self, sorted: impl Iterator<Item = &'a Namespace>) -> Vec<Namespace> {
        let mut cut: Vec<Namespace> = sorted
            .filter(|namespace| self.prefix.begins(namespace) && self.suffix.ends(namespace))
            .map(|namespace| self.depth_max.map_or(namespace.clone(), |d| namespace.cut(d.get())))
            .collect();
        // Those that begin alike stand together.
        cut.dedup();
        cut.into_iter().skip(self.offset).take(self.limit).collect()
    }
}
