//! Inspects the messages between an upstream and the caller while a request runs. Each message is
//! inspected by itself.

use gateway_protocol::{jsonrpc::code, mcp::RpcError};
use gateway_upstream::{ClientAnswer, MessageFilter};
use policy::{Finding, Reason};
use serde_json::value::RawValue;

use crate::inspection::{Inspected, Inspection, InspectionLog};

/// The filter of one request.
#[derive(Debug)]
pub(super) struct Filter {
    /// Of the client's answers.
    pub(super) arguments: Option<Inspection>,
    /// Of notifications and questions.
    pub(super) results: Option<Inspection>,
    pub(super) log: InspectionLog,
}

impl Filter {
    fn inspected(
        &self,
        inspection: Option<&Inspection>,
        message: &RawValue,
    ) -> Result<Box<RawValue>, RpcError> {
        let Some(inspection) = inspection else { return Ok(message.to_owned()) };
        let Inspected { changed, violation, actions, .. } = inspection.json(message.get(), "");
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
        let mut found = inspection.text(&error.message, "/message");
        if let Some(data) = &error.data {
            found.merge(inspection.json(data.get(), "/data"));
        }
        self.log.add(&found.actions);
        found.violation.map_or(error, |finding| blocked(&finding))
    }
}

impl MessageFilter for Filter {
    fn notification(&self, params: &RawValue) -> Option<Box<RawValue>> {
        self.inspected(self.results.as_ref(), params).ok()
    }

    fn question(&self, params: &RawValue) -> Result<Box<RawValue>, RpcError> {
        self.inspected(self.results.as_ref(), params)
    }

    fn answer(&self, answer: ClientAnswer) -> ClientAnswer {
        match answer {
            Ok(answer) => self.inspected(self.arguments.as_ref(), &answer),
            Err(error) => Err(self.error(error)),
        }
    }
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
