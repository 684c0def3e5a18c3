//! The end of a history: all participants catch up, and the logs of the registry and its relays are
//! recorded from their databases.

use std::{collections::HashMap, time::Duration};

use history_check::{Event, log::RECORDER};
use serde_json::Value;
use sqlx::{
    Connection, Database, Executor, FromRow, IntoArguments, PgConnection, SqliteConnection,
    query_as, query_scalar,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::{caller::Caller, gateway::Gateway, history_writer::HistoryWriter};

/// Time limit for all participants to catch up.
const TIMEOUT: Duration = Duration::from_secs(45);
/// The duration without a new commit.
const STILL: Duration = Duration::from_millis(400);

type Row<C> = <<C as Connection>::Database as Database>::Row;

/// The participants that must catch up.
pub(crate) struct Participants {
    pub(crate) database: String,
    pub(crate) followers: Vec<watch::Receiver<u64>>,
    pub(crate) gateways: Vec<Gateway>,
    pub(crate) caller: Caller,
}

impl Participants {
    /// Waits until all participants have all commits and records it, or reports the ones that are
    /// behind.
    pub(crate) async fn settle(&mut self, history: &HistoryWriter) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let head = head(&self.database).await;
            let behind = self.behind(head).await;
            if behind.is_empty() {
                sleep(STILL).await;
                if self::head(&self.database).await == head {
                    history.note(RECORDER, Event::Settled {});
                    for server in 0..self.caller.servers() {
                        self.caller.list(server).await;
                    }
                    return;
                }
            } else if Instant::now() > deadline {
                let fault = format!("not at revision {head} in time: {}", behind.join(", "));
                history.note(RECORDER, Event::Fault { fault, repeats: false, resends: false });
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn behind(&mut self, head: u64) -> Vec<String> {
        let mut behind = Vec::new();
        for (i, follower) in self.followers.iter().enumerate() {
            let at = *follower.borrow();
            if at != head {
                behind.push(format!("follower-{i} at {at}"));
            }
        }
        for gateway in &self.gateways {
            let (served, persisted) = gateway.at();
            if served != head || persisted != head {
                behind.push(format!("{} at {served}, on disk {persisted}", gateway.name));
            }
        }
        if !behind.is_empty() {
            return behind;
        }
        for server in 0..self.caller.servers() {
            if self.caller.revision(server).await != Some(head) {
                behind.push(self.caller.name(server).to_owned());
            }
        }
        behind
    }
}

async fn connect(database: &str) -> PgConnection {
    PgConnection::connect(database).await.expect("the database is there again")
}

async fn head(database: &str) -> u64 {
    let mut connection = connect(database).await;
    let head: i64 = query_scalar("SELECT revision FROM head")
        .fetch_one(&mut connection)
        .await
        .expect("there is a head");
    u64::try_from(head).unwrap_or_default()
}

/// The public key of the registry.
pub(crate) async fn key(database: &str) -> String {
    let mut connection = connect(database).await;
    query_scalar("SELECT checkpoint_key FROM registry")
        .fetch_one(&mut connection)
        .await
        .expect("a server that has started has a key")
}

/// Records the registry's log.
pub(crate) async fn write_log(database: &str, history: &HistoryWriter) {
    write(&mut connect(database).await, RECORDER, history).await;
}

/// Records the log of a relay.
pub(crate) async fn write_copy(database: &str, relay: &str, history: &HistoryWriter) {
    let connection = SqliteConnection::connect(database).await;
    write(&mut connection.expect("a relay has a database"), relay, history).await;
}

async fn write<C>(connection: &mut C, who: &str, history: &HistoryWriter)
where
    C: Connection,
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
    <C::Database as Database>::Arguments: IntoArguments<C::Database>,
    for<'r> (String, i64, String): FromRow<'r, Row<C>>,
    for<'r> (String, String, String, Vec<u8>): FromRow<'r, Row<C>>,
    for<'r> (i64, String, Vec<u8>): FromRow<'r, Row<C>>,
{
    let (registry, revision, chain): (String, i64, String) =
        query_as("SELECT registry.id, head.revision, head.chain FROM registry, head")
            .fetch_one(&mut *connection)
            .await
            .expect("there is a head");
    let revision = u64::try_from(revision).unwrap_or_default();
    history.note(who, Event::Log { registry, revision, chain });
    let documents: Vec<(String, String, String, Vec<u8>)> =
        query_as("SELECT kind, name, version, document FROM entities")
            .fetch_all(&mut *connection)
            .await
            .expect("there are entities");
    let documents: HashMap<[String; 3], String> = documents
        .into_iter()
        .map(|(kind, name, version, document)| ([kind, name, version], text(&document)))
        .collect();
    let commits: Vec<(i64, String, Vec<u8>)> =
        query_as("SELECT revision, chain, canonical FROM commits ORDER BY revision")
            .fetch_all(&mut *connection)
            .await
            .expect("there are commits");
    for (revision, chain, canonical) in commits {
        let canonical = text(&canonical);
        let documents = registered(&canonical).filter_map(|key| documents.get(&key).cloned());
        let documents = documents.collect();
        let revision = u64::try_from(revision).unwrap_or_default();
        history.note(who, Event::Commit { revision, chain, canonical, documents });
    }
}

/// Kind, name and version of the registered entities of a commit.
fn registered(canonical: &str) -> impl Iterator<Item = [String; 3]> + use<> {
    let commit: Value = serde_json::from_str(canonical).unwrap_or_default();
    let changes = commit["changes"].as_array().cloned().unwrap_or_default();
    let registrations = changes.into_iter().filter(|change| change["action"] == "register");
    registrations.map(|change| {
        ["kind", "name", "version"].map(|part| change[part].as_str().unwrap_or_default().to_owned())
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
