//! A registry with budgets on Postgres, and gateways that spend from them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use acceptance::{access::Guarded, postgres::PrivateCluster};
use futures_util::future::join_all;
use ledger::{BudgetKey, Epoch};
use registry_proto::v1::{
    self, access_service_client::AccessServiceClient,
    registry_service_client::RegistryServiceClient,
};
use tokio::task::JoinSet;

use super::{POLICY, gateway::SpendingGateway, with_budgets};
use crate::sample;

/// The most gateways of a fleet.
pub(super) const GATEWAYS: usize = 100;

/// The registry, and the credentials of the gateways.
pub(super) struct Bank {
    guarded: Guarded,
    tokens: Vec<String>,
    /// The number of processes so far.
    processes: AtomicU64,
    /// Ends after the registry.
    _cluster: PrivateCluster,
}

/// Running gateways.
pub(super) struct Fleet {
    gateways: Vec<Arc<SpendingGateway>>,
    tasks: JoinSet<()>,
}

impl Bank {
    pub(super) async fn start(budgets: Vec<v1::PolicyBudget>) -> Self {
        let cluster = PrivateCluster::durable().await;
        let database = cluster.create_database("bench_budgets").await;
        let guarded = Guarded::start_on(&database, &[]);
        let admin = guarded.channel(&guarded.admin).await;
        let policy = v1::Policy {
            name: POLICY.to_owned(),
            version: "1.0.0".to_owned(),
            ..Default::default()
        };
        let request = v1::ApplyChangesRequest {
            changes: vec![sample::register_policy(with_budgets(policy, budgets))],
            ..Default::default()
        };
        RegistryServiceClient::new(admin.clone()).apply_changes(request).await.expect("accepted");
        let mut access = AccessServiceClient::new(admin);
        let mut tokens = Vec::new();
        for number in 0..GATEWAYS {
            let request = v1::CreateTokenRequest {
                name: format!("gateway-{number}"),
                roles: vec![v1::AccessRole::Gateway.into()],
                ..Default::default()
            };
            let created = access.create_token(request).await.expect("created").into_inner();
            tokens.push(created.secret);
        }
        Self { guarded, tokens, processes: AtomicU64::new(0), _cluster: cluster }
    }

    /// Starts a gateway for each of these budgets.
    pub(super) async fn start_fleet(&self, budgets: impl Iterator<Item = BudgetKey>) -> Fleet {
        let (mut gateways, mut tasks) = (Vec::new(), JoinSet::new());
        for (token, budget) in self.tokens.iter().zip(budgets) {
            let process = Epoch::new(self.processes.fetch_add(1, Ordering::Relaxed).into());
            let channel = self.guarded.channel(token).await;
            gateways.push(SpendingGateway::start(channel, process, budget, &mut tasks).await);
        }
        Fleet { gateways, tasks }
    }
}

impl Fleet {
    pub(super) fn gateways(&self) -> &[Arc<SpendingGateway>] {
        &self.gateways
    }

    /// Stops the gateways, which close their accounts.
    pub(super) async fn stop(mut self) {
        self.tasks.shutdown().await;
        join_all(self.gateways.iter().map(|gateway| gateway.stop())).await;
    }
}
