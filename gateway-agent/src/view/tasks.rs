//! Task support of tools (`execution.taskSupport` of 2025-11-25).

use gateway_protocol::jsonrpc::Object;
use gateway_upstream::Features;
use serde_json::value::RawValue;

/// Whether a tool can be called as a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum TaskSupport {
    /// Never.
    #[default]
    Forbidden,
    /// Possible.
    Optional,
    /// Always.
    Required,
}

impl TaskSupport {
    /// Reads the definition of a tool. It counts only if the server declares the capability.
    pub(super) fn from_definition(
        features: Option<&Features>,
        definition: Option<&RawValue>,
    ) -> Self {
        if !features.is_some_and(Features::supports_tasks) {
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

    /// The value of `taskSupport`, unless it is the default.
    pub(super) fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Forbidden => None,
            Self::Optional => Some("optional"),
            Self::Required => Some("required"),
        }
    }
}
