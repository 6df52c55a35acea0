//! The bill in memory.

use super::scope::{Need, Scope};
use super::{Backend, TableStore, Tables, partial_scope};
use crate::bill::{
    BilledTo, Period, ReadBill, Receipt, UsageGroup, UsageSum, UsageTotal, WriteBill,
};
use crate::record::UsageRow;
use crate::table::Result;
use std::collections::{BTreeMap, BTreeSet};
use weftwork_types::{BoxFuture, InvocationId, OrgId, Principal, Timestamp};

/// The bill of all organisations, and the facts that are not yet moved there.
#[derive(Debug, Default)]
pub(crate) struct Bill {
    pub(crate) unmoved: BTreeSet<Unmoved>,
    /// Attempts by subject and invocation.
    pub(crate) model_calls: BTreeMap<Place, UsageRow>,
    /// Receipts by subject and attempt: an attempt uses one unit of one source.
    pub(crate) receipts: BTreeMap<Place, Receipt>,
}

/// A fact that is not yet moved. Older facts come first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unmoved {
    pub(crate) started_at: Timestamp,
    pub(crate) org: OrgId,
    pub(crate) invocation: InvocationId,
}

/// The place of a row in the bill.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) org: OrgId,
    pub(crate) subject: String,
    pub(crate) invocation: InvocationId,
}

impl Place {
    /// Returns the place of an attempt.
    pub(crate) fn of(org: &OrgId, row: &UsageRow) -> Self {
        let invocation = row.fact.invocation_id.clone();
        Self { org: org.clone(), subject: row.subject().to_owned(), invocation }
    }

    fn is_of(&self, who: &Principal, subject: &str) -> bool {
        self.org == who.org && self.subject == subject
    }
}

impl Tables {
    /// Records a fact, unless its invocation is recorded.
    pub(super) fn bill(&mut self, org: &OrgId, usage: UsageRow) {
        let invocation = usage.fact.invocation_id.clone();
        let started_at = usage.fact.started_at;
        let key = (org.clone(), invocation.clone());
        if self.usage.contains_key(&key) {
            return;
        }
        self.usage.insert(key, usage);
        self.bill.unmoved.insert(Unmoved { started_at, org: org.clone(), invocation });
    }

    fn move_usage(&mut self, limit: usize) -> usize {
        let next: Vec<_> = self.bill.unmoved.iter().take(limit).cloned().collect();
        for unmoved in &next {
            self.bill.unmoved.remove(unmoved);
            let key = (unmoved.org.clone(), unmoved.invocation.clone());
            let Some(row) = self.usage.get(&key) else { continue };
            let place = Place::of(&unmoved.org, row);
            if let Some(receipt) = Receipt::of(row) {
                self.bill.receipts.entry(place.clone()).or_insert(receipt);
            }
            self.bill.model_calls.entry(place).or_insert_with(|| row.clone());
        }
        next.len()
    }

    fn erase_names(&mut self, org: &OrgId, payer: &BilledTo) -> usize {
        let calls = self.bill.model_calls.iter_mut().filter(|(at, _)| at.org == *org);
        let calls = calls.filter(|(_, row)| payer.has(row.caller.caller()));
        let mut erased = 0;
        for (at, row) in calls {
            row.caller = row.caller.erased();
            if let Some(receipt) = self.bill.receipts.get_mut(at) {
                let caller = row.caller.caller();
                receipt.account = caller.billing_account.clone();
                receipt.key = caller.virtual_key.clone();
                receipt.request = caller.request.clone();
            }
            erased += 1;
        }
        self.starts.retain(|place, _| place.subject != *payer);
        let facts = self.usage.iter_mut().filter(|((of, _), _)| of == org).map(|(_, row)| row);
        for row in facts.filter(|row| payer.has(row.caller.caller())) {
            row.caller = row.caller.erased();
        }
        erased
    }
}

impl<B: Backend> WriteBill for TableStore<B> {
    fn move_usage(&self, limit: usize) -> BoxFuture<'_, Result<usize>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::Unmoved { limit }));
        self.backend.write(scope, move |tables| Ok(tables.move_usage(limit)))
    }

    fn erase_names<'a>(
        &'a self,
        who: &'a Principal,
        payer: &'a BilledTo,
    ) -> BoxFuture<'a, Result<usize>> {
        let scope = partial_scope::<B>(|| {
            Scope::of(Need::AllUsage { org: who.org.clone(), of: payer.clone() })
        });
        self.backend.write(scope, move |tables| Ok(tables.erase_names(&who.org, payer)))
    }
}

impl<B: Backend> ReadBill for TableStore<B> {
    fn model_calls<'a>(
        &'a self,
        who: &'a Principal,
        subject: &'a str,
    ) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        let need = || Need::Bill { org: who.org.clone(), subject: Some(subject.to_owned()) };
        let scope = partial_scope::<B>(|| Scope::of(need()));
        self.backend.read(scope, move |tables| {
            let rows = tables.bill.model_calls.iter().filter(|(at, _)| at.is_of(who, subject));
            let mut rows: Vec<_> = rows.map(|(_, row)| row.clone()).collect();
            rows.sort_by_key(|row| row.fact.started_at); // Stable: equal times stay in order.
            Ok(rows)
        })
    }

    fn receipts<'a>(
        &'a self,
        who: &'a Principal,
        subject: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Receipt>>> {
        let need = || Need::Bill { org: who.org.clone(), subject: Some(subject.to_owned()) };
        let scope = partial_scope::<B>(|| Scope::of(need()));
        self.backend.read(scope, move |tables| {
            let rows = tables.bill.receipts.iter().filter(|(at, _)| at.is_of(who, subject));
            Ok(rows.map(|(_, receipt)| receipt.clone()).collect())
        })
    }

    fn usage_totals<'a>(
        &'a self,
        who: &'a Principal,
        period: Period,
    ) -> BoxFuture<'a, Result<Vec<UsageTotal>>> {
        let need = || Need::Bill { org: who.org.clone(), subject: None };
        let scope = partial_scope::<B>(|| Scope::of(need()));
        self.backend.read(scope, move |tables| {
            let mut sums: BTreeMap<UsageGroup, UsageSum> = BTreeMap::new();
            let rows = tables.bill.model_calls.iter().filter(|(at, _)| at.org == who.org);
            for (_, row) in rows.filter(|(_, row)| period.has(row.fact.started_at)) {
                *sums.entry(UsageGroup::of(row)).or_default() += UsageSum::of(&row.fact);
            }
            Ok(sums.into_iter().map(|(group, sum)| UsageTotal { group, sum }).collect())
        })
    }
}
