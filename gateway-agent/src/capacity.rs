//! The limits of connections and event streams.

/// Maximum number of connections; more wait in the kernel's queue.
const CONNECTIONS: usize = 10_000;

/// Maximum number of connections, given the limit of open files. Half of the files are for
/// upstreams, the registry and the disk.
pub(crate) fn connections() -> usize {
    CONNECTIONS.min(open_files() / 2).max(2)
}

/// Default maximum number of connections per address.
pub(crate) fn address_connections() -> usize {
    connections().div_ceil(4)
}

/// Maximum number of event streams. Each occupies a connection indefinitely, so at least half of
/// the connections stay free for calls and probes.
pub(crate) fn streams(wanted: usize) -> usize {
    wanted.min(connections() / 2)
}

#[cfg(target_os = "linux")]
fn open_files() -> usize {
    use nix::sys::resource::{Resource, getrlimit};
    let soft = getrlimit(Resource::RLIMIT_NOFILE).map(|(soft, _)| soft);
    soft.ok().and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX)
}

#[cfg(not(target_os = "linux"))]
fn open_files() -> usize {
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_leave_half_of_the_connections_free() {
        assert!(streams(usize::MAX) > 0 && streams(usize::MAX) * 2 <= connections());
        assert_eq!(streams(1), 1);
    }
}
