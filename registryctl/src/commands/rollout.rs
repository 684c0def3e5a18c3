//! `rollout status` and `apply --wait`: the connected gateways that have applied a revision.
//!
//! A gateway is identified by its name and principal. Of several streams, the last one counts.

mod disconnected;
mod missing;

use std::{collections::BTreeMap, mem::replace, time::Duration};

use disconnected::RecentlyDisconnected;
use indicatif::HumanDuration;
use registry_proto::v1;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::{
    Session,
    fleet::{self, Fleet},
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

/// Poll interval while waiting.
const POLL: Duration = Duration::from_millis(500);

/// The remedy for a caller that may not list gateways.
const WAIT_ROLES: &str = "nothing was changed; `policy stop` and `--wait` list gateways, which also requires the \
     role auditor or governor. Use a token with both roles, or `apply` without `--wait`";

/// The progress of a rollout.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rollout {
    revision: u64,
    /// The current revision.
    head: u64,
    /// The number of connected gateways, and of those that have applied the revision.
    connected: usize,
    applied: usize,
    /// Whether only gateways of one server are counted: the registry cannot read its database.
    live_only: bool,
    /// The gateways that have not applied the revision.
    behind: Vec<GatewayView>,
    /// Gateways that are not connected, were seen within the last hour, and have not applied the
    /// revision.
    missing: Vec<GatewayView>,
}

pub(super) async fn run(session: &Session, args: RolloutStatusArgs) -> Result<(), Failure> {
    let RolloutStatusArgs { revision, wait } = args;
    let client = session.connect().await?;
    let (rollout, result) = match wait.wait {
        None => {
            let rollout = Rollout::new(revision, connected(&client).await?).require_revision()?;
            (rollout.with_missing(&client).await?, Ok(()))
        }
        Some(percent) => wait_for(&client, revision, percent, wait.timeout).await?,
    };
    match session.screen.format {
        Format::Json => session.screen.json(&rollout)?,
        Format::Table => show(session.screen, &rollout)?,
    }
    result
}

/// The rollout at the end of the wait, and the reason of an incomplete one.
pub(super) type WaitResult = (Rollout, Result<(), Failure>);

/// Checks before a change that the caller may list gateways.
pub(super) async fn check_access(client: &Client, wait: &WaitArgs) -> Result<(), Failure> {
    if wait.wait.is_some() { check_list_access(client).await } else { Ok(()) }
}

/// Checks that the caller may list gateways.
pub(super) async fn check_list_access(client: &Client) -> Result<(), Failure> {
    let one = v1::ListGatewaysRequest { page_size: 1, ..Default::default() };
    match client.answer(client.sync().list_gateways(request(one))).await {
        Ok(_) => Ok(()),
        Err(failure) => Err(explain_denial(failure)),
    }
}

/// Adds the remedy for a caller that may write but not list gateways.
fn explain_denial(failure: Failure) -> Failure {
    let is_denied = matches!(
        &failure,
        Failure::RequestRejected { reason, .. } if reason == "PERMISSION_DENIED"
    );
    if is_denied { failure.with_help(WAIT_ROLES.to_owned()) } else { failure }
}

/// The connected gateways.
async fn connected(client: &Client) -> Result<Fleet, Failure> {
    let connected = v1::GatewayState::Connected.into();
    let wanted = v1::ListGatewaysRequest { state: connected, ..Default::default() };
    fleet::fetch(client, wanted).await
}

/// Waits until a share of the connected gateways has applied a revision.
pub(super) async fn wait_for(
    client: &Client,
    revision: u64,
    percent: Percent,
    time: Duration,
) -> Result<WaitResult, Failure> {
    let (mut client, end) = (client.clone(), Instant::now() + time);
    let (mut progress, mut is_announced) = (None, false);
    let (mut disconnected, mut was_hopeless) = (RecentlyDisconnected::default(), false);
    loop {
        let polled = connected(&client).await.map(|mut fleet| {
            disconnected.update(&mut fleet.gateways);
            Rollout::new(revision, fleet)
        });
        let is_over = Instant::now() + POLL > end;
        match polled {
            Ok(rollout) => {
                if rollout.connected > 0 {
                    progress
                        .get_or_insert_with(|| Progress::bar("gateways", 0))
                        .set(rollout.applied as u64, rollout.connected as u64);
                } else {
                    progress = None;
                    if !rollout.live_only && !replace(&mut is_announced, true) {
                        eprintln!(
                            "no gateway is connected; waiting up to {} for one (--timeout)",
                            HumanDuration(time)
                        );
                    }
                }
                let is_hopeless = rollout.is_hopeless(percent);
                if rollout.is_reached(percent) {
                    return Ok((rollout.with_missing(&client).await?, Ok(())));
                }
                // A gateway may apply a revision at its second attempt.
                if is_over || is_hopeless && was_hopeless {
                    let reason = rollout.incomplete_reason(percent, time, is_hopeless);
                    let rollout = rollout.with_missing(&client).await?;
                    return Ok((rollout, Err(Failure::NotRolledOut(reason))));
                }
                was_hopeless = is_hopeless;
            }
            Err(failure) if is_over || !failure.is_transient() => return Err(failure),
            Err(_) if client.has_others() => match client.next_server().await {
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
    fn new(revision: u64, fleet: Fleet) -> Self {
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
        Self { revision, head, connected, applied, live_only, behind, missing: Vec::new() }
    }

    async fn with_missing(self, client: &Client) -> Result<Self, Failure> {
        let missing = missing::fetch(client, self.revision).await?;
        Ok(Self { missing, ..self })
    }

    /// Fails if a gateway is missing, which may still serve calls with an earlier catalog.
    pub(super) fn require_all(&self) -> Result<(), Failure> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let Self { revision, .. } = self;
        let name =
            |gateway: &GatewayView| format!("{} (principal {})", gateway.name(), gateway.principal);
        let names: Vec<_> = self.missing.iter().map(name).collect();
        let message = format!(
            "revision {revision}: not applied by gateways that are not connected and may still \
             serve calls: {}",
            names.join(", ")
        );
        let help = "restore their connection and run the command again, or stop these gateways; a \
                    gateway counts for 1 h after it was last seen, also under an earlier principal \
                    if it has connected with a token of another name since";
        Err(Failure::NotRolledOut(message).with_help(help.to_owned()))
    }

    /// Rejects a revision that does not exist yet.
    fn require_revision(self) -> Result<Self, Failure> {
        let Self { revision, head, .. } = self;
        if head < revision {
            return Err(Failure::revision_ahead(revision, head));
        }
        Ok(self)
    }

    /// The number of gateways that reject the revision or an earlier one.
    fn rejecting(&self) -> usize {
        self.behind.iter().filter(|gateway| gateway.rejection.is_some()).count()
    }

    /// At least one gateway must be connected. Without the database, gateways may be missing.
    fn is_reached(&self, percent: Percent) -> bool {
        !self.live_only && self.applied >= percent.share_of(self.connected)
    }

    fn is_hopeless(&self, percent: Percent) -> bool {
        !self.live_only
            && self.connected > 0
            && self.connected - self.rejecting() < percent.share_of(self.connected)
    }

    fn incomplete_reason(&self, percent: Percent, time: Duration, is_hopeless: bool) -> String {
        let Self { revision, .. } = self;
        let why = if is_hopeless {
            "too many gateways reject it".to_owned()
        } else if self.live_only {
            "the registry cannot read its database, so gateways of other servers are not counted"
                .to_owned()
        } else if self.connected == 0 {
            "no gateway is connected".to_owned()
        } else if self.head < *revision {
            format!("the registry is at revision {}", self.head)
        } else {
            format!("timeout after {} s", time.as_secs())
        };
        let rejections = self.behind.iter().filter_map(|gateway| {
            let rejection = gateway.rejection.as_ref()?;
            Some(format!("; {} rejects {rejection}", gateway.name()))
        });
        // The output of the command lists all rejections.
        let rejections: String = rejections.take(3).collect();
        format!("{}, {percent} required: {why}{rejections}", self.summary())
    }

    /// `revision 5: 2 of 3 connected gateways have applied it`.
    fn summary(&self) -> String {
        let Self { revision, connected, applied, .. } = self;
        let noun = if *connected == 1 { "gateway has" } else { "gateways have" };
        format!("revision {revision}: {applied} of {connected} connected {noun} applied it")
    }
}

/// Prints the progress, the gateways that are behind, and their rejections.
pub(super) fn show(screen: Screen, rollout: &Rollout) -> Result<(), Failure> {
    if rollout.live_only {
        fleet::warn_of_live_only();
    }
    let rejecting = match rollout.rejecting() {
        0 => String::new(),
        1 => ", 1 rejects it".to_owned(),
        many => format!(", {many} reject it"),
    };
    screen.line(&format!("{}{rejecting}", rollout.summary()))?;
    show_missing(screen, &rollout.missing)?;
    if rollout.behind.is_empty() {
        return Ok(());
    }
    let mut table =
        TextTable::new(&["GATEWAY", "PRINCIPAL", "SERVER", "APPLIED", "LAG", "BEHIND", "REJECTED"]);
    for gateway in &rollout.behind {
        let cells = [
            gateway.name().to_owned(),
            gateway.principal.clone(),
            gateway.server.clone(),
            gateway.applied_revision.to_string(),
            gateway.lag.to_string(),
            gateway.lag_seconds.map_or_else(|| "?".to_owned(), span),
            gateway.rejection.as_ref().map(ToString::to_string).unwrap_or_default(),
        ];
        match gateway.rejection {
            Some(_) => table.painted(Paint::Bad, cells),
            None => table.row(cells),
        }
    }
    screen.table(&table)?;
    for gateway in &rollout.behind {
        let found = gateway.rejection.iter().flat_map(|rejection| rejection.diagnostics.clone());
        let found = Report::new(found.collect());
        if !found.findings().is_empty() {
            screen.line(&format!("\nFindings of {}:", gateway.name()))?;
            screen.bytes(found.render(screen.style).as_bytes())?;
        }
    }
    Ok(())
}

fn show_missing(screen: Screen, missing: &[GatewayView]) -> Result<(), Failure> {
    if missing.is_empty() {
        return Ok(());
    }
    screen.line("not connected, seen within the last hour, and without the revision:")?;
    let mut table = TextTable::new(&["GATEWAY", "PRINCIPAL", "LAST SEEN", "APPLIED"]);
    for gateway in missing {
        let seen = gateway.last_seen_at.clone().unwrap_or_default();
        let applied = gateway.applied_revision.to_string();
        table.painted(
            Paint::Bad,
            [gateway.name().to_owned(), gateway.principal.clone(), seen, applied],
        );
    }
    screen.table(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gateways with name, applied revision, and whether they reject the next one.
    fn rollout(gateways: &[(&str, u64, bool)]) -> Rollout {
        let view = |(seconds, (name, applied, rejects)): (i64, &(&str, u64, bool))| {
            let nack = v1::Nack { revision: applied + 1, ..Default::default() };
            GatewayView::from(v1::GatewayStatus {
                gateway: (*name).to_owned(),
                applied_revision: *applied,
                last_nack: rejects.then_some(nack),
                connect_time: Some(prost_types::Timestamp { seconds, nanos: 0 }),
                ..Default::default()
            })
        };
        let gateways = (0..).zip(gateways).map(view).collect();
        Rollout::new(5, Fleet { gateways, revision: 5, is_live_only: false })
    }

    #[test]
    fn rollouts_are_reached_or_hopeless() {
        let half: Percent = "50%".parse().unwrap();
        let verdict = |gateways: &[(&str, u64, bool)]| {
            let rollout = rollout(gateways);
            (rollout.is_reached(half), rollout.is_hopeless(half))
        };
        assert_eq!(verdict(&[]), (false, false), "no gateway is connected");
        assert_eq!(verdict(&[("a", 5, false), ("b", 4, true)]), (true, false));
        assert_eq!(verdict(&[("a", 4, false), ("b", 4, true)]), (false, false));
        assert_eq!(verdict(&[("a", 4, false), ("b", 4, true), ("c", 3, true)]), (false, true));
        assert_eq!(
            verdict(&[("a", 6, true), ("b", 7, true)]),
            (true, false),
            "only later revisions are rejected"
        );
    }

    #[test]
    fn last_stream_of_a_gateway_counts() {
        let last = rollout(&[("a", 4, true), ("b", 5, false), ("a", 5, false)]);
        assert_eq!((last.connected, last.applied, last.rejecting()), (2, 2, 0));
        assert_eq!(last.summary(), "revision 5: 2 of 2 connected gateways have applied it");
    }

    #[test]
    fn rollouts_stay_open_without_database() {
        let all: Percent = "100%".parse().unwrap();
        let alone = Rollout { live_only: true, ..rollout(&[("a", 5, false), ("b", 4, true)]) };
        assert_eq!((alone.is_reached(all), alone.is_hopeless(all)), (false, false));
        let why = alone.incomplete_reason(all, POLL, false);
        insta::assert_snapshot!(
            why,
            @"revision 5: 1 of 2 connected gateways have applied it, 100% required: the registry \
              cannot read its database, so gateways of other servers are not counted; b rejects \
              revision 5:"
        );
    }
}
