//! Finds the PostgreSQL programs, which `make test` installs.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The directory with `initdb` and `postgres`.
pub(super) fn directory() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        find().expect(
            "PostgreSQL is installed (`make test` sees to it; Debian: apt-get install postgresql), \
             or DATABASE_URL names a server on which the tests may create databases",
        )
    })
}

/// The newest version in the usual directories, then the search path.
fn find() -> Option<PathBuf> {
    let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    versions.sort_by_key(|bin| {
        let version = bin.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        std::cmp::Reverse(version.and_then(|version| version.parse::<f32>().ok()).map(f32::to_bits))
    });
    let path = std::env::var_os("PATH").unwrap_or_default();
    versions
        .into_iter()
        .chain(std::env::split_paths(&path))
        .find(|dir| dir.join("initdb").is_file() && dir.join("postgres").is_file())
}

/// Whether this process is root. Postgres refuses to run as root.
pub(super) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// User and group of Postgres if this process is root.
pub(super) fn unprivileged() -> (u32, u32) {
    const NOBODY: (u32, u32) = (65534, 65534);
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let ids = |line: &str| {
        let mut fields = line.strip_prefix("postgres:")?.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    users.lines().find_map(ids).unwrap_or(NOBODY)
}
