//! One history, from the first process to the last line.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use history_check::{Event, Workload, event::FORMAT, log::RECORDER};
use tokio::{sync::watch, task::JoinSet, time::Instant};

use crate::{
    caller::Caller,
    follower::Follower,
    gateway::Gateway,
    history_writer::{Counts, HistoryWriter},
    link::Link,
    nemesis::{Nemesis, SmallDisk},
    plan::Plan,
    postgres::Postgres,
    reader::Reader,
    rng::Rng,
    server::{Server, ServerLinks, Setup},
    settle::{self, Participants},
    shim::Shim,
    workload::KnownKeys,
    writer::Writer,
};

/// A recorded history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// The counts.
    pub counts: Counts,
    /// The duration.
    pub took: Duration,
}

/// Records the history of a plan into `DIR/history.jsonl`; the logs of the programs are next to it. Fails
/// where there is a history already.
pub async fn record(plan: &Plan, postgres: &Postgres, dir: &Path) -> io::Result<Recorded> {
    let began = Instant::now();
    std::fs::create_dir_all(dir)?;
    let history = Arc::new(HistoryWriter::create(&dir.join("history.jsonl"))?);
    let first = Event::Begin {
        format: FORMAT,
        workload: Workload::Catalog,
        seed: plan.seed,
        plan: plan.shown(),
    };
    history.note(RECORDER, first);
    let database = postgres.create_database(&database_name(plan.seed)).await;
    let stage = Stage::set(plan, dir, (&database, &history)).await?;
    stage.play(plan, (postgres, &database)).await;
    stage.write_logs(&database).await;
    Ok(Recorded { counts: history.finish()?, took: began.elapsed() })
}

/// A new name of the database of a history.
pub(crate) fn database_name(seed: u64) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("history_{seed}_{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

struct Stage {
    history: Arc<HistoryWriter>,
    servers: Vec<Server>,
    relays: Vec<Server>,
    gateways: Vec<Gateway>,
    known: KnownKeys,
    told: watch::Sender<u64>,
    _disks: Vec<SmallDisk>,
}

impl Stage {
    async fn set(plan: &Plan, dir: &Path, at: (&str, &Arc<HistoryWriter>)) -> io::Result<Self> {
        let (database, history) = at;
        let servers = servers(plan, dir, database, history).await?;
        let relays = relays(plan, dir, &servers, history).await?;
        let key = settle::key(database).await;
        let (mut gateways, mut disks) = (Vec::new(), Vec::new());
        for (i, scope) in plan.gateways.iter().enumerate() {
            let own = dir.join(format!("gateway-{i}"));
            let cache = own.join("cache");
            std::fs::create_dir_all(&cache)?;
            if plan.fills_disk(i) {
                disks.extend(SmallDisk::mount(&cache.canonicalize()?));
            }
            let own = own.canonicalize()?;
            let followed = if plan.relayed.contains(&i) { &relays } else { &servers };
            let registry = registry_of(followed, scope, (i == 0).then_some(&key));
            gateways.push(Gateway::start(i, own, (registry, history.clone())).await);
        }
        let (known, told) = (KnownKeys::default(), watch::Sender::new(0));
        Ok(Self { history: history.clone(), servers, relays, gateways, known, told, _disks: disks })
    }

    async fn play(&self, plan: &Plan, (postgres, database): (&Postgres, &str)) {
        let began = Instant::now();
        let (calm, is_calm) = watch::channel(false);
        let (mut onlookers, mut workers) = (JoinSet::new(), JoinSet::new());
        let mut followers = Vec::new();
        for i in 0..plan.followers {
            let follower = self.follower(plan, i, is_calm.clone());
            followers.push(follower.at.subscribe());
            onlookers.spawn(follower.run());
        }
        for gateway in &self.gateways {
            onlookers.spawn(gateway.clone().watch());
        }
        self.work(plan, began + plan.work, &mut workers);
        let nemesis = Nemesis {
            history: self.history.clone(),
            servers: self.all(),
            gateways: self.gateways.clone(),
            postgres: postgres.clone(),
            database: database.to_owned(),
            turn: Arc::default(),
        };
        workers.spawn(nemesis.run(plan.clone(), began));
        while let Some(done) = workers.join_next().await {
            done.expect("who takes part ends by itself");
        }
        calm.send_replace(true);
        let mut participants = Participants {
            database: database.to_owned(),
            followers,
            gateways: self.gateways.clone(),
            caller: self.caller(RECORDER.to_owned(), &self.all()),
        };
        participants.settle(&self.history).await;
        onlookers.shutdown().await;
    }

    /// The servers, and after them the relays.
    fn all(&self) -> Vec<Server> {
        [&self.servers[..], &self.relays].concat()
    }

    fn caller(&self, who: String, servers: &[Server]) -> Caller {
        Caller::new(who, servers, self.history.clone())
    }

    async fn write_logs(&self, database: &str) {
        settle::write_log(database, &self.history).await;
        for relay in &self.relays {
            if let Some(copy) = relay.copy() {
                settle::write_copy(copy, &relay.name, &self.history).await;
            }
        }
    }

    fn work(&self, plan: &Plan, until: Instant, workers: &mut JoinSet<()>) {
        for index in 0..plan.writers {
            let who = format!("writer-{index}");
            let rng = Rng::new(plan.seed, &who);
            let (known, told) = (self.known.clone(), self.told.clone());
            let caller = self.caller(who, &self.servers);
            let (bulk, pause) = (plan.bulk && index == 0, plan.pause);
            let writer = Writer { index, caller, known, rng, bulk, pause, told };
            workers.spawn(writer.run(until));
        }
        for index in 0..plan.readers {
            let who = format!("reader-{index}");
            let rng = Rng::new(plan.seed, &who);
            let caller = self.caller(who, &self.all());
            let reader = Reader { caller, known: self.known.clone(), rng };
            workers.spawn(reader.run(until));
        }
    }

    fn follower(&self, plan: &Plan, index: usize, calm: watch::Receiver<bool>) -> Follower {
        let who = format!("follower-{index}");
        let rng = Rng::new(plan.seed, &who);
        let (servers, history) = (self.all(), self.history.clone());
        let (at, past) = (watch::Sender::new(0), Vec::new());
        Follower { who, servers, history, rng, calm, at, past }
    }
}

async fn servers(
    plan: &Plan,
    dir: &Path,
    database: &str,
    history: &Arc<HistoryWriter>,
) -> io::Result<Vec<Server>> {
    let mut servers = Vec::new();
    for index in 0..plan.servers {
        let dir = own_dir(dir, &format!("server-{index}"))?;
        let library = if plan.sets_clock(index) { Shim::compile(&dir) } else { None };
        let shim = library.map(|library| Shim::new(library, dir.join("clock")));
        let (database, flags) = (database.to_owned(), plan.flags.clone());
        let setup = Setup { dir, database, flags, follow: None, shim };
        servers.push(Server::start(index, setup, history.clone()).await);
    }
    Ok(servers)
}

/// Starts the relays: the first one follows some of the servers, each other one the previous relay.
async fn relays(
    plan: &Plan,
    dir: &Path,
    servers: &[Server],
    history: &Arc<HistoryWriter>,
) -> io::Result<Vec<Server>> {
    let mut relays: Vec<Server> = Vec::new();
    for index in plan.servers..plan.servers + plan.relays {
        let dir = own_dir(dir, &format!("relay-{index}"))?;
        let followed = relays.last().map_or(&servers[..plan.upstreams], std::slice::from_ref);
        let follow = Some(addresses(followed, |links| &links.relays));
        let database = format!("sqlite:{}", dir.join("registry.db").display());
        let setup = Setup { dir, database, flags: plan.relay_flags.clone(), follow, shim: None };
        relays.push(Server::start(index, setup, history.clone()).await);
    }
    Ok(relays)
}

pub(crate) fn own_dir(dir: &Path, name: &str) -> io::Result<PathBuf> {
    let dir = dir.join(name);
    std::fs::create_dir_all(&dir)?;
    dir.canonicalize()
}

/// The source URL of these servers.
fn addresses(servers: &[Server], link: impl Fn(&ServerLinks) -> &Link) -> String {
    let addresses: Vec<&str> =
        servers.iter().map(|server| link(&server.links).address.as_str()).collect();
    format!("grpc://{}", addresses.join(","))
}

/// The registry configuration of a gateway.
fn registry_of(servers: &[Server], scope: &[&str], key: Option<&String>) -> String {
    let quoted: Vec<String> = scope.iter().map(|root| format!("\"{root}\"")).collect();
    let of_scope = format!("  scope: [{}]\n", quoted.join(", "));
    let lines = [
        Some(format!("  source: {}\n", addresses(servers, |links| &links.fleet))),
        key.map(|key| format!("  key: {key}\n")),
        (!scope.is_empty()).then_some(of_scope),
    ];
    lines.into_iter().flatten().collect()
}
