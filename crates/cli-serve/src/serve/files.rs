//! The limit of open files, of which each connection needs one.

/// Number of open files besides connections: store, model calls, MCP servers.
const OTHERS: u64 = 256;

/// Raises the limit of open files as far as this process may, and returns it; `None` without a limit.
#[cfg(unix)]
pub(super) fn raise_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // A system can refuse its own maximum; the limit stays as it is then.
        let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        raised.unwrap_or_default();
    }
    getrlimit(Resource::Nofile).current
}

#[cfg(not(unix))]
pub(super) fn raise_limit() -> Option<u64> {
    None
}

/// Returns the number of connections that fit a limit of open files: a half at least.
pub(super) fn connections_max(files: u64) -> usize {
    let connections = files.saturating_sub(OTHERS).max(files / 2);
    usize::try_from(connections).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::connections_max;

    #[test]
    fn connections_leave_files_for_the_rest() {
        let files = [0, 1, 64, 512, 1024, 65_536];
        assert_eq!(files.map(connections_max), [0, 0, 32, 256, 768, 65_280]);
    }
}
