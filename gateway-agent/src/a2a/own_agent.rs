//! The gateway's own agent: composed tools as skills (`agents.ofTools`). Requests to [`super::PREFIX`]
//! that name no agent are for it.
//!
//! A message is a call of the tool through the pipeline, and its result is the artifact of a task.
//! Tasks are in memory: they end with the process.

mod task;

use std::sync::Arc;

use a2a::{
    ErrorKind, Failure, Operation, Request,
    model::Message,
    skill::{DataPart, arguments, data_parts},
    tool::{parts_of_result, text_of_result},
};
use axum::response::Response;
use gateway_policy::{CallOutcome, Denial};
use gateway_protocol::mcp::ResultType;
use gateway_upstream::{ClientChannel, InterimMessage, InterimMessages, RequestContext};
use registry_core::{Kind, Name};
use serde_json::{Value, json, value::to_raw_value};
use tokio::sync::mpsc;
use uuid::Uuid;

pub(super) use self::task::OwnTasks;
use self::task::{OwnTask, Status, TaskOrigin};
use super::{
    Served,
    answer::{AnswerForm, Step},
    calls::open_stream,
    failure::Refusal,
};
use crate::{
    audit::CallRecord,
    identity::authenticator::Authentication,
    pipeline::{self, Directory, Error, Gateway, Invocation, Output, Target, ToolCall},
    view::ServedTool,
};

/// The composed tools that a caller may use, as skills of a card.
pub(super) fn skills(gateway: &Gateway, caller: &Authentication) -> Vec<Value> {
    Directory::of(gateway, caller).composed_tools().iter().map(|served| skill(served)).collect()
}

fn skill(served: &ServedTool) -> Value {
    let (tool, name) = (served.tool(), served.name().as_str());
    let schema = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let mut skill = json!({
        "id": name,
        "name": tool.title.as_deref().unwrap_or(name),
        "description": tool.description.as_deref().unwrap_or(name),
        "tags": ["tool"],
        "inputSchema": schema(&served.input().schema.text),
    });
    if let Some(output) = served.output() {
        skill["outputSchema"] = schema(&output.text);
    }
    skill
}

/// An operation of the gateway's own agent.
pub(super) struct OwnOperation<'a> {
    pub(super) served: &'a Served<'a>,
    pub(super) request: Request,
    pub(super) context: RequestContext,
}

/// The call of a tool.
struct Call {
    tool: Box<str>,
    /// The pointer of the arguments in the message, for errors about them.
    pointer: String,
    invocation: Invocation,
    client: InterimMessages,
}

impl OwnOperation<'_> {
    /// Serves the operation to its client.
    pub(super) async fn serve(self, form: AnswerForm) -> Result<Response, Refusal> {
        let mut record = self.served.record(self.request.operation, "", &self.context);
        self.check().inspect_err(|refusal| refusal.record_in(&mut record))?;
        if self.request.operation.sends_message() {
            let prepared = self.prepare().inspect_err(|refusal| refusal.record_in(&mut record))?;
            return Box::pin(self.send(prepared, form, record)).await;
        }
        let task = self.requested_task().inspect_err(|refusal| refusal.record_in(&mut record))?;
        record.set_target(task.tool());
        if self.request.operation != Operation::CancelTask {
            self.check_result(&task, &mut record)?;
        }
        let outcome = Box::pin(self.about_task(task, form, &mut record)).await;
        match &outcome {
            Ok(_) => record.finished(CallOutcome::Ok),
            Err(refusal) => refusal.record_in(&mut record),
        }
        outcome
    }

    /// Checks the scopes of the operation, and that the agent supports it.
    fn check(&self) -> Result<(), Refusal> {
        let operation = self.request.operation;
        self.served.check_scopes(operation)?;
        if self.request.push_config().is_some() || operation.is_push_config() {
            return Err(Failure::push_not_supported().into());
        }
        Ok(())
    }

    /// Runs the call of a message. It continues without its client.
    async fn send(
        &self,
        (task, call): (Arc<OwnTask>, Call),
        form: AnswerForm,
        record: CallRecord,
    ) -> Result<Response, Refusal> {
        let Served { a2a, gateway, .. } = self.served;
        let (gateway, a2a, run) = (Arc::clone(gateway), (*a2a).clone(), Arc::clone(&task));
        drop(self.served.a2a.running().run(async move {
            let _ended = run.ends();
            Box::pin(call.run(&gateway, &run, record)).await;
            a2a.state.own_tasks.shrink();
        }));
        let operation = self.request.operation;
        if operation.is_streaming() {
            return Box::pin(self.stream(task, form)).await;
        }
        if !self.request.returns_immediately() {
            task.ended().await?;
        }
        Ok(form.result(operation, json!({ "task": task.now() })).0)
    }

    /// Serves an operation about a task of the caller.
    async fn about_task(
        &self,
        task: Arc<OwnTask>,
        form: AnswerForm,
        record: &mut CallRecord,
    ) -> Result<Response, Refusal> {
        let operation = self.request.operation;
        if operation == Operation::SubscribeToTask {
            if task.has_ended() {
                let message = "the task has ended; get it instead";
                return Err(Failure::new(ErrorKind::UnsupportedOperation, message).into());
            }
            return Box::pin(self.stream(task, form)).await;
        }
        if operation == Operation::CancelTask {
            task.cancel()?;
            // A canceled call has no result.
            let _ = task.ended().await;
        }
        let (response, bytes) = form.result(operation, task.now());
        record.answered(bytes);
        Ok(response)
    }

    /// Checks that the caller may still receive the result of its call.
    fn check_result(&self, task: &OwnTask, record: &mut CallRecord) -> Result<(), Refusal> {
        let Served { gateway, caller, .. } = self.served;
        let target = (self.request.operation.name(), task.tool());
        let checked = pipeline::check_own_result(gateway, caller, target, &self.context, record);
        checked.inspect_err(|error| error.record_in(record)).map_err(|error| match error {
            Error::Denied(Denial::Quarantined | Denial::Stale(_)) => {
                Refusal::of_operation(task.tool(), &error)
            }
            // The caller must not learn whether the tool exists.
            Error::Denied(_) | Error::Retired(_) => Failure::task_not_found(task.id()).into(),
            _ => Refusal::of_operation(task.tool(), &error),
        })
    }

    async fn stream(&self, task: Arc<OwnTask>, form: AnswerForm) -> Result<Response, Refusal> {
        let Served { a2a, gateway, caller, .. } = self.served;
        let written = form.clone();
        let follow = |client| follow(task, written, client);
        open_stream(a2a, Arc::clone(gateway), (caller.payer.clone(), form), follow).await
    }

    /// The task of a request, if the caller started it.
    fn requested_task(&self) -> Result<Arc<OwnTask>, Refusal> {
        let operation = self.request.operation;
        if !matches!(
            operation,
            Operation::GetTask | Operation::CancelTask | Operation::SubscribeToTask
        ) {
            let message = format!("the gateway's agent does not support {}", operation.name());
            return Err(Failure::new(ErrorKind::UnsupportedOperation, message).into());
        }
        Ok(self.find(self.request.task_id().unwrap_or_default())?)
    }

    fn find(&self, id: &str) -> Result<Arc<OwnTask>, Failure> {
        let Served { a2a, owner, .. } = self.served;
        let found = owner.and_then(|owner| a2a.state.own_tasks.find(owner, id));
        found.ok_or_else(|| Failure::task_not_found(id))
    }

    /// Creates the task of a message, and its call.
    fn prepare(&self) -> Result<(Arc<OwnTask>, Call), Refusal> {
        let served = self.served;
        if let Some(id) = self.request.task_id() {
            self.find(id)?;
            let message = "the tasks of the gateway's agent take no further messages";
            return Err(Failure::new(ErrorKind::UnsupportedOperation, message).into());
        }
        let tool = self.selected()?;
        let context = self.request.message().and_then(Message::context_id);
        let context = context.map_or_else(|| Uuid::new_v4().to_string(), str::to_owned);
        let call = self.call(&tool)?;
        let origin = TaskOrigin {
            owner: served.owner,
            payer: served.caller.payer.clone(),
            tool: call.tool.clone(),
        };
        let task = OwnTask::new(origin, context);
        served.a2a.state.own_tasks.add(&task)?;
        Ok((task, call))
    }

    /// The tool that a message selects.
    fn selected(&self) -> Result<Arc<ServedTool>, Failure> {
        const SKILL: &str = "/message/metadata/skillId";
        let directory = Directory::of(&self.served.gateway, &self.served.caller);
        let Some(id) = self.request.skill_id() else {
            let mut tools = directory.composed_tools();
            let only = (tools.len() == 1).then(|| tools.remove(0));
            return only.ok_or_else(|| {
                let problem = "the message does not select one skill: set it to the id of a skill \
                               in the gateway's card, or name another agent as tenant";
                Failure::invalid_params(SKILL, problem)
            });
        };
        let name = Name::parse(Kind::Tool, id).ok();
        name.and_then(|name| directory.composed_tool(&name)).ok_or_else(|| {
            let shown: String = id.chars().take(128).collect();
            let problem = format!("the gateway has no skill {shown:?}");
            Failure::invalid_params(SKILL, problem).with_reason("SKILL_NOT_FOUND")
        })
    }

    fn call(&self, tool: &ServedTool) -> Result<Call, Failure> {
        let Self { served, request, context } = self;
        let message = request
            .message()
            .ok_or_else(|| Failure::invalid_params("/message", "a message is required"))?;
        let data: Vec<DataPart<'_>> = data_parts(message, "/message");
        let arguments = arguments(message, &data).ok_or_else(|| {
            let problem = "send the arguments as one data part with an object, or only text";
            Failure::invalid_params("/message/parts", problem)
        })?;
        let pointer = data.first().map(|part| part.pointer.clone()).unwrap_or_default();
        let name: Box<str> = tool.name().as_str().into();
        let (side, client) = ClientChannel::open();
        // JSON values always serialize.
        let target = Target::Tool(ToolCall::new(&name, to_raw_value(&arguments).ok()));
        let call = Invocation::new(served.caller.clone(), target, context.clone());
        let invocation = Invocation { client: Some(side), ..call };
        Ok(Call { tool: name, pointer, invocation, client })
    }
}

impl Call {
    /// Runs the call to its end, or until its task is canceled.
    async fn run(self, gateway: &Arc<Gateway>, task: &OwnTask, mut record: CallRecord) {
        let Self { tool, pointer, mut invocation, mut client } = self;
        record.set_target(&tool);
        let outcome = {
            let mut invoked = Box::pin(pipeline::invoke(gateway, &mut invocation, &mut record));
            loop {
                tokio::select! {
                    biased;
                    outcome = &mut invoked => break outcome,
                    () = task.canceled() => return task.end(Status::canceled()),
                    // An unanswered question of a step fails its step.
                    message = client.recv() => task.report(progress_of(&message)),
                }
            }
        };
        match outcome.and_then(Output::into_result) {
            Ok(outcome) => {
                let result = &outcome.result;
                record.answered(result.result.get().len());
                let value = serde_json::from_str(result.result.get()).unwrap_or_default();
                task.end(if result.is_error {
                    Status::failed(text_of_result(&value))
                } else if result.result_type == ResultType::InputRequired {
                    Status::failed("the tool requires input, which skills do not support".into())
                } else {
                    Status::completed(parts_of_result(&value))
                });
            }
            Err(mut error) => {
                if let Error::InvalidInput { violations } = &mut error {
                    for violation in violations {
                        violation.pointer.insert_str(0, &pointer);
                    }
                }
                task.end(Status::refused(Refusal::of_operation(&tool, &error)));
            }
        }
    }
}

/// The text of a progress notification.
fn progress_of(message: &InterimMessage) -> Option<String> {
    let InterimMessage::Notification { method, params } = message else { return None };
    let params = params.as_deref().filter(|_| **method == *"notifications/progress")?;
    let params: Value = serde_json::from_str(params.get()).ok()?;
    params["message"].as_str().map(str::to_owned)
}

/// Sends the task and its changes to a client.
async fn follow(task: Arc<OwnTask>, form: AnswerForm, client: mpsc::Sender<Step>) {
    let mut changes = task.subscribe();
    let mut status = changes.borrow_and_update().clone();
    let mut events = if status.refusal.is_some() {
        Vec::new()
    } else {
        vec![json!({ "task": task.shown(&status) })]
    };
    loop {
        for event in events {
            let mut written = Vec::new();
            let step = match form.write_event(&mut written, event) {
                Ok(()) => Step::Events(written.into()),
                Err(failure) => Step::Failed(Box::new(failure.into())),
            };
            if client.send(step).await.is_err() {
                return;
            }
        }
        if let Some(refusal) = &status.refusal {
            let _ = client.send(Step::Failed(refusal.clone())).await;
            return;
        }
        if status.state.is_terminal() {
            return;
        }
        tokio::select! {
            outcome = changes.changed() => if outcome.is_err() { return },
            () = client.closed() => return,
        }
        status = changes.borrow_and_update().clone();
        events = if status.refusal.is_some() { Vec::new() } else { task.updates(&status) };
    }
}
