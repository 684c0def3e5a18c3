//! The client of the ledger of budgets, with a scripted server.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
};

use futures_util::{Stream, StreamExt, stream};
use ledger::{
    AccountAnswer, AccountKey, AccountReport, Answer, BudgetKey, Epoch, Ledger as _, LedgerError,
    Recall, Rejection, Report, Totals, WindowId,
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

/// A ledger that knows no budget. It records the reports.
#[derive(Debug, Default)]
struct Scripted {
    reports: Mutex<Vec<Report>>,
    recall: Recall,
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
        let report = read_report(request.into_inner());
        let report = report.map_err(|e| Status::invalid_argument(e.to_string()))?;
        let answer = |account: &AccountReport| AccountAnswer {
            budget: account.budget.clone(),
            window: account.window.clone(),
            epoch: account.epoch,
            result: Err(Rejection::UnknownBudget),
        };
        let accounts = report.accounts.iter().map(answer).collect();
        self.0.reports.lock().expect("no panic").push(report);
        Ok(Response::new(write_answer(&Answer { generation: 1, accounts })))
    }

    async fn watch_recalls(
        &self,
        _request: Request<WatchRecallsRequest>,
    ) -> Result<Response<Recalls>, Status> {
        let keep_alive = write_recall(&Recall::default());
        let messages = [Ok(keep_alive), Ok(write_recall(&self.0.recall))];
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
        generation: 1,
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
async fn keep_alive_is_no_recall() {
    let account =
        AccountKey { budget: budget(), window: WindowId::new("total"), epoch: Epoch::new(1) };
    let recall = Recall { accounts: vec![account] };
    let script = Arc::new(Scripted { recall: recall.clone(), ..Scripted::default() });
    let (address, _serving) = serve(&script).await;
    let client = client(&[format!("http://{address}")]);
    assert_eq!(client.recall("").await, Ok(recall));
}
