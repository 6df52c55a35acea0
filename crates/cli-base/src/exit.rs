//! Exit statuses.

use std::process::ExitCode;

/// The exit status of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exit {
    /// Success.
    Done,
    /// A run failed or reached its limit, or a check found a problem.
    Failed,
    /// The command line, the configuration or the input is invalid, names something that does not
    /// exist, or conflicts with the stored data.
    Usage,
    /// A run waits for an answer, or stopped before or after a node.
    Waiting,
    /// A run was cancelled.
    Cancelled,
    /// A key, a model or its weights are missing or rejected.
    NotConfigured,
    /// The store cannot be used.
    Store,
    /// The command was interrupted from the keyboard.
    Interrupted,
    /// The command was ended by SIGTERM.
    Terminated,
}

/// The table of exit statuses in `weft --help` and `docs/cli.md`.
pub const TABLE: &str = "\
Exit status:
  0    success
  1    a run failed or reached its limit, or a check found a problem
  2    invalid command line, configuration or input; unknown agent, model or thread; busy thread
  3    a run waits for an answer, or stopped at a node: weft threads resume ID
  4    a run was cancelled
  5    not configured: a key, a model or its weights are missing or rejected
  6    the store cannot be used: locked, full, read-only, damaged or too new
  130  interrupted by Ctrl-C
  143  ended by SIGTERM";

impl Exit {
    /// Returns the number.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Waiting => 3,
            Self::Cancelled => 4,
            Self::NotConfigured => 5,
            Self::Store => 6,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }

    /// Returns the exit code for the system.
    #[must_use]
    pub fn code(self) -> ExitCode {
        ExitCode::from(self.number())
    }

    /// Returns the exit status for an error code.
    #[must_use]
    pub fn of_code(code: &str) -> Self {
        match code {
            "W0201" | "W0202" | "W0204" | "W0205" | "W0212" | "W0217" | "W0218" => Self::Usage,
            _ if code.starts_with("W02") => Self::Store,
            "W0301" | "W0316" => Self::Usage,
            "W0302" | "W0303" => Self::NotConfigured,
            // Prompts that are too long and incomplete tool calls are failures of a run.
            "W0508" | "W0509" | "W0510" | "W0515" | "W0516" => Self::Failed,
            "W0427" | "W0512" | "W0513" => Self::Usage,
            _ if code.starts_with("W05") => Self::NotConfigured,
            "W0111" | "W0113" | "W0114" | "W0127" | "W0137" | "W0138" | "W0139" => Self::Usage,
            "W0640" | "W0641" | "W0642" | "W0643" | "W0644" | "W0645" | "W0648" | "W0649" => {
                Self::Usage
            }
            "W0712" | "W0718" => Self::Failed,
            "W0719" => Self::NotConfigured,
            _ if code.starts_with("W07") => Self::Usage,
            "W0806" | "W0807" => Self::Usage,
            // Refused requests to agents. Nothing was made.
            "W1012" | "W1020" | "W1021" | "W1022" | "W1023" => Self::Usage,
            "W1030" | "W1031" | "W1032" | "W1033" | "W1034" | "W1038" => Self::Usage,
            "W1072" | "W1073" | "W1074" | "W1075" => Self::Usage,
            "W0901" | "W0902" | "W0903" | "W0911" | "W0913" => Self::Usage,
            _ => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Exit, TABLE};

    #[test]
    fn every_status_is_in_the_table() {
        for exit in [
            Exit::Done,
            Exit::Failed,
            Exit::Usage,
            Exit::Waiting,
            Exit::Cancelled,
            Exit::NotConfigured,
            Exit::Store,
            Exit::Interrupted,
            Exit::Terminated,
        ] {
            assert!(TABLE.contains(&format!("\n  {:<4} ", exit.number())), "{exit:?}");
        }
    }

    #[test]
    fn codes_lead_to_statuses() {
        for (code, exit) in [
            ("W0302", Exit::NotConfigured),
            ("W0501", Exit::NotConfigured),
            ("W0508", Exit::Failed),
            ("W0201", Exit::Usage),
            ("W0202", Exit::Usage),
            ("W0212", Exit::Usage),
            ("W0206", Exit::Store),
            ("W0427", Exit::Usage),
            ("W0704", Exit::Usage),
            ("W0307", Exit::Failed),
            ("W1012", Exit::Usage),
            ("W1033", Exit::Usage),
            ("W1024", Exit::Failed),
        ] {
            assert_eq!(Exit::of_code(code), exit, "{code}");
        }
    }
}
