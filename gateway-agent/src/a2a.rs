//! The A2A surface: `/a2a/{agent}` with the bindings JSON-RPC and HTTP+JSON in the versions 1.0 and
//! 0.3, gRPC in version 1.0, agent cards, and the list of agents.
//!
//! Requests are read into the form of A2A 1.0, and answers are written in the version and binding of
//! their request. Task ids are sealed by the pipeline; lists of tasks come from an index.

mod address;
mod answer;
mod calls;
mod cards;
mod failure;
mod grpc;
mod hop_limit;
mod listing;
mod own_agent;
mod push;
mod read;
mod running;
mod signer;
mod task_index;
mod tasks;
#[cfg(test)]
mod tests;
mod waiting;

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use a2a::{
    Dialect, Failure, Operation, Request as AgentRequest, Version,
    extensions::{EXTENSIONS_HEADER, Extensions},
    version::VERSION_HEADER,
};
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::Response,
    routing::{any, get, post},
};
use gateway_policy::CallOutcome;
use gateway_protocol::mcp::Era;
use gateway_upstream::RequestContext;
use http::{
    Method,
    header::{ETAG, LAST_MODIFIED, RETRY_AFTER, WWW_AUTHENTICATE},
};
use serde_json::Value;

use self::{
    address::{Address, AgentName, PREFIX},
    answer::{AnswerExtensions, AnswerForm, reject},
    calls::AgentOperation,
    failure::Refusal,
    hop_limit::{HopLimit, HopRoute},
    own_agent::{OwnOperation, OwnTasks},
    push::Push,
    read::OperationRequest,
    running::RunningOperations,
    signer::CardSigners,
    tasks::{TaskList, TaskObserver},
    waiting::WaitingTask,
};
pub(crate) use self::{
    push::{PushConfigs, PushFile},
    task_index::{TaskIndex, TaskJournal},
};
use crate::{
    audit::{self, CallRecord, REQUEST_ID},
    buffers,
    identity::{authenticator::Authentication, sender::RequestHead},
    ingress::{
        CompleteRequest, EnteredRequest, IngressError, PageCors, authentication, check_origin,
        request_context,
    },
    pipeline::{self, Directory, Gateway, GatewayHandle, PushRole, TaskOwner, VisibleAgent},
};

/// The A2A surface. Clones share its state.
#[derive(Debug, Clone)]
pub(crate) struct A2a {
    gateway: GatewayHandle,
    state: Arc<A2aState>,
}

/// State that survives configuration reloads.
#[derive(Debug)]
struct A2aState {
    index: Arc<TaskIndex>,
    push: Push,
    running: RunningOperations,
    signers: CardSigners,
    own_tasks: OwnTasks,
    hops: HopLimit,
}

impl A2a {
    /// Creates the surface of a gateway with the tasks and the push notification configurations of
    /// earlier callers.
    pub(crate) fn new(
        gateway: GatewayHandle,
        index: Arc<TaskIndex>,
        configs: Arc<PushConfigs>,
    ) -> Self {
        let (running, signers) = (RunningOperations::default(), CardSigners::default());
        let (push, own_tasks) = (Push::new(configs), OwnTasks::default());
        let hops = HopLimit::default();
        let state = A2aState { index, push, running, signers, own_tasks, hops };
        Self { gateway, state: Arc::new(state) }
    }

    /// The routes of the surface.
    pub(crate) fn router(&self) -> Router {
        let mut router = Router::new()
            .route(listing::PATH, get(listing::agents))
            .route(a2a::card::WELL_KNOWN_PATH, get(cards::of_gateway))
            .route(a2a::card::LEGACY_WELL_KNOWN_PATH, get(cards::of_gateway))
            .route(cards::KEYS_PATH, get(cards::keys))
            .route(&grpc::path(), post(grpc::receive));
        for path in [PREFIX.to_owned(), format!("{PREFIX}/"), format!("{PREFIX}/{{*path}}")] {
            router = router.route(&path, any(receive));
        }
        let methods = [Method::GET, Method::POST, Method::DELETE];
        let exposed = [
            VERSION_HEADER,
            EXTENSIONS_HEADER,
            ETAG,
            LAST_MODIFIED,
            WWW_AUTHENTICATE,
            RETRY_AFTER,
            REQUEST_ID,
        ];
        let cors = PageCors::new(self.gateway.clone(), &methods, &exposed);
        router.with_state(self.clone()).layer(cors)
    }

    /// Waits until no operation is running.
    pub(crate) async fn drained(&self) {
        self.state.running.drained().await;
    }

    /// Cancels the operations that continue without a client, and the push notifications.
    pub(crate) async fn shutdown(&self) {
        tokio::join!(self.state.running.shutdown(), self.state.push.shutdown());
    }

    fn running(&self) -> &RunningOperations {
        &self.state.running
    }
}

/// Whether a path is [`PREFIX`] or below it.
pub(crate) fn has_path(path: &str) -> bool {
    path.strip_prefix(PREFIX).is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// Serves all requests to [`PREFIX`] and below it.
pub(crate) async fn receive(State(a2a): State<A2a>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    receive_from(a2a, parts.into(), body).await
}

/// Like [`receive`], for a request that bypasses the router.
pub(crate) async fn receive_from(a2a: A2a, parts: RequestHead, body: Body) -> Response {
    if let Some(address) = push::address(&a2a, parts.uri.path()) {
        return push::receive(&a2a, &address, Request::from_parts(parts.parts, body)).await;
    }
    let (method, uri) = (parts.method.clone(), parts.uri.clone());
    let version = Version::of_request(&parts.headers, uri.query());
    let address = Address::parse(uri.path());
    let is_rpc = address.as_ref().is_ok_and(|address| address.rest.is_empty());
    let shown = *version.as_ref().unwrap_or(&Version::V1);
    let dialect = if is_rpc { Dialect::json_rpc(shown) } else { Dialect::http_json(shown) };
    let form = AnswerForm::new(dialect);
    let entered = match enter_from(&a2a, parts, body).await {
        Ok(entered) => entered,
        Err(error) => return reject(&form, error.as_str(), &error.into()),
    };
    let address = match (address, version) {
        (Ok(address), Ok(_)) => address,
        (Err(failure), _) => return reject(&form, "unknown-agent", &failure.into()),
        (_, Err(failure)) => return reject(&form, "unsupported-version", &failure.into()),
    };
    if cards::is_card(address.rest) {
        return cards::of_agent(&a2a, entered, (&method, address.agent, &form));
    }
    if is_rpc && method != Method::POST {
        return reject(&form, "method", &Refusal::method_not_allowed("POST"));
    }
    if !a2a::rest::accepts_media_type(read::content_type(&entered.parts)) {
        return reject(&form, "content-type", &Refusal::unsupported_media());
    }
    let complete = match entered.read(&a2a.gateway).await {
        Ok(complete) => complete,
        Err(error) => return reject(&form, error.as_str(), &error.into()),
    };
    Box::pin(serve(&a2a, complete, address, (dialect, &method))).await
}

async fn enter(a2a: &A2a, request: Request) -> Result<EnteredRequest, IngressError> {
    let (parts, body) = request.into_parts();
    enter_from(a2a, parts.into(), body).await
}

async fn enter_from(
    a2a: &A2a,
    parts: RequestHead,
    body: Body,
) -> Result<EnteredRequest, IngressError> {
    let entered = EnteredRequest::enter(&a2a.gateway, parts, body).await?;
    check_origin(&entered.gateway, &entered.parts)?;
    Ok(entered)
}

/// Serves a request with its whole body.
async fn serve(
    a2a: &A2a,
    complete: CompleteRequest,
    address: Address<'_>,
    (dialect, method): (Dialect, &Method),
) -> Response {
    let CompleteRequest { gateway, parts, body, buffered } = complete;
    let parsed = read::parsed_bytes(dialect.binding, address.rest, &body);
    if let Err(error) = buffered.reserve(parsed).map_err(IngressError::Buffers) {
        return reject(&AnswerForm::new(dialect), error.as_str(), &error.into());
    }
    let operation = match read::operation(&gateway, &parts, &body, (dialect, method, &address)) {
        Ok(operation) => operation,
        Err(rejected) => return reject(&rejected.0, "invalid-request", &rejected.1),
    };
    let form = operation.form.clone();
    let caller = authentication(&parts).into_owned();
    let owner = TaskOwner::of(&gateway, &caller.claim);
    let (version, bytes) = (dialect.version, body.len());
    let served = Served { a2a, gateway, parts: &parts, caller, owner, version, bytes };
    let response = match Box::pin(served.dispatch(operation)).await {
        Ok(response) => response,
        Err(refusal) => form.refusal(&refusal),
    };
    buffers::reserved(response, buffered)
}

/// The facts of a request that is being served.
struct Served<'a> {
    a2a: &'a A2a,
    gateway: Arc<Gateway>,
    parts: &'a RequestHead,
    caller: Authentication,
    /// The owner of the caller's tasks. `None`: the caller cannot be distinguished from others.
    owner: Option<TaskOwner>,
    version: Version,
    bytes: usize,
}

impl Served<'_> {
    async fn dispatch(&self, operation: OperationRequest) -> Result<Response, Refusal> {
        let OperationRequest { agent, mut request, mut context, extensions, form } = operation;
        if request.operation.sends_message() {
            self.count_hop(agent.as_ref(), request.operation, &mut context)?;
        }
        match request.operation {
            Operation::ListTasks => {
                let name = agent.as_ref().map(|agent| agent.name.to_string());
                let record = self.record(request.operation, &name.unwrap_or_default(), &context);
                let answer = self.list(agent, &request);
                Box::pin(audited(request.operation, Box::pin(answer), form, record)).await
            }
            Operation::GetExtendedAgentCard => {
                let agent = agent.ok_or_else(|| {
                    let message = "the gateway itself has no extended card; name an agent";
                    cards::no_extended_card(self.version, message)
                })?;
                let record = self.record(request.operation, agent.name.as_str(), &context);
                let answer = async {
                    self.check_scopes(request.operation)?;
                    cards::extended(self, &agent)
                };
                Box::pin(audited(request.operation, answer, form, record)).await
            }
            _ if agent.is_none() && self.gateway.settings().agents.of_tools => {
                let operation = OwnOperation { served: self, request, context };
                Box::pin(operation.serve(form)).await
            }
            Operation::GetPushConfig | Operation::ListPushConfigs => {
                let agent = agent.ok_or_else(unaddressed)?;
                let record = self.record(request.operation, agent.name.as_str(), &context);
                let answer = async { self.push_configs(&agent, &request) };
                Box::pin(audited(request.operation, answer, form, record)).await
            }
            Operation::DeletePushConfig => {
                let agent = agent.ok_or_else(unaddressed)?;
                let sent = (context, extensions);
                Box::pin(self.delete_push_config(agent, request, sent, &form)).await
            }
            _ => {
                let agent = agent.ok_or_else(unaddressed)?;
                if let Some(waiting) = self.waiting_task(&agent, &request) {
                    if WaitingTask::is_subject_of(request.operation) {
                        let record = self.record(request.operation, agent.name.as_str(), &context);
                        let answer = self.answer_waiting(&agent, &request, waiting);
                        let answer = audited(request.operation, Box::pin(answer), form, record);
                        return Box::pin(answer).await;
                    }
                    waiting.release(&mut request);
                }
                let push = self.register_push(&agent, &request)?;
                let answered = self.answer_extensions(&agent, &extensions);
                let activated = answered.as_ref().map(|answered| Arc::clone(&answered.activated));
                let context = RequestContext { activated, ..context };
                let form = form.with_extensions(answered);
                let mut call = self.call(agent, request, (context, extensions));
                if let Some((role, config)) = push {
                    call.push = role;
                    call.tasks = call.tasks.with_config(config);
                }
                let (gateway, call) = (Arc::clone(&self.gateway), Box::new(call));
                Box::pin(calls::serve(self.a2a, gateway, call, form)).await
            }
        }
    }

    /// The task of a message that waits for an approval.
    fn waiting_task(&self, agent: &AgentName, request: &AgentRequest) -> Option<WaitingTask> {
        WaitingTask::of(&self.gateway, &self.caller.claim, agent, request)
    }

    /// Answers a request for such a task, or cancels it.
    async fn answer_waiting(
        &self,
        agent: &AgentName,
        request: &AgentRequest,
        waiting: WaitingTask,
    ) -> Result<Value, Refusal> {
        self.check_scopes(request.operation)?;
        self.visible_or_retired(agent)?;
        let id = request.task_id().unwrap_or_default();
        if request.operation == Operation::GetTask {
            return Ok(waiting.current(id));
        }
        Ok(waiting.cancel(&self.gateway, &self.caller.claim, id).await?)
    }

    /// Counts a message of the caller in its trace. Policies see the number of hops, too.
    fn count_hop(
        &self,
        agent: Option<&AgentName>,
        operation: Operation,
        context: &mut RequestContext,
    ) -> Result<(), Refusal> {
        let limit = self.gateway.settings().hops;
        let agent = agent.map_or("", |agent| agent.name.as_str());
        let route = HopRoute { sender: self.owner, agent };
        match self.a2a.state.hops.count(&mut context.trace, route, limit, Instant::now()) {
            Ok(hops) => {
                context.hops = context.hops.max(hops);
                Ok(())
            }
            Err(failure) => {
                let refusal = Refusal::from(failure);
                refusal.record_in(&mut self.record(operation, route.agent, context));
                Err(refusal)
            }
        }
    }

    /// The extensions that the answer can have. `None`: none are requested.
    fn answer_extensions(
        &self,
        agent: &AgentName,
        requested: &Extensions,
    ) -> Option<AnswerExtensions> {
        requested.header_value()?;
        let visible = self.visible_or_retired(agent).ok()?;
        let declared = visible.extensions().map(|extension| extension.uri.as_str());
        let (declared, activated) = (requested.only(declared), Arc::default());
        Some(AnswerExtensions { declared, activated })
    }

    /// Finds an agent that the caller can see.
    fn visible(&self, agent: &AgentName) -> Result<VisibleAgent, Refusal> {
        find_agent(&Directory::of(&self.gateway, &self.caller), agent)
    }

    /// The same, even if the agent is retired. For operations on its tasks.
    fn visible_or_retired(&self, agent: &AgentName) -> Result<VisibleAgent, Refusal> {
        find_agent(&Directory::of(&self.gateway, &self.caller).with_retired(), agent)
    }

    async fn list(
        &self,
        agent: Option<AgentName>,
        request: &AgentRequest,
    ) -> Result<Value, Refusal> {
        self.check_scopes(Operation::ListTasks)?;
        if let Some(agent) = &agent {
            self.visible_or_retired(agent)?;
        }
        audit::count_list(era(self.version));
        let list = TaskList {
            index: &self.a2a.state.index,
            gateway: &self.gateway,
            caller: &self.caller,
            agent: agent.as_ref(),
        };
        let get = |agent: AgentName, request: AgentRequest| {
            self.call(agent, request, (request_context(self.parts), Extensions::default()))
        };
        Box::pin(list.page(request, get)).await
    }

    /// Starts the audit event of an operation that needs no call of the pipeline.
    fn record(&self, operation: Operation, target: &str, context: &RequestContext) -> CallRecord {
        let mut record = self.begin_record(operation, target, context);
        pipeline::record_caller(&self.gateway, &self.caller, &mut record);
        record
    }

    /// Starts the audit event of an operation. The pipeline adds the caller.
    fn begin_record(
        &self,
        operation: Operation,
        target: &str,
        context: &RequestContext,
    ) -> CallRecord {
        let span = self.gateway.tracer().begin(&context.trace);
        CallRecord::begin(operation.name(), era(self.version), target, self.bytes, span)
            .of_request(&self.parts.headers)
    }

    /// Checks the scopes of an operation that needs no call of the pipeline, which would check them.
    fn check_scopes(&self, operation: Operation) -> Result<(), Refusal> {
        let authenticator = self.gateway.authenticator();
        let operation = (operation.name(), None);
        let checked = authenticator.check_scopes(&self.caller, operation, &BTreeSet::new());
        Ok(checked.map_err(IngressError::from)?)
    }

    fn call(
        &self,
        agent: AgentName,
        request: AgentRequest,
        (context, extensions): (RequestContext, Extensions),
    ) -> AgentOperation {
        let record = self.begin_record(request.operation, agent.name.as_str(), &context);
        let tasks = TaskObserver::new(&self.a2a.state.index, self.owner, &agent);
        let caller = self.caller.clone();
        AgentOperation {
            agent,
            request,
            extensions,
            caller,
            context,
            record,
            tasks,
            push: PushRole::None,
            takes_repeats: false,
        }
    }
}

fn find_agent(directory: &Directory<'_>, agent: &AgentName) -> Result<VisibleAgent, Refusal> {
    if !directory.has_catalog() {
        return Err(Refusal::no_catalog());
    }
    let visible = directory.find(&agent.name, agent.version.as_ref());
    visible.ok_or_else(|| AgentName::not_found(&agent.to_string()).into())
}

/// Answers an operation, and completes its audit event.
async fn audited(
    operation: Operation,
    answer: impl Future<Output = Result<Value, Refusal>>,
    form: AnswerForm,
    mut record: CallRecord,
) -> Result<Response, Refusal> {
    let answer = answer.await.inspect_err(|refusal| refusal.record_in(&mut record))?;
    let (response, bytes) = form.result(operation, answer);
    record.finished(CallOutcome::Ok);
    record.answered(bytes);
    Ok(response)
}

fn unaddressed() -> Failure {
    let problem = format!(
        "name the agent in `tenant` or `metadata.agent`, or send the request to {PREFIX}/AGENT"
    );
    Failure::invalid_params("/tenant", problem)
}

/// The label of a version in the audit and in metrics.
fn era(version: Version) -> Era {
    match version {
        Version::V1 => Era::Modern,
        Version::V03 => Era::Legacy,
    }
}
