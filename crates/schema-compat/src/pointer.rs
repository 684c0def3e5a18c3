//! JSON pointers (RFC 6901).

use std::fmt;

/// A location in a document as a stack-allocated path, formatted only when a problem is reported.
#[derive(Clone, Copy)]
pub struct Location<'a> {
    parent: Option<&'a Location<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Member(&'a str),
    Index(usize),
}

impl<'a> Location<'a> {
    /// The root of the document.
    pub const ROOT: Self = Self { parent: None, step: Step::Root };

    /// A member of the object at this location.
    pub fn member(&'a self, name: &'a str) -> Location<'a> {
        Location { parent: Some(self), step: Step::Member(name) }
    }

    /// An item of the array at this location.
    pub fn index(&'a self, index: usize) -> Location<'a> {
        Location { parent: Some(self), step: Step::Index(index) }
    }

    /// Another member of the same object.
    pub fn sibling(self, name: &'a str) -> Location<'a> {
        Location { step: Step::Member(name), ..self }
    }
}

/// Formats as a JSON pointer (RFC 6901).
impl fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            fmt::Display::fmt(parent, f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Member(name) => write!(f, "/{}", escape(name)),
            Step::Index(index) => write!(f, "/{index}"),
        }
    }
}

/// Escapes a member name for a JSON pointer (RFC 6901 section 3).
pub fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The member name of an escaped step of a JSON pointer.
pub fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// Appends a member name to a JSON pointer.
pub fn pointer_join(pointer: &str, member: &str) -> String {
    format!("{pointer}/{}", escape(member))
}
