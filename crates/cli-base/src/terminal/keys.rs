//! Display of typed keys by the terminal.

#[cfg(unix)]
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
#[cfg(unix)]
use std::io::stdin;
#[cfg(unix)]
use std::sync::{Mutex, PoisonError};

/// The settings of the terminal while keys are hidden.
#[cfg(unix)]
static SHOWN: Mutex<Option<Termios>> = Mutex::new(None);

/// Until this value is dropped, the terminal does not show keys that are typed, or an editor shows
/// them. The next input has keys that were hidden.
#[derive(Debug)]
pub struct HiddenKeys(());

impl HiddenKeys {
    pub fn hide() -> Self {
        #[cfg(unix)]
        if let Ok(shown) = tcgetattr(stdin()) {
            let mut hidden = shown.clone();
            hidden.local_modes.remove(LocalModes::ECHO);
            // A terminal that refuses shows the keys.
            tcsetattr(stdin(), OptionalActions::Now, &hidden).unwrap_or_default();
            *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(shown);
        }
        Self(())
    }

    /// Notes the settings of the terminal before an editor of lines changes them. They are set again
    /// when this value is dropped, or the process ends within the editor.
    pub fn left_to_editor() -> Self {
        #[cfg(unix)]
        if let Ok(shown) = tcgetattr(stdin()) {
            *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(shown);
        }
        Self(())
    }
}

impl Drop for HiddenKeys {
    fn drop(&mut self) {
        show_keys();
    }
}

/// Shows keys that are typed again. A process that exits at once drops no values.
pub(crate) fn show_keys() {
    #[cfg(unix)]
    if let Some(shown) = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).take() {
        tcsetattr(stdin(), OptionalActions::Now, &shown).unwrap_or_default();
    }
}
