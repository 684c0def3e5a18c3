//! Removes the addresses of an agent from its card, its answers and its errors.

use std::ops::Range;

use http::Uri;
use memchr::memchr2_iter;
use serde_json::Value;

use crate::error::Failure;

/// The replacement of an agent's host in its answers. No host has this name (RFC 6761).
pub const REPLACEMENT: &str = "agent.invalid";

/// The length of a colon and a port.
const PORT_BYTES: usize = 6;

/// The hosts to remove and their replacement.
#[derive(Debug, Clone)]
pub struct Hidden {
    hosts: Vec<String>,
    /// The host and port of the gateway, or [`REPLACEMENT`].
    replacement: String,
}

/// Host and port of a URL, or of a bare host.
fn authority(address: &str) -> Option<String> {
    let after_scheme = address.split_once("://").map_or(address, |(_, rest)| rest);
    let end = after_scheme.find(['/', '?', '#']).unwrap_or(after_scheme.len());
    let authority = &after_scheme[..end];
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let authority = authority.trim().to_ascii_lowercase();
    (!authority.is_empty() && authority.parse::<http::uri::Authority>().is_ok())
        .then_some(authority)
}

/// The host of an authority, without its port.
fn host(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

impl Hidden {
    /// Hides the hosts of addresses, which are URLs or hosts, and writes the host of `own_url`.
    pub fn new(addresses: &[String], own_url: &str) -> Self {
        let replacement = authority(own_url).unwrap_or_else(|| REPLACEMENT.to_owned());
        let own_host = host(&replacement);
        let authorities = addresses.iter().filter_map(|address| authority(address));
        // The agent and the gateway may share a host; then only the agent's port is hidden.
        let hidden = authorities.map(|authority| {
            if host(&authority) == own_host { authority } else { host(&authority).to_owned() }
        });
        let mut hosts: Vec<_> = hidden.filter(|hidden| *hidden != replacement).collect();
        hosts.sort_by_key(|host| std::cmp::Reverse(host.len()));
        hosts.dedup();
        Self { hosts, replacement }
    }

    /// Removes links to the hosts with their members and items, and replaces the hosts in other
    /// texts.
    pub fn remove_from(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|name, value| !self.is_in(name) && !self.is_link(value));
                members.values_mut().for_each(|value| self.remove_from(value));
            }
            Value::Array(items) => {
                items.retain(|item| !self.is_link(item));
                for item in items {
                    self.remove_from(item);
                }
            }
            Value::String(text) => self.replace_in_text(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Replaces the hosts in all texts and in names of members.
    pub fn replace_in(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                if members.keys().any(|name| self.is_in(name)) {
                    let renamed = std::mem::take(members).into_iter();
                    let renamed =
                        renamed.map(|(name, value)| (self.replaced(&name).unwrap_or(name), value));
                    *members = renamed.collect();
                }
                members.values_mut().for_each(|value| self.replace_in(value));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace_in(item)),
            Value::String(text) => self.replace_in_text(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Replaces the hosts in the texts of an error.
    pub fn replace_in_failure(&self, failure: &mut Failure) {
        self.replace_in_text(&mut failure.message);
        failure.reason.iter_mut().for_each(|reason| self.replace_in_text(reason));
        failure.metadata.values_mut().for_each(|value| self.replace_in_text(value));
        failure.details.iter_mut().for_each(|detail| self.replace_in(detail));
    }

    /// Replaces the hosts in a text.
    pub fn replace_in_text(&self, text: &mut String) {
        if let Some(replaced) = self.replaced(text) {
            *text = replaced;
        }
    }

    fn is_link(&self, value: &Value) -> bool {
        let is_url = |text: &str| {
            !text.contains(char::is_whitespace)
                && (text.contains("://") || text.parse::<Uri>().is_ok_and(|u| u.host().is_some()))
        };
        value.as_str().is_some_and(|text| is_url(text) && self.is_in(text))
    }

    fn is_in(&self, text: &str) -> bool {
        !self.find(text).is_empty()
    }

    /// The text that replaces a host.
    pub fn replacement(&self) -> &str {
        &self.replacement
    }

    /// The hosts with their ports in a text, in their order.
    pub fn find(&self, text: &str) -> Vec<Range<usize>> {
        let (mut found, bytes) = (Vec::new(), text.as_bytes());
        for hidden in &self.hosts {
            let mut from = 0;
            while let Some(at) = position(&bytes[from..], hidden.as_bytes()) {
                let (start, mut end) = (from + at, from + at + hidden.len());
                from = end;
                if !is_host(bytes, hidden, start..end) {
                    continue;
                }
                let port = bytes[end..].strip_prefix(b":").unwrap_or_default();
                let digits = port.iter().take_while(|byte| byte.is_ascii_digit()).count();
                end += if digits == 0 { 0 } else { digits + 1 };
                found.push(start..end);
                from = end;
            }
        }
        // Longer hosts come first, and win.
        found.sort_by_key(|place| place.start);
        found.dedup_by(|next, place| next.start < place.end);
        found
    }

    /// The start of the end of a text that is a part of a host, or a host that further text can
    /// continue. The length of the text: it has no such end.
    pub fn open_start(&self, text: &str) -> usize {
        let is_open = |end: &str| {
            self.hosts.iter().any(|host| {
                let known = &end.as_bytes()[..end.len().min(host.len())];
                let rest = &end.as_bytes()[known.len()..];
                known.eq_ignore_ascii_case(&host.as_bytes()[..known.len()])
                    && match rest {
                        [] | [b'.'] => true,
                        [b':', port @ ..] => port.iter().all(u8::is_ascii_digit),
                        _ => false,
                    }
            })
        };
        let longest = self.hosts.iter().map(String::len).max().unwrap_or_default() + PORT_BYTES;
        let from = text.ceil_char_boundary(text.len().saturating_sub(longest));
        let mut ends = text[from..].char_indices().map(|(at, _)| from + at);
        let open = ends.find(|at| starts_host(&text.as_bytes()[..*at]) && is_open(&text[*at..]));
        open.unwrap_or(text.len())
    }

    /// The text with the gateway's host in place of the hidden ones. `None`: it has none.
    fn replaced(&self, text: &str) -> Option<String> {
        let found = self.find(text);
        let (mut replaced, mut copied) = (String::new(), 0);
        for place in found {
            replaced.push_str(&text[copied..place.start]);
            replaced.push_str(&self.replacement);
            copied = place.end;
        }
        (copied > 0).then(|| replaced + &text[copied..])
    }
}

/// The first place of a host in a text, in any case. No copy of the text is made: most texts have no
/// host.
fn position(text: &[u8], host: &[u8]) -> Option<usize> {
    let first = host.first()?;
    let mut starts = memchr2_iter(first.to_ascii_lowercase(), first.to_ascii_uppercase(), text);
    let is_at = |start: &usize| {
        let found = text.get(*start..*start + host.len());
        found.is_some_and(|found| found.eq_ignore_ascii_case(host))
    };
    starts.find(is_at)
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// Whether a host can follow this text, also after a percent-encoded character.
fn starts_host(before: &[u8]) -> bool {
    let is_escaped = matches!(before, [.., b'%', high, low]
        if high.is_ascii_hexdigit() && low.is_ascii_hexdigit());
    is_escaped || !before.last().is_some_and(|byte| is_name(*byte) || *byte == b'.')
}

/// Whether the text at this place is the whole host.
fn is_host(text: &[u8], hidden: &str, place: Range<usize>) -> bool {
    let (before, after) = (&text[..place.start], &text[place.end..]);
    let starts = starts_host(before);
    let ends = match after {
        [b'.', next, ..] | [next, ..] => !is_name(*next),
        [] => true,
    };
    if hidden.contains(['.', ':']) {
        return starts && ends;
    }
    // A host such as `agent` is also a word.
    let slashes = |end: &[u8; 6]| end.eq_ignore_ascii_case(b"%2f%2f");
    let is_in_url = before.ends_with(b"//")
        || before.last_chunk().is_some_and(slashes)
        || before.ends_with(b"@");
    let has_port = matches!(after, [b':', digit, ..] if digit.is_ascii_digit());
    starts && ends && (is_in_url || has_port)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;

    proptest! {
        #[test]
        fn position_equals_that_in_lower_case(
            parts in vec(select(vec!["ag.a", "AG.a", "aG", "A", ".", "é", " "]), 0..12),
        ) {
            let text = parts.concat();
            let expected = text.to_ascii_lowercase().find("ag.a");
            prop_assert_eq!(position(text.as_bytes(), b"ag.a"), expected);
        }
    }

    #[test]
    fn host_is_replaced_in_any_case() {
        let hidden = Hidden::new(&["http://agent:8080".to_owned()], REPLACEMENT);
        for (text, expected) in [
            ("See http://AGENT:8080/x.", "See http://agent.invalid/x."),
            ("u=http%3A%2f%2FAgent%2Fx", "u=http%3A%2f%2Fagent.invalid%2Fx"),
            ("Agent: an agent is no host.", "Agent: an agent is no host."),
        ] {
            let mut replaced = text.to_owned();
            hidden.replace_in_text(&mut replaced);
            assert_eq!(replaced, expected);
        }
    }
}
