//! The client of the ledger of budgets.

use std::time::Duration;

use ledger::{
    AccountAnswer, AccountReport, Answer, Epoch, GatewayAccount, Ledger, LedgerError, LedgerFuture,
    Recall, Report,
};
use registry_proto::{
    convert::{MAX_REPORTED, read_answer, read_recall, write_report},
    v1::{WatchRecallsRequest, WatchRecallsResponse, ledger_service_client::LedgerServiceClient},
};
use tokio::{sync::Mutex, time::timeout};
use tonic::{Request, Streaming, transport::Channel};

use crate::{Follower, connection::Connection};

/// The ledger of a registry. It connects to one of the servers, and to the next one after a failure.
///
/// A gateway uses it as a [`Ledger`]. A relay forwards the reports and recalls of its gateways.
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

    /// Sends the report of a gateway in its name. Requires the role relay.
    pub async fn forward(&self, gateway: &str, report: &Report) -> Result<Answer, LedgerError> {
        self.send(gateway, report).await
    }

    /// Subscribes to the recalls of all gateways. Requires the role relay.
    pub async fn watch_gateways(&self) -> Result<GatewayRecalls<'_>, LedgerError> {
        let mut stream = self.watch(WatchRecallsRequest { all_gateways: true }).await?;
        // The first message shows that the subscription is active.
        self.message(&mut stream).await?;
        Ok(GatewayRecalls { client: self, stream })
    }

    /// The client and a request with the credentials.
    async fn request<T>(
        &self,
        message: T,
    ) -> Result<(LedgerServiceClient<Channel>, Request<T>), LedgerError> {
        let (channel, request) = self.connection.request(message).await?;
        Ok((LedgerServiceClient::new(channel), request))
    }

    /// Sends a report in parts of the size that the API accepts.
    async fn send(&self, gateway: &str, report: &Report) -> Result<Answer, LedgerError> {
        let mut whole: Option<Answer> = None;
        for mut part in parts(report) {
            let is_processed = |whole: &Answer| AccountAnswer::all_processed(&whole.accounts);
            if !whole.as_ref().is_none_or(is_processed) {
                // The registry knows the accounts of its own part only.
                (part.ended, part.complete) = (Vec::new(), Vec::new());
            }
            let answer = self.post(gateway, &part).await?;
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

    async fn post(&self, gateway: &str, report: &Report) -> Result<Answer, LedgerError> {
        let (mut client, request) = self.request(write_report(gateway, report)).await?;
        match client.report_spending(request).await {
            Ok(answer) => read_answer(answer.into_inner())
                .map_err(|e| LedgerError::Unavailable(format!("the answer is invalid: {e}"))),
            Err(status) => Err(self.connection.fail(&status).await),
        }
    }

    async fn next_recall(&self) -> Result<Recall, LedgerError> {
        let mut recalls = self.recalls.lock().await;
        let mut stream = match recalls.take() {
            Some(stream) => stream,
            None => self.watch(WatchRecallsRequest { all_gateways: false }).await?,
        };
        let accounts = self.recalled(&mut stream).await?;
        *recalls = Some(stream);
        Ok(Recall { accounts: accounts.into_iter().map(|account| account.key).collect() })
    }

    async fn watch(
        &self,
        request: WatchRecallsRequest,
    ) -> Result<Streaming<WatchRecallsResponse>, LedgerError> {
        let (mut client, request) = self.request(request).await?;
        match client.watch_recalls(request).await {
            Ok(stream) => Ok(stream.into_inner()),
            Err(status) => Err(self.connection.fail(&status).await),
        }
    }

    /// The accounts of the next recall. Skips messages that keep the stream alive.
    async fn recalled(
        &self,
        stream: &mut Streaming<WatchRecallsResponse>,
    ) -> Result<Vec<GatewayAccount>, LedgerError> {
        loop {
            let message = self.message(stream).await?;
            let accounts = read_recall(message)
                .map_err(|e| LedgerError::Unavailable(format!("the recall is invalid: {e}")))?;
            if !accounts.is_empty() {
                return Ok(accounts);
            }
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
            Ok(Err(status)) => Err(self.connection.fail(&status).await),
            Err(_) => {
                let seconds = silence.as_secs_f32();
                let reason = format!("no message from the registry for {seconds} s");
                Err(LedgerError::Unavailable(reason))
            }
        }
    }
}

/// The recalls of all gateways.
#[derive(Debug)]
pub struct GatewayRecalls<'a> {
    client: &'a LedgerClient,
    stream: Streaming<WatchRecallsResponse>,
}

impl GatewayRecalls<'_> {
    /// Waits for the next recall.
    pub async fn next(&mut self) -> Result<Vec<GatewayAccount>, LedgerError> {
        self.client.recalled(&mut self.stream).await
    }
}

/// Splits a report into parts of the size that the API accepts. Processes end in the last parts, so that the ledger
/// knows the final totals of their accounts before.
fn parts(report: &Report) -> Vec<Report> {
    let processes = |from: &[Epoch], index: usize| -> Vec<Epoch> {
        from.chunks(MAX_REPORTED).nth(index).unwrap_or_default().to_vec()
    };
    let empty = Report {
        process: report.process,
        owner: report.owner.clone(),
        generation: report.generation,
        generation_proof: report.generation_proof.clone(),
        complete: Vec::new(),
        ended: Vec::new(),
        accounts: Vec::new(),
    };
    let part = |accounts: &[AccountReport]| Report { accounts: accounts.to_vec(), ..empty.clone() };
    let mut parts: Vec<_> = report.accounts.chunks(MAX_REPORTED).map(part).collect();
    let mut last = parts.pop().unwrap_or_else(|| empty.clone());
    last.complete = processes(&report.complete, 0);
    last.ended = processes(&report.ended, 0);
    parts.push(last);
    let most = report.complete.len().max(report.ended.len());
    parts.extend((1..most.div_ceil(MAX_REPORTED)).map(|index| Report {
        complete: processes(&report.complete, index),
        ended: processes(&report.ended, index),
        ..empty.clone()
    }));
    parts
}

impl Ledger for LedgerClient {
    /// The registry authenticates the gateway.
    fn report<'a>(&'a self, _gateway: &'a str, report: &'a Report) -> LedgerFuture<'a, Answer> {
        Box::pin(self.send("", report))
    }

    fn recall<'a>(&'a self, _gateway: &'a str) -> LedgerFuture<'a, Recall> {
        Box::pin(self.next_recall())
    }
}
