//! Problems of a configuration: position, field and remedy.

use std::{cell::RefCell, fmt, path::PathBuf};

/// One problem of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line in the file. `None`: a flag, or the whole file.
    pub line: Option<u64>,
    /// The path of the field (`targets[2].http`). Empty: the whole file.
    pub field: String,
    /// The problem and its remedy.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        match self.field.strip_prefix("--") {
            Some(name) => write!(f, "--{name} or {}: ", variable_of(name))?,
            None if self.field.is_empty() => {}
            None => write!(f, "{}: ", self.field)?,
        }
        f.write_str(&self.message)
    }
}

/// The environment variable of a flag of the gateway.
pub(super) fn variable_of(flag: &str) -> String {
    format!("GATEWAY_{}", flag.to_uppercase().replace('-', "_"))
}

/// An invalid configuration with all its problems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidConfig {
    /// The configuration file.
    pub file: PathBuf,
    /// All problems, in the order of the file.
    pub problems: Vec<Problem>,
}

impl std::error::Error for InvalidConfig {}

impl fmt::Display for InvalidConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.problems.len();
        let noun = if count == 1 { "problem" } else { "problems" };
        if self.problems.iter().all(|problem| problem.field.starts_with("--")) {
            write!(f, "{count} {noun} in the options")?;
        } else {
            write!(f, "{}: {count} {noun} in the configuration", self.file.display())?;
        }
        self.problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

/// Collects problems while the rest of the configuration is read.
#[derive(Debug, Default)]
pub(super) struct Problems(RefCell<Vec<Problem>>);

impl Problems {
    pub(super) fn at(&self, line: u64, field: &str, message: impl Into<String>) {
        let line = (line > 0).then_some(line);
        self.push(Problem { line, field: field.to_owned(), message: message.into() });
    }

    pub(super) fn push(&self, problem: Problem) {
        self.0.borrow_mut().push(problem);
    }

    /// All problems, in the order of the file.
    pub(super) fn into_sorted(self) -> Vec<Problem> {
        let mut found = self.0.into_inner();
        found.sort_by_key(|problem| problem.line);
        found
    }
}
