//! The W3C trace context. `traceparent` is parsed strictly and rewritten; `tracestate` and
//! `baggage` are forwarded within the limits of their specifications.
//!
//! The gateway adds the number of hops to the `tracestate` of messages of A2A, and nothing to
//! `baggage`.

#[cfg(test)]
mod tests;

use std::{
    fmt,
    num::{NonZeroU64, NonZeroU128},
    str::FromStr,
};

use http::{HeaderName, HeaderValue};
use serde::{Serialize, Serializer};

/// The name of the parent in headers and in `_meta`.
pub const PARENT_NAME: HeaderName = HeaderName::from_static("traceparent");
/// The name of the state.
pub const STATE_NAME: HeaderName = HeaderName::from_static("tracestate");
/// The name of the baggage.
pub const BAGGAGE_NAME: HeaderName = HeaderName::from_static("baggage");
/// Length of a `traceparent` of version 00.
const PARENT_BYTES: usize = 55;
/// Maximum members and bytes of `tracestate`.
const STATE: (usize, usize) = (32, 512);
/// Maximum members and bytes of `baggage`.
const BAGGAGE: (usize, usize) = (64, 8192);
const SAMPLED: u8 = 1;
const RANDOM: u8 = 2;

/// The W3C trace context of a caller, which the gateway forwards.
#[derive(Debug, Clone, Default)]
pub struct TraceContext {
    /// `traceparent`. An invalid one is ignored.
    pub parent: Option<Parent>,
    /// `tracestate`.
    pub state: Option<Box<str>>,
    /// `baggage`.
    pub baggage: Option<Box<str>>,
}

/// The id of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(NonZeroU128);

/// The id of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(NonZeroU64);

/// The parent span of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    flags: u8,
}

impl From<NonZeroU128> for TraceId {
    fn from(id: NonZeroU128) -> Self {
        Self(id)
    }
}

impl From<NonZeroU64> for SpanId {
    fn from(id: NonZeroU64) -> Self {
        Self(id)
    }
}

impl Parent {
    /// Starts a trace.
    pub fn new(trace: TraceId, span: SpanId, is_sampled: bool) -> Self {
        Self { trace, span, flags: RANDOM | if is_sampled { SAMPLED } else { 0 } }
    }

    /// Returns another span of the same trace.
    pub fn with_span(self, span: SpanId) -> Self {
        Self { span, ..self }
    }

    /// Parses a `traceparent`. Later versions are parsed as far as version 00 goes.
    pub fn parse(text: &str) -> Option<Self> {
        let fixed = text.get(..PARENT_BYTES)?;
        let mut parts = fixed.split('-');
        let version = hex(parts.next()?, 2)?;
        let is_whole = match &text.as_bytes()[PARENT_BYTES..] {
            [] => version != "ff",
            [b'-', ..] => !matches!(version, "00" | "ff"),
            _ => false,
        };
        let (trace, span) = (hex(parts.next()?, 32)?, hex(parts.next()?, 16)?);
        let flags = u8::from_str_radix(hex(parts.next()?, 2)?, 16).ok()?;
        if !is_whole || parts.next().is_some() {
            return None;
        }
        let trace = TraceId(NonZeroU128::new(u128::from_str_radix(trace, 16).ok()?)?);
        let span = SpanId(NonZeroU64::new(u64::from_str_radix(span, 16).ok()?)?);
        // The meaning of other bits is unknown, so they are not forwarded.
        Some(Self { trace, span, flags: flags & (SAMPLED | RANDOM) })
    }

    fn text(self) -> [u8; PARENT_BYTES] {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        write_hex(&mut text[3..35], &self.trace.0.get().to_be_bytes());
        write_hex(&mut text[36..52], &self.span.0.get().to_be_bytes());
        write_hex(&mut text[53..], &[self.flags]);
        text
    }

    /// Whether the caller records the trace.
    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }
}

/// Exactly this many lower-case hexadecimal digits.
fn hex(text: &str, digits: usize) -> Option<&str> {
    let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    (text.len() == digits && text.bytes().all(is_digit)).then_some(text)
}

/// Writes two lower-case digits for each byte. Every call has three ids as texts, and formatting takes
/// several times as long.
fn write_hex(digits: &mut [u8], bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 0xf)];
    }
}

fn as_text(digits: &[u8]) -> &str {
    std::str::from_utf8(digits).expect("digits are ASCII")
}

impl fmt::Display for Parent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(as_text(&self.text()))
    }
}

impl TraceId {
    /// The id as a number.
    pub fn as_u128(self) -> u128 {
        self.0.get()
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = [0; 32];
        write_hex(&mut digits, &self.0.get().to_be_bytes());
        f.write_str(as_text(&digits))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = [0; 16];
        write_hex(&mut digits, &self.0.get().to_be_bytes());
        f.write_str(as_text(&digits))
    }
}

/// The text is not a trace id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a trace id has 32 lower-case hexadecimal digits, not all of them 0")]
pub struct InvalidTraceId;

impl FromStr for TraceId {
    type Err = InvalidTraceId;

    fn from_str(text: &str) -> Result<Self, InvalidTraceId> {
        let digits = hex(text, 32).ok_or(InvalidTraceId)?;
        let number = u128::from_str_radix(digits, 16).map_err(|_| InvalidTraceId)?;
        NonZeroU128::new(number).map(Self).ok_or(InvalidTraceId)
    }
}

impl Serialize for TraceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for SpanId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The part of a `tracestate` that is forwarded.
pub fn bounded_state(text: &str) -> Option<&str> {
    bounded(text, STATE)
}

/// The value of a member of a `tracestate`.
pub fn state_member<'a>(state: &'a str, key: &str) -> Option<&'a str> {
    state.split(',').find_map(|member| member.trim().strip_prefix(key)?.strip_prefix('='))
}

/// A `tracestate` with a member at its start, where the specification puts changed members.
pub fn with_state_member(state: Option<&str>, (key, value): (&str, &str)) -> String {
    let others = state.into_iter().flat_map(|state| state.split(',')).map(str::trim);
    let others = others.filter(|member| !member.is_empty() && state_member(member, key).is_none());
    others.fold(format!("{key}={value}"), |state, member| state + "," + member)
}

/// The part of a `baggage` that is forwarded.
pub fn bounded_baggage(text: &str) -> Option<&str> {
    bounded(text, BAGGAGE)
}

/// As many whole members as fit. `None` if a header cannot carry the text.
fn bounded(text: &str, (members, bytes): (usize, usize)) -> Option<&str> {
    if !text.bytes().all(|b| b == b'\t' || (b' '..=b'~').contains(&b)) {
        return None;
    }
    let ends = text.match_indices(',').map(|(at, _)| at).chain([text.len()]);
    let end = ends.take(members).take_while(|end| *end <= bytes).last()?;
    let kept = text[..end].trim();
    (!kept.is_empty()).then_some(kept)
}

/// The context as headers. Values that a header cannot carry are omitted.
pub fn headers(context: &TraceContext) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let TraceContext { parent, state, baggage } = context;
    let parent = parent.and_then(|parent| HeaderValue::from_bytes(&parent.text()).ok());
    let value = |text: Option<&str>| HeaderValue::from_str(text?).ok();
    let (state, baggage) = (value(state.as_deref()), value(baggage.as_deref()));
    let values = [(PARENT_NAME, parent), (STATE_NAME, state), (BAGGAGE_NAME, baggage)];
    values.into_iter().filter_map(|(name, value)| Some((name, value?)))
}
