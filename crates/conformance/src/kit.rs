//! Recorded scenarios.

use crate::compare::{Difference, FinishOrder, Rules, difference};
use serde_json::Value as Json;
use std::io;
use std::path::Path;

/// A spec with the trace that the reference gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Its name, unique in the kit.
    pub name: String,
    /// The topic it covers.
    pub group: String,
    /// The spec.
    pub spec: Json,
    /// The recorded trace.
    pub expect: Json,
    /// Comparison of the order in which tasks of one superstep finish.
    pub finish_order: FinishOrder,
}

impl Scenario {
    /// Reads every scenario of a folder, in order of the names of the files.
    ///
    /// # Errors
    /// Errors of the file system, and [`io::ErrorKind::InvalidData`] with the name of a file that
    /// is no scenario.
    pub fn read_folder(folder: &Path) -> io::Result<Vec<Self>> {
        let entries = std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
        let mut files = entries.collect::<io::Result<Vec<_>>>()?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        files.iter().map(|file| Self::read(file)).collect()
    }

    /// Reads one scenario.
    ///
    /// # Errors
    /// As [`read_folder`](Self::read_folder).
    pub fn read(file: &Path) -> io::Result<Self> {
        let bad = |reason: String| {
            let message = format!("{} is no scenario: {reason}", file.display());
            io::Error::new(io::ErrorKind::InvalidData, message)
        };
        let text = std::fs::read_to_string(file)?;
        let mut json: Json = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        let mut take = |name: &str| {
            let found = json.get_mut(name).map(Json::take);
            found.ok_or_else(|| bad(format!("it has no `{name}`")))
        };
        let name = take("name")?;
        let group = take("group")?;
        let spec = take("spec")?;
        let expect = take("expect")?;
        let by_task = take("order").is_ok_and(|order| order == "task");
        let text = |value: Json| value.as_str().unwrap_or_default().to_owned();
        let finish_order = if by_task { FinishOrder::Any } else { FinishOrder::Compared };
        Ok(Self { name: text(name), group: text(group), spec, expect, finish_order })
    }

    /// The first difference between the recorded trace and this one.
    #[must_use]
    pub fn difference(&self, got: &Json) -> Option<Difference> {
        let rules = Rules { finish_order: self.finish_order, ..Rules::default() };
        difference(&self.spec, &self.expect, got, rules)
    }
}
