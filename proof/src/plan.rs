//! The plan of a seed: participants, server configuration, and faults with their times.

use std::time::Duration;

use crate::{corruption::Corruption, link::NetworkCondition, rng::Rng, workload::ROOTS};

/// The plan of a history.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// The duration of writes and faults.
    pub work: Duration,
    pub(crate) servers: usize,
    /// The number of relays. The first one follows the registry, and each other one follows the
    /// previous relay. In lists of servers, relays come last.
    pub(crate) relays: usize,
    /// The number of servers that the first relay knows.
    pub(crate) upstreams: usize,
    pub(crate) relay_flags: Vec<String>,
    /// The scope of each gateway; empty for everything.
    pub(crate) gateways: Vec<Vec<&'static str>>,
    /// Gateways that follow relays instead of servers.
    pub(crate) relayed: Vec<usize>,
    pub(crate) followers: usize,
    pub(crate) writers: usize,
    pub(crate) readers: usize,
    /// Whether the initial batch is so large that gateways use a journal.
    pub(crate) bulk: bool,
    /// The longest pause of a writer, in milliseconds.
    pub(crate) pause: u64,
    pub(crate) flags: Vec<String>,
    pub(crate) faults: Vec<Planned>,
}

/// A fault and its time.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) at: Duration,
    pub(crate) lasts: Duration,
    pub(crate) fault: Fault,
}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    KillServer(usize),
    PauseServer(usize),
    KillGateway(usize, Corruption),
    PauseGateway(usize),
    KillPostgres,
    PausePostgres,
    /// A transaction holds the head row.
    HoldHead,
    /// Postgres terminates all connections.
    TerminateBackends,
    /// A network condition between clients of one kind and a server.
    Network(ClientKind, usize, NetworkCondition),
    /// All connections are cut once.
    Cut(ClientKind, usize),
    /// The first bytes of a client are replayed on a new connection.
    Replay(ClientKind, usize),
    /// The disk of a gateway's cache is full.
    FullDisk(usize),
    /// The wall clock of a server is shifted by these seconds.
    Clock(usize, i64),
}

/// The kind of clients of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientKind {
    Calls,
    Streams,
    Fleet,
    Relays,
}

impl Plan {
    /// The plan of a seed.
    pub fn from_seed(seed: u64) -> Self {
        let mut rng = Rng::new(seed, "plan");
        let servers = *rng.pick(&[1, 2, 2, 2, 3]);
        let bulk = rng.chance(15);
        let mut gateways = (0..rng.between(1, 2)).map(|_| scope(&mut rng)).collect::<Vec<_>>();
        if bulk {
            gateways[0].clear();
        }
        let more = if bulk { 1_000 } else { 0 };
        let work = Duration::from_millis(rng.between(1_200, 2_400) + more);
        let mut plan = Self {
            seed,
            work,
            servers,
            relays: 0,
            upstreams: servers,
            relay_flags: Vec::new(),
            gateways,
            relayed: Vec::new(),
            followers: rng.below(3) + 3,
            writers: rng.below(3) + 1,
            readers: 1,
            bulk,
            pause: *rng.pick(&[0, 20, 60]),
            flags: flags(&mut rng),
            faults: Vec::new(),
        };
        for _ in 0..rng.between(1, 6) {
            let fault = plan.fault(&mut rng);
            plan.schedule(fault, &mut rng);
        }
        plan.with_relays(Rng::new(seed, "relays"));
        plan.faults.sort_by_key(|planned| planned.at);
        plan
    }

    fn schedule(&mut self, fault: Fault, rng: &mut Rng) {
        let latest = u64::try_from(self.work.as_millis()).unwrap_or(u64::MAX);
        let at = Duration::from_millis(rng.between(100, latest));
        // Long enough for a relay to fall behind by more than servers wait for each other.
        let longest =
            if let Fault::Network(ClientKind::Relays, ..) = fault { 4_000 } else { 1_000 };
        let lasts = Duration::from_millis(rng.between(50, longest));
        self.faults.push(Planned { at, lasts, fault });
    }

    /// Adds relays and their faults, which most histories do not have.
    fn with_relays(&mut self, mut rng: Rng) {
        self.relays = *rng.pick(&[0, 0, 0, 1, 1, 2]);
        self.upstreams = rng.below(self.servers) + 1;
        self.relay_flags = flags(&mut rng);
        if self.relays == 0 {
            return;
        }
        self.relayed = (0..self.gateways.len()).filter(|_| rng.chance(60)).collect();
        for _ in 0..rng.between(1, 4) {
            let fault = self.fault_of_relay(&mut rng);
            self.schedule(fault, &mut rng);
        }
    }

    /// A plan with all kinds of events.
    pub fn varied() -> Self {
        let planned = |at, lasts, fault| {
            let (at, lasts) = (Duration::from_millis(at), Duration::from_millis(lasts));
            Planned { at, lasts, fault }
        };
        Self {
            work: Duration::from_secs(6),
            servers: 2,
            gateways: vec![Vec::new(), vec!["agent/planner@*"]],
            followers: 6,
            writers: 2,
            relays: 1,
            relayed: vec![1],
            bulk: true,
            pause: 20,
            faults: vec![
                planned(2_000, 300, Fault::Cut(ClientKind::Streams, 0)),
                planned(3_000, 200, Fault::KillServer(0)),
                planned(4_000, 200, Fault::KillServer(2)),
                planned(5_000, 200, Fault::KillGateway(0, Corruption::Nothing)),
            ],
            ..Self::from_seed(1)
        }
    }

    fn fault(&self, rng: &mut Rng) -> Fault {
        let (server, gateway) = (rng.below(self.servers), rng.below(self.gateways.len()));
        let kind = *rng.pick(&[
            ClientKind::Calls,
            ClientKind::Streams,
            ClientKind::Streams,
            ClientKind::Fleet,
        ]);
        match rng.below(16) {
            0 | 1 => Fault::KillServer(server),
            2 => Fault::PauseServer(server),
            3 | 4 => Fault::KillGateway(gateway, *rng.pick(&Corruption::ALL)),
            5 => Fault::PauseGateway(gateway),
            6 => Fault::KillPostgres,
            7 => Fault::PausePostgres,
            8 => Fault::HoldHead,
            9 => Fault::TerminateBackends,
            10 | 11 => Fault::Network(kind, server, condition(kind, rng)),
            12 => Fault::Cut(kind, server),
            13 => Fault::Replay(kind, server),
            14 => Fault::FullDisk(gateway),
            _ => {
                let seconds = *rng.pick(&[-86_400, -3_600, -5, 5, 3_600, 86_400]);
                Fault::Clock(server, seconds)
            }
        }
    }

    fn fault_of_relay(&self, rng: &mut Rng) -> Fault {
        let number = rng.below(self.relays);
        let relay = self.servers + number;
        let upstream = if number == 0 { rng.below(self.upstreams) } else { relay - 1 };
        let kind = *rng.pick(&[ClientKind::Calls, ClientKind::Streams, ClientKind::Fleet]);
        match rng.below(10) {
            0..3 => Fault::KillServer(relay),
            3 => Fault::PauseServer(relay),
            4..7 => {
                Fault::Network(ClientKind::Relays, upstream, condition(ClientKind::Relays, rng))
            }
            7 => Fault::Cut(ClientKind::Relays, upstream),
            8 => Fault::Replay(ClientKind::Relays, upstream),
            _ => Fault::Network(kind, relay, condition(kind, rng)),
        }
    }

    /// Whether the plan shifts the clock of this server.
    pub(crate) fn sets_clock(&self, server: usize) -> bool {
        self.faults
            .iter()
            .any(|planned| matches!(planned.fault, Fault::Clock(at, _) if at == server))
    }

    /// Whether the plan fills the disk of this gateway.
    pub(crate) fn fills_disk(&self, gateway: usize) -> bool {
        self.faults.iter().any(|planned| planned.fault == Fault::FullDisk(gateway))
    }

    /// The plan as text, one line per item.
    pub fn shown(&self) -> Vec<String> {
        let Self { servers, relays, gateways, followers, writers, readers, bulk, flags, .. } = self;
        let mut lines = vec![format!(
            "{servers} servers, {relays} relays, {writers} writers, {readers} readers, {followers} followers, \
             gateways with the scopes {gateways:?}, bulk {bulk}, flags {}",
            flags.join(" ")
        )];
        if *relays > 0 {
            let Self { upstreams, relayed, relay_flags, .. } = self;
            lines.push(format!(
                "the first relay follows the first {upstreams} servers, the gateways {relayed:?} follow \
                 relays, relays have the numbers from {servers} on and the flags {}",
                relay_flags.join(" ")
            ));
        }
        lines.extend(self.faults.iter().map(|Planned { at, lasts, fault }| {
            format!("at {} ms for {} ms: {fault:?}", at.as_millis(), lasts.as_millis())
        }));
        lines
    }
}

/// TCP repairs repeated and reordered bytes, and only TLS could detect them in requests. Followers
/// must detect them.
fn condition(kind: ClientKind, rng: &mut Rng) -> NetworkCondition {
    let delayed = NetworkCondition::Delayed(rng.between(5, 120));
    let of_any = [NetworkCondition::Severed, delayed, NetworkCondition::Frozen];
    match (kind, rng.below(5)) {
        (ClientKind::Streams | ClientKind::Fleet | ClientKind::Relays, 0) => {
            NetworkCondition::Twice
        }
        (ClientKind::Streams | ClientKind::Fleet | ClientKind::Relays, 1) => {
            NetworkCondition::Swapped
        }
        _ => *rng.pick(&of_any),
    }
}

fn scope(rng: &mut Rng) -> Vec<&'static str> {
    if rng.chance(50) {
        return Vec::new();
    }
    (0..rng.between(1, 3)).map(|_| *rng.pick(&ROOTS)).collect()
}

fn flags(rng: &mut Rng) -> Vec<String> {
    let recent = rng.pick(&["0", "4", "64", "8192"]).to_string();
    let kept = rng.pick(&["0", "3", "30", "10000"]).to_string();
    let poll = rng.pick(&["200ms", "1s"]).to_string();
    let pairs = [
        ("--recent-commits", recent),
        ("--retain-revisions", kept),
        ("--poll-interval", poll),
        ("--heartbeat-interval", "300ms".to_owned()),
        ("--database-timeout", "1s".to_owned()),
        ("--write-outcome-timeout", "1s".to_owned()),
        ("--slow-reader-timeout", "1s".to_owned()),
        ("--log", "info".to_owned()),
    ];
    pairs.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
}
