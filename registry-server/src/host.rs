//! Names of this host and this process.

use uuid::Uuid;

/// Host name of the kernel; each container has its own.
pub(crate) fn host_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "registry-server" } else { host.trim() };
    host.to_owned()
}

/// Unique name of this process: the host name and a random suffix.
pub(crate) fn process_name() -> String {
    let host = host_name();
    let suffix = Uuid::now_v7().simple().to_string();
    // The last digits of a version 7 UUID are random.
    let (_, suffix) = suffix.split_at(suffix.len() - 8);
    format!("{host}/{suffix}")
}
