//! Values without a translation.

use crate::error::{ErrorKind, Failure};

/// A value that the other version cannot express, or that is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", if pointer.is_empty() { "the whole value" } else { pointer })]
pub struct Untranslatable {
    /// The JSON pointer of the value.
    pub pointer: String,
    /// The problem.
    pub problem: Problem,
}

/// The reason why a value has no translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The value has another type.
    #[error("{0} is required")]
    Type(&'static str),
    /// The part has no content, several, or one of an unknown kind.
    #[error("the part has not exactly one known content")]
    Part,
    /// The role is unknown.
    #[error("the role is unknown")]
    Role,
    /// The state is unknown.
    #[error("the task state is unknown")]
    State,
    /// The answer or event is neither a task nor a message nor an update.
    #[error("the value is neither a task nor a message nor an update")]
    Payload,
    /// The object also has the member under its usual name.
    #[error("the member is {0} under another name, which the object has, too; send {0} only")]
    Alias(&'static str),
    /// The other version has no place for the value.
    #[error("A2A 0.3 cannot express {0}")]
    Inexpressible(&'static str),
}

impl Untranslatable {
    pub(crate) fn new(problem: Problem) -> Self {
        Self { pointer: String::new(), problem }
    }

    /// Prefixes the pointer with the name of the surrounding member.
    pub(crate) fn at(mut self, step: impl std::fmt::Display) -> Self {
        self.pointer = format!("/{step}{}", self.pointer);
        self
    }

    /// The error of a client's request.
    pub fn into_request_failure(self) -> Failure {
        match self.problem {
            Problem::Inexpressible(_) => {
                Failure::new(ErrorKind::UnsupportedOperation, self.to_string())
                    .with_violation(&self.pointer, &self.problem.to_string())
            }
            problem => Failure::invalid_params(&self.pointer, problem.to_string()),
        }
    }

    /// The error of an agent's answer or event.
    pub fn into_answer_failure(self) -> Failure {
        Failure::invalid_answer(&self).with_metadata("pointer", self.pointer)
    }
}
