//! Stored gateways of several servers.

use registry_core::{
    Code, Diagnostic, Key, Kind, Revision, Timestamp,
    follower::{CacheState, Nack},
};
use registry_server::store::{
    FleetHeartbeat, GatewayQuery, GatewayRecord,
    Presence::{Connected, Disconnected},
    Store,
};

use crate::{
    Fixture,
    log::{Draft, Log},
};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// A gateway that connected to a server at a time and was last seen then.
fn gateway(name: &str, server: &str, connected_at: i64) -> GatewayRecord {
    GatewayRecord {
        gateway: name.to_owned(),
        principal: "anonymous".to_owned(),
        version: "1.2.3".to_owned(),
        address: "10.0.0.1:1234".to_owned(),
        scope: "*".to_owned(),
        server: server.to_owned(),
        connected_at: at(connected_at),
        seen_at: at(connected_at),
        presence: Connected,
        sent: Revision(7),
        applied: Revision(6),
        persisted: Revision(5),
        cache: CacheState::Ok,
        nack: None,
    }
}

fn disconnected(known: &GatewayRecord, millis: i64) -> GatewayRecord {
    GatewayRecord { presence: Disconnected, seen_at: at(millis), ..known.clone() }
}

fn heartbeat(server: &str, now: i64) -> FleetHeartbeat {
    let server = server.to_owned();
    FleetHeartbeat {
        server,
        now: at(now),
        alive_since: at(now - 45),
        retain_since: at(0),
        max_disconnected: 1_000,
    }
}

/// Query of all gateways from a server without followers.
fn all(alive_since: i64) -> GatewayQuery {
    GatewayQuery {
        after: (String::new(), String::new()),
        prefix: String::new(),
        behind: None,
        presence: None,
        except: "reader".to_owned(),
        alive_since: at(alive_since),
        limit: 100,
    }
}

async fn names(store: &Store, query: &GatewayQuery) -> Vec<String> {
    store.gateways(query).await.unwrap().into_iter().map(|known| known.gateway).collect()
}

pub(crate) async fn gateways_round_trip(fixture: &Fixture) {
    let store = fixture.open().await;
    store.upsert_gateways(&[]).await.unwrap();
    assert_eq!(store.gateways(&all(0)).await.unwrap(), []);
    let found = Diagnostic {
        entity: Some(Key::parse(Kind::Tool, "fetch", "1.0.0").unwrap()),
        change: Some(3),
        help: Some("mend \u{0} it".to_owned()),
        ..Diagnostic::error(Code::SourceUnknown, "/source", "no \"such\" source")
    };
    let nack =
        Nack { revision: Revision(7), message: "will not".to_owned(), diagnostics: vec![found] };
    let refusing = GatewayRecord {
        nack: Some(nack),
        cache: CacheState::Failing("the disk is full".to_owned()),
        ..gateway("b", "one", 10)
    };
    let others = [CacheState::Unknown, CacheState::None].map(|cache| GatewayRecord {
        gateway: format!("c{cache:?}"),
        cache,
        ..gateway("", "one", 10)
    });
    let [unknown, none] = others;
    let left = disconnected(&gateway("a", "one", 10), 12);
    store.record_heartbeat(&heartbeat("one", 10)).await.unwrap();
    let noted = [left, refusing, none, unknown];
    store.upsert_gateways(&noted).await.unwrap();
    assert_eq!(store.gateways(&all(0)).await.unwrap(), noted);
    let mut applied = noted[1].clone();
    (applied.nack, applied.cache, applied.applied) = (None, CacheState::Ok, Revision(7));
    store.upsert_gateways(std::slice::from_ref(&applied)).await.unwrap();
    assert_eq!(store.gateways(&all(0)).await.unwrap()[1], applied);
}

/// The latest connection counts, regardless of the order of writes.
pub(crate) async fn gateway_belongs_to_its_latest_server(fixture: &Fixture) {
    let store = fixture.open().await;
    for server in ["one", "two"] {
        store.record_heartbeat(&heartbeat(server, 10)).await.unwrap();
    }
    let (first, second) = (gateway("g", "one", 10), gateway("g", "two", 20));
    let known = async || store.gateways(&all(0)).await.unwrap().remove(0);
    store.upsert_gateways(std::slice::from_ref(&second)).await.unwrap();
    for late in [first.clone(), disconnected(&first, 30)] {
        store.upsert_gateways(&[late]).await.unwrap();
        assert_eq!(known().await, second, "the first server is late");
    }
    store.mark_disconnected("one", ("g", "anonymous"), at(30)).await.unwrap();
    assert_eq!(known().await, second);
    store.upsert_gateways(&[disconnected(&second, 40)]).await.unwrap();
    assert_eq!(known().await, disconnected(&second, 40));
    store.upsert_gateways(std::slice::from_ref(&first)).await.unwrap();
    assert_eq!(known().await, first, "it still follows the first");
    store.mark_disconnected("one", ("g", "anonymous"), at(50)).await.unwrap();
    assert_eq!(known().await, disconnected(&first, 50));
}

pub(crate) async fn followers_of_a_dead_server_are_disconnected(fixture: &Fixture) {
    let store = fixture.open().await;
    store.record_heartbeat(&heartbeat("dead", 100)).await.unwrap();
    store.record_heartbeat(&heartbeat("alive", 120)).await.unwrap();
    let late = gateway("d", "dead", 103);
    let known =
        [gateway("a", "dead", 90), gateway("b", "alive", 90), gateway("c", "never", 90), late];
    store.upsert_gateways(&known).await.unwrap();
    let presences = async |alive_since| {
        let all = store.gateways(&all(alive_since)).await.unwrap();
        all.into_iter().map(|g| (g.presence, g.seen_at.as_millis())).collect::<Vec<_>>()
    };
    let (both, one) = (
        [(Connected, 100), (Connected, 120), (Disconnected, 90), (Connected, 103)],
        [(Disconnected, 100), (Connected, 120), (Disconnected, 90), (Disconnected, 103)],
    );
    assert_eq!(presences(100).await, both, "heard of just in time");
    assert_eq!(presences(101).await, one);
    let followers = async |server| store.followers_of(server).await.unwrap().len();
    assert_eq!((followers("dead").await, followers("alive").await), (2, 1));
    store.record_heartbeat(&heartbeat("alive", 146)).await.unwrap();
    assert_eq!((followers("dead").await, followers("alive").await), (0, 1));
    // Permanently, also for a query with an earlier heartbeat limit.
    let all = [(Disconnected, 100), (Connected, 146), (Disconnected, 90), (Disconnected, 103)];
    assert_eq!(presences(100).await, all);
    assert_eq!(fixture.number("SELECT count(*) FROM gateway_servers").await, 1);
}

pub(crate) async fn disconnected_gateways_expire(fixture: &Fixture) {
    let store = fixture.open().await;
    store.record_heartbeat(&heartbeat("one", 1)).await.unwrap();
    let left = |name: &str, millis| disconnected(&gateway(name, "one", 1), millis);
    let known =
        [left("a", 10), left("b", 30), left("c", 20), left("d", 30), gateway("e", "one", 1)];
    store.upsert_gateways(&known).await.unwrap();
    store
        .record_heartbeat(&FleetHeartbeat { retain_since: at(11), ..heartbeat("one", 40) })
        .await
        .unwrap();
    assert_eq!(names(&store, &all(0)).await, ["b", "c", "d", "e"], "the oldest");
    store
        .record_heartbeat(&FleetHeartbeat { max_disconnected: 3, ..heartbeat("one", 40) })
        .await
        .unwrap();
    assert_eq!(names(&store, &all(0)).await, ["b", "c", "d", "e"], "not too many");
    store
        .record_heartbeat(&FleetHeartbeat { max_disconnected: 1, ..heartbeat("one", 40) })
        .await
        .unwrap();
    assert_eq!(names(&store, &all(0)).await, ["d", "e"], "and not who follows");
}

pub(crate) async fn gateways_are_filtered_and_paged(fixture: &Fixture) {
    let store = fixture.open().await;
    store.record_heartbeat(&heartbeat("one", 10)).await.unwrap();
    let behind = GatewayRecord { applied: Revision(2), ..gateway("eu-2", "one", 1) };
    let namesake = GatewayRecord { principal: "zoe".to_owned(), ..gateway("eu-1", "one", 1) };
    let known = [
        gateway("", "one", 1),
        gateway("eu-1", "one", 1),
        namesake,
        behind,
        disconnected(&gateway("us-1", "one", 1), 5),
        gateway("us-2", "reader", 1),
        disconnected(&gateway("us-3", "reader", 1), 5),
        gateway("üs", "lost", 1),
    ];
    store.upsert_gateways(&known).await.unwrap();
    let every = names(&store, &all(0)).await;
    assert_eq!(every, ["", "eu-1", "eu-1", "eu-2", "us-1", "us-3", "üs"]);
    let filtered = [
        (GatewayQuery { prefix: "eu-".to_owned(), ..all(0) }, &["eu-1", "eu-1", "eu-2"][..]),
        (GatewayQuery { prefix: "ü".to_owned(), ..all(0) }, &["üs"]),
        (GatewayQuery { behind: Some(Revision(6)), ..all(0) }, &["eu-2"]),
        (GatewayQuery { presence: Some(Disconnected), ..all(0) }, &["us-1", "us-3", "üs"]),
        (GatewayQuery { presence: Some(Connected), ..all(0) }, &["", "eu-1", "eu-1", "eu-2"]),
    ];
    for (query, expected) in filtered {
        assert_eq!(names(&store, &query).await, expected, "{query:?}");
    }
    let (mut query, mut paged) = (GatewayQuery { limit: 2, ..all(0) }, Vec::new());
    loop {
        let page = store.gateways(&query).await.unwrap();
        let Some(last) = page.last() else { break };
        query.after = (last.gateway.clone(), last.principal.clone());
        paged.extend(page.into_iter().map(|known| known.gateway));
    }
    assert_eq!(paged, every);
}

pub(crate) async fn commit_times_are_returned(fixture: &Fixture) {
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    for name in ["A", "B"] {
        log.append(&store, Draft::new().register(name, "1.0.0")).await;
    }
    let wanted = [Revision(2), Revision(9), Revision(1)];
    let mut times = store.commit_times(&wanted).await.unwrap();
    times.sort_unstable();
    let mut made = Vec::new();
    for revision in [Revision(1), Revision(2)] {
        let stored = store.commit(revision).await.unwrap().unwrap();
        made.push((revision, stored.commit.committed_at));
    }
    assert_eq!(times, made);
    assert_eq!(store.commit_times(&[]).await.unwrap(), []);
}

/// Ten thousand rows need few statements of bounded size.
pub(crate) async fn many_gateways_are_upserted_together(fixture: &Fixture) {
    let store = fixture.open().await;
    let many: Vec<_> = (0..500).map(|i| gateway(&format!("g{i:04}"), "one", 1)).collect();
    for _ in 0..2 {
        store.upsert_gateways(&many).await.unwrap();
    }
    assert_eq!(fixture.number("SELECT count(*) FROM gateways").await, 500);
}
