//! The plan of a seed with budgets or approvals: the database, the gateways, and faults with their
//! times.

use std::time::Duration;

use history_check::Workload;

use super::gateway::Marks;
use crate::{link::NetworkCondition, rng::Rng};

/// The number of gateways.
pub(crate) const GATEWAYS: usize = 3;
/// The number of servers.
pub(crate) const SERVERS: usize = 2;
/// A new generation grants after a minute. A long history continues until then.
const AFTER_RECOVERY: Duration = Duration::from_secs(66);

/// The plan of a history with budgets or approvals.
#[derive(Debug, Clone)]
pub struct FleetPlan {
    /// The seed.
    pub seed: u64,
    /// The duration of calls and faults.
    pub work: Duration,
    pub(crate) database: DatabaseKind,
    pub(crate) callers: usize,
    /// Whether the first two gateways have one principal.
    pub(crate) shares_principal: bool,
    pub(crate) faults: Vec<Planned>,
}

/// The database, and the fault that most endangers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseKind {
    /// It loses no transactions.
    Single,
    /// A backup is restored.
    Restored,
    /// A synchronous standby takes over.
    Synchronous,
    /// A standby without the last transactions takes over.
    Lagging,
}

/// A fault and its time.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) at: Duration,
    pub(crate) lasts: Duration,
    pub(crate) fault: FleetFault,
}

/// A fault. Numbers are those of gateways, followed by those of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FleetFault {
    KillServer(usize),
    PauseServer(usize),
    KillGateway(usize, Marks),
    PauseGateway(usize),
    /// `CLOCK_BOOTTIME` of a gateway jumps ahead by these seconds.
    SuspendGateway(usize, i64),
    /// The wall clock of a server is shifted by these seconds.
    Clock(usize, i64),
    /// A gateway reaches no server.
    Partition(usize),
    /// A network condition between a gateway and a server.
    Network(usize, usize, NetworkCondition),
    /// The connections of a gateway to a server are cut once.
    Cut(usize, usize),
    /// The first bytes of a gateway, such as its first reports, are repeated on a new connection.
    Replay(usize, usize),
    KillPostgres,
    /// A backup is made, and restored at the end of the fault.
    Restore,
    /// The standby stops to follow, and takes over at the end of the fault.
    LoseStandby,
    /// The standby takes over.
    FailOver,
}

impl FleetPlan {
    /// The plan of a seed.
    pub fn from_seed(workload: Workload, seed: u64) -> Self {
        let mut rng = Rng::new(seed, &workload.to_string());
        let database = match seed % 10 {
            7 => DatabaseKind::Restored,
            8 => DatabaseKind::Synchronous,
            9 => DatabaseKind::Lagging,
            _ => DatabaseKind::Single,
        };
        let work = Duration::from_millis(rng.between(3_500, 6_000));
        let mut plan = Self {
            seed,
            work,
            database,
            callers: rng.below(4) + 4,
            shares_principal: rng.chance(25),
            faults: Vec::new(),
        };
        for _ in 0..rng.between(2, 6) {
            let fault = plan.fault(&mut rng);
            plan.schedule(fault, &mut rng);
        }
        plan.add_loss(&mut rng);
        plan.faults.sort_by_key(|planned| planned.at);
        plan
    }

    fn schedule(&mut self, fault: FleetFault, rng: &mut Rng) {
        let latest = u64::try_from(self.work.as_millis()).unwrap_or(u64::MAX);
        let at = Duration::from_millis(rng.between(100, latest));
        let lasts = Duration::from_millis(rng.between(50, 1_500));
        self.faults.push(Planned { at, lasts, fault });
    }

    /// Adds the fault of the database in the middle, so that calls precede and follow it.
    fn add_loss(&mut self, rng: &mut Rng) {
        let fault = match self.database {
            DatabaseKind::Single => return,
            DatabaseKind::Restored => FleetFault::Restore,
            DatabaseKind::Synchronous => FleetFault::FailOver,
            DatabaseKind::Lagging => FleetFault::LoseStandby,
        };
        let (at, lasts) = (self.work / 3, Duration::from_millis(rng.between(300, 1_500)));
        self.faults.push(Planned { at, lasts, fault });
        let is_long = self.seed / 10 % 3 == 2;
        if is_long {
            self.work += AFTER_RECOVERY;
        }
    }

    fn fault(&self, rng: &mut Rng) -> FleetFault {
        let (gateway, server) = (rng.below(GATEWAYS), rng.below(SERVERS));
        let marks = *rng.pick(&[Marks::Kept, Marks::Kept, Marks::Lost, Marks::Torn]);
        // A fault of all servers or of the database has its own times.
        let kinds = if self.database == DatabaseKind::Single { 16 } else { 11 };
        match rng.below(kinds) {
            0..3 => FleetFault::KillGateway(gateway, marks),
            3 => FleetFault::PauseGateway(gateway),
            4 => FleetFault::SuspendGateway(gateway, *rng.pick(&[2, 60, 3_700])),
            5 | 6 => FleetFault::Partition(gateway),
            7 | 8 => FleetFault::Network(gateway, server, condition(rng)),
            9 => FleetFault::Cut(gateway, server),
            10 => FleetFault::Replay(gateway, server),
            11 | 12 => FleetFault::KillServer(server),
            13 => FleetFault::PauseServer(server),
            14 => FleetFault::KillPostgres,
            _ => FleetFault::Clock(server, *rng.pick(&[-3_600, -5, 5, 3_600])),
        }
    }

    /// Whether the plan lets `CLOCK_BOOTTIME` of this gateway jump.
    pub(crate) fn suspends(&self, gateway: usize) -> bool {
        self.has(|fault| matches!(fault, FleetFault::SuspendGateway(of, _) if of == gateway))
    }

    /// Whether the plan shifts the clock of this server.
    pub(crate) fn sets_clock(&self, server: usize) -> bool {
        self.has(|fault| matches!(fault, FleetFault::Clock(of, _) if of == server))
    }

    /// Whether the plan shifts any clock.
    pub(crate) fn has_clocks(&self) -> bool {
        self.has(|fault| matches!(fault, FleetFault::SuspendGateway(..) | FleetFault::Clock(..)))
    }

    /// Whether operators reclaim the rights of processes without crash marks soon after their end.
    /// Servers then consider a silent gateway gone, so that a recovery would not wait for it, and
    /// their clocks must be right.
    pub(crate) fn reclaims(&self) -> bool {
        let is_single = self.database == DatabaseKind::Single;
        is_single && !(0..SERVERS).any(|server| self.sets_clock(server))
    }

    fn has(&self, is_wanted: impl Fn(FleetFault) -> bool) -> bool {
        self.faults.iter().any(|planned| is_wanted(planned.fault))
    }

    /// The options of the servers.
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut pairs = vec![
            ("--poll-interval", "200ms"),
            ("--heartbeat-interval", "300ms"),
            ("--database-timeout", "1s"),
            ("--write-outcome-timeout", "1s"),
            ("--log", "info"),
        ];
        if self.reclaims() {
            pairs.extend([("--budget-offline-for", "10s"), ("--budget-longest-call", "1s")]);
        }
        pairs.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value.to_owned()]).collect()
    }

    /// The plan as text, one line per item.
    pub fn shown(&self) -> Vec<String> {
        let Self { database, callers, shares_principal, .. } = self;
        let mut lines = vec![format!(
            "{GATEWAYS} gateways, {SERVERS} servers, database {database:?}, {callers} callers, \
             one principal for two gateways {shares_principal}, flags {}",
            self.flags().join(" ")
        )];
        lines.extend(self.faults.iter().map(|Planned { at, lasts, fault }| {
            format!("at {} ms for {} ms: {fault:?}", at.as_millis(), lasts.as_millis())
        }));
        lines
    }
}

/// Repeated and reordered bytes mostly end a connection. Otherwise a whole message arrives twice.
fn condition(rng: &mut Rng) -> NetworkCondition {
    let delayed = NetworkCondition::Delayed(rng.between(5, 300));
    *rng.pick(&[
        NetworkCondition::Severed,
        NetworkCondition::Frozen,
        NetworkCondition::Twice,
        NetworkCondition::Swapped,
        delayed,
        delayed,
    ])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn plans() -> impl Iterator<Item = FleetPlan> {
        (0..300).map(|seed| FleetPlan::from_seed(Workload::Budgets, seed))
    }

    #[test]
    fn seeds_have_each_fault() {
        let name = |planned: &Planned| {
            let text = format!("{:?}", planned.fault);
            text.split('(').next().unwrap_or_default().to_owned()
        };
        let of_plan = |plan: FleetPlan| plan.faults.iter().map(name).collect::<Vec<_>>();
        let names: BTreeSet<_> = plans().flat_map(of_plan).collect();
        assert_eq!(names.len(), 14, "{names:?}");
    }

    #[test]
    fn seeds_have_each_database_and_setting() {
        for kind in [
            DatabaseKind::Single,
            DatabaseKind::Restored,
            DatabaseKind::Synchronous,
            DatabaseKind::Lagging,
        ] {
            assert!(plans().any(|plan| plan.database == kind && plan.work < AFTER_RECOVERY));
            let is_long = plans().any(|plan| plan.database == kind && plan.work > AFTER_RECOVERY);
            assert_eq!(is_long, kind != DatabaseKind::Single, "{kind:?}");
        }
        assert!(plans().any(|plan| plan.shares_principal));
        assert!(plans().any(|plan| plan.reclaims()));
    }

    #[test]
    fn servers_have_no_other_fault_during_loss() {
        for plan in plans().filter(|plan| plan.database != DatabaseKind::Single) {
            let is_of_server = |fault| {
                matches!(
                    fault,
                    FleetFault::KillServer(_)
                        | FleetFault::PauseServer(_)
                        | FleetFault::KillPostgres
                        | FleetFault::Clock(..)
                )
            };
            assert!(!plan.has(is_of_server) && !plan.reclaims(), "{:?}", plan.faults);
        }
    }
}
