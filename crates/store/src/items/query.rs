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
    /// Whether nothing but the page says which items of the namespaces are asked for.
    #[must_use]
    pub fn takes_any(&self) -> bool {
        self.filter.is_empty() && self.terms().is_none()
    }

    fn terms(&self) -> Option<Terms> {
        self.text.as_deref().and_then(Terms::of)
    }
}

/// That an item is asked for, and how well it matches the text of the query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit(Option<f64>);

/// Picks what a query asks for out of items that come one by one, and forgets the others.
#[derive(Debug)]
pub struct Selection<'q, T> {
    query: &'q ItemQuery,
    terms: Option<Terms>,
    /// How many fit that are before the page; those without a text only.
    skipped: usize,
    /// What fits so far: the page; with a text the best first, and what is before the page as well.
    found: Vec<(T, Option<f64>)>,
}

impl<'q, T> Selection<'q, T> {
    /// Of nothing yet.
    #[must_use]
    pub fn new(query: &'q ItemQuery) -> Self {
        Self { query, terms: query.terms(), skipped: 0, found: Vec::new() }
    }

    /// Whether no further item can be among what is asked for.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.query.limit == 0 || (self.terms.is_none() && self.found.len() >= self.query.limit)
    }

    /// Takes the next item in the order of the store, with whatever the store knows it by.
    pub fn offer(&mut self, value: &Value, indexing: &Indexing, item: T) {
        if let Some(fit) = self.judge(value, indexing) {
            self.take(fit, item);
        }
    }

    /// How the next item in the order of the store fits; `None` when it is not asked for.
    #[must_use]
    pub fn judge(&self, value: &Value, indexing: &Indexing) -> Option<Fit> {
        if self.is_full() || !self.query.filter.matches(value) {
            return None;
        }
        match &self.terms {
            None => Some(Fit(None)),
            Some(terms) => terms.score(value, indexing).map(|score| Fit(Some(score))),
        }
    }

    /// Takes the item that was judged.
    pub fn take(&mut self, Fit(score): Fit, item: T) {
        if score.is_none() && self.skipped < self.query.offset {
            self.skipped += 1;
            return;
        }
        // Equal ones, and those without a score, stay in the order in which they came.
        let place = self.found.partition_point(|(_, other)| *other >= score);
        self.found.insert(place, (item, score));
        self.found.truncate(self.query.offset.saturating_add(self.query.limit));
    }

    /// What was asked for. The scores come with it when a text is searched for, the best first.
    #[must_use]
    pub fn finish(self) -> Vec<(T, Option<f64>)> {
        let before = if self.terms.is_some() { self.query.offset } else { 0 };
        self.found.into_iter().skip(before).collect()
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
