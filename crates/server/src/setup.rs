//! The model that a server offers to download, for a first run without one.

use serde::Serialize;
use std::fmt;

/// A model that can be downloaded, with what a person wants to know before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelOffer {
    /// Id of the model, `provider:model`.
    pub model: String,
    /// Its label, with its limits.
    pub label: String,
    /// Size of the download in bytes.
    pub bytes: u64,
    /// Licence of the weights.
    pub licence: String,
    /// Sources, in the order in which they are tried.
    pub sources: Vec<String>,
    /// Command that imports a file which was downloaded elsewhere.
    pub import: String,
    /// Progress of the download.
    pub state: DownloadState,
}

/// Progress of a download.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum DownloadState {
    /// It was not begun.
    Offered,
    /// A source is being read.
    Loading {
        /// The source.
        source: String,
        /// Number of bytes that are there.
        done: u64,
    },
    /// The file is there and is being checked; the server uses it afterwards.
    Installing,
    /// No source could be read. It may be begun again.
    Failed {
        /// Reason of each source.
        reasons: Vec<String>,
    },
}

/// The download of a model, which a client may begin.
pub trait ModelDownload: fmt::Debug + Send + Sync {
    /// Returns the model and the progress.
    fn offer(&self) -> ModelOffer;

    /// Begins the download, unless it goes on or has ended well. Returns at once.
    fn begin(&self);
}
