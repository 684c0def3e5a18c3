//! Operations of agents: messages and tasks. They run to their end also without their clients, except
//! for streams: these end once their task is known.

use std::{
    future::poll_fn,
    mem,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use a2a::{Operation, Request, extensions::Extensions, model::Event};
use axum::response::Response;
use futures_util::stream;
use gateway_policy::QuotaKey;
use gateway_upstream::{AgentEvent, PollOnWake, RequestContext, StreamedEvent};
use serde_json::Value;
use tokio::{
    sync::{
        SetOnce,
        mpsc::{self, error::TryRecvError},
    },
    time::Instant,
};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::{
    A2a,
    address::AgentName,
    answer::{AnswerForm, EventForm, Step},
    failure::Refusal,
    tasks::TaskObserver,
    waiting::MessageIds,
};
use crate::{
    audit::CallRecord,
    identity::authenticator::Authentication,
    ingress::IngressError,
    pipeline::{
        self, AgentCall, EventStreamPlace, Gateway, Invocation, Output, PushRole, RequestedAgent,
        Target, sent_event,
    },
};

/// Events of an agent that wait for their client, and those of one write. Only one of the waiting is
/// long: the sender takes all places for it.
const EVENTS: usize = 8;
/// The length of most events, in bytes.
const EVENT_BYTES: usize = 1024;
/// The length of a write after which no further event is added to it, in bytes.
const WRITE_BYTES: usize = 16 << 10;
/// The time between two writes below which the events are a burst.
const BURST: Duration = Duration::from_micros(500);

/// An operation of one agent.
pub(super) struct AgentOperation {
    pub(super) agent: AgentName,
    pub(super) request: Request,
    pub(super) extensions: Extensions,
    pub(super) caller: Authentication,
    pub(super) context: RequestContext,
    pub(super) record: CallRecord,
    pub(super) tasks: TaskObserver,
    pub(super) push: PushRole,
    /// Whether the receiver of the events takes repetitions.
    pub(super) takes_repeats: bool,
}

impl AgentOperation {
    pub(super) fn operation(&self) -> Operation {
        self.request.operation
    }

    /// Runs the operation. Returns its result, or the last event of a stream. `late` is set if its
    /// caller must not wait for it any longer.
    pub(super) async fn run(
        self,
        gateway: &Arc<Gateway>,
        events: Option<mpsc::Sender<StreamedEvent>>,
        late: Option<Arc<SetOnce<Duration>>>,
    ) -> (Result<Value, Refusal>, CallRecord) {
        let Self { agent, request, extensions, caller, context, mut record, .. } = self;
        let (push, takes_repeats) = (self.push, self.takes_repeats);
        let AgentName { name: requested, version } = agent;
        let ids = MessageIds::of(&request);
        let (is_streaming, stream) = (request.operation.is_streaming(), events.clone());
        let addressed = AgentName { name: requested.clone(), version: version.clone() };
        let agent = RequestedAgent { name: requested, version };
        let target = Target::Agent(AgentCall {
            agent,
            request,
            extensions,
            events,
            takes_repeats,
            late,
            push,
        });
        let mut invocation = Invocation::new(caller, target, context);
        let output = Box::pin(pipeline::invoke(gateway, &mut invocation, &mut record)).await;
        let error = match output.and_then(Output::into_agent_result) {
            Ok(result) => return (Ok(result), record),
            Err(error) => error,
        };
        let claim = &invocation.caller.claim;
        let waiting = ids.and_then(|ids| ids.waiting(gateway, claim, &addressed, &error));
        let result = match (waiting, stream) {
            (Some(task), Some(events)) if is_streaming => {
                // A client that has left misses the task.
                let _ = events.send(AgentEvent { event: task.into(), buffered: None }).await;
                Ok(Value::Null)
            }
            (Some(task), _) => Ok(task),
            (None, _) => Err(Refusal::of_operation(&addressed.to_string(), &error)),
        };
        (result, record)
    }
}

/// Serves an operation to its client. The operation is boxed, because it moves through several futures.
pub(super) async fn serve(
    a2a: &A2a,
    gateway: Arc<Gateway>,
    call: Box<AgentOperation>,
    form: AnswerForm,
) -> Result<Response, Refusal> {
    if call.operation().is_streaming() {
        return Box::pin(stream(a2a, gateway, call, form)).await;
    }
    let (late, is_listed) = (Arc::new(SetOnce::new()), call.tasks.has_list());
    let running = a2a.running().run(answer(gateway, call, form, Arc::clone(&late)));
    tokio::select! {
        biased;
        answer = running => answer.unwrap_or_else(|| Err(Refusal::stopping())),
        limit = late.wait() => Err(Refusal::late(*limit, is_listed)),
    }
}

async fn answer(
    gateway: Arc<Gateway>,
    call: Box<AgentOperation>,
    form: AnswerForm,
    late: Arc<SetOnce<Duration>>,
) -> Result<Response, Refusal> {
    let (operation, tasks) = (call.operation(), call.tasks.clone());
    let (result, mut record) = Box::pin(call.run(&gateway, None, Some(late))).await;
    let mut result = result?;
    tasks.saw(operation, &result);
    if let (Operation::CreatePushConfig, Some(config)) = (operation, tasks.config()) {
        result = config.created();
    }
    let (response, bytes) = form.result(operation, result);
    record.answered(bytes);
    Ok(response)
}

async fn stream(
    a2a: &A2a,
    gateway: Arc<Gateway>,
    call: Box<AgentOperation>,
    form: AnswerForm,
) -> Result<Response, Refusal> {
    let payer = call.caller.payer.clone();
    let (served, written) = (Arc::clone(&gateway), form.clone());
    let run = |client| run_stream(served, call, written, client);
    open_stream(a2a, gateway, (payer, form), run).await
}

/// Opens the stream of a client. The operation sends it steps, and keeps its place in the quota. The
/// response is an event stream, unless the operation fails before its first event.
pub(super) async fn open_stream<F: Future<Output = ()> + Send + 'static>(
    a2a: &A2a,
    gateway: Arc<Gateway>,
    (payer, form): (QuotaKey, AnswerForm),
    operation: impl FnOnce(mpsc::Sender<Step>) -> F,
) -> Result<Response, Refusal> {
    let place = gateway.streams().open(&payer).map_err(IngressError::TooManyStreams)?;
    let (client, mut steps) = mpsc::channel(1);
    // A client that reconnects often must not start more operations than its quota.
    let place = Arc::new(place);
    let (kept, running) = (Arc::clone(&place), operation(client));
    drop(a2a.running().run(async move {
        running.await;
        drop(kept);
    }));
    match steps.recv().await {
        Some(Step::Failed(refusal)) => Err(*refusal),
        Some(first) => {
            let closing = closing(&gateway);
            let first = Some(first);
            let stream = ClientStream { first, steps, gateway, closing, _place: place };
            Ok(form.stream(stream::unfold(stream, async |mut stream| {
                let step = stream.next().await?;
                Some((step, stream))
            })))
        }
        None => Err(Refusal::stopping()),
    }
}

async fn run_stream(
    gateway: Arc<Gateway>,
    mut call: Box<AgentOperation>,
    form: AnswerForm,
    client: mpsc::Sender<Step>,
) {
    call.takes_repeats = form.takes_repeats();
    let (events, received) = mpsc::channel(EVENTS);
    let late = Arc::new(SetOnce::new());
    let client = StreamClient {
        steps: client,
        form: EventForm::new(form),
        tasks: call.tasks.clone(),
        is_task_known: call.operation() == Operation::SubscribeToTask,
        late: Arc::clone(&late),
    };
    let running = Box::pin(call.run(&gateway, Some(events), Some(late)));
    // The receiver of the events has no waker: their sender is polled before.
    let ((result, mut record), (client, bytes)) =
        tokio::join!(biased; running, client.forward(received));
    record.answered(bytes);
    if let Err(refusal) = result {
        // A client that has left misses the error.
        let _ = client.steps.send(Step::Failed(Box::new(refusal))).await;
    }
}

/// An event that is sent in this turn of the task or in the next one. Between the turns, the connection
/// to the agent reads its next chunk, which usually has one event.
async fn event_soon(events: &mut mpsc::Receiver<StreamedEvent>) -> Option<StreamedEvent> {
    let mut is_next = false;
    let receive = |context: &mut Context<'_>| match events.try_recv() {
        Err(TryRecvError::Empty) if !mem::replace(&mut is_next, true) => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
        event => Poll::Ready(event.ok()),
    };
    poll_fn(receive).await
}

/// The receiver of the events of an operation.
struct StreamClient {
    steps: mpsc::Sender<Step>,
    form: EventForm,
    tasks: TaskObserver,
    /// Whether the client can subscribe again.
    is_task_known: bool,
    /// Set if the client must not wait for the first event any longer.
    late: Arc<SetOnce<Duration>>,
}

impl StreamClient {
    /// Forwards events to the client, those of a burst in one write. Without a client, they are
    /// discarded until the task is known; then the receiver is dropped, which ends the stream and does
    /// not cancel the task. Returns the size of the events.
    async fn forward(mut self, mut events: mpsc::Receiver<StreamedEvent>) -> (Self, usize) {
        let (mut bytes, mut awaits_first, mut has_failed) = (0, true, false);
        let mut reserved = Vec::new();
        let steps = self.steps.clone();
        let mut left = pin!(PollOnWake::new(steps.closed()));
        let mut last_write: Option<Instant> = None;
        loop {
            let mut next = tokio::select! {
                biased;
                () = &mut left, if self.is_task_known => None,
                limit = self.late.wait(), if awaits_first => {
                    awaits_first = false;
                    let refusal = Refusal::late(*limit, self.tasks.has_list());
                    let _ = self.steps.send(Step::Failed(Box::new(refusal))).await;
                    continue;
                }
                event = sent_event(&mut events) => event,
            };
            if next.is_none() {
                break;
            }
            awaits_first = false;
            let is_burst = last_write.is_some_and(|last| last.elapsed() < BURST);
            let (mut written, mut failure) = (Vec::with_capacity(EVENT_BYTES), None);
            while let Some(AgentEvent { event, buffered }) = next {
                if let Some(value) = event.value() {
                    self.saw(value);
                }
                // After an error, events can still have the task.
                if !has_failed {
                    failure = self.form.write(&mut written, event).err();
                    has_failed = failure.is_some();
                }
                reserved.push(buffered);
                let is_full =
                    has_failed || written.len() >= WRITE_BYTES || reserved.len() >= EVENTS;
                next = if is_full {
                    None
                } else if is_burst {
                    event_soon(&mut events).await
                } else {
                    events.try_recv().ok()
                };
            }
            bytes += written.len();
            if !written.is_empty() {
                let _ = self.steps.send(Step::Events(written.into())).await;
            }
            if let Some(failure) = failure {
                let _ = self.steps.send(Step::Failed(Box::new(failure.into()))).await;
            }
            // The memory of the events is released when the client takes them.
            reserved.clear();
            last_write = Some(Instant::now());
        }
        (self, bytes)
    }

    /// Reads the task of an event.
    fn saw(&mut self, event: &Value) {
        self.tasks.saw(Operation::SubscribeToTask, event);
        self.is_task_known = self.is_task_known
            || matches!(Event::of(event), Some(Event::Task(_) | Event::Status { .. }));
    }
}

/// The stream of a connected client.
struct ClientStream {
    first: Option<Step>,
    steps: mpsc::Receiver<Step>,
    gateway: Arc<Gateway>,
    /// Resolves when the gateway closes its streams.
    closing: Closing,
    _place: Arc<EventStreamPlace>,
}

type Closing = Pin<Box<PollOnWake<WaitForCancellationFutureOwned>>>;

fn closing(gateway: &Gateway) -> Closing {
    Box::pin(PollOnWake::new(gateway.closing().clone().cancelled_owned()))
}

impl ClientStream {
    /// The next step. `None` at the end.
    async fn next(&mut self) -> Option<Step> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            tokio::select! {
                biased;
                step = self.steps.recv() => {
                    if matches!(step, Some(Step::Failed(_))) {
                        self.steps.close();
                    }
                    return step;
                }
                () = &mut self.closing => {
                    let Some(successor) = self.gateway.successor().cloned() else {
                        return Some(Step::Stopping);
                    };
                    self.closing = closing(&successor);
                    self.gateway = successor;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use a2a::{Dialect, Version};
    use bytes::Bytes;
    use serde_json::json;
    use tokio::task::yield_now;

    use super::*;

    /// The turns or the time after the event before.
    #[derive(Debug, Clone, Copy)]
    enum Gap {
        Turns(usize),
        Time(Duration),
    }
    use Gap::{Time, Turns};

    #[tokio::test(start_paused = true)]
    async fn burst_is_written_together_after_its_first_event() {
        let gaps = [Turns(0), Turns(1), Turns(1), Turns(2)];
        assert_eq!(writes(&gaps).await, [1, 2, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn event_after_pause_waits_for_no_other() {
        assert_eq!(writes(&[Turns(0), Time(BURST), Turns(1)]).await, [1, 1, 1]);
        assert_eq!(writes(&[Turns(0), Time(BURST / 2), Turns(1)]).await, [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn write_ends_while_further_events_arrive() {
        assert_eq!(writes(&[Turns(1); EVENTS + 3]).await, [1, EVENTS, 2]);
    }

    /// The numbers of events in each write.
    async fn writes(gaps: &[Gap]) -> Vec<usize> {
        let (events, received) = mpsc::channel(EVENTS);
        let (steps, mut written) = mpsc::channel(EVENTS);
        let agent = AgentName::parse("helper").unwrap();
        let client = StreamClient {
            steps,
            form: EventForm::new(AnswerForm::new(Dialect::http_json(Version::V1))),
            tasks: TaskObserver::new(&Arc::default(), None, &agent),
            is_task_known: true,
            late: Arc::default(),
        };
        let sending = async move {
            for gap in gaps {
                match gap {
                    Turns(turns) => {
                        for _ in 0..*turns {
                            yield_now().await;
                        }
                    }
                    Time(time) => {
                        // The event before is written first.
                        yield_now().await;
                        tokio::time::advance(*time).await;
                    }
                }
                let event = json!({ "message": { "messageId": "m" } });
                events.send(AgentEvent { event: event.into(), buffered: None }).await.unwrap();
            }
        };
        let ((), (client, bytes)) = tokio::join!(biased; sending, client.forward(received));
        drop(client);
        let mut texts = Vec::new();
        while let Some(Step::Events(text)) = written.recv().await {
            texts.push(text);
        }
        let counts = texts.iter().map(|text| text.split(|byte| *byte == b'\n').count() / 2);
        assert_eq!(bytes, texts.iter().map(Bytes::len).sum::<usize>());
        counts.collect()
    }
}
