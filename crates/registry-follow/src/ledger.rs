//! The client of the ledger of budgets.

use std::time::Duration;

use ledger::{AccountReport, Answer, Ledger, LedgerError, LedgerFuture, Recall, Report};
use registry_proto::{
    convert::{MAX_REPORTED, read_answer, read_recall, write_report},
    v1::{WatchRecallsRequest, WatchRecallsResponse, ledger_service_client::LedgerServiceClient},
};
use tokio::{sync::Mutex, time::timeout};
use tonic::{Code, Request, Status, Streaming, transport::Channel};

use crate::{Follower, connection::Connection};

/// The ledger of a registry. It connects to one of the servers, and to the next one after a failure.
#[derive(Debug)]
pub struct LedgerClient {
    connection: Connection,
    recalls: Mutex<Option<Streaming<WatchRecallsResponse>>>,
}

impl LedgerClient {
    /// Creates a client. It connects when it is used.
    pub fn new(follower: Follower) -> Self {
        Self { connection: Connection::new(follower), recalls: Mutex::default() }
    }

    /// The client and a request with the credentials.
    async fn request<T>(
        &self,
        message: T,
    ) -> Result<(LedgerServiceClient<Channel>, Request<T>), LedgerError> {
        let request = self.connection.request(message).await;
        let (channel, request) = request.map_err(LedgerError::Unavailable)?;
        Ok((LedgerServiceClient::new(channel), request))
    }

    async fn failed(&self, status: &Status) -> LedgerError {
        let reason = self.connection.fail(status).await;
        if status.code() == Code::InvalidArgument {
            LedgerError::Rejected(reason)
        } else {
            LedgerError::Unavailable(reason)
        }
    }

    /// Sends a report in parts of the size that the API accepts. The last part ends processes, so
    /// that their marks are known before.
    async fn send(&self, report: &Report) -> Result<Answer, LedgerError> {
        let rest = report.accounts.len().saturating_sub(1) / MAX_REPORTED * MAX_REPORTED;
        let (first, last) = report.accounts.split_at(rest);
        let mut whole: Option<Answer> = None;
        let parts = first.chunks(MAX_REPORTED).map(|accounts| part(report, accounts));
        let last = Report { accounts: last.to_vec(), ..report.clone() };
        for part in parts.chain([last]) {
            let answer = self.post(&part).await?;
            match &mut whole {
                None => whole = Some(answer),
                Some(whole) if whole.generation == answer.generation => {
                    whole.accounts.extend(answer.accounts);
                }
                Some(_) => {
                    let reason = "the ledger has started a new generation during the report";
                    return Err(LedgerError::Unavailable(reason.to_owned()));
                }
            }
        }
        whole.ok_or_else(|| LedgerError::Unavailable("no answer".to_owned()))
    }

    async fn post(&self, report: &Report) -> Result<Answer, LedgerError> {
        let (mut client, request) = self.request(write_report(report)).await?;
        match client.report_spending(request).await {
            Ok(answer) => read_answer(answer.into_inner())
                .map_err(|e| LedgerError::Unavailable(format!("the answer is invalid: {e}"))),
            Err(status) => Err(self.failed(&status).await),
        }
    }

    async fn next_recall(&self) -> Result<Recall, LedgerError> {
        let mut recalls = self.recalls.lock().await;
        let mut stream = match recalls.take() {
            Some(stream) => stream,
            None => self.watch().await?,
        };
        loop {
            let message = self.message(&mut stream).await?;
            let recall = read_recall(message)
                .map_err(|e| LedgerError::Unavailable(format!("the recall is invalid: {e}")))?;
            if !recall.accounts.is_empty() {
                *recalls = Some(stream);
                return Ok(recall);
            }
        }
    }

    async fn watch(&self) -> Result<Streaming<WatchRecallsResponse>, LedgerError> {
        let (mut client, request) = self.request(WatchRecallsRequest {}).await?;
        match client.watch_recalls(request).await {
            Ok(stream) => Ok(stream.into_inner()),
            Err(status) => Err(self.failed(&status).await),
        }
    }

    async fn message(
        &self,
        stream: &mut Streaming<WatchRecallsResponse>,
    ) -> Result<WatchRecallsResponse, LedgerError> {
        let silence: Duration = self.connection.follower().timing.silence;
        match timeout(silence, stream.message()).await {
            Ok(Ok(Some(message))) => Ok(message),
            Ok(Ok(None)) => {
                Err(LedgerError::Unavailable("the registry closed the stream".to_owned()))
            }
            Ok(Err(status)) => Err(self.failed(&status).await),
            Err(_) => {
                let seconds = silence.as_secs_f32();
                let reason = format!("no message from the registry for {seconds} s");
                Err(LedgerError::Unavailable(reason))
            }
        }
    }
}

/// A part of a report that ends no process.
fn part(report: &Report, accounts: &[AccountReport]) -> Report {
    Report {
        process: report.process,
        generation: report.generation,
        complete: Vec::new(),
        ended: Vec::new(),
        accounts: accounts.to_vec(),
    }
}

impl Ledger for LedgerClient {
    /// The registry authenticates the gateway.
    fn report<'a>(&'a self, _gateway: &'a str, report: &'a Report) -> LedgerFuture<'a, Answer> {
        Box::pin(self.send(report))
    }

    fn recall<'a>(&'a self, _gateway: &'a str) -> LedgerFuture<'a, Recall> {
        Box::pin(self.next_recall())
    }
}
