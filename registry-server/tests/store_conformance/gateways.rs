//! Who follows and who has followed, as servers note it for each other.

use registry_core::{
    Code, Diagnostic, Key, Kind, Revision, Timestamp,
    follower::{CacheState, Nack},
};
use registry_server::store::{
    Beat, GatewayQuery, KnownGateway,
    Presence::{Connected, Gone},
    Store,
};

use crate::{
    Fixture,
    log::{Draft, Log},
};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// A gateway that connected to a server at a time, and was seen there then.
fn gateway(name: &str, server: &str, connected_at: i64) -> KnownGateway {
    KnownGateway {
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

fn gone(known: &KnownGateway, millis: i64) -> KnownGateway {
    KnownGateway { presence: Gone, seen_at: at(millis), ..known.clone() }
}

fn beat(server: &str, now: i64) -> Beat {
    let server = server.to_owned();
    Beat { server, now: at(now), alive_since: at(now - 45), remember_since: at(0), most: 1_000 }
}

/// Everybody, as somebody else than the servers of the tests reads it.
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

pub(crate) async fn gateways_come_back_as_they_were(fixture: &Fixture) {
    let store = fixture.open().await;
    store.note_gateways(&[]).await.unwrap();
    assert_eq!(store.gateways(&all(0)).await.unwrap(), []);
    let found = Diagnostic {
        entity: Some(Key::parse(Kind::Tool, "fetch", "1.0.0").unwrap()),
        change: Some(3),
        help: Some("mend \u{0} it".to_owned()),
        ..Diagnostic::error(Code::SourceUnknown, "/source", "no \"such\" source")
    };
    let nack =
        Nack { revision: Revision(7), message: "will not".to_owned(), diagnostics: vec![found] };
    let refusing = KnownGateway {
        nack: Some(nack),
        cache: CacheState::Failing("the disk is full".to_owned()),
        ..gateway("b", "one", 10)
    };
    let others = [CacheState::Unknown, CacheState::None].map(|cache| KnownGateway {
        gateway: format!("c{cache:?}"),
        cache,
        ..gateway("", "one", 10)
    });
    let [unknown, none] = others;
    let left = gone(&gateway("a", "one", 10), 12);
    store.beat(&beat("one", 10)).await.unwrap();
    let noted = [left, refusing, none, unknown];
    store.note_gateways(&noted).await.unwrap();
    assert_eq!(store.gateways(&all(0)).await.unwrap(), noted);
    let mut applied = noted[1].clone();
    (applied.nack, applied.cache, applied.applied) = (None, CacheState::Ok, Revision(7));
    store.note_gateways(std::slice::from_ref(&applied)).await.unwrap();
    assert_eq!(store.gateways(&all(0)).await.unwrap()[1], applied);
}

/// A gateway may move from server to server, whoever notes it first.
pub(crate) async fn a_gateway_is_of_the_server_that_it_came_to_last(fixture: &Fixture) {
    let store = fixture.open().await;
    for server in ["one", "two"] {
        store.beat(&beat(server, 10)).await.unwrap();
    }
    let (first, second) = (gateway("g", "one", 10), gateway("g", "two", 20));
    let known = async || store.gateways(&all(0)).await.unwrap().remove(0);
    store.note_gateways(std::slice::from_ref(&second)).await.unwrap();
    for late in [first.clone(), gone(&first, 30)] {
        store.note_gateways(&[late]).await.unwrap();
        assert_eq!(known().await, second, "the first server is late");
    }
    store.note_gone("one", ("g", "anonymous"), at(30)).await.unwrap();
    assert_eq!(known().await, second);
    store.note_gateways(&[gone(&second, 40)]).await.unwrap();
    assert_eq!(known().await, gone(&second, 40));
    store.note_gateways(std::slice::from_ref(&first)).await.unwrap();
    assert_eq!(known().await, first, "it still follows the first");
    store.note_gone("one", ("g", "anonymous"), at(50)).await.unwrap();
    assert_eq!(known().await, gone(&first, 50));
}

pub(crate) async fn followers_of_a_dead_server_are_gone(fixture: &Fixture) {
    let store = fixture.open().await;
    store.beat(&beat("dead", 100)).await.unwrap();
    store.beat(&beat("alive", 120)).await.unwrap();
    let late = gateway("d", "dead", 103);
    let known =
        [gateway("a", "dead", 90), gateway("b", "alive", 90), gateway("c", "never", 90), late];
    store.note_gateways(&known).await.unwrap();
    let presences = async |alive_since| {
        let all = store.gateways(&all(alive_since)).await.unwrap();
        all.into_iter().map(|g| (g.presence, g.seen_at.as_millis())).collect::<Vec<_>>()
    };
    let (both, one) = (
        [(Connected, 100), (Connected, 120), (Gone, 90), (Connected, 103)],
        [(Gone, 100), (Connected, 120), (Gone, 90), (Gone, 103)],
    );
    assert_eq!(presences(100).await, both, "heard of just in time");
    assert_eq!(presences(101).await, one);
    let followers = async |server| store.followers_of(server).await.unwrap().len();
    assert_eq!((followers("dead").await, followers("alive").await), (2, 1));
    store.beat(&beat("alive", 146)).await.unwrap();
    assert_eq!((followers("dead").await, followers("alive").await), (0, 1));
    // For ever, also for who would believe it a little longer.
    let all = [(Gone, 100), (Connected, 146), (Gone, 90), (Gone, 103)];
    assert_eq!(presences(100).await, all);
    assert_eq!(fixture.number("SELECT count(*) FROM gateway_servers").await, 1);
}

pub(crate) async fn those_that_are_gone_are_forgotten_in_the_end(fixture: &Fixture) {
    let store = fixture.open().await;
    store.beat(&beat("one", 1)).await.unwrap();
    let left = |name: &str, millis| gone(&gateway(name, "one", 1), millis);
    let known =
        [left("a", 10), left("b", 30), left("c", 20), left("d", 30), gateway("e", "one", 1)];
    store.note_gateways(&known).await.unwrap();
    store.beat(&Beat { remember_since: at(11), ..beat("one", 40) }).await.unwrap();
    assert_eq!(names(&store, &all(0)).await, ["b", "c", "d", "e"], "the oldest");
    store.beat(&Beat { most: 3, ..beat("one", 40) }).await.unwrap();
    assert_eq!(names(&store, &all(0)).await, ["b", "c", "d", "e"], "not too many");
    store.beat(&Beat { most: 1, ..beat("one", 40) }).await.unwrap();
    assert_eq!(names(&store, &all(0)).await, ["d", "e"], "and not who follows");
}

pub(crate) async fn gateways_are_filtered_and_paged(fixture: &Fixture) {
    let store = fixture.open().await;
    store.beat(&beat("one", 10)).await.unwrap();
    let behind = KnownGateway { applied: Revision(2), ..gateway("eu-2", "one", 1) };
    let namesake = KnownGateway { principal: "zoe".to_owned(), ..gateway("eu-1", "one", 1) };
    let known = [
        gateway("", "one", 1),
        gateway("eu-1", "one", 1),
        namesake,
        behind,
        gone(&gateway("us-1", "one", 1), 5),
        gateway("us-2", "reader", 1),
        gone(&gateway("us-3", "reader", 1), 5),
        gateway("üs", "lost", 1),
    ];
    store.note_gateways(&known).await.unwrap();
    let every = names(&store, &all(0)).await;
    assert_eq!(every, ["", "eu-1", "eu-1", "eu-2", "us-1", "us-3", "üs"]);
    let filtered = [
        (GatewayQuery { prefix: "eu-".to_owned(), ..all(0) }, &["eu-1", "eu-1", "eu-2"][..]),
        (GatewayQuery { prefix: "ü".to_owned(), ..all(0) }, &["üs"]),
        (GatewayQuery { behind: Some(Revision(6)), ..all(0) }, &["eu-2"]),
        (GatewayQuery { presence: Some(Gone), ..all(0) }, &["us-1", "us-3", "üs"]),
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

pub(crate) async fn commits_say_when_they_were_made(fixture: &Fixture) {
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

/// Ten thousand rows are a few statements, and none of them is too long.
pub(crate) async fn many_are_noted_at_once(fixture: &Fixture) {
    let store = fixture.open().await;
    let many: Vec<_> = (0..500).map(|i| gateway(&format!("g{i:04}"), "one", 1)).collect();
    for _ in 0..2 {
        store.note_gateways(&many).await.unwrap();
    }
    assert_eq!(fixture.number("SELECT count(*) FROM gateways").await, 500);
}
