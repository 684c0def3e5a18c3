//! Checks all tools in the background after each change of the catalog or of an upstream's list.
//!
//! The gateway serves an upstream's definitions only after their pins are on disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use gateway_policy::ValidationMode;
use gateway_upstream::Definitions;
use registry_core::{Catalog, Key, Kind};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    Contracts,
    comparison::{ContractState, ContractStatus, DriftClass, LiveTools},
    metric,
};

/// Delay that combines bursts of catalog changes.
const BATCH_DELAY: Duration = Duration::from_millis(100);
/// Delay before a failed write is retried.
const RETRY: Duration = Duration::from_secs(5);
/// Maximum individually logged tools per check.
const LOGGED: usize = 20;

type StatusByTool = BTreeMap<Key, Arc<ContractStatus>>;

impl Contracts {
    /// Checks after each change, until `stop`.
    pub async fn monitor(
        self: Arc<Self>,
        mut catalog: watch::Receiver<Arc<Catalog>>,
        mut definitions: watch::Receiver<Arc<Definitions>>,
        stop: CancellationToken,
    ) {
        let mut keeper = ContractMonitor::default();
        let mut published = self.published.borrow().clone();
        loop {
            let now = catalog.borrow_and_update().clone();
            let listed = definitions.borrow_and_update().clone();
            let (contracts, all) = (self.clone(), listed.clone());
            let checked = tokio::task::spawn_blocking(move || {
                keeper.check(&contracts, &now, &all);
                keeper
            });
            keeper = match checked.await {
                Ok(keeper) => keeper,
                Err(e) => {
                    tracing::error!("checking the contracts of tools failed: {e}");
                    ContractMonitor::default()
                }
            };
            let has_waiting_callers = std::mem::take(&mut self.lock().has_waiting_callers);
            if !Arc::ptr_eq(&published, &listed) {
                published = listed.clone();
                self.published.send_replace(listed);
            } else if has_waiting_callers {
                // Callers with a provisional answer evaluate the tool again.
                self.published.send_modify(|all| *all = Arc::new(Definitions::clone(all)));
            }
            keeper.count(&self);
            let next = async {
                tokio::select! {
                    changed = catalog.changed() => {
                        tokio::select! {
                            () = sleep(BATCH_DELAY) => {}
                            () = self.recheck.notified() => {}
                        }
                        changed.is_ok()
                    }
                    // Not delayed: callers wait for new definitions.
                    changed = definitions.changed() => changed.is_ok(),
                    () = self.recheck.notified() => true,
                    () = sleep(RETRY), if keeper.is_failing => true,
                }
            };
            if stop.run_until_cancelled(next).await != Some(true) {
                return;
            }
        }
    }

    /// Compares all tools of servers and all agents with a target.
    fn evaluate_all(&self, catalog: &Catalog, definitions: &Definitions) -> StatusByTool {
        let mut statuses = StatusByTool::new();
        let registered = catalog.of_kind(Kind::Server).map(|(server, _)| server.clone());
        let routed = registered.filter(|server| definitions.route(server).is_some());
        // A registry file can contain tools without their server.
        let servers: BTreeSet<Key> = definitions.routing().exact().chain(routed).collect();
        for server in &servers {
            let live = LiveTools::for_server(definitions, server);
            for key in catalog.dependents(server).filter(|key| key.kind == Kind::Tool) {
                let record = catalog.find(key).filter(|record| catalog.is_callable(record));
                let Some(record) =
                    record.filter(|_| self.checks(key).contract != ValidationMode::Ignore)
                else {
                    continue;
                };
                statuses.extend(self.evaluate(catalog, record, live).map(|it| (key.clone(), it)));
            }
        }
        for (key, record) in catalog.of_kind(Kind::Agent) {
            let is_checked = record.is_usable()
                && definitions.route(key).is_some()
                && self.checks(key).contract != ValidationMode::Ignore;
            if is_checked {
                let live = LiveTools::for_server(definitions, key);
                let status = self.evaluate(catalog, record, live);
                // Many agents have no card.
                let status = status.filter(|it| it.state != ContractState::Pending || it.is_broken);
                statuses.extend(status.map(|it| (key.clone(), it)));
            }
        }
        let wanted = {
            let mut known = self.lock();
            known.wanted.retain(|tool| catalog.find(tool).is_some());
            let wanted = known.wanted.clone();
            let is_kept = |tool: &Key| statuses.contains_key(tool) || wanted.contains(tool);
            known.compared.retain(|tool, _| is_kept(tool));
            wanted
        };
        for tool in wanted.iter().filter(|tool| !statuses.contains_key(*tool)) {
            let Some(record) = catalog.find(tool) else { continue };
            let source = record.document.entity().as_tool().and_then(|tool| tool.source());
            if let Some(source) = source {
                self.evaluate(
                    catalog,
                    record,
                    LiveTools::for_server(definitions, &source.server_key()),
                );
            }
        }
        self.observed.prune(catalog);
        statuses
    }
}

/// The state of the previous check.
#[derive(Default)]
struct ContractMonitor {
    statuses: StatusByTool,
    /// The last status of each tool that was compared. A tool of a changed target is pending first.
    compared: StatusByTool,
    warned: BTreeSet<(&'static str, String)>,
    is_failing: bool,
    has_checked: bool,
}

impl ContractMonitor {
    fn check(&mut self, contracts: &Contracts, catalog: &Catalog, definitions: &Definitions) {
        if catalog.registry().as_str().is_empty() {
            return;
        }
        let statuses = contracts.evaluate_all(catalog, definitions);
        self.save(contracts);
        self.log_changes(contracts, &statuses);
        self.statuses = statuses;
        self.has_checked = true;
        self.warn_of_unknown(contracts, catalog);
    }

    /// Updates the metrics.
    fn count(&self, contracts: &Contracts) {
        if !self.has_checked {
            return;
        }
        let is_quarantined = |(tool, status): &(&Key, &Arc<ContractStatus>)| {
            status.is_broken && contracts.checks(tool).contract == ValidationMode::Error
        };
        let quarantined = self.statuses.iter().filter(is_quarantined).count();
        metric::set(self.statuses.values().map(|status| &**status), quarantined);
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
    fn log_changes(&mut self, contracts: &Contracts, statuses: &StatusByTool) {
        self.compared.retain(|tool, _| statuses.contains_key(tool));
        let mut logged = 0;
        for (tool, now) in statuses {
            if !self.has_changed(tool, now) {
                continue;
            }
            metric::count_change(now.state);
            logged += 1;
            if logged <= LOGGED {
                log(contracts, tool, now);
            }
        }
        if logged > LOGGED {
            tracing::warn!(
                tools = logged - LOGGED,
                "the contract states of more tools have changed"
            );
        }
    }

    /// Whether a compared tool matches its contract again, or has another difference.
    fn has_changed(&mut self, tool: &Key, now: &Arc<ContractStatus>) -> bool {
        if now.state == ContractState::Pending {
            return false;
        }
        let before = self.compared.insert(tool.clone(), Arc::clone(now));
        let was_well = before.as_ref().is_none_or(|before| matches_contract(before));
        before.as_ref() != Some(now) && !(was_well && matches_contract(now))
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
                "{field} names {tool}, which the catalog does not contain; \
                 correct the name, or ignore this warning if the tool will be registered later"
            );
        }
    }
}

fn matches_contract(status: &ContractStatus) -> bool {
    status.state == ContractState::Unchanged
}

/// Whether callers are unaffected.
fn is_harmless(status: &ContractStatus) -> bool {
    status.state == ContractState::Drifted
        && status.drift.iter().all(|drift| drift.class < DriftClass::Changed)
}

fn log(contracts: &Contracts, tool: &Key, now: &ContractStatus) {
    let is_quarantined = now.is_broken && contracts.checks(tool).contract == ValidationMode::Error;
    let parts: Vec<_> =
        now.drift.iter().map(|d| format!("{}: {}", d.part.as_str(), d.class.as_str())).collect();
    let live = now.live.as_ref().map(|live| live.digest().to_string());
    let (state, drift, live) = (now.state.as_str(), parts.join(", "), live.unwrap_or_default());
    if matches_contract(now) {
        tracing::info!(%tool, state, "the live definition of a tool or agent matches its contract again");
    } else if is_quarantined {
        tracing::warn!(
            %tool, state, drift, live,
            "a tool or agent is quarantined: its live definition differs from the registered or first \
             seen one"
        );
    } else if now.is_accepted || is_harmless(now) {
        tracing::info!(
            %tool, state, drift, live, accepted = now.is_accepted,
            "the live definition of a tool or agent differs from its contract, compatibly or as accepted"
        );
    } else {
        tracing::warn!(
            %tool, state, drift, live,
            "the live definition of a tool or agent differs from the registered or first seen one"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_tool_keeps_its_last_state() {
        use ContractState::{Drifted, Missing, Pending, Unchanged};
        let tool: Key = "tool/t@1.0.0".parse().unwrap();
        let mut monitor = ContractMonitor::default();
        let changes = [
            (Pending, false),
            (Unchanged, false),
            (Drifted, true),
            (Pending, false),
            (Drifted, false),
            (Pending, false),
            (Unchanged, true),
            (Pending, false),
            (Missing, true),
        ];
        for (i, (state, expected)) in changes.into_iter().enumerate() {
            let status = ContractStatus {
                state,
                live: None,
                drift: Vec::new(),
                is_accepted: false,
                is_broken: false,
            };
            assert_eq!(monitor.has_changed(&tool, &Arc::new(status)), expected, "change {i}");
        }
    }
}
