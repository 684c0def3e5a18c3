//! Files that are missing, unreadable, read-only or not a database.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
};

use approval::Wanted;
use registry_server::store::{AppendError, DatabaseUrl, Error, Store};

use crate::{
    approvals::{at, context, wanted},
    fixture::Fixture,
    log::{Draft, Log},
};

async fn open(path: &Path) -> Result<Store, Error> {
    Store::open(&DatabaseUrl::sqlite(path)).await
}

#[tokio::test]
async fn missing_directories_are_created() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b/registry.db");
    open(&path).await.unwrap().load().await.unwrap();
    assert!(path.is_file());
}

#[tokio::test]
async fn directory_path_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let error = open(dir.path()).await.unwrap_err();
    assert!(matches!(error, Error::Config { .. }), "{error}");
    assert!(error.to_string().contains(&dir.path().display().to_string()), "{error}");
}

/// Each link would have its own journal.
#[tokio::test]
async fn file_with_hard_links_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (dir.path().join("registry.db"), dir.path().join("link.db"));
    open(&path).await.unwrap().close().await;
    fs::hard_link(&path, &link).unwrap();
    let mut errors = Vec::new();
    for name in [&path, &link] {
        let error = open(name).await.unwrap_err();
        assert!(matches!(error, Error::Config { .. }), "{error}");
        errors.push(error.to_string().replace(&format!("{}/", dir.path().display()), ""));
    }
    insta::assert_snapshot!(errors.join("\n"), @"
    cannot open the database sqlite:registry.db: registry.db has several hard links; stop the programs that use the other links and remove those links, or use a copy
    cannot open the database sqlite:link.db: link.db has several hard links; stop the programs that use the other links and remove those links, or use a copy
    ");
    fs::remove_file(link).unwrap();
    open(&path).await.unwrap().load().await.unwrap();
}

#[tokio::test]
async fn path_through_a_file_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "x").unwrap();
    let error = open(&dir.path().join("file/registry.db")).await.unwrap_err();
    assert!(matches!(error, Error::Config { .. }), "{error}");
    assert!(error.to_string().contains(&dir.path().join("file").display().to_string()), "{error}");
}

#[tokio::test]
async fn foreign_file_is_rejected_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.txt");
    let text = "not a database, but long enough to be taken for the header of one ".repeat(20);
    fs::write(&path, &text).unwrap();
    let error = open(&path).await.unwrap_err();
    assert!(matches!(error, Error::NotARegistry { .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn foreign_sqlite_database_is_not_modified() {
    let fixture = Fixture::sqlite();
    fixture.execute("CREATE TABLE customers (id bigint)").await;
    let before = fs::read(fixture.file()).unwrap();
    let error = fixture.try_open().await.unwrap_err();
    assert!(matches!(error, Error::NotARegistry { .. }), "{error}");
    assert_eq!(fs::read(fixture.file()).unwrap(), before);
    assert_eq!(fs::read_dir(fixture.file().parent().unwrap()).unwrap().count(), 1);
}

#[tokio::test]
async fn damaged_file_is_corrupt() {
    let fixture = Fixture::sqlite();
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    for i in 0..50 {
        log.append(&store, Draft::new().register(&format!("S{i}"), "1.0.0")).await;
    }
    store.close().await;
    let mut bytes = fs::read(fixture.file()).unwrap();
    for byte in bytes.iter_mut().skip(4096) {
        *byte = 0x5a;
    }
    fs::write(fixture.file(), bytes).unwrap();
    let error = match fixture.try_open().await {
        Ok(store) => store.load().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}

/// A deleted value can stay in the free space of the file, and in the journal.
#[tokio::test]
async fn erased_preview_is_in_no_file() {
    let fixture = Fixture::sqlite();
    let store = fixture.open().await;
    let secret = "erased-argument";
    let wanted = Wanted { preview: secret.repeat(1_000), ..wanted(1, "a") };
    store.open_approval(&wanted, context(at(0))).await.unwrap().unwrap();
    let has_secret = |path: &Path| {
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(secret.len()).any(|found| found == secret.as_bytes())
    };
    let journal = fixture.file().with_extension("db-wal");
    assert!(has_secret(&journal), "it is written");
    store.advance_approvals(context(at(3_600))).await.unwrap();
    store.advance_approvals(context(at(3_600 + 86_400))).await.unwrap();
    assert!(!has_secret(&journal));
    // Closing a descriptor of the open file would release the locks of SQLite.
    store.close().await;
    assert!(!has_secret(&fixture.file()));
}

/// `REPLACE` deletes rows without a `DELETE` trigger.
#[tokio::test]
async fn replace_statement_is_rejected() {
    let fixture = Fixture::sqlite();
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    for name in ["A", "B"] {
        log.append(&store, Draft::new().request(name).register(name, "1.0.0")).await;
    }
    for (sql, table) in [
        ("REPLACE INTO commits SELECT * FROM commits WHERE revision = 1", "commits"),
        ("REPLACE INTO changes SELECT * FROM changes WHERE revision = 1", "changes"),
        (
            "INSERT INTO setting_changes VALUES (1, 0, '*', 'x'); \
             REPLACE INTO setting_changes VALUES (1, 0, '*', 'y')",
            "setting_changes",
        ),
        (
            "INSERT INTO access_events VALUES (1, '', '', '', '', 'token-created', '', ''); \
             REPLACE INTO access_events VALUES (1, '', '', '', '', 'token-revoked', '', '')",
            "access_events",
        ),
    ] {
        let refused = fixture.mistake(sql).await.unwrap_err();
        let words = format!("the table {table} only grows: REPLACE refused");
        assert!(refused.contains(&words), "{sql}: {refused}");
    }
    assert_eq!(fixture.number("SELECT count(*) FROM commits").await, 2);
}

/// Root can write every file, so this test restarts itself without root's capabilities.
#[tokio::test]
async fn read_only_file_is_rejected_with_reason() {
    const CHILD: &str = "STORE_CONFORMANCE_UNPRIVILEGED";
    if std::env::var_os(CHILD).is_none() {
        let test = "sqlite_only::read_only_file_is_rejected_with_reason";
        let output = Command::new("setpriv")
            .args(["--bounding-set=-all", "--inh-caps=-all", "--"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, "1")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}{errors}");
        return;
    }
    let fixture = Fixture::sqlite();
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    log.append(&store, Draft::new().register("A", "1.0.0")).await;
    store.close().await;
    let files = fs::read_dir(fixture.file().parent().unwrap()).unwrap().count();
    assert_eq!(files, 1, "the journal is folded into the file");
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(&fixture.file(), 0o444);
    let error = fixture.try_open().await.unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    mode(&fixture.file(), 0o000);
    let error = fixture.try_open().await.unwrap_err();
    assert!(matches!(error, Error::Config { .. }), "{error}");
}

#[tokio::test]
async fn full_disk_error_leaves_no_partial_commit() {
    let Some(disk) = SmallDisk::mount() else { return };
    let url = DatabaseUrl::sqlite(disk.path().join("registry.db"));
    let store = Store::open(&url).await.unwrap();
    let mut log = Log::new(&store);
    let (error, before) = loop {
        let before = log.clone();
        let names = (0..200).map(|i| format!("S{}-{i}", log.commits.len()));
        let draft = names.fold(Draft::new(), |draft, name| draft.register(&name, "1.0.0"));
        let sealed = log.commit(draft);
        match store.append(before.catalog.revision(), &[sealed]).await {
            Ok(()) => assert!(log.commits.len() < 100, "the disk never fills"),
            Err(error) => break (error, before),
        }
    };
    assert!(matches!(&error, AppendError::Store(Error::Full { .. })), "{error}");
    assert!(before.catalog.revision().0 > 0);
    crate::append::assert_holds(&store, &before).await;
    disk.resize("8m");
    let mut log = before;
    for name in ["Next", "Last"] {
        let (base, sealed) =
            (log.catalog.revision(), log.commit(Draft::new().register(name, "1.0.0")));
        store.append(base, &[sealed]).await.expect("there is room again");
    }
    crate::append::assert_holds(&store, &log).await;
}

/// A file system of 2 MiB, which requires root.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(dir.path());
        let status = mount.stderr(Stdio::null()).status();
        if !status.is_ok_and(|status| status.success()) {
            println!("skipped: this user may not mount a small file system");
            return None;
        }
        Some(Self(dir))
    }

    fn resize(&self, size: &str) {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,size={size}")]).arg(self.path());
        assert!(mount.status().expect("mount runs").success());
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}
