//! Authorizes operations again whose questions wait, or begin to wait, for answers of the client.
//! Other running operations keep their policies.

use std::{future::pending, sync::Arc};

use gateway_upstream::ClientChannel;
use policy::Finding;
use registry_core::{Catalog, Key};
use serde_json::{Map, Value, value::RawValue};
use tokio::sync::watch;

use super::{
    Error, Gateway, Invocation, admit::Governed, answers_questions, inspect::Inspecting,
    moment::Moment,
};
use crate::audit::CallRecord;

/// Watches the policies of one running operation.
pub(super) struct Revocation<'a> {
    gateway: &'a Gateway,
    call: &'a Invocation,
    client: &'a ClientChannel,
    agent: Option<Key>,
    arguments: Option<Box<RawValue>>,
    /// Changed unless the operation was authorized with the current catalog.
    catalog: watch::Receiver<Arc<Catalog>>,
}

/// The violation that ends an operation.
struct Revoked {
    governed: Governed,
    moment: Moment,
    finding: Finding,
    /// The violations of policies in audit mode.
    audit: Vec<Finding>,
}

/// Runs an operation to its end. A watched one is cancelled when a question waits for an answer and a
/// catalog that is newer than its authorization denies it.
pub(super) async fn guarded<T>(
    watched: Option<Revocation<'_>>,
    operation: impl AsyncFnOnce(&mut CallRecord) -> Result<T, Error>,
    record: &mut CallRecord,
) -> Result<T, Error> {
    match watched {
        None => operation(record).await,
        // Compositions nest, so each level must need little of the stack.
        Some(watched) => Box::pin(watched.guard(operation, record)).await,
    }
}

impl<'a> Revocation<'a> {
    /// `None`: the client answers no questions. `arguments` are those that the upstream receives.
    pub(super) fn new(
        Inspecting { gateway, call, moment }: Inspecting<'a>,
        arguments: Option<&RawValue>,
        record: &CallRecord,
    ) -> Option<Self> {
        let client = call.client.as_ref()?;
        answers_questions(&call.context).then(|| {
            let (mut catalog, _) = gateway.views().subscribe();
            if catalog.borrow_and_update().revision() != moment.snapshot.catalog.revision() {
                catalog.mark_changed();
            }
            Self {
                gateway,
                call,
                client,
                agent: record.agent().cloned(),
                arguments: arguments.map(ToOwned::to_owned),
                catalog,
            }
        })
    }

    async fn guard<T>(
        mut self,
        operation: impl AsyncFnOnce(&mut CallRecord) -> Result<T, Error>,
        record: &mut CallRecord,
    ) -> Result<T, Error> {
        let revoked = tokio::select! {
            biased;
            result = operation(record) => return result,
            revoked = self.revoked() => revoked,
        };
        let Revoked { governed, moment, finding, audit } = revoked;
        moment.record_in(self.gateway, record);
        Err(governed.revoked(finding, &audit, &moment, record))
    }

    async fn revoked(&mut self) -> Revoked {
        let mut waiting = self.client.waiting();
        // Neither sender is dropped while the operation runs.
        while waiting.wait_for(|waiting| *waiting > 0).await.is_ok() {
            tokio::select! {
                biased;
                changed = self.catalog.changed() => match (changed, self.denial()) {
                    (Ok(()), Some(revoked)) => return revoked,
                    (Ok(()), None) => {}
                    (Err(_), _) => break,
                },
                _ = waiting.changed() => {}
            }
        }
        pending().await
    }

    fn denial(&self) -> Option<Revoked> {
        let moment = Moment::now(self.gateway, self.call);
        // The route's own checks are those of the start of the call.
        let route = moment.route(self.gateway, self.call).ok()?;
        let governed = Governed::find(&moment, self.call, &route, self.agent.as_ref())?;
        let arguments = self.arguments.as_deref().map(RawValue::get);
        let mut audit = Vec::new();
        let mut check = |arguments: &Map<String, Value>| {
            governed.authorize_call(self.call, &moment, arguments, &mut audit).err()
        };
        let finding = match arguments.map(serde_json::from_str::<Map<String, Value>>) {
            None => check(&Map::new())?,
            Some(Ok(arguments)) => check(&arguments)?,
            Some(Err(error)) => governed.unusable(error.to_string())?,
        };
        Some(Revoked { governed, moment, finding, audit })
    }
}
