//! JSON pointers (RFC 6901).

use std::fmt;

/// A place in a document, kept on the stack and only written out when something is wrong there.
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
    /// The document itself.
    pub const ROOT: Self = Self { parent: None, step: Step::Root };

    /// A member of this object.
    pub fn member(&'a self, name: &'a str) -> Location<'a> {
        Location { parent: Some(self), step: Step::Member(name) }
    }

    /// An item of this array.
    pub fn index(&'a self, index: usize) -> Location<'a> {
        Location { parent: Some(self), step: Step::Index(index) }
    }

    /// Another member of the same object.
    pub fn sibling(self, name: &'a str) -> Location<'a> {
        Location { step: Step::Member(name), ..self }
    }
}

/// As a JSON pointer (RFC 6901).
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

/// Joins a JSON pointer and one more member name.
pub fn pointer_join(pointer: &str, member: &str) -> String {
    format!("{pointer}/{}", escape(member))
}
