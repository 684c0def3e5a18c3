//! Checks all tools in the background after each change of the catalog or of an upstream's list.
//!
//! The gateway serves an upstream's definitions only after their pins are on disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use gateway_policy::Mode;
use gateway_upstream::Definitions;
use registry_core::{Catalog, Key, Kind};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    Contracts,
    judge::{DriftClass, Judgement, Live, State},
    metric,
};
use crate::identity::is_usable;

/// Delay that combines bursts of catalog changes.
const GATHER: Duration = Duration::from_millis(100);
/// Delay before a failed write is retried.
const RETRY: Duration = Duration::from_secs(5);
/// Maximum individually logged tools per check.
const LOGGED: usize = 20;

type Standing = BTreeMap<Key, Arc<Judgement>>;

impl Contracts {
    /// Checks after each change, until `stop`.
    pub async fn keep(
        self: Arc<Self>,
        mut catalog: watch::Receiver<Arc<Catalog>>,
        mut definitions: watch::Receiver<Arc<Definitions>>,
        stop: CancellationToken,
    ) {
        metric::describe();
        let mut keeper = Keeper::default();
        let mut passed = self.passed.borrow().clone();
        loop {
            let now = catalog.borrow_and_update().clone();
            let listed = definitions.borrow_and_update().clone();
            let (contracts, all) = (self.clone(), listed.clone());
            let looked = tokio::task::spawn_blocking(move || {
                keeper.look(&contracts, &now, &all);
                keeper
            });
            keeper = match looked.await {
                Ok(keeper) => keeper,
                Err(e) => {
                    tracing::error!("checking the contracts of tools failed: {e}");
                    Keeper::default()
                }
            };
            let is_awaited = std::mem::take(&mut self.lock().is_awaited);
            if !Arc::ptr_eq(&passed, &listed) {
                passed = listed.clone();
                self.passed.send_replace(listed);
            } else if is_awaited {
                // Callers with a provisional answer evaluate the tool again.
                self.passed.send_modify(|all| *all = Arc::new(Definitions::clone(all)));
            }
            keeper.count(&self);
            let next = async {
                tokio::select! {
                    changed = catalog.changed() => {
                        tokio::select! {
                            () = sleep(GATHER) => {}
                            () = self.again.notified() => {}
                        }
                        changed.is_ok()
                    }
                    // Not delayed: callers wait for new definitions.
                    changed = definitions.changed() => changed.is_ok(),
                    () = self.again.notified() => true,
                    () = sleep(RETRY), if keeper.is_failing => true,
                }
            };
            if stop.run_until_cancelled(next).await != Some(true) {
                return;
            }
        }
    }

    /// Compares all tools of servers with a target.
    fn judge_all(&self, catalog: &Catalog, definitions: &Definitions) -> Standing {
        let mut standing = Standing::new();
        let registered = catalog.of_kind(Kind::Server).map(|(server, _)| server.clone());
        let routed = registered.filter(|server| definitions.route(server).is_some());
        // A registry file can contain tools without their server.
        let servers: BTreeSet<Key> = definitions.routing().exact().chain(routed).collect();
        for server in &servers {
            let live = Live::of(definitions, server);
            for key in catalog.dependents(server).filter(|key| key.kind == Kind::Tool) {
                let record = catalog.find(key).filter(|record| is_usable(record));
                let Some(record) = record.filter(|_| self.checks(key).contract != Mode::Ignore)
                else {
                    continue;
                };
                standing.extend(self.judge(catalog, record, live).map(|it| (key.clone(), it)));
            }
        }
        let wanted = {
            let mut known = self.lock();
            known.wanted.retain(|tool| catalog.find(tool).is_some());
            let wanted = known.wanted.clone();
            let is_kept = |tool: &Key| standing.contains_key(tool) || wanted.contains(tool);
            known.judged.retain(|tool, _| is_kept(tool));
            wanted
        };
        for tool in wanted.iter().filter(|tool| !standing.contains_key(*tool)) {
            let Some(record) = catalog.find(tool) else { continue };
            let source = record.document.entity().as_tool().and_then(|tool| tool.source());
            if let Some(source) = source {
                self.judge(catalog, record, Live::of(definitions, &source.server_key()));
            }
        }
        self.observed.prune(catalog);
        standing
    }
}

/// The state of the previous check.
#[derive(Default)]
struct Keeper {
    standing: Standing,
    warned: BTreeSet<(&'static str, String)>,
    is_failing: bool,
    has_looked: bool,
}

impl Keeper {
    fn look(&mut self, contracts: &Contracts, catalog: &Catalog, definitions: &Definitions) {
        if catalog.registry().as_str().is_empty() {
            return;
        }
        let standing = contracts.judge_all(catalog, definitions);
        self.save(contracts);
        self.tell(contracts, &standing);
        self.standing = standing;
        self.has_looked = true;
        self.warn_of_unknown(contracts, catalog);
    }

    /// Updates the metrics.
    fn count(&self, contracts: &Contracts) {
        if !self.has_looked {
            return;
        }
        let is_quarantined = |(tool, judgement): &(&Key, &Arc<Judgement>)| {
            judgement.is_broken && contracts.checks(tool).contract == Mode::Error
        };
        let quarantined = self.standing.iter().filter(is_quarantined).count();
        metric::set(self.standing.values().map(|judgement| &**judgement), quarantined);
    }

    fn save(&mut self, contracts: &Contracts) {
        let saved = contracts.save();
        let was_failing = std::mem::replace(&mut self.is_failing, saved.is_err());
        match saved {
            Err(e) => {
                metrics::counter!("gateway_cache_write_failures_total").increment(1);
                if !was_failing {
                    tracing::error!(
						"cannot write the pins of tool contracts to disk, retrying every {} s: {e}",
                        RETRY.as_secs()
                    );
                }
            }
            Ok(()) if was_failing => tracing::info!("writing the pins to disk works again"),
            Ok(()) => {}
        }
    }

    /// Logs each changed state once.
    fn tell(&self, contracts: &Contracts, standing: &Standing) {
        let mut told = 0;
        for (tool, now) in standing {
            let before = self.standing.get(tool);
            let was_well = before.is_none_or(|before| is_well(before));
            if before.is_some_and(|before| **before == **now) || was_well && is_well(now) {
                continue;
            }
            metric::count_change(now.state);
            told += 1;
            if told <= LOGGED {
                log(contracts, tool, now);
            }
        }
        if told > LOGGED {
            tracing::warn!(
                tools = told - LOGGED,
                "the contract states of more tools have changed"
            );
        }
    }

    /// Warns once about configured tools that the catalog does not contain.
    fn warn_of_unknown(&mut self, contracts: &Contracts, catalog: &Catalog) {
        let settings = contracts.settings.load();
        let checked =
            settings.rules.tools().map(|tool| ("registry.validation.runtime.tools", tool));
        let limited = settings.limited.iter().map(|tool| ("limits.tools", tool));
        for (field, tool) in checked.chain(limited) {
            if tool.is_in(catalog) || !self.warned.insert((field, tool.to_string())) {
                continue;
            }
            tracing::warn!(
				"{field} names {tool}, which the catalog does not contain; \\
				 correct the name, or ignore this warning if the tool will be registered later"
            );
        }
    }
}

fn is_well(judgement: &Judgement) -> bool {
    matches!(judgement.state, State::Same | State::Unheard)
}

/// Whether callers are unaffected.
fn is_harmless(judgement: &Judgement) -> bool {
    judgement.state == State::Drifted
        && judgement.drift.iter().all(|drift| drift.class < DriftClass::Changed)
}

fn log(contracts: &Contracts, tool: &Key, now: &Judgement) {
    let is_quarantined = now.is_broken && contracts.checks(tool).contract == Mode::Error;
    let parts: Vec<_> =
        now.drift.iter().map(|d| format!("{}: {}", d.part.as_str(), d.class.as_str())).collect();
    let live = now.live.as_ref().map(|live| live.digest().to_string());
    let (state, drift, live) = (now.state.as_str(), parts.join(", "), live.unwrap_or_default());
    if is_well(now) {
        tracing::info!(%tool, state, "the live definition of a tool matches its contract again");
    } else if is_quarantined {
        tracing::warn!(
            %tool, state, drift, live,
            "a tool is quarantined: its live definition differs from the registered or first seen one"
        );
    } else if now.is_accepted || is_harmless(now) {
        tracing::info!(
            %tool, state, drift, live, accepted = now.is_accepted,
            "the live definition of a tool differs from its contract, compatibly or as accepted"
        );
    } else {
        tracing::warn!(
            %tool, state, drift, live,
            "the live definition of a tool differs from the registered or first seen one"
        );
    }
}
