//! Ops on the long-term store.

use super::{Execution, raise};
use crate::python::Raised;
use crate::spec::{ListNamespaces, StoreOp};
use serde_json::{Value as Json, json};
use std::num::NonZeroUsize;
use std::sync::Arc;
use weftwork_graph::{NodeError, NodeResult};
use weftwork_store::StoreError;
use weftwork_store::items::{
    Filter, Item, ItemQuery, ItemRef, ItemStore, Namespace, NamespaceQuery, Pattern, Prefix,
    PutOptions, Ttl,
};
use weftwork_types::Principal;

impl Execution<'_> {
    pub(super) async fn store(&mut self, op: &StoreOp) -> NodeResult<()> {
        let items = self.items()?;
        let who = Principal::local();
        if op.writes() {
            self.code.world.changed_items();
        }
        match op {
            StoreOp::Put(namespace, key, value) => {
                let at = self.item(namespace, key)?;
                let value = self.eval(value)?;
                items.put(&who, &at, value, PutOptions::default()).await.map_err(refused)
            }
            StoreOp::Delete(namespace, key) => {
                let at = self.item(namespace, key)?;
                items.delete(&who, &at).await.map(|_| ()).map_err(refused)
            }
            StoreOp::Get(namespace, key, var) => {
                let at = self.item(namespace, key)?;
                let found = items.get(&who, &at, Ttl::Keep).await.map_err(refused)?;
                self.bind(var, found.map(|item| item.value).unwrap_or_default());
                Ok(())
            }
            StoreOp::Search { namespace, filter, limit, offset, var } => {
                let within = Prefix::new(self.labels(namespace)?).map_err(refused)?;
                let filter = match filter {
                    Json::Null => Filter::default(),
                    filter => Filter::parse(filter).map_err(refused)?,
                };
                let query = ItemQuery {
                    filter,
                    limit: size(*limit),
                    offset: size(*offset),
                    ..ItemQuery::default()
                };
                let found = items.search(&who, &within, &query).await.map_err(refused)?;
                self.bind(var, found.into_iter().map(shown).collect());
                Ok(())
            }
            StoreOp::List(how) => {
                let query = namespace_query(how)?;
                let found = items.namespaces(&who, &query).await.map_err(refused)?;
                let found = found.into_iter().map(|found| Json::from(Vec::<String>::from(found)));
                self.bind(&how.var, found.collect());
                Ok(())
            }
        }
    }

    fn items(&self) -> NodeResult<Arc<dyn ItemStore>> {
        let items = self.ctx.items().cloned();
        items.ok_or_else(|| {
            let message = "'NoneType' object has no attribute 'aput'";
            raise(Raised::new("AttributeError", message))
        })
    }

    fn item(&self, namespace: &crate::expr::Expr, key: &str) -> NodeResult<ItemRef> {
        let namespace = Namespace::new(self.labels(namespace)?).map_err(refused)?;
        ItemRef::new(namespace, key).map_err(refused)
    }

    fn labels(&self, namespace: &crate::expr::Expr) -> NodeResult<Vec<String>> {
        let labels = crate::python::items(&self.eval(namespace)?).map_err(raise)?;
        let labels = labels.into_iter().map(|label| match label {
            Json::String(label) => Ok(label),
            other => Err(raise(Raised::new(
                "InvalidNamespaceError",
                format!("a label of a namespace must be a string, found {other}"),
            ))),
        });
        labels.collect()
    }
}

fn namespace_query(how: &ListNamespaces) -> NodeResult<NamespaceQuery> {
    let pattern = |labels: &Option<Vec<String>>| {
        Pattern::new(labels.clone().unwrap_or_default()).map_err(refused)
    };
    Ok(NamespaceQuery {
        prefix: pattern(&how.prefix)?,
        suffix: pattern(&how.suffix)?,
        depth_max: how.max_depth.and_then(|depth| NonZeroUsize::new(size(depth))),
        limit: size(how.limit),
        offset: size(how.offset),
    })
}

fn size(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn shown(item: Item) -> Json {
    json!([item.namespace.labels(), item.key, item.value])
}

/// Converts a refusal of our store into the exception that the reference raises.
fn refused(error: StoreError) -> NodeError {
    let class = match &error {
        StoreError::BadNamespace { .. } => "InvalidNamespaceError",
        _ => "ValueError",
    };
    raise(Raised::new(class, error.to_string()))
}
