//! Progress displays.

use super::Terminal;
use indicatif::{ProgressBar, ProgressStyle};
use weftwork::local::weights::{Known, Progress};

/// Returns a callback that shows the progress of a download: a bar on a terminal, otherwise a line
/// for every tenth.
pub fn weights_progress(terminal: &Terminal, known: &Known) -> impl FnMut(Progress) + Send + use<> {
    let terminal = terminal.clone();
    let name = known.name;
    let licence = known.licence;
    // The bar is drawn on standard error, and only if that is a terminal.
    let bar = ProgressBar::no_length();
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {eta}") {
        bar.set_style(style);
    }
    let mut tenths = 0;
    move |progress| match progress {
        Progress::Cached => terminal.note(format_args!("{name} is installed and verified")),
        Progress::Asking { source } => {
            terminal.note(format_args!("downloading {name} (licence {licence}) from {source}"));
        }
        Progress::Bytes { done, total } => {
            bar.set_length(total);
            bar.set_position(done);
            let now = done.saturating_mul(10).checked_div(total).unwrap_or(0);
            if bar.is_hidden() && now > tenths {
                terminal.note(format_args!("{} of {} MB", done / 1_000_000, total / 1_000_000));
            }
            tenths = now.max(tenths);
        }
        Progress::Failed(failure) => {
            bar.reset();
            tenths = 0;
            terminal.note(format_args!("  failed: {}", super::shorten(&failure.to_string(), 300)));
        }
        Progress::Verifying => {
            bar.finish_and_clear();
            terminal.note("verifying the SHA-256");
        }
    }
}

/// Starts a counter that is shown on a terminal and removed when it is dropped. Without a terminal
/// nothing is shown.
pub fn count_items(what: &str, total: Option<usize>) -> Counter {
    let bar = total.map_or_else(ProgressBar::no_length, |total| ProgressBar::new(total as u64));
    let template = match total {
        Some(_) => format!("{{bar:40}} {{pos}} of {{len}} {what} {{eta}}"),
        None => format!("{{spinner}} {{pos}} {what}"),
    };
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    Counter(bar)
}

/// A displayed counter; see [`count_items`].
#[derive(Debug)]
pub struct Counter(ProgressBar);

impl Counter {
    pub fn one_more(&self) {
        self.0.inc(1);
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
