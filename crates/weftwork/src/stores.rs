//! Runtimes over the stores of this crate.

use crate::Error;
use crate::config::StorePlace;
use weftwork_runtime::{Recovery, Runtime, RuntimeBuilder};

/// Constructors of runtimes over durable stores: `Runtime::sqlite(path)` and
/// `Runtime::postgres(url)`. Their recovery is [`Recovery::Automatic`] unless the builder is told
/// otherwise: a run whose process died goes on in a process that hosts its graph.
///
/// ```
/// use serde_json::json;
/// use weftwork::prelude::*;
///
/// #[derive(State)]
/// struct Order {
///     #[channel(append)]
///     log: List<String>,
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("orders.db");
/// let pack = async |_: State<Order>| OrderUpdate::new().log(["packed"]);
/// let graph = Graph::<Order>::new("order").node("pack", pack).edge(START, "pack").build()?;
/// let runtime = Runtime::sqlite(file)?.graph("order", graph).open().await?;
/// let ended = runtime.thread("order", "order-7")?.start(json!({})).await?;
/// assert_eq!(ended.output()?["log"], json!(["packed"]));
/// # Ok(())
/// # }
/// ```
pub trait OpenRuntime {
    /// A runtime over the SQLite store in a file, which is created if it does not exist. Several
    /// processes may use the file at a time.
    ///
    /// # Errors
    /// [`Error::Store`] if the file cannot be opened.
    fn sqlite(file: impl Into<std::path::PathBuf>) -> Result<RuntimeBuilder, Error>;

    /// A runtime over a Postgres database, named by its URL. The tables are created if they do not
    /// exist.
    ///
    /// # Errors
    /// [`Error::Store`] if the database cannot be opened.
    fn postgres(url: &str) -> Result<RuntimeBuilder, Error>;
}

impl OpenRuntime for Runtime {
    fn sqlite(file: impl Into<std::path::PathBuf>) -> Result<RuntimeBuilder, Error> {
        Ok(Self::builder(StorePlace::Sqlite(file.into()).open()?).recovery(Recovery::Automatic))
    }

    fn postgres(url: &str) -> Result<RuntimeBuilder, Error> {
        Ok(Self::builder(StorePlace::postgres(url).open()?).recovery(Recovery::Automatic))
    }
}
