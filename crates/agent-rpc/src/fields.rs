//! Reads the members of parameters strictly: unknown and repeated members are rejected with their
//! pointer.

use std::borrow::Cow;

use gateway_protocol::jsonrpc::{Object, read_string};
use registry_core::document::parse_json;
use schema_compat::pointer::escape;
use serde_json::{Value, value::RawValue};

use crate::{
    failure::{Failure, shown},
    text::is_printable,
};

/// The members of one object.
pub(crate) struct Fields<'a> {
    object: Object<'a>,
    at: String,
}

impl<'a> Fields<'a> {
    /// Reads the parameters of a method, which has only these.
    pub(crate) fn params(params: Option<&'a RawValue>, known: &[&str]) -> Result<Self, Failure> {
        let Some(params) = params else {
            return Ok(Self { object: Object::default(), at: String::new() });
        };
        let fields = Self::open(params, String::new())?;
        fields.reject_unknown(known)?;
        Ok(fields)
    }

    /// Reads an object with any members.
    pub(crate) fn open(raw: &'a RawValue, at: String) -> Result<Self, Failure> {
        let object = Object::parse(raw).map_err(|error| Failure::invalid_params(&at, error))?;
        Ok(Self { object, at })
    }

    /// Rejects other members than these.
    pub(crate) fn reject_unknown(&self, known: &[&str]) -> Result<(), Failure> {
        let mut members = self.object.members().iter();
        let Some(unknown) = members.find(|member| !known.contains(&member.name.as_ref())) else {
            return Ok(());
        };
        // The pointer repeats the caller's text, so it is bounded like one.
        let pointer = self.pointer(&shown(&unknown.name));
        let problem = format!("the member is unknown; use {}", known.join(", "));
        Err(Failure::invalid_params(&pointer, problem))
    }

    /// The pointer of a member.
    pub(crate) fn pointer(&self, name: &str) -> String {
        format!("{}/{}", self.at, escape(name))
    }

    /// The error of a member.
    pub(crate) fn invalid(&self, name: &str, problem: impl std::fmt::Display) -> Failure {
        Failure::invalid_params(&self.pointer(name), problem)
    }

    /// The members.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.object.members().iter().map(|member| (member.name.as_ref(), member.value))
    }

    /// A member. `null` counts as absent.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.object.find(name).filter(|raw| raw.get() != "null")
    }

    /// A member that must be an object.
    pub(crate) fn object(&self, name: &str) -> Result<Option<&'a RawValue>, Failure> {
        match self.raw(name) {
            Some(raw) if !raw.get().starts_with('{') => {
                Err(self.invalid(name, "an object is required"))
            }
            raw => Ok(raw),
        }
    }

    /// A required object.
    pub(crate) fn required_object(&self, name: &str) -> Result<&'a RawValue, Failure> {
        self.object(name)?.ok_or_else(|| self.invalid(name, "an object is required"))
    }

    /// A member that must be a string.
    pub(crate) fn text(&self, name: &str) -> Result<Option<Cow<'a, str>>, Failure> {
        let read = |raw| read_string(raw).ok_or_else(|| self.invalid(name, "a string is required"));
        self.raw(name).map(read).transpose()
    }

    /// A required string.
    pub(crate) fn required_text(&self, name: &str) -> Result<Cow<'a, str>, Failure> {
        self.text(name)?.ok_or_else(|| self.invalid(name, "a string is required"))
    }

    /// A string of 1 to this many visible characters.
    pub(crate) fn printable(
        &self,
        name: &str,
        most: usize,
    ) -> Result<Option<Cow<'a, str>>, Failure> {
        let text = self.text(name)?;
        if text.as_deref().is_some_and(|text| !is_printable(text, most)) {
            return Err(self.invalid(name, not_printable(most)));
        }
        Ok(text)
    }

    /// A required string of 1 to this many visible characters.
    pub(crate) fn required_printable(
        &self,
        name: &str,
        most: usize,
    ) -> Result<Cow<'a, str>, Failure> {
        self.printable(name, most)?.ok_or_else(|| self.invalid(name, not_printable(most)))
    }

    /// A member as a value without repeated members.
    pub(crate) fn value(&self, name: &str) -> Result<Option<Value>, Failure> {
        let read = |raw: &RawValue| {
            parse_json(raw.get().as_bytes()).map_err(|error| self.invalid(name, error))
        };
        self.raw(name).map(read).transpose()
    }
}

fn not_printable(most: usize) -> String {
    format!("a string of 1 to {most} printable characters is required")
}
