use super::filter::Filter;
use super::namespace::{Namespace, Pattern};
use super::record::{Indexing, Ttl};
use super::text::Terms;
use serde_json::Value;
use std::num::NonZeroUsize;

/// The parameters of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemQuery {
    /// Conditions on the values.
    pub filter: Filter,
    /// Search text, of which at least one word must occur in the value; see [`Terms`]. Ignored if
    /// `None` or without a letter or digit.
    pub text: Option<String>,
    /// Maximum number of items.
    pub limit: usize,
    /// Number of items to skip.
    pub offset: usize,
    /// Effect on the time to live of the returned items.
    pub ttl: Ttl,
}

impl Default for ItemQuery {
    /// Selects the first 10 items, without conditions.
    fn default() -> Self {
        let filter = Filter::default();
        Self { filter, text: None, limit: 10, offset: 0, ttl: Ttl::Keep }
    }
}

impl ItemQuery {
    /// Returns `true` if only limit and offset restrict the result.
    #[must_use]
    pub fn takes_any(&self) -> bool {
        self.filter.is_empty() && self.terms().is_none()
    }

    fn terms(&self) -> Option<Terms> {
        self.text.as_deref().and_then(Terms::of)
    }
}

/// A match of an item, with its score if the query has a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit(Option<f64>);

/// A filter over a sequence of items. It retains only the items that the query selects.
#[derive(Debug)]
pub struct Selection<'q, T> {
    query: &'q ItemQuery,
    terms: Option<Terms>,
    /// Number of matches skipped before the page; only for queries without a text.
    skipped: usize,
    /// Matches of the page. With a text: best matches first, including those before the page.
    found: Vec<(T, Option<f64>)>,
}

impl<'q, T> Selection<'q, T> {
    /// Creates an empty selection.
    #[must_use]
    pub fn new(query: &'q ItemQuery) -> Self {
        Self { query, terms: query.terms(), skipped: 0, found: Vec::new() }
    }

    /// Returns `true` if further items cannot change the result.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.query.limit == 0 || (self.terms.is_none() && self.found.len() >= self.query.limit)
    }

    /// Offers the next item, in the order of the store. `item` is any reference to it.
    pub fn offer(&mut self, value: &Value, indexing: &Indexing, item: T) {
        if let Some(fit) = self.judge(value, indexing) {
            self.take(fit, item);
        }
    }

    /// Matches the next item, in the order of the store; `None` if it is not selected.
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

    /// Adds an item that was matched.
    pub fn take(&mut self, Fit(score): Fit, item: T) {
        if score.is_none() && self.skipped < self.query.offset {
            self.skipped += 1;
            return;
        }
        // Items with equal scores, or without scores, stay in the order of insertion.
        let place = self.found.partition_point(|(_, other)| *other >= score);
        self.found.insert(place, (item, score));
        self.found.truncate(self.query.offset.saturating_add(self.query.limit));
    }

    /// Returns the selected items. With a search text, scores are included and the best match is
    /// first.
    #[must_use]
    pub fn finish(self) -> Vec<(T, Option<f64>)> {
        let before = if self.terms.is_some() { self.query.offset } else { 0 };
        self.found.into_iter().skip(before).collect()
    }
}

/// The parameters of a listing of namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceQuery {
    /// Pattern for the start of the namespace.
    pub prefix: Pattern,
    /// Pattern for the end of the namespace.
    pub suffix: Pattern,
    /// Maximum number of labels. Longer namespaces are truncated, and equal results are listed
    /// once.
    pub depth_max: Option<NonZeroUsize>,
    /// Maximum number of namespaces.
    pub limit: usize,
    /// Number of namespaces to skip.
    pub offset: usize,
}

impl Default for NamespaceQuery {
    /// Selects the first 100 namespaces.
    fn default() -> Self {
        Self {
            prefix: Pattern::default(),
            suffix: Pattern::default(),
            depth_max: None,
            limit: 100,
            offset: 0,
        }
    }
}

impl NamespaceQuery {
    /// Selects the requested namespaces from the sorted list of those that contain items.
    pub fn select<'a>(&self, sorted: impl Iterator<Item = &'a Namespace>) -> Vec<Namespace> {
        let mut cut: Vec<Namespace> = sorted
            .filter(|namespace| self.prefix.begins(namespace) && self.suffix.ends(namespace))
            .map(|namespace| self.depth_max.map_or(namespace.clone(), |d| namespace.cut(d.get())))
            .collect();
        // Equal results are adjacent because the input is sorted.
        cut.dedup();
        cut.into_iter().skip(self.offset).take(self.limit).collect()
    }
}
