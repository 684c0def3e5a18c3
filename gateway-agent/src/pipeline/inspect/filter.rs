//! Inspects the messages between an upstream and the caller while a request runs. Each message is
//! inspected by itself, on the thread of the connection.

use std::sync::Arc;

use gateway_policy::QuotaKey;
use gateway_protocol::{jsonrpc::code, mcp::RpcError};
use gateway_upstream::{ClientAnswer, MessageFilter};
use policy::{Direction, Finding, Reason};
use registry_core::Name;
use serde_json::value::RawValue;

use crate::inspection::{Form, Inspected, Inspection, InspectionLog, Inspections};

/// Maximum size of an inspected message, in bytes: about 4 ms.
const MAX_MESSAGE_BYTES: usize = 256 * 1024;

/// The filter of one request.
#[derive(Debug)]
pub(super) struct Filter {
    /// Of the client's answers.
    pub(super) arguments: Option<Arc<Inspection>>,
    /// Of notifications and questions.
    pub(super) results: Option<Arc<Inspection>>,
    pub(super) log: InspectionLog,
    /// `None`: the operation is a composition, or the filter is that of all calls already.
    pub(super) server: Option<CalledServer>,
}

/// The server of an operation, for questions that can have data of its other calls.
#[derive(Debug)]
pub(super) struct CalledServer {
    pub(super) inspections: Arc<Inspections>,
    pub(super) name: Name,
    /// The owner of placeholders.
    pub(super) owner: QuotaKey,
}

impl Filter {
    fn inspected(
        &self,
        inspection: Option<&Inspection>,
        message: &RawValue,
        opaque: &[&str],
    ) -> Result<Box<RawValue>, RpcError> {
        let Some(inspection) = inspection else { return Ok(message.to_owned()) };
        check_size(message.get().len())?;
        let Inspected { changed, violation, actions, .. } =
            inspection.json(message.get(), Form::Message { opaque });
        self.log.add(&actions);
        match (violation, changed) {
            (Some(finding), _) => Err(blocked(&finding)),
            (None, None) => Ok(message.to_owned()),
            (None, Some(changed)) => {
                RawValue::from_string(changed.text).map_err(|_| blocked(&changed.finding))
            }
        }
    }

    /// The error of a client for the upstream. Arguments are never changed, only blocked.
    fn error(&self, error: RpcError) -> RpcError {
        let Some(inspection) = &self.arguments else { return error };
        let data_bytes = error.data.as_ref().map_or(0, |data| data.get().len());
        if let Err(too_long) = check_size(error.message.len() + data_bytes) {
            return too_long;
        }
        let mut found = inspection.text(&error.message, "/message");
        if let Some(data) = &error.data {
            found.merge(inspection.json(data.get(), Form::Part("/data")));
        }
        self.log.add(&found.actions);
        found.violation.map_or(error, |finding| blocked(&finding))
    }
}

impl MessageFilter for Filter {
    fn notification(&self, method: &str, params: &RawValue) -> Option<Box<RawValue>> {
        // Clients return ids of tasks, and recognize their own tokens.
        let opaque: &[&str] = match method {
            "notifications/progress" => &["/progressToken"],
            "notifications/tasks" | "notifications/tasks/status" => &["/taskId"],
            _ => &[],
        };
        self.inspected(self.results.as_deref(), params, opaque).ok()
    }

    fn question(&self, params: &RawValue) -> Result<Box<RawValue>, RpcError> {
        self.inspected(self.results.as_deref(), params, &[])
    }

    fn answer(&self, answer: ClientAnswer) -> ClientAnswer {
        match answer {
            Ok(answer) => self.inspected(self.arguments.as_deref(), &answer, &[]),
            Err(error) => Err(self.error(error)),
        }
    }

    fn unattributed(self: Arc<Self>) -> Arc<dyn MessageFilter> {
        let of_all = self.server.as_ref().and_then(|server| {
            let rules = server.inspections.of_calls(&server.name)?;
            let of =
                |direction| server.inspections.of(&rules, direction, &server.owner).map(Arc::new);
            let (arguments, results) = (of(Direction::Arguments), of(Direction::Results));
            Some(Self { arguments, results, log: self.log.clone(), server: None })
        });
        match of_all {
            Some(filter) => Arc::new(filter),
            None => self,
        }
    }
}

fn check_size(bytes: usize) -> Result<(), RpcError> {
    if bytes <= MAX_MESSAGE_BYTES {
        return Ok(());
    }
    let message =
        format!("a policy inspects this message, which exceeds {MAX_MESSAGE_BYTES} bytes");
    Err(RpcError { code: code::INVALID_PARAMS, message, data: None })
}

/// The error for the upstream. It has no values.
fn blocked(finding: &Finding) -> RpcError {
    let Finding { policy, reason } = finding;
    let class = match reason {
        Reason::PiiDetected { class, .. } => *class,
        _ => "unreadable",
    };
    let message = format!(
        "the policy {}@{} blocks {class} data in this message",
        policy.name, policy.version
    );
    RpcError { code: code::INVALID_PARAMS, message, data: None }
}
