//! The browser of a person at a terminal.

use crate::terminal::Terminal;
use std::process::{Command, Stdio};

/// Opens an address, without a shell. Nobody else but the person at a terminal gets a page.
pub fn open_page(url: &str, terminal: &Terminal) {
    if !terminal.read || !terminal.typed {
        return;
    }
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(opener);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        terminal.note(format_args!("cannot open the page with {opener}: {error}"));
    }
}
