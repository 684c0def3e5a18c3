//! Opening databases: new, current, older, newer and foreign ones.

use ledger::{BudgetKey, WindowId};
use registry_core::{Amount, Attestation, ChainHash, RegistryId, Revision, Timestamp};
use registry_server::store::{ApprovalQuery, BookKey, Error, GenerationCause, Store, UsageQuery};

use crate::{
    append::assert_holds,
    approvals::left_unknown,
    fixture::Fixture,
    log::{Draft, Log},
    tokens::event,
};

const NEEDS_VERSION: &str = "SELECT needs_version FROM registry";

pub(crate) async fn registry_id_is_stable(fixture: &Fixture) {
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    log.append(&store, Draft::new().register("A", "1.0.0")).await;
    let again = fixture.open().await;
    assert_eq!(again.registry(), store.registry());
    assert_holds(&again, &log).await;
    let another = fixture.another().await;
    assert_ne!(another.open().await.registry(), store.registry());
}

pub(crate) async fn concurrent_opens_create_one_registry(fixture: &Fixture) {
    let opening = (0..6).map(|_| {
        let url = fixture.url();
        tokio::spawn(async move { registry_server::store::Store::open(&url).await.unwrap() })
    });
    let opening: Vec<_> = opening.collect();
    let mut stores = Vec::new();
    for one in opening {
        stores.push(one.await.unwrap());
    }
    assert!(stores.iter().all(|store| store.registry() == stores[0].registry()));
    let mut log = Log::new(&stores[0]);
    log.append(&stores[5], Draft::new().register("A", "1.0.0")).await;
    assert_holds(&stores[3], &log).await;
}

/// The program stopped after creating the tables and before creating the identity.
pub(crate) async fn interrupted_creation_is_completed(fixture: &Fixture) {
    drop(fixture.open().await);
    fixture.execute("DELETE FROM head; DELETE FROM registry").await;
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    log.append(&store, Draft::new().register("A", "1.0.0")).await;
    assert_holds(&store, &log).await;
}

pub(crate) async fn database_of_a_newer_schema_is_rejected(fixture: &Fixture) {
    drop(fixture.open().await);
    fixture.execute("UPDATE registry SET needs_version = 99").await;
    let error = fixture.try_open().await.unwrap_err();
    assert!(matches!(&error, Error::SchemaTooNew { found: 99, known: 20, .. }), "{error}");
    assert!(error.to_string().contains("upgrade registry-server"), "{error}");
}

/// A newer program has added a compatible migration.
pub(crate) async fn compatible_newer_schema_is_opened(fixture: &Fixture) {
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    fixture
        .execute(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             SELECT 99, 'later', success, checksum, 1 FROM _sqlx_migrations WHERE version = 1;
             ALTER TABLE entities ADD COLUMN later text;
             CREATE TABLE later (id bigint)",
        )
        .await;
    let again = fixture.open().await;
    log.append(&again, Draft::new().register("A", "1.0.0")).await;
    assert_holds(&again, &log).await;
}

/// Opens a database with a log, as the version before migration `first` has left it.
async fn left_earlier(
    fixture: &Fixture,
    first: i64,
    drafts: impl IntoIterator<Item = Draft>,
    undo: &str,
) -> (Store, Log) {
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    for draft in drafts {
        log.append(&store, draft).await;
    }
    drop(store);
    assert_eq!(fixture.number(NEEDS_VERSION).await, 9);
    let events = if first <= 8 { without_commit_events(fixture) } else { "" };
    let migrations = format!("DELETE FROM _sqlx_migrations WHERE version >= {first}");
    let policies = if first <= 9 { without_policies(fixture) } else { "" };
    let usage = match first {
        ..=11 => WITHOUT_USAGE,
        12 | 13 => WITHOUT_FINDINGS,
        _ => "",
    };
    let ledger = match first {
        ..=10 => without_ledger(fixture),
        11 | 12 => format!("{WITHOUT_CLAIMS}{WITHOUT_BOUNDS}"),
        13 | 14 => WITHOUT_CLAIMS.to_owned(),
        _ => String::new(),
    };
    let approvals = if first <= 15 { without_approvals(fixture) } else { String::new() };
    let currency = if matches!(first, 11..=16) { WITHOUT_CURRENCY } else { "" };
    let traces = if first <= 18 { "DROP TABLE trace_calls;" } else { "" };
    let undo = format!("{traces}{currency}{approvals}{usage}{ledger}{policies}{events}{undo}");
    fixture.execute(&format!("{undo};{migrations}")).await;
    let again = fixture.open().await;
    assert_holds(&again, &log).await;
    assert_eq!(fixture.number(NEEDS_VERSION).await, 9);
    (again, log)
}

/// SQL that reverts migration 16.
const WITHOUT_CURRENCY: &str = "ALTER TABLE ledger DROP COLUMN currency;";

/// SQL that reverts migration 15.
fn without_approvals(fixture: &Fixture) -> String {
    let tables =
        "DROP TABLE approval_grants; DROP TABLE approval_steps; DROP TABLE approval_rounds;
                  DROP TABLE approval_requests; DROP TABLE approval_key;";
    match fixture {
        Fixture::Sqlite(_) => tables.to_owned(),
        Fixture::Postgres(_) => format!("{tables} DROP TABLE approval_lock;"),
    }
}

/// SQL that reverts migration 14.
const WITHOUT_CLAIMS: &str = "ALTER TABLE ledger_budgets DROP COLUMN unexplained;
                              ALTER TABLE ledger_budgets DROP COLUMN peak_allowance;
                              ALTER TABLE ledger_accounts DROP COLUMN unexplained;
                              ALTER TABLE ledger_accounts DROP COLUMN forced;";

/// SQL that reverts migration 13.
const WITHOUT_FINDINGS: &str = "ALTER TABLE usage_totals DROP COLUMN findings;";

/// SQL that reverts migration 12.
const WITHOUT_BOUNDS: &str = "DROP INDEX ledger_processes_running;
                              ALTER TABLE ledger_budgets DROP COLUMN peak_limit;
                              ALTER TABLE ledger DROP COLUMN secret;";

/// SQL that reverts migration 11.
const WITHOUT_USAGE: &str = "DROP TABLE usage_totals; DROP TABLE usage_reports;";

/// SQL that reverts migration 10.
fn without_ledger(fixture: &Fixture) -> String {
    let tables = "DROP TABLE ledger_changes; DROP TABLE ledger_alerts; DROP TABLE ledger_accounts;
                  DROP TABLE ledger_budgets; DROP TABLE ledger_processes; DROP TABLE ledger;";
    match fixture {
        Fixture::Sqlite(_) => tables.to_owned(),
        Fixture::Postgres(_) => format!("{tables} DROP SEQUENCE ledger_counter;"),
    }
}

/// SQL that reverts migration 9, except for the wider constraint in SQLite.
fn without_policies(fixture: &Fixture) -> &'static str {
    match fixture {
        Fixture::Sqlite(_) => "UPDATE registry SET needs_version = 2;",
        Fixture::Postgres(_) => {
            "ALTER TABLE entities DROP CONSTRAINT entities_kind_known;
             ALTER TABLE entities ADD CONSTRAINT entities_kind_known
                 CHECK (kind IN ('schema', 'server', 'tool', 'agent'));
             UPDATE registry SET needs_version = 2;"
        }
    }
}

/// SQL that reverts migration 8.
fn without_commit_events(fixture: &Fixture) -> &'static str {
    match fixture {
        // The triggers do not exist at that point.
        Fixture::Sqlite(_) => "",
        Fixture::Postgres(_) => {
            "DROP TRIGGER access_events_of_tokens_stay ON access_events;
             ALTER TABLE access_events DROP CONSTRAINT access_events_event_known;
             ALTER TABLE access_events ADD CONSTRAINT access_events_event_known
                 CHECK (event IN ('token-created', 'token-revoked'));"
        }
    }
}

/// Asserts that the log accepts a further commit.
async fn goes_on((store, mut log): (Store, Log)) {
    log.append(&store, Draft::new().register("B", "1.0.0")).await;
    assert_holds(&store, &log).await;
}

/// A database before migration 2, with a deprecated entity.
pub(crate) async fn migration_2_adds_settings(fixture: &Fixture) {
    let drafts =
        [Draft::new().register("A", "1.0.0"), Draft::new().deprecate("A", "1.0.0", "use B")];
    let undo = "DROP TABLE requests; ALTER TABLE registry DROP COLUMN attestation; DROP TABLE gateways; DROP TABLE gateway_servers; DROP TABLE tokens;
             DROP TABLE access_events; DROP TABLE setting_changes;
             DROP INDEX commits_time; DROP INDEX changes_of_lifecycle;
             ALTER TABLE entities DROP COLUMN lifecycle_notice;
             ALTER TABLE changes DROP COLUMN detail;
             ALTER TABLE registry DROP COLUMN checkpoint_key;
             UPDATE registry SET needs_version = 1";
    goes_on(left_earlier(fixture, 2, drafts, undo).await).await;
}

/// A database before migration 3.
pub(crate) async fn migration_3_adds_tokens(fixture: &Fixture) {
    let undo = "DROP TABLE requests; ALTER TABLE registry DROP COLUMN attestation; DROP TABLE gateways; DROP TABLE gateway_servers; DROP TABLE tokens;
             DROP TABLE access_events;
             ALTER TABLE registry DROP COLUMN checkpoint_key; DROP INDEX setting_changes_selector";
    let again = left_earlier(fixture, 3, [Draft::new().register("A", "1.0.0")], undo).await;
    assert_eq!(fixture.number("SELECT count(*) FROM tokens").await, 0);
    goes_on(again).await;
}

/// A database before migration 4.
pub(crate) async fn migration_4_stores_the_first_key(fixture: &Fixture) {
    let undo = "DROP TABLE requests; ALTER TABLE registry DROP COLUMN attestation; DROP TABLE gateways; DROP TABLE gateway_servers;
             ALTER TABLE registry DROP COLUMN checkpoint_key; DROP INDEX setting_changes_selector;
             UPDATE registry SET needs_version = 1";
    let (again, log) = left_earlier(fixture, 4, [Draft::new().register("A", "1.0.0")], undo).await;
    assert_eq!(again.checkpoint_key("first").await.unwrap(), "first");
    assert_eq!(again.checkpoint_key("second").await.unwrap(), "first");
    again.replace_checkpoint_key("second", &event(1)).await.unwrap();
    assert_eq!(again.checkpoint_key("third").await.unwrap(), "second");
    goes_on((again, log)).await;
}

/// A database before migration 5.
pub(crate) async fn migration_5_adds_gateways(fixture: &Fixture) {
    let undo = "DROP TABLE requests; ALTER TABLE registry DROP COLUMN attestation; DROP TABLE gateways; DROP TABLE gateway_servers";
    let again = left_earlier(fixture, 5, [Draft::new().register("A", "1.0.0")], undo).await;
    assert_eq!(fixture.number("SELECT count(*) FROM gateways").await, 0);
    goes_on(again).await;
}

/// A database before migration 6, which is not and does not become a relay's.
pub(crate) async fn migration_6_adds_relay_signatures(fixture: &Fixture) {
    let undo = "DROP TABLE requests; ALTER TABLE registry DROP COLUMN attestation";
    let (again, log) = left_earlier(fixture, 6, [Draft::new().register("A", "1.0.0")], undo).await;
    assert!(!again.is_relay().await.unwrap(), "it is a registry");
    assert_eq!(again.attestations().await.unwrap(), []);
    goes_on((again, log)).await;
}

/// A database before migration 7, with request ids in its log.
pub(crate) async fn migration_7_keeps_recent_request_ids(fixture: &Fixture) {
    let drafts = [Draft::new().register("A", "1.0.0").request("r1")];
    let undo = "DROP TABLE requests";
    let (again, log) = left_earlier(fixture, 7, drafts, undo).await;
    let now = log.commits[0].commit().committed_at;
    let found = again.find_request("ann", "r1", now).await.unwrap();
    assert_eq!(found.map(|header| header.revision), Some(Revision(1)));
    goes_on((again, log)).await;
}

/// A database before migration 8, with an access event of a token.
pub(crate) async fn migration_8_keeps_access_events(fixture: &Fixture) {
    let trail = "INSERT INTO access_events (at, principal, method, address, event, subject, detail)
                 VALUES ('2026-11-25T12:00:00.000Z', 'root', 'local', '', 'token-created', 'aa', 'b')";
    drop(fixture.open().await);
    fixture.execute(trail).await;
    let (again, log) = left_earlier(fixture, 8, [Draft::new().register("A", "1.0.0")], "").await;
    let trail = again.access_events(0, 10).await.unwrap();
    assert_eq!((trail.len(), &*trail[0].subject, &*trail[0].what.detail), (1, "aa", "b"));
    let mistake = fixture.mistake("DELETE FROM access_events").await.unwrap_err();
    assert!(mistake.contains("access_events"), "{mistake}");
    goes_on((again, log)).await;
}

/// A database before migration 9, which rejects policies.
pub(crate) async fn migration_9_accepts_policies(fixture: &Fixture) {
    let (again, mut log) =
        left_earlier(fixture, 9, [Draft::new().register("A", "1.0.0")], "").await;
    log.append(&again, Draft::new().register_policy()).await;
    assert_holds(&again, &log).await;
    let mistake = fixture.mistake("DELETE FROM entities").await.unwrap_err();
    assert!(mistake.contains("entities"), "{mistake}");
}

/// A database before migration 10, without budgets.
pub(crate) async fn migration_10_adds_the_ledger(fixture: &Fixture) {
    let again = left_earlier(fixture, 10, [Draft::new().register("A", "1.0.0")], "").await;
    let generation = again.0.ledger_generation().await.unwrap();
    assert_eq!((generation.number, generation.is_recovered), (0, true));
    goes_on(again).await;
}

/// A database before migration 11, without usage.
pub(crate) async fn migration_11_adds_usage(fixture: &Fixture) {
    let again = left_earlier(fixture, 11, [Draft::new().register("A", "1.0.0")], "").await;
    let usage = again.0.query_usage(&UsageQuery { limit: 1, ..Default::default() }).await;
    assert_eq!(usage.unwrap(), []);
    goes_on(again).await;
}

/// A database before migration 12.
pub(crate) async fn migration_12_adds_bounds(fixture: &Fixture) {
    goes_on(left_earlier(fixture, 12, [Draft::new().register("A", "1.0.0")], "").await).await;
}

/// A database before migration 15, without approvals.
pub(crate) async fn migration_15_adds_approvals(fixture: &Fixture) {
    let again = left_earlier(fixture, 15, [Draft::new().register("A", "1.0.0")], "").await;
    let query = ApprovalQuery { state: None, caller: None, after: None, limit: 1 };
    assert_eq!(again.0.approvals(query).await.unwrap(), []);
    goes_on(again).await;
}

/// A database before migration 16, with a budget.
pub(crate) async fn migration_16_keeps_one_currency(fixture: &Fixture) {
    let budget = "INSERT INTO ledger_budgets
                      (policy, budget, subject, window_id, exposed, settled, overshoot, reclaimed,
                       adjustment, alerted)
                  VALUES ('p', 'b', 'a', 'total', 3, 2, 0, 0, 0, 0)";
    drop(fixture.open().await);
    fixture.execute(budget).await;
    let (again, log) = left_earlier(fixture, 16, [Draft::new().register("A", "1.0.0")], "").await;
    assert_eq!(again.ledger_currency("EUR").await.unwrap(), "EUR");
    assert_eq!(again.ledger_currency("CHF").await.unwrap(), "EUR");
    fixture.execute("DELETE FROM ledger_budgets").await;
    assert_eq!(again.ledger_currency("CHF").await.unwrap(), "CHF", "there is no amount");
    let usage = "INSERT INTO usage_totals
                     (minute, gateway, agent, team, principal, tool, verdict,
                      calls, cost, duration_micros, request_bytes, response_bytes)
                 VALUES (60, 'g', 'a', 't', 'p', 'pay', 'allow', 3, 5, 0, 0, 0)";
    fixture.execute(usage).await;
    assert_eq!(again.ledger_currency("USD").await.unwrap(), "CHF");
    goes_on((again, log)).await;
}

/// A database before migration 17, with a call whose outcome is unknown.
pub(crate) async fn migration_17_keeps_unknown_outcomes(fixture: &Fixture) {
    let store = fixture.open().await;
    left_unknown(&store).await;
    drop(store);
    let undo = match fixture {
        // Earlier databases have no events of decisions.
        Fixture::Sqlite(_) => {
            "DELETE FROM access_events WHERE event LIKE 'approval-%';
             UPDATE approval_requests SET room_at = ended_at"
        }
        Fixture::Postgres(_) => "UPDATE approval_requests SET room_at = ended_at",
    };
    let again = left_earlier(fixture, 17, [Draft::new().register("A", "1.0.0")], undo).await;
    let kept = "SELECT count(*) FROM approval_requests WHERE room_at IS NULL";
    assert_eq!(fixture.number(kept).await, 1);
    goes_on(again).await;
}

/// A database before migration 18, without traces.
pub(crate) async fn migration_18_adds_traces(fixture: &Fixture) {
    let again = left_earlier(fixture, 18, [Draft::new().register("A", "1.0.0")], "").await;
    assert_eq!(fixture.number("SELECT count(*) FROM trace_calls").await, 0);
    goes_on(again).await;
}

/// SQL for a database that knows only the first kinds of access events.
fn without_later_events(fixture: &Fixture) -> &'static str {
    match fixture {
        // The wider constraint stays.
        Fixture::Sqlite(_) => "SELECT 1",
        Fixture::Postgres(_) => {
            "ALTER TABLE access_events DROP CONSTRAINT access_events_event_known;
             ALTER TABLE access_events ADD CONSTRAINT access_events_event_known
                 CHECK (event IN ('token-created', 'token-revoked', 'committed')) NOT VALID"
        }
    }
}

/// A database before migration 19, with an access event of a token.
pub(crate) async fn migration_19_records_operators(fixture: &Fixture) {
    let undo = without_later_events(fixture);
    drop(fixture.open().await);
    let rows = "INSERT INTO access_events (at, principal, method, address, event, subject, detail)
                VALUES ('2026-11-25T12:00:00.000Z', 'root', 'local', '', 'token-created', 'aa', ''),
                       ('2026-11-25T12:00:00.000Z', 'root', 'local', '', 'committed', '1', '');
                DELETE FROM access_events WHERE event = 'committed'";
    fixture.execute(rows).await;
    let (again, log) = left_earlier(fixture, 19, [Draft::new().register("A", "1.0.0")], undo).await;
    again.replace_checkpoint_key("new", &event(1)).await.unwrap();
    again.start_generation(GenerationCause::Restored(&event(2)), event(2).at).await.unwrap();
    again.end_recovery(&event(3)).await.unwrap();
    let trail = again.access_events(0, 10).await.unwrap();
    let kinds: Vec<_> = trail.iter().map(|event| event.event.as_str()).collect();
    assert_eq!(
        kinds,
        [
            "token-created",
            "checkpoint-key-replaced",
            "ledger-recovery-started",
            "ledger-recovery-ended"
        ]
    );
    assert!(trail[1].number > 2, "the number of a deleted event is not used again");
    assert_eq!((&*trail[1].subject, &trail[2].subject), ("new", &trail[3].subject));
    goes_on((again, log)).await;
}

/// A database before migration 20, with an access event of a token.
pub(crate) async fn migration_20_records_decisions(fixture: &Fixture) {
    let undo = without_later_events(fixture);
    drop(fixture.open().await);
    let row = "INSERT INTO access_events (at, principal, method, address, event, subject, detail)
               VALUES ('2026-11-25T12:00:00.000Z', 'root', 'local', '', 'token-created', 'aa', '')";
    fixture.execute(row).await;
    let (again, log) = left_earlier(fixture, 20, [Draft::new().register("A", "1.0.0")], undo).await;
    let budget = BudgetKey { policy: "p".into(), budget: "b".into(), subject: "fleet".into() };
    let book = BookKey { budget, window: WindowId::new("total") };
    again.adjust_budget(&book, None, Amount::from_micros(1), &event(1)).await.unwrap();
    let trail = again.access_events(0, 10).await.unwrap();
    let recorded: Vec<_> = trail.iter().map(|event| (&*event.event, &*event.subject)).collect();
    assert_eq!(recorded, [("token-created", "aa"), ("budget-adjusted", "p/b/fleet total")]);
    assert_eq!(trail[1].what.detail, "by 0.000001: a test");
    goes_on((again, log)).await;
}

/// A database before migration 13, with usage.
pub(crate) async fn migration_13_adds_findings(fixture: &Fixture) {
    let usage = "INSERT INTO usage_totals
                     (minute, gateway, agent, team, principal, tool, verdict,
                      calls, cost, duration_micros, request_bytes, response_bytes)
                 VALUES (60, 'g', 'a', 't', 'p', 'pay', 'allow', 3, 0, 0, 0, 0)";
    drop(fixture.open().await);
    fixture.execute(usage).await;
    let again = left_earlier(fixture, 13, [Draft::new().register("A", "1.0.0")], "").await;
    let usage = again.0.query_usage(&UsageQuery { limit: 1, ..Default::default() }).await.unwrap();
    assert_eq!((usage[0].totals.calls, usage[0].totals.findings), (3, 0));
    goes_on(again).await;
}

/// A database before migration 14, with a budget and an account.
pub(crate) async fn migration_14_adds_claims(fixture: &Fixture) {
    let rows = "INSERT INTO ledger_budgets
                    (policy, budget, subject, window_id, exposed, settled, overshoot, reclaimed,
                     adjustment, alerted)
                VALUES ('p', 'b', 'a', 'total', 3, 2, 0, 0, 0, 0);
                INSERT INTO ledger_accounts
                    (budget_id, gateway, epoch, process, granted, returned, settled)
                SELECT id, 'g', '00000000000000000000000000000001',
                       '00000000000000000000000000000001', 3, 0, 2
                FROM ledger_budgets";
    drop(fixture.open().await);
    fixture.execute(rows).await;
    let again = left_earlier(fixture, 14, [Draft::new().register("A", "1.0.0")], "").await;
    let budget = BudgetKey { policy: "p".into(), budget: "b".into(), subject: "a".into() };
    let book = BookKey { budget, window: WindowId::new("total") };
    let row = again.0.find_budget(&book, Timestamp::EPOCH).await.unwrap().unwrap().row;
    let zero = Amount::ZERO;
    assert_eq!((row.settled.as_micros(), row.unexplained, row.peak_allowance), (2, zero, zero));
    let account = again.0.list_accounts(&book, 1).await.unwrap()[0].row;
    assert_eq!((account.settled.as_micros(), account.forced, account.unexplained), (2, zero, zero));
    goes_on(again).await;
}

/// Only a database without a public key becomes a relay's.
pub(crate) async fn new_database_becomes_a_relay(fixture: &Fixture) {
    let other = RegistryId::new("0198c0de");
    let store = fixture.open().await.set_upstream(&other, "the key").await.unwrap();
    assert_eq!(store.registry(), &other);
    let catalog = store.load().await.unwrap();
    assert_eq!(catalog.chain(), ChainHash::genesis(&other));
    assert_eq!(store.known_checkpoint_key().await.unwrap().as_deref(), Some("the key"));
    let store = store.set_upstream(&RegistryId::new("another"), "another key").await.unwrap();
    assert_eq!(store.registry(), &other);
    assert_eq!(store.known_checkpoint_key().await.unwrap().as_deref(), Some("the key"));
    assert!(store.is_relay().await.unwrap());
    assert_eq!(store.attestations().await.unwrap(), [], "there is none yet");
    let signed = Attestation { time: Timestamp::from_millis(7), signature: [9; 64] };
    let both = [(Revision(0), signed), (Revision(1), signed)];
    store.store_attestations(&both).await.unwrap();
    assert_eq!(store.attestations().await.unwrap(), both);

    // One of two relays on the database may lag.
    store.store_attestations(&[(Revision(0), signed)]).await.unwrap();
    assert_eq!(store.attestations().await.unwrap(), both);
    let later = Attestation { time: Timestamp::from_millis(8), signature: [9; 64] };
    store.store_attestations(&[(Revision(1), later)]).await.unwrap();
    let kept = [(Revision(0), signed), (Revision(1), later)];
    assert_eq!(store.attestations().await.unwrap(), kept);

    // Signatures of states that never arrived do not displace others.
    for never_came in 2..100 {
        store.store_attestations(&[(Revision(never_came), later)]).await.unwrap();
    }
    let kept = store.attestations().await.unwrap();
    assert_eq!((kept.len(), kept[0]), (16, (Revision(0), signed)));
    store.store_attestations(&[(Revision(0), later)]).await.unwrap();
    assert_eq!(store.attestations().await.unwrap()[0], (Revision(0), later));

    // A registry with its own key stays one, despite a running relay.
    store.replace_checkpoint_key("a key of its own", &event(1)).await.unwrap();
    store.store_attestations(&[(Revision(1), signed)]).await.unwrap();
    assert!(!store.is_relay().await.unwrap());
}

pub(crate) async fn edited_migration_is_reported(fixture: &Fixture) {
    drop(fixture.open().await);
    let other = match fixture {
        Fixture::Sqlite(_) => "X'00'",
        Fixture::Postgres(_) => "'\\x00'",
    };
    fixture.execute(&format!("UPDATE _sqlx_migrations SET checksum = {other}")).await;
    let error = fixture.try_open().await.unwrap_err();
    let expected = "migration 1 was previously applied but has been modified";
    assert!(matches!(&error, Error::Corrupt { detail, .. } if detail == expected), "{error}");
}

pub(crate) async fn foreign_database_is_rejected(fixture: &Fixture) {
    fixture.execute("CREATE TABLE customers (id bigint); CREATE TABLE head (id bigint)").await;
    let error = fixture.try_open().await.unwrap_err();
    let Error::NotARegistry { found, .. } = &error else { panic!("{error}") };
    assert_eq!(found, "the tables customers, head");
    let tables = match fixture {
        Fixture::Sqlite(_) => "SELECT count(*) FROM sqlite_schema WHERE type = 'table'",
        Fixture::Postgres(_) => "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'",
    };
    assert_eq!(fixture.number(tables).await, 2, "nothing was added");
}

/// Concurrent updates by relays of one database lose no signature.
pub(crate) async fn concurrent_signature_updates_are_kept(fixture: &Fixture) {
    let other = RegistryId::new("0198c0de");
    let store = fixture.open().await.set_upstream(&other, "the key").await.unwrap();
    let keeping = (1..=12).map(|revision| {
        let (url, time) = (fixture.url(), Timestamp::from_millis(7));
        let signed = [(Revision(revision), Attestation { time, signature: [9; 64] })];
        tokio::spawn(async move {
            let relay = Store::open(&url).await.unwrap();
            relay.store_attestations(&signed).await.unwrap();
        })
    });
    for one in keeping.collect::<Vec<_>>() {
        one.await.unwrap();
    }
    let kept = store.attestations().await.unwrap();
    let revisions: Vec<u64> = kept.iter().map(|(revision, _)| revision.0).collect();
    assert_eq!(revisions, (1..=12).collect::<Vec<u64>>());
}
