//! Features of Postgres: several servers, visibility, notifications and roles.

use std::time::Duration;

use registry_core::Revision;
use registry_server::store::{AppendError, DatabaseUrl, Error, Store, Wake};
use sqlx::{Connection as _, PgConnection};
use tokio::time::{sleep, timeout};

use crate::{
    append::assert_holds,
    fixture::Fixture,
    log::{Draft, Log},
};

async fn console(fixture: &Fixture) -> PgConnection {
    let Fixture::Postgres(database) = fixture else { panic!("Postgres only") };
    PgConnection::connect(database.url()).await.unwrap()
}

/// Waits until this many sessions wait for a lock.
async fn wait_for_locks(console: &mut PgConnection, wanted: i64) {
    let waiting = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    loop {
        let found: i64 = sqlx::query_scalar(waiting).fetch_one(&mut *console).await.unwrap();
        if found == wanted {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// An open transaction with a revision hides no commit from a reader of "commits after r", because the next
/// writer waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_transaction_hides_no_commit() {
    let fixture = Fixture::postgres().await;
    let [slow, fast, reader] = [fixture.open().await, fixture.open().await, fixture.open().await];
    // Every append waits after it has moved the head, while lock 42 is held.
    fixture
        .execute(
            "CREATE FUNCTION halt() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN new; END $$;
             CREATE TRIGGER halt BEFORE INSERT ON changes FOR EACH ROW EXECUTE FUNCTION halt()",
        )
        .await;
    let mut gate = console(&fixture).await;
    sqlx::query("SELECT pg_advisory_lock(42)").execute(&mut gate).await.unwrap();
    let mut log = Log::new(&slow);
    let rival = log.seal(Draft::new().register("Rival", "1.0.0"));
    let first = log.commit(Draft::new().register("First", "1.0.0"));
    let held = tokio::spawn(async move { slow.append(Revision(0), &[first]).await });
    wait_for_locks(&mut gate, 1).await;
    let racing = tokio::spawn({
        let fast = fast.clone();
        async move { fast.append(Revision(0), &[rival]).await }
    });
    wait_for_locks(&mut gate, 2).await;
    assert!(!held.is_finished() && !racing.is_finished(), "both are under way");
    let genesis = (Revision(0), registry_core::ChainHash::genesis(reader.registry()));
    assert!(reader.commits_after(genesis, 10).await.unwrap().is_empty(), "neither is visible");
    sqlx::query("SELECT pg_advisory_unlock(42)").execute(&mut gate).await.unwrap();
    held.await.unwrap().unwrap();
    assert_eq!(racing.await.unwrap().unwrap_err(), AppendError::Conflict { head: Revision(1) });
    log.append(&fast, Draft::new().register("Rival", "1.0.0")).await;
    assert_holds(&reader, &log).await;
}

/// Planning an append takes longer than its execution.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_of_registrations_reuse_their_plan() {
    let fixture = Fixture::postgres().await;
    let store = fixture.open().await;
    // The trigger runs in the session of the append.
    fixture
        .execute(
            "CREATE TABLE plans (custom bigint, has_arrays boolean);
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN
                 INSERT INTO plans SELECT custom_plans, statement LIKE '%unnest%'
                 FROM pg_prepared_statements WHERE statement LIKE '%WITH moved%';
                 RETURN new;
             END $$;
             CREATE TRIGGER note BEFORE INSERT ON commits FOR EACH ROW EXECUTE FUNCTION note()",
        )
        .await;
    let mut log = Log::new(&store);
    for name in ["A", "B", "C"] {
        log.append(&store, Draft::new().register(name, "1.0.0")).await;
    }
    let reused = "SELECT count(*) FROM plans WHERE custom = 0 AND NOT has_arrays";
    assert_eq!(fixture.number(reused).await, 3);
    log.append(&store, Draft::new().deprecate("A", "1.0.0", "use B")).await;
    assert_eq!(fixture.number("SELECT max(custom) FROM plans").await, 1);
}

/// Positive control: with numbers from a sequence, the same situation loses a commit.
#[tokio::test]
async fn sequence_numbers_lose_a_commit_positive_control() {
    let fixture = Fixture::postgres().await;
    let [mut slow, mut fast, mut reader] =
        [console(&fixture).await, console(&fixture).await, console(&fixture).await];
    fixture.execute("CREATE TABLE naive (revision bigserial PRIMARY KEY, name text)").await;
    let insert = "INSERT INTO naive (name) VALUES ($1)";
    let mut held = slow.begin().await.unwrap();
    sqlx::query(insert).bind("first").execute(&mut *held).await.unwrap();
    sqlx::query(insert).bind("rival").execute(&mut fast).await.unwrap();
    let mut seen: Vec<(i64, String)> = Vec::new();
    let after = "SELECT revision, name FROM naive WHERE revision > $1 ORDER BY revision";
    seen.extend(
        sqlx::query_as::<_, (i64, String)>(after).bind(0_i64).fetch_all(&mut reader).await.unwrap(),
    );
    held.commit().await.unwrap();
    let last = seen.last().unwrap().0;
    seen.extend(
        sqlx::query_as::<_, (i64, String)>(after).bind(last).fetch_all(&mut reader).await.unwrap(),
    );
    assert_eq!(fixture.number("SELECT count(*) FROM naive").await, 2, "both are committed");
    assert_eq!(seen, [(2, "rival".to_owned())], "and one of them was never seen");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn append_notifies_every_listener_once() {
    let fixture = Fixture::postgres().await;
    let [writer, follower] = [fixture.open().await, fixture.open().await];
    let mut listener = follower.listener().await.unwrap();
    let quiet = timeout(Duration::from_millis(200), listener.wait()).await;
    assert!(quiet.is_err(), "nothing has happened");
    let mut log = Log::new(&writer);
    for name in ["A", "B", "C"] {
        log.commit(Draft::new().register(name, "1.0.0"));
    }
    writer.append(Revision(0), &log.commits).await.unwrap();
    timeout(Duration::from_secs(5), listener.wait()).await.expect("woken").unwrap();
    assert_holds(&follower, &log).await;
    let quiet = timeout(Duration::from_millis(200), listener.wait()).await;
    assert!(quiet.is_err(), "one append is one wake");
    // A rejected append sends no notification.
    let late = Log::new(&writer).seal(Draft::new().register("D", "1.0.0"));
    writer.append(Revision(0), &[late]).await.unwrap_err();
    let quiet = timeout(Duration::from_millis(200), listener.wait()).await;
    assert!(quiet.is_err(), "nothing was appended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_in_quick_succession_notify_of_the_last() {
    let fixture = Fixture::postgres().await;
    let [writer, follower] = [fixture.open().await, fixture.open().await];
    let mut listener = follower.listener().await.unwrap();
    let mut log = Log::new(&writer);
    for i in 0..20 {
        log.append(&writer, Draft::new().register(&format!("A{i}"), "1.0.0")).await;
    }
    let notified =
        async { while !matches!(listener.wait().await.unwrap(), Wake::Commit(Revision(20))) {} };
    timeout(Duration::from_secs(5), notified).await.expect("the last commit is announced");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_notification_is_repeated() {
    let fixture = Fixture::postgres().await;
    let [writer, follower] = [fixture.open().await, fixture.open().await];
    let mut listener = follower.listener().await.unwrap();
    let sealed = Log::new(&writer).seal(Draft::new().register("A", "1.0.0"));
    // Neither the append nor its notification finds the head.
    fixture.execute("ALTER TABLE head RENAME TO hidden").await;
    writer.append(Revision(0), &[sealed]).await.unwrap_err();
    let quiet = timeout(Duration::from_millis(200), listener.wait()).await;
    assert!(quiet.is_err(), "the notification failed");
    fixture.execute("ALTER TABLE hidden RENAME TO head").await;
    let woken = timeout(Duration::from_secs(10), listener.wait()).await.expect("woken").unwrap();
    assert_eq!(woken, Wake::Commit(Revision(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn canceled_append_notifies_because_it_may_be_stored() {
    let fixture = Fixture::postgres().await;
    let [writer, follower] = [fixture.open().await, fixture.open().await];
    let mut listener = follower.listener().await.unwrap();
    let mut gate = console(&fixture).await;
    let sealed = Log::new(&writer).seal(Draft::new().register("A", "1.0.0"));
    let mut held = gate.begin().await.unwrap();
    sqlx::query("SELECT revision FROM head FOR UPDATE").execute(&mut *held).await.unwrap();
    // The store stays open, so that its notifier runs.
    let appending = tokio::spawn({
        let writer = writer.clone();
        async move { writer.append(Revision(0), &[sealed]).await }
    });
    wait_for_locks(&mut console(&fixture).await, 1).await;
    appending.abort();
    assert!(appending.await.unwrap_err().is_cancelled());
    timeout(Duration::from_secs(5), listener.wait()).await.expect("woken").unwrap();
}

#[tokio::test]
async fn missing_database_error_names_createdb() {
    let fixture = Fixture::postgres().await;
    let Fixture::Postgres(database) = &fixture else { unreachable!() };
    let url = database.url().replace("/registry_test_", "/absent_");
    let url: DatabaseUrl = url.parse().unwrap();
    let error = Store::open(&url).await.unwrap_err();
    assert!(matches!(error, Error::Config { .. }), "{error}");
    assert!(error.to_string().contains("createdb"), "{error}");
}

#[tokio::test]
async fn unreachable_server_is_unavailable() {
    let url: DatabaseUrl = "postgres://ann:s3cret@127.0.0.1:1/registry".parse().unwrap();
    let error = Store::open(&url).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    let text = format!("{error} {error:?}");
    assert!(text.contains("postgres://ann@127.0.0.1:1/registry") && !text.contains("s3cret"));
}

/// As on a standby.
#[tokio::test]
async fn read_only_database_is_rejected_with_reason() {
    let fixture = Fixture::postgres().await;
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    log.append(&store, Draft::new().register("A", "1.0.0")).await;
    fixture
        .execute(
            "DO $$ BEGIN EXECUTE format(
                 'ALTER DATABASE %I SET default_transaction_read_only = on', current_database());
             END $$;
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        .await;
    let error = fixture.try_open().await.unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    let refused = loop {
        let sealed = log.seal(Draft::new().register("B", "1.0.0"));
        match store.append(Revision(1), &[sealed]).await.unwrap_err() {
            AppendError::Store(Error::Unavailable { .. }) => {}
            refused => break refused,
        }
    };
    assert!(matches!(refused, AppendError::Store(Error::ReadOnly { .. })), "{refused}");
    assert_holds(&store, &log).await;
}
