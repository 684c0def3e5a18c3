//! Whether a tool is called as a task of 2025-11-25 (`execution.taskSupport`).

use gateway_protocol::jsonrpc::Object;
use gateway_upstream::Features;
use serde_json::value::RawValue;

/// How a tool stands to tasks of 2025-11-25.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum TaskSupport {
    /// It is never called as a task.
    #[default]
    Forbidden,
    /// It may be.
    Optional,
    /// It always is.
    Required,
}

impl TaskSupport {
    /// By the definition that a server lists. Without the capability of the server nothing in a
    /// definition counts.
    pub(super) fn of(features: Option<&Features>, definition: Option<&RawValue>) -> Self {
        if !features.is_some_and(Features::takes_tasks) {
            return Self::Forbidden;
        }
        let member =
            |raw: &RawValue, name: &str| Object::parse(raw).ok()?.find(name).map(ToOwned::to_owned);
        let execution = definition.and_then(|raw| member(raw, "execution"));
        let support = execution.and_then(|raw| member(&raw, "taskSupport"));
        match support.as_deref().map(RawValue::get) {
            Some(r#""optional""#) => Self::Optional,
            Some(r#""required""#) => Self::Required,
            _ => Self::Forbidden,
        }
    }

    /// As `taskSupport` of a definition, where it is not the default.
    pub(super) fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Forbidden => None,
            Self::Optional => Some("optional"),
            Self::Required => Some("required"),
        }
    }
}
