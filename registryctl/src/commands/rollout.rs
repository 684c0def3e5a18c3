//! `rollout status`, and the waiting of `apply --wait`: which of the connected gateways have applied a
//! revision.
//!
//! A gateway is one name and principal; of several streams the last one counts.

mod leavers;

use std::{collections::BTreeMap, time::Duration};

use leavers::Leavers;
use registry_proto::v1;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::{
    Session,
    gateways::{self, Fleet},
};
use crate::{
    cli::{Format, Percent, RolloutStatusArgs, WaitArgs},
    client::{Client, request},
    failure::Failure,
    progress::Progress,
    report::Report,
    screen::{Screen, TextTable},
    style::Paint,
    view::{GatewayView, span},
};

/// How often the registry is asked while waiting.
const POLL: Duration = Duration::from_millis(500);

/// How far a revision has come.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rollout {
    revision: u64,
    /// The head of the log.
    head: u64,
    /// How many gateways are connected, and how many of them have applied it.
    connected: usize,
    applied: usize,
    /// Whether only the gateways of one server are counted, because the database cannot be read.
    live_only: bool,
    /// Those that have not, and what they refuse.
    behind: Vec<GatewayView>,
}

pub(super) async fn run(session: &Session, args: RolloutStatusArgs) -> Result<(), Failure> {
    let RolloutStatusArgs { revision, wait } = args;
    let client = session.connect().await?;
    let (rollout, ended) = match wait.wait {
        None => (Rollout::of(revision, ask(&client).await?).of_the_log()?, Ok(())),
        Some(percent) => wait_for(&client, revision, percent, wait.timeout).await?,
    };
    match session.screen.format {
        Format::Json => session.screen.json(&rollout)?,
        Format::Table => show(session.screen, &rollout)?,
    }
    ended
}

/// How far a revision has come when the waiting ended, and why that is not enough.
pub(super) type Waited = (Rollout, Result<(), Failure>);

/// Whether the caller may ask at all: better known before something is changed.
pub(super) async fn check(client: &Client, wait: &WaitArgs) -> Result<(), Failure> {
    if wait.wait.is_some() {
        let one = v1::ListGatewaysRequest { page_size: 1, ..Default::default() };
        client.answer(client.sync().list_gateways(request(one))).await?;
    }
    Ok(())
}

/// Asks who is connected.
async fn ask(client: &Client) -> Result<Fleet, Failure> {
    let connected = v1::GatewayState::Connected.into();
    let wanted = v1::ListGatewaysRequest { state: connected, ..Default::default() };
    gateways::fetch(client, wanted).await
}

/// Waits until so many have applied a revision: how it is in the end, and why that is not enough.
pub(super) async fn wait_for(
    client: &Client,
    revision: u64,
    percent: Percent,
    time: Duration,
) -> Result<Waited, Failure> {
    let (mut client, end) = (client.clone(), Instant::now() + time);
    let progress = Progress::bar("gateways", 0);
    let (mut leavers, mut was_hopeless) = (Leavers::default(), false);
    loop {
        let asked = ask(&client).await.map(|mut fleet| {
            leavers.complete(&mut fleet.gateways);
            Rollout::of(revision, fleet)
        });
        let is_over = Instant::now() + POLL > end;
        match asked {
            Ok(rollout) => {
                progress.set(rollout.applied as u64, rollout.connected as u64);
                let is_hopeless = rollout.is_hopeless(percent);
                if rollout.is_reached(percent) {
                    return Ok((rollout, Ok(())));
                }
                // Once may be a gateway that takes it at the second try.
                if is_over || is_hopeless && was_hopeless {
                    let why = rollout.why_not(percent, time, is_hopeless);
                    return Ok((rollout, Err(Failure::NotRolledOut(why))));
                }
                was_hopeless = is_hopeless;
            }
            Err(failure) if is_over || !failure.is_transient() => return Err(failure),
            Err(_) if client.has_others() => match client.elsewhere().await {
                Ok(next) => client = next,
                Err(Failure::Unreachable { .. }) => {}
                Err(other) => return Err(other),
            },
            Err(_) => {}
        }
        sleep(POLL).await;
    }
}

impl Rollout {
    fn of(revision: u64, fleet: Fleet) -> Self {
        let Fleet { gateways, revision: head, is_live_only: live_only } = fleet;
        let mut last: BTreeMap<_, GatewayView> = BTreeMap::new();
        for gateway in gateways {
            let key = (gateway.gateway.clone(), gateway.principal.clone());
            if last.get(&key).is_none_or(|known| known.connected_at <= gateway.connected_at) {
                last.insert(key, gateway);
            }
        }
        let connected = last.len();
        let behind: Vec<_> =
            last.into_values().filter(|gateway| gateway.applied_revision < revision).collect();
        let applied = connected - behind.len();
        Self { revision, head, connected, applied, live_only, behind }
    }

    /// Not of a revision that is yet to be.
    fn of_the_log(self) -> Result<Self, Failure> {
        let Self { revision, head, .. } = self;
        if head < revision {
            let message =
                format!("there is no revision {revision}; the registry is at revision {head}");
            return Err(Failure::Refused { reason: "REVISION_AHEAD".to_owned(), message });
        }
        Ok(self)
    }

    /// How many refuse it, or something before it.
    fn refusing(&self) -> usize {
        self.behind.iter().filter(|gateway| gateway.refusal.is_some()).count()
    }

    /// Nobody is not enough, and nobody knows who is missing without the database.
    fn is_reached(&self, percent: Percent) -> bool {
        !self.live_only && self.applied >= percent.of(self.connected)
    }

    fn is_hopeless(&self, percent: Percent) -> bool {
        !self.live_only
            && self.connected > 0
            && self.connected - self.refusing() < percent.of(self.connected)
    }

    fn why_not(&self, percent: Percent, time: Duration, is_hopeless: bool) -> String {
        let Self { revision, .. } = self;
        let why = if is_hopeless {
            "too many refuse it".to_owned()
        } else if self.live_only {
            "the registry cannot read its database, so gateways of other servers are not counted"
                .to_owned()
        } else if self.connected == 0 {
            "no gateway is connected".to_owned()
        } else if self.head < *revision {
            format!("the registry is at revision {}", self.head)
        } else {
            format!("they have not within {} s", time.as_secs())
        };
        let refused = self.behind.iter().filter_map(|gateway| {
            let refusal = gateway.refusal.as_ref()?;
            Some(format!("; {} refuses {refusal}", gateway.name()))
        });
        // The result has all of them.
        let refused: String = refused.take(3).collect();
        format!("{}, {percent} are wanted: {why}{refused}", self.summary())
    }

    /// `revision 5: 2 of 3 connected gateways have applied it`.
    fn summary(&self) -> String {
        let Self { revision, connected, applied, .. } = self;
        let noun = if *connected == 1 { "gateway has" } else { "gateways have" };
        format!("revision {revision}: {applied} of {connected} connected {noun} applied it")
    }
}

/// Shows how far it has come, who is missing, and what was refused.
pub(super) fn show(screen: Screen, rollout: &Rollout) -> Result<(), Failure> {
    if rollout.live_only {
        gateways::warn_of_live_only();
    }
    let refusing = match rollout.refusing() {
        0 => String::new(),
        1 => ", 1 refuses it".to_owned(),
        many => format!(", {many} refuse it"),
    };
    screen.line(&format!("{}{refusing}", rollout.summary()))?;
    if rollout.behind.is_empty() {
        return Ok(());
    }
    let mut table =
        TextTable::new(&["GATEWAY", "PRINCIPAL", "SERVER", "APPLIED", "LAG", "BEHIND", "REFUSED"]);
    for gateway in &rollout.behind {
        let cells = [
            gateway.name().to_owned(),
            gateway.principal.clone(),
            gateway.server.clone(),
            gateway.applied_revision.to_string(),
            gateway.lag.to_string(),
            gateway.lag_seconds.map_or_else(|| "?".to_owned(), span),
            gateway.refusal.as_ref().map(ToString::to_string).unwrap_or_default(),
        ];
        match gateway.refusal {
            Some(_) => table.painted(Paint::Bad, cells),
            None => table.row(cells),
        }
    }
    screen.table(&table)?;
    for gateway in &rollout.behind {
        let found = gateway.refusal.iter().flat_map(|refusal| refusal.diagnostics.clone());
        let found = Report::new(found.collect());
        if !found.findings().is_empty() {
            screen.line(&format!("\n{} says:", gateway.name()))?;
            screen.bytes(found.render(screen.style).as_bytes())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gateways by name, what each has applied, and whether it refuses what comes next.
    fn rollout(gateways: &[(&str, u64, bool)]) -> Rollout {
        let view = |(seconds, (name, applied, refuses)): (i64, &(&str, u64, bool))| {
            let nack = v1::Nack { revision: applied + 1, ..Default::default() };
            GatewayView::from(v1::GatewayStatus {
                gateway: (*name).to_owned(),
                applied_revision: *applied,
                last_nack: refuses.then_some(nack),
                connected_at: Some(prost_types::Timestamp { seconds, nanos: 0 }),
                ..Default::default()
            })
        };
        let gateways = (0..).zip(gateways).map(view).collect();
        Rollout::of(5, Fleet { gateways, revision: 5, is_live_only: false })
    }

    #[test]
    fn so_many_percent_have_it_or_cannot() {
        let half: Percent = "50%".parse().unwrap();
        let verdict = |gateways: &[(&str, u64, bool)]| {
            let rollout = rollout(gateways);
            (rollout.is_reached(half), rollout.is_hopeless(half))
        };
        assert_eq!(verdict(&[]), (false, false), "nobody is not enough, and may come");
        assert_eq!(verdict(&[("a", 5, false), ("b", 4, true)]), (true, false));
        assert_eq!(verdict(&[("a", 4, false), ("b", 4, true)]), (false, false));
        assert_eq!(verdict(&[("a", 4, false), ("b", 4, true), ("c", 3, true)]), (false, true));
        assert_eq!(verdict(&[("a", 6, true), ("b", 7, true)]), (true, false), "only later ones");
    }

    #[test]
    fn of_several_streams_the_last_counts() {
        let last = rollout(&[("a", 4, true), ("b", 5, false), ("a", 5, false)]);
        assert_eq!((last.connected, last.applied, last.refusing()), (2, 2, 0));
        assert_eq!(last.summary(), "revision 5: 2 of 2 connected gateways have applied it");
    }

    #[test]
    fn without_the_database_nothing_is_decided() {
        let all: Percent = "100%".parse().unwrap();
        let alone = Rollout { live_only: true, ..rollout(&[("a", 5, false), ("b", 4, true)]) };
        assert_eq!((alone.is_reached(all), alone.is_hopeless(all)), (false, false));
        let why = alone.why_not(all, POLL, false);
        assert!(why.contains("the registry cannot read its database"), "{why}");
    }
}
