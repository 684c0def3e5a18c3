//! A second cluster that follows the first by streaming replication and can be promoted.

use super::{
    Fsync, PrivateCluster,
    cluster::{give_away, program, temporary_directory},
    execute, truth,
};

/// Whether commits wait for the standby.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replication {
    /// Commits are acknowledged after the standby has them, so a failover loses none.
    Synchronous,
    /// The standby may lag, and a failover loses its missing commits.
    Asynchronous,
}

impl PrivateCluster {
    /// Creates a standby of this cluster and waits until it streams.
    pub async fn standby(&self, replication: Replication) -> Self {
        let port = self.port();
        let copy = move || {
            let directory = temporary_directory();
            give_away(directory.path());
            let output = program("pg_basebackup", directory.path())
                .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-U", "postgres"])
                .args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "-D"])
                .arg(directory.path().join("data"))
                .output()
                .expect("pg_basebackup starts");
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "pg_basebackup: {told}");
            Self::launch(directory, Fsync::Off)
        };
        let standby = tokio::task::spawn_blocking(copy).await.expect("the standby starts");
        let streams = "SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'";
        crate::eventually("the standby streams", || self.says(streams)).await;
        if replication == Replication::Synchronous {
            // Set after the copy, so that the promoted standby does not wait for another one.
            self.execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await;
            self.execute("SELECT pg_reload_conf()").await;
            let waits = "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'";
            crate::eventually("commits wait for the standby", || self.says(waits)).await;
        }
        standby
    }

    /// Makes a standby miss all further commits of the primary.
    pub async fn stop_following(&self, primary: &Self) {
        self.execute("ALTER SYSTEM SET primary_conninfo = ''").await;
        self.execute("SELECT pg_reload_conf()").await;
        let is_gone = "SELECT count(*) = 0 FROM pg_stat_replication";
        crate::eventually("the standby is gone", || primary.says(is_gone)).await;
    }

    /// Promotes a standby to primary.
    pub async fn promote(&self) {
        self.execute("SELECT pg_promote(true, 30)").await;
    }

    /// Runs SQL as the owner.
    pub async fn execute(&self, sql: &str) {
        let done = execute(&self.url("postgres"), sql.to_owned()).await;
        done.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    /// Whether a client without a certificate can connect.
    pub(super) async fn lets_in_without(&self) -> bool {
        truth(&self.url("postgres"), "SELECT true").await.is_ok()
    }

    /// The boolean that a query selects.
    pub async fn says(&self, sql: &str) -> bool {
        truth(&self.url("postgres"), sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"))
    }
}
