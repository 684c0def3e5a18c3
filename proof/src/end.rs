//! The end of a history: everybody catches up, and the log is written down as the database has it,
//! and as those of relays have it.

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

use crate::{book::Book, caller::Caller, gateway::Gateway};

/// How long everybody may take to catch up.
const PATIENCE: Duration = Duration::from_secs(45);
/// How long the head has to stand still.
const STILL: Duration = Duration::from_millis(400);

type Row<C> = <<C as Connection>::Database as Database>::Row;

/// Who has to catch up.
pub(crate) struct Crowd {
    pub(crate) database: String,
    pub(crate) followers: Vec<watch::Receiver<u64>>,
    pub(crate) gateways: Vec<Gateway>,
    pub(crate) caller: Caller,
}

impl Crowd {
    /// Waits until everybody has everything, and says so in the history; or says who has not.
    pub(crate) async fn settle(&mut self, book: &Book) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let head = head(&self.database).await;
            let behind = self.behind(head).await;
            if behind.is_empty() {
                sleep(STILL).await;
                if self::head(&self.database).await == head {
                    book.note(RECORDER, Event::Settled {});
                    for server in 0..self.caller.servers() {
                        self.caller.list(server).await;
                    }
                    return;
                }
            } else if Instant::now() > deadline {
                let fault = format!("not at {head} in time: {}", behind.join(", "));
                book.note(RECORDER, Event::Fault { fault, repeats: false, resends: false });
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

/// The key that the registry signs with.
pub(crate) async fn key(database: &str) -> String {
    let mut connection = connect(database).await;
    query_scalar("SELECT checkpoint_key FROM registry")
        .fetch_one(&mut connection)
        .await
        .expect("a server that has started has a key")
}

/// Writes down the registry's log.
pub(crate) async fn write_log(database: &str, book: &Book) {
    write(&mut connect(database).await, RECORDER, book).await;
}

/// Writes down the log of a relay.
pub(crate) async fn write_copy(database: &str, relay: &str, book: &Book) {
    let connection = SqliteConnection::connect(database).await;
    write(&mut connection.expect("a relay has a database"), relay, book).await;
}

async fn write<C>(connection: &mut C, who: &str, book: &Book)
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
    book.note(who, Event::Log { registry, revision, chain });
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
        book.note(who, Event::Commit { revision, chain, canonical, documents });
    }
}

/// What a commit registers: kind, name and version.
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
