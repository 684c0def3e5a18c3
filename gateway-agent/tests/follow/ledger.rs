//! The client of the ledger of budgets, with a scripted server.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{Stream, StreamExt, stream};
use ledger::{
    AccountAnswer, AccountKey, AccountReport, Answer, BudgetKey, Epoch, GatewayAccount,
    Ledger as _, LedgerError, Recall, Rejection, Report, Totals, WindowId,
};
use registry_follow::{Credentials, Follower, LedgerClient, Timing};
use registry_proto::{
    convert::{read_report, write_answer, write_recall},
    v1::{
        AdjustBudgetRequest, AdjustBudgetResponse, GetBudgetRequest, GetBudgetResponse,
        ListBudgetsRequest, ListBudgetsResponse, ReclaimBudgetRequest, ReclaimBudgetResponse,
        ReportSpendingRequest, ReportSpendingResponse, WatchRecallsRequest, WatchRecallsResponse,
        ledger_service_server::{LedgerService, LedgerServiceServer},
    },
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use crate::script::Aborted;

/// A ledger that knows no budget. It records the reports, and the gateways that they name.
#[derive(Debug, Default)]
struct Scripted {
    reports: Mutex<Vec<Report>>,
    gateways: Mutex<Vec<String>>,
    recall: Vec<GatewayAccount>,
}

#[derive(Clone)]
struct Service(Arc<Scripted>);

type Recalls = Pin<Box<dyn Stream<Item = Result<WatchRecallsResponse, Status>> + Send>>;

fn unused<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("not a part of the script"))
}

#[tonic::async_trait]
impl LedgerService for Service {
    type WatchRecallsStream = Recalls;

    async fn report_spending(
        &self,
        request: Request<ReportSpendingRequest>,
    ) -> Result<Response<ReportSpendingResponse>, Status> {
        let request = request.into_inner();
        self.0.gateways.lock().expect("no panic").push(request.gateway.clone());
        let report = read_report(request);
        let report = report.map_err(|e| Status::invalid_argument(e.to_string()))?;
        let answer = |account: &AccountReport| account.answered(Err(Rejection::UnknownBudget));
        let accounts = report.accounts.iter().map(answer).collect();
        self.0.reports.lock().expect("no panic").push(report);
        let answer = Answer {
            generation: 1,
            generation_proof: vec![1],
            owner: None,
            offline_for: Duration::from_hours(1),
            accounts,
        };
        Ok(Response::new(write_answer(&answer)))
    }

    async fn watch_recalls(
        &self,
        request: Request<WatchRecallsRequest>,
    ) -> Result<Response<Recalls>, Status> {
        let is_own =
            |account: &&GatewayAccount| request.get_ref().all_gateways || account.gateway == "own";
        let recall: Vec<_> = self.0.recall.iter().filter(is_own).cloned().collect();
        let keep_alive = write_recall(&[]);
        let messages = [Ok(keep_alive), Ok(write_recall(&recall))];
        Ok(Response::new(Box::pin(stream::iter(messages).chain(stream::pending()))))
    }

    async fn list_budgets(
        &self,
        _request: Request<ListBudgetsRequest>,
    ) -> Result<Response<ListBudgetsResponse>, Status> {
        unused()
    }

    async fn get_budget(
        &self,
        _request: Request<GetBudgetRequest>,
    ) -> Result<Response<GetBudgetResponse>, Status> {
        unused()
    }

    async fn adjust_budget(
        &self,
        _request: Request<AdjustBudgetRequest>,
    ) -> Result<Response<AdjustBudgetResponse>, Status> {
        unused()
    }

    async fn reclaim_budget(
        &self,
        _request: Request<ReclaimBudgetRequest>,
    ) -> Result<Response<ReclaimBudgetResponse>, Status> {
        unused()
    }
}

async fn serve(script: &Arc<Scripted>) -> (SocketAddr, Aborted) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let serving = tonic::transport::Server::builder()
        .add_service(LedgerServiceServer::new(Service(Arc::clone(script))))
        .serve_with_incoming(TcpListenerStream::new(listener));
    let task = tokio::spawn(async move { serving.await.expect("it serves") });
    (address, Aborted(task))
}

fn client(addresses: &[String]) -> LedgerClient {
    LedgerClient::new(Follower {
        addresses: addresses.to_vec(),
        credentials: Credentials::default(),
        timing: Timing::default(),
        ca_setting: "registry.caFile",
        agent: "test",
    })
}

fn budget() -> BudgetKey {
    BudgetKey { policy: "p".into(), budget: "b".into(), subject: "a".into() }
}

/// A report of the end of a process with this number of accounts.
fn report(accounts: u128) -> Report {
    let account = |number| AccountReport {
        budget: budget(),
        window: None,
        epoch: Epoch::new(number),
        totals: Totals::default(),
        is_final: true,
        want: None,
    };
    let process = Epoch::new(0);
    Report {
        process,
        owner: None,
        generation: 1,
        generation_proof: vec![1],
        complete: vec![process],
        ended: vec![process],
        accounts: (0..accounts).map(account).collect(),
    }
}

#[tokio::test]
async fn large_report_is_sent_in_parts() {
    for (accounts, parts) in [(0, vec![0]), (1_000, vec![1_000]), (2_001, vec![1_000, 1_000, 1])] {
        let script = Arc::new(Scripted::default());
        let (address, _serving) = serve(&script).await;
        let client = client(&[format!("http://{address}")]);
        let report = report(accounts);
        let answer = client.report("", &report).await.expect("an answer");
        let epochs = |answer: &AccountAnswer| answer.epoch;
        let expected: Vec<_> = report.accounts.iter().map(|account| account.epoch).collect();
        assert_eq!(answer.accounts.iter().map(epochs).collect::<Vec<_>>(), expected);
        let sent = script.reports.lock().expect("no panic");
        assert_eq!(sent.iter().map(|part| part.accounts.len()).collect::<Vec<_>>(), parts);
        let (last, first) = sent.split_last().expect("a part");
        assert!(first.iter().all(|part| part.ended.is_empty() && part.complete.is_empty()));
        assert_eq!((&last.ended, &last.complete), (&report.ended, &report.complete));
    }
}

#[tokio::test]
async fn next_server_answers_after_a_failure() {
    let script = Arc::new(Scripted::default());
    let (address, _serving) = serve(&script).await;
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let unused = closed.local_addr().expect("an address");
    drop(closed);
    let client = client(&[format!("http://{unused}"), format!("http://{address}")]);
    let failed = client.report("", &report(1)).await.expect_err("no server");
    assert!(matches!(failed, LedgerError::Unavailable(_)), "{failed:?}");
    client.report("", &report(1)).await.expect("an answer");
}

#[tokio::test]
async fn ends_of_many_processes_follow_accounts() {
    let script = Arc::new(Scripted::default());
    let (address, _serving) = serve(&script).await;
    let client = client(&[format!("http://{address}")]);
    let epochs: Vec<_> = (0..2_001).map(Epoch::new).collect();
    let report = Report { complete: epochs[..1_001].to_vec(), ended: epochs, ..report(1) };
    assert_eq!(client.report("", &report).await.expect("an answer").accounts.len(), 1);
    let sent = script.reports.lock().expect("no panic");
    let counts = |part: &Report| (part.accounts.len(), part.complete.len(), part.ended.len());
    assert_eq!(
        sent.iter().map(counts).collect::<Vec<_>>(),
        [(1, 1_000, 1_000), (0, 1, 1_000), (0, 0, 1)]
    );
    assert_eq!(sent.iter().flat_map(|part| part.ended.clone()).collect::<Vec<_>>(), report.ended);
    let complete = sent.iter().flat_map(|part| part.complete.clone());
    assert_eq!(complete.collect::<Vec<_>>(), report.complete);
}

fn recalled(gateway: &str, epoch: u128) -> GatewayAccount {
    let key =
        AccountKey { budget: budget(), window: WindowId::new("total"), epoch: Epoch::new(epoch) };
    GatewayAccount { gateway: gateway.to_owned(), key }
}

#[tokio::test]
async fn keep_alive_is_no_recall() {
    let accounts = vec![recalled("own", 1), recalled("other", 2)];
    let script = Arc::new(Scripted { recall: accounts, ..Scripted::default() });
    let (address, _serving) = serve(&script).await;
    let client = client(&[format!("http://{address}")]);
    let recall = Recall { accounts: vec![recalled("own", 1).key] };
    assert_eq!(client.recall("").await, Ok(recall));
}

#[tokio::test]
async fn relay_forwards_principals_of_gateways() {
    let accounts = vec![recalled("own", 1), recalled("other", 2)];
    let script = Arc::new(Scripted { recall: accounts.clone(), ..Scripted::default() });
    let (address, _serving) = serve(&script).await;
    let client = client(&[format!("http://{address}")]);
    client.forward("gateway-1", &report(1)).await.expect("an answer");
    client.report("gateway-2", &report(1)).await.expect("an answer");
    assert_eq!(*script.gateways.lock().expect("no panic"), ["gateway-1", ""]);
    let mut recalls = client.watch_gateways().await.expect("a subscription");
    assert_eq!(recalls.next().await, Ok(accounts));
}
