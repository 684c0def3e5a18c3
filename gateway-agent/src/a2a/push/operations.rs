//! The operations on configurations.

use std::sync::Arc;

use a2a::{ErrorKind, Failure, Operation, Request, extensions::Extensions};
use axum::response::Response;
use gateway_upstream::RequestContext;
use serde_json::{Map, Value, json};

use super::{
    super::{Served, address::AgentName, answer::AnswerForm, audited, failure::Refusal},
    PATH,
    config::{ClientConfig, Registration},
    receive::no_randomness,
    store::{Full, PendingConfig},
};
use crate::{
    clock,
    pipeline::{ComparedTask, PushEndpoint, PushRole, PushSettings, TaskOwner, VisibleAgent},
    random::random_text,
};

impl Served<'_> {
    /// Registers the configuration in a request, if the gateway and the agent support push
    /// notifications. The pipeline rejects the other requests: the missing capability precedes the
    /// missing identity (section 3.3.4).
    pub(in super::super) fn register_push(
        &self,
        agent: &AgentName,
        request: &Request,
    ) -> Result<Option<(PushRole, Arc<PendingConfig>)>, Refusal> {
        let Some(config) = request.push_config() else { return Ok(None) };
        let visible = self.visible(agent).ok();
        let settings = visible.and_then(|visible| self.push_settings(&visible));
        let Some((base, settings)) = settings else { return Ok(None) };
        let owner = self.owner()?;
        let compared = request.task_id().and_then(|task| self.compared(agent, task).ok());
        let pointer = if request.operation == Operation::CreatePushConfig {
            ""
        } else {
            "/configuration/taskPushNotificationConfig"
        };
        let id = random_text().map_err(|_| no_randomness())?;
        let token = random_text().map_err(|_| no_randomness())?;
        let now = clock::timestamp();
        let registration = Registration {
            client: ClientConfig::read((config, pointer), self.version, &id, settings)?,
            id: id.into(),
            owner,
            caller: (*self.caller.claim).clone(),
            agent: agent.name.as_str().into(),
            task: request.task_id().map(Into::into),
            token: token.into(),
            created: now,
            has_ended: false,
        };
        let is_task = |task: &str| compared.as_ref().is_some_and(|known| known.has_id(task));
        let inserted = self.a2a.state.push.configs.insert(registration, is_task, now);
        let pending = inserted.map_err(|Full| Refusal::too_many_push_configs())?;
        let endpoint = PushEndpoint {
            id: pending.id.clone(),
            base: format!("{base}{PATH}"),
            token: pending.token.clone(),
        };
        Ok(Some((PushRole::Register(endpoint), Arc::new(pending))))
    }

    /// The base URL for agents and the rules for URLs. `None`: the gateway or the agent does not
    /// support push notifications.
    fn push_settings(&self, agent: &VisibleAgent) -> Option<(&str, PushSettings)> {
        let capabilities = agent.agent().map(|agent| agent.capabilities);
        let is_supported = capabilities.and_then(|found| found.push_notifications) == Some(true);
        self.gateway.settings().push().filter(|_| is_supported)
    }

    /// The caller of configurations. Webhooks of unknown callers would let anyone send requests.
    fn owner(&self) -> Result<TaskOwner, Failure> {
        self.owner.ok_or_else(|| {
            let message = "push notifications need an identified caller";
            Failure::new(ErrorKind::Unauthenticated, message)
        })
    }

    /// Opens the id of the caller's task.
    fn compared(&self, agent: &AgentName, task: &str) -> Result<ComparedTask, Failure> {
        ComparedTask::open(&self.gateway, &self.caller.claim, (&agent.name, task))
    }

    /// The answer of `GetTaskPushNotificationConfig` or `ListTaskPushNotificationConfigs`.
    pub(in super::super) fn push_configs(
        &self,
        agent: &AgentName,
        request: &Request,
    ) -> Result<Value, Refusal> {
        self.check_scopes(request.operation)?;
        let found = self.known_configs(agent, request)?;
        let task = request.task_id().unwrap_or_default();
        if request.operation == Operation::GetPushConfig {
            return Ok(found.first().ok_or_else(no_config)?.client.shown(task));
        }
        let shown = found.iter().map(|registration| registration.client.shown(task));
        Ok(json!({ "configs": shown.collect::<Vec<_>>(), "nextPageToken": "" }))
    }

    /// Serves `DeleteTaskPushNotificationConfig`, which is idempotent (section 3.1.10). The
    /// configuration of the gateway is removed also if the agent's cannot be; its notifications are
    /// rejected from now on.
    pub(in super::super) async fn delete_push_config(
        &self,
        agent: AgentName,
        mut request: Request,
        (context, extensions): (RequestContext, Extensions),
        form: &AnswerForm,
    ) -> Result<Response, Refusal> {
        self.check_scopes(request.operation)?;
        let operation = request.operation;
        let found = self.known_configs(&agent, &request)?;
        if found.is_empty() {
            let record = self.record(operation, agent.name.as_str(), &context);
            let answer = async { Ok(Value::Object(Map::new())) };
            return Box::pin(audited(operation, answer, form.clone(), record)).await;
        }
        for registration in found {
            self.a2a.state.push.configs.remove(&registration.id);
            request.params.insert("id".to_owned(), Value::from(&*registration.id));
            let call =
                self.call(agent.clone(), request.clone(), (context.clone(), extensions.clone()));
            let gateway = Arc::clone(&self.gateway);
            let running = async move { Box::pin(call.run(&gateway, None, None)).await.0 };
            match self.a2a.running().run(running).await {
                // The agent may have forgotten it.
                Some(Err(refusal)) if refusal.failure.kind.is_own() => return Err(refusal),
                Some(_) => {}
                None => return Err(Refusal::stopping()),
            }
        }
        Ok(form.result(operation, Value::Object(Map::new())).0)
    }

    /// The configurations of the caller's task, or the requested one.
    fn known_configs(
        &self,
        agent: &AgentName,
        request: &Request,
    ) -> Result<Vec<Arc<Registration>>, Refusal> {
        if self.push_settings(&self.visible_or_retired(agent)?).is_none() {
            return Err(Failure::push_not_supported().into());
        }
        let owner = self.owner()?;
        let task = request.task_id().unwrap_or_default();
        let compared = self.compared(agent, task)?;
        let mut found = self.a2a.state.push.configs.of_owner(owner, clock::timestamp());
        found.retain(|known| known.task.as_deref().is_some_and(|task| compared.has_id(task)));
        if let Some(id) = request.push_config_id() {
            found.retain(|registration| *registration.client.id == *id);
        }
        Ok(found)
    }
}

fn no_config() -> Failure {
    let message = "the task has no push notification configuration with this id; list them";
    Failure::new(ErrorKind::TaskNotFound, message)
}
