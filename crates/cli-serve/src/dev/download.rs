//! The download of the embedded model, which the page begins.

use std::sync::{Arc, Mutex, PoisonError};
use weftwork::Config;
use weftwork::local::weights::{Known, Progress};
use weftwork_cli_base::terminal::{Terminal, weights_progress};
use weftwork_server::{DownloadState, ModelDownload, ModelOffer};

/// The weights of the embedded model, which are not installed. The server restarts when their file is
/// there, and then answers with the model.
#[derive(Debug)]
pub(super) struct WeightsDownload {
    known: &'static Known,
    config: Config,
    terminal: Terminal,
    state: Arc<Mutex<DownloadState>>,
}

impl WeightsDownload {
    pub(super) fn new(known: &'static Known, config: Config, terminal: Terminal) -> Self {
        Self { known, config, terminal, state: Arc::new(Mutex::new(DownloadState::Offered)) }
    }
}

impl ModelDownload for WeightsDownload {
    fn offer(&self) -> ModelOffer {
        let Known { name, label, bytes, licence, url, wheel, .. } = *self.known;
        let url = self.config.model_url.as_deref().unwrap_or(url);
        ModelOffer {
            model: format!("local:{name}"),
            label: label.to_owned(),
            bytes,
            licence: licence.to_owned(),
            sources: vec![url.to_owned(), format!("Python package {wheel}")],
            import: "weft models import FILE".to_owned(),
            state: self.state.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    fn begin(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, DownloadState::Loading { .. } | DownloadState::Installing) {
            return;
        }
        *state = DownloadState::Loading { source: String::new(), done: 0 };
        let config = self.config.clone();
        let known = self.known;
        let mut print = weights_progress(&self.terminal, known);
        let state = Arc::clone(&self.state);
        tokio::spawn(async move {
            let set = |next| *state.lock().unwrap_or_else(PoisonError::into_inner) = next;
            let mut reasons = Vec::new();
            let mut source = String::new();
            let mut note = |progress: Progress| {
                match &progress {
                    Progress::Asking { source: asked } => {
                        source.clone_from(asked);
                        set(DownloadState::Loading { source: source.clone(), done: 0 });
                    }
                    Progress::Bytes { done, .. } => {
                        set(DownloadState::Loading { source: source.clone(), done: *done });
                    }
                    Progress::Failed(failure) => reasons.push(failure.to_string()),
                    Progress::Verifying | Progress::Cached => set(DownloadState::Installing),
                }
                print(progress);
            };
            match config.pull_weights(known, &mut note).await {
                Ok(_) => set(DownloadState::Installing),
                Err(error) if reasons.is_empty() => {
                    set(DownloadState::Failed { reasons: vec![error.to_string()] });
                }
                Err(_) => set(DownloadState::Failed { reasons }),
            }
        });
    }
}
