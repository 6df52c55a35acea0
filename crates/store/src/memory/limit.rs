//! Amounts for limits in memory.

use super::scope::{Need, Scope};
use super::{Backend, TableStore, Tables, partial_scope};
use crate::bill::BilledTo;
use crate::limit::{
    LimitTable, LimitWindow, NewStart, StartCounts, StartPlace, StartRefusal, StartRow,
    SubjectUsage,
};
use crate::table::Result;
use std::collections::{BTreeMap, BTreeSet};
use weftwork_types::{BoxFuture, InvocationId, Principal, Timestamp};

/// Starts by their places and times.
pub(crate) type Starts = BTreeMap<StartPlace, BTreeMap<Timestamp, StartCounts>>;

/// Returns the rows of a place from a time.
fn rows_since(starts: &Starts, place: &StartPlace, from: Timestamp) -> Vec<StartRow> {
    let rows = starts.get(place).into_iter().flat_map(|rows| rows.range(from..));
    rows.map(|(at, counts)| StartRow { at: *at, counts: *counts }).collect()
}

impl Tables {
    fn count_start(&mut self, start: &NewStart) -> Option<StartRefusal> {
        let refusal = start.checks.iter().find_map(|check| {
            let rows = rows_since(&self.starts, &check.position(), check.from);
            check.compare(&rows, start.counts)
        });
        if refusal.is_some() {
            return refusal;
        }
        for place in start.places() {
            let oldest = place.span.oldest(start.at);
            let at = place.span.begin_of(start.at);
            let rows = self.starts.entry(place).or_default();
            rows.retain(|at, _| *at >= oldest);
            *rows.entry(at).or_default() += start.counts;
        }
        None
    }

    fn subject_usage(
        &self,
        subject: &BilledTo,
        from: Timestamp,
        except: &[InvocationId],
    ) -> SubjectUsage {
        let except: BTreeSet<_> = except.iter().collect();
        let mut usage = SubjectUsage::default();
        let rows = self.bill.model_calls.values().filter(|row| {
            subject.has(row.caller.caller())
                && row.fact.started_at >= from
                && !except.contains(&row.fact.invocation_id)
        });
        for row in rows {
            usage += SubjectUsage {
                tokens: row.fact.tokens.total(),
                cost_micro_usd: row.fact.cost_micro_usd.unwrap_or_default(),
            };
        }
        usage
    }
}

impl<B: Backend> LimitTable for TableStore<B> {
    fn subject_usage<'a>(
        &'a self,
        subject: &'a BilledTo,
        from: Timestamp,
        except: &'a [InvocationId],
    ) -> BoxFuture<'a, Result<SubjectUsage>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::Bills));
        self.backend.read(scope, move |tables| Ok(tables.subject_usage(subject, from, except)))
    }

    fn billed<'a>(
        &'a self,
        who: &'a Principal,
        attempts: &'a [InvocationId],
    ) -> BoxFuture<'a, Result<Vec<InvocationId>>> {
        let need = || Need::Bill { org: who.org.clone(), subject: None };
        let scope = partial_scope::<B>(|| Scope::of(need()));
        self.backend.read(scope, move |tables| {
            let rows = tables.bill.model_calls.keys().filter(|at| at.org == who.org);
            let found: BTreeSet<_> = rows.map(|at| &at.invocation).collect();
            Ok(attempts.iter().filter(|id| found.contains(id)).cloned().collect())
        })
    }

    fn count_start<'a>(
        &'a self,
        start: &'a NewStart,
    ) -> BoxFuture<'a, Result<Option<StartRefusal>>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::Starts(start.places())));
        self.backend.write(scope, move |tables| Ok(tables.count_start(start)))
    }

    fn starts<'a>(
        &'a self,
        subject: &'a BilledTo,
        window: LimitWindow,
        from: Timestamp,
    ) -> BoxFuture<'a, Result<StartCounts>> {
        let place = StartPlace { subject: subject.clone(), span: window.span() };
        let needed = place.clone();
        let scope = partial_scope::<B>(|| Scope::of(Need::Starts([needed].into())));
        self.backend.read(scope, move |tables| {
            let mut sum = StartCounts::default();
            rows_since(&tables.starts, &place, from).iter().for_each(|row| sum += row.counts);
            Ok(sum)
        })
    }
}
