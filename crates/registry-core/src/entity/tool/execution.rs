//! `execution`: whether a tool runs as a task (MCP 2025-11-25, `ToolExecution`).
//!
//! The object stays open, because later revisions of MCP may add members.

use serde_json::{Map, Value};

use super::Tool;
use crate::decode::{OwnedFields, describe};

const MEMBER: &str = "taskSupport";

/// Whether a call of the tool can create a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskSupport {
    /// A call never creates a task; the default.
    Forbidden,
    /// The caller chooses.
    Optional,
    /// Every call creates a task.
    Required,
}

impl TaskSupport {
    const ALL: [Self; 3] = [Self::Forbidden, Self::Optional, Self::Required];

    /// The value in documents and in MCP.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::Optional => "optional",
            Self::Required => "required",
        }
    }

    /// The value in an `execution` object: `forbidden` if absent, `None` if MCP does not define it.
    pub fn from_execution(execution: &Map<String, Value>) -> Option<Self> {
        let Some(value) = execution.get(MEMBER) else { return Some(Self::Forbidden) };
        Self::ALL.into_iter().find(|one| value == one.as_str())
    }
}

impl Tool {
    /// The registered task support; `None` if the tool is registered without `execution`.
    pub fn task_support(&self) -> Option<TaskSupport> {
        self.execution.as_ref().and_then(TaskSupport::from_execution)
    }
}

pub(super) fn read(fields: &mut OwnedFields<'_>) -> Option<Map<String, Value>> {
    let execution = fields.open_object("execution")?;
    if TaskSupport::from_execution(&execution).is_none() {
        let message = format!("`{MEMBER}` is {}", describe(&execution[MEMBER]));
        let help = "write \"forbidden\", \"optional\" or \"required\"";
        fields.problems().invalid(fields.at("execution").member(MEMBER), message, help);
    }
    Some(execution)
}
