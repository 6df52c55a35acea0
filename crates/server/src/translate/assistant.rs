//! Assistants and their versions, as stored and as clients see them.

use super::time;
use crate::error::{ApiError, Result};
use crate::service::Changes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;
use weftwork_types::Timestamp;

/// An assistant: a graph with settings of its own.
#[derive(Debug, Clone)]
pub(crate) struct Assistant {
    pub(crate) id: Uuid,
    pub(crate) record: Record,
}

/// The stored part of an assistant.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// Format of the record.
    format: u32,
    /// Number of the current version, from 1.
    current: u32,
    created_at: Timestamp,
    updated_at: Timestamp,
    versions: Vec<Numbered>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Numbered {
    graph: String,
    version: Version,
}

/// The settings of a version.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) config: Map<String, Value>,
    pub(crate) context: Value,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) created_at: Timestamp,
}

impl Version {
    pub(crate) fn first(created_at: Timestamp) -> Self {
        let config = Map::new();
        let metadata = Map::new();
        let context = json!({});
        Self { name: String::new(), description: None, config, context, metadata, created_at }
    }

    /// Applies changes. Settings in `config.configurable` are the context too, and the reverse, if
    /// only one of them is given. Metadata is merged.
    pub(crate) fn change(&mut self, changes: Changes) {
        let Changes { graph: _, name, description, config, context, metadata } = changes;
        if let Some(name) = name {
            self.name = name;
        }
        self.description = description.or(self.description.take());
        match (config, context) {
            (Some(config), Some(context)) => (self.config, self.context) = (config, context),
            (Some(config), None) => {
                self.context = config.get("configurable").cloned().unwrap_or_else(|| json!({}));
                self.config = config;
            }
            (None, Some(context)) => {
                self.config.insert("configurable".to_owned(), context.clone());
                self.context = context;
            }
            (None, None) => {}
        }
        self.metadata.extend(metadata);
    }
}

impl Record {
    pub(crate) fn new(graph: String, version: Version) -> Self {
        let at = version.created_at;
        let versions = vec![Numbered { graph, version }];
        Self { format: 1, current: 1, created_at: at, updated_at: at, versions }
    }

    /// Returns the reason why a record that was read is not valid.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_sound = self.format == 1 && self.numbered(self.current).is_some();
        if is_sound { Ok(()) } else { Err("it has another format".to_owned()) }
    }

    /// Returns the name of the graph.
    pub(crate) fn graph(&self) -> &str {
        self.numbered(self.current).map_or("", |found| &found.graph)
    }

    pub(crate) fn add(
        &mut self,
        graph: Option<String>,
        version: Version,
        max: usize,
    ) -> Result<()> {
        if self.versions.len() >= max {
            let detail = format!("the assistant has {max} versions, the maximum");
            return Err(ApiError::invalid(detail));
        }
        self.updated_at = version.created_at;
        let graph = graph.unwrap_or_else(|| self.graph().to_owned());
        self.versions.push(Numbered { graph, version });
        self.current = u32::try_from(self.versions.len()).unwrap_or(u32::MAX);
        Ok(())
    }

    pub(crate) fn set(&mut self, version: u32, now: Timestamp) -> Result<()> {
        if self.numbered(version).is_none() {
            return Err(ApiError::not_found());
        }
        self.current = version;
        self.updated_at = now;
        Ok(())
    }

    fn numbered(&self, version: u32) -> Option<&Numbered> {
        let index = usize::try_from(version).ok()?.checked_sub(1)?;
        self.versions.get(index)
    }
}

impl Assistant {
    /// Returns the current version.
    pub(crate) fn current(&self) -> &Version {
        // A record has a version from its creation on, which is checked when it is read.
        #[expect(clippy::expect_used, reason = "records without a version are refused")]
        let found = self.record.numbered(self.record.current).expect("a current version");
        &found.version
    }

    /// Returns the assistant as clients see it.
    pub(crate) fn shown(&self) -> Value {
        let Version { name, description, config, context, metadata, .. } = self.current();
        json!({
            "assistant_id": self.id.to_string(),
            "graph_id": self.record.graph(),
            "config": config,
            "context": context,
            "metadata": metadata,
            "name": name,
            "created_at": time::format_time(self.record.created_at),
            "updated_at": time::format_time(self.record.updated_at),
            "version": self.record.current,
            "description": description,
        })
    }

    /// Returns the versions as clients see them, newest first.
    pub(crate) fn versions(&self) -> Vec<Value> {
        let shown = |(number, Numbered { graph, version }): (u32, &Numbered)| {
            json!({
                "assistant_id": self.id.to_string(),
                "version": number,
                "graph_id": graph,
                "config": version.config,
                "context": version.context,
                "metadata": version.metadata,
                "created_at": time::format_time(version.created_at),
                "name": version.name,
                "description": version.description,
            })
        };
        let mut shown: Vec<_> = (1..).zip(&self.record.versions).map(shown).collect();
        shown.reverse();
        shown
    }
}
