//! The calls that are open in this process, by which notifications of older clients cancel them.

use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;
use weftwork_types::{Principal, RunId};

/// A request of a client, by which it is cancelled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallKey {
    org: String,
    subject: String,
    session: String,
    /// Id of the request, as JSON.
    request: String,
}

impl CallKey {
    pub(crate) fn new(who: &Principal, session: &str, request: &Value) -> Self {
        Self {
            org: who.org.to_string(),
            subject: who.subject.clone(),
            session: session.to_owned(),
            request: request.to_string(),
        }
    }
}

/// An open call.
#[derive(Debug, Clone)]
pub(crate) struct OpenCall {
    /// First run of the call.
    pub(crate) run: RunId,
    /// Notified when its client cancels it.
    pub(crate) cancelled: Arc<Notify>,
}

/// The calls that are open in this process.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenCalls(Arc<Mutex<BTreeMap<CallKey, OpenCall>>>);

impl OpenCalls {
    /// Adds a call, until the entry is dropped.
    pub(crate) fn add(&self, key: CallKey, call: OpenCall) -> OpenCallEntry {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.insert(key.clone(), call);
        OpenCallEntry { calls: self.clone(), key }
    }

    /// Removes a call.
    pub(crate) fn take(&self, key: &CallKey) -> Option<OpenCall> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }
}

/// The entry of an open call, which ends with it.
#[derive(Debug)]
pub(crate) struct OpenCallEntry {
    calls: OpenCalls,
    key: CallKey,
}

impl Drop for OpenCallEntry {
    fn drop(&mut self) {
        drop(self.calls.take(&self.key));
    }
}
