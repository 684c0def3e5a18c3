//! A JSON text with an index of its values, which validators read instead of a tree.
//!
//! A `serde_json` tree takes up to 100 times the size of its text: an object with one member takes
//! about 700 bytes. The index takes 8 bytes for a scalar or a member name and 16 bytes for an array
//! or object, plus 4 bytes for each member of a wide object: at most six times the size of the
//! text.

use std::borrow::Cow;

use serde_json::{Number, value::RawValue};

use crate::pointer::{escape, unescape};

/// Maximum number of members of an object that lookups compare one by one.
const NARROW: u32 = 16;
/// Length of an array index in a JSON pointer, as an upper bound.
const INDEX_BYTES: usize = 10;
/// Heap bytes of one owned member name in addition to its text.
const NAME_BYTES: usize = 48;

/// A well-formed JSON text without a unique value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}{}", place(.pointer))]
pub struct Unreadable {
    /// JSON pointer of the value. A repeated member has that of its second value.
    pub pointer: String,
    /// The problem there.
    pub problem: Problem,
}

/// The reason why a text has no unique value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Two members of an object have the same name.
    #[error("an object has a repeated member name")]
    RepeatedName,
    /// A number exceeds the range of a 64-bit floating-point number.
    #[error("number out of range")]
    Number,
    /// A string contains half of a UTF-16 surrogate pair.
    #[error("a string has a lone surrogate")]
    Surrogate,
    /// The text is longer than 4 GiB.
    #[error("the text is longer than 4 GiB")]
    TooLong,
}

fn place(pointer: &str) -> String {
    if pointer.is_empty() { String::new() } else { format!(" at \"{pointer}\"") }
}

/// A scalar, a member name, or the first of the two slots of an array or object.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// Offset of the first byte in the text. Second slot of a container: the number of its items.
    at: u32,
    /// Scalar: offset after the last byte. Container: index of the slot after its last one. Second
    /// slot of a container: where its names begin in `sorted`.
    rest: u32,
}

/// A JSON text and the index of its values.
#[derive(Debug)]
pub struct Instance<'a> {
    text: &'a str,
    slots: Vec<Slot>,
    /// Name slots of each wide object, ordered by name.
    sorted: Vec<u32>,
    /// The slot of the first repeated name.
    repeated: Option<u32>,
    values: usize,
    /// Bytes of the member names of the widest object, as owned strings.
    widest: usize,
    /// Bytes of the longest JSON pointer.
    longest: usize,
}

impl<'a> Instance<'a> {
    /// Indexes a text in linear time (wide objects are sorted by name).
    pub fn read(raw: &'a RawValue) -> Result<Self, Unreadable> {
        let text = raw.get();
        let slots = Vec::with_capacity(text.len().min(64));
        let (sorted, repeated) = (Vec::new(), None);
        let mut instance = Self { text, slots, sorted, repeated, values: 0, widest: 0, longest: 0 };
        if u32::try_from(text.len()).is_err() {
            return Err(Unreadable { pointer: String::new(), problem: Problem::TooLong });
        }
        let mut scanner = Scanner {
            into: &mut instance,
            innermost: None,
            enclosing: Vec::new(),
            is_named: false,
            unreadable: None,
        };
        scanner.scan();
        match scanner.unreadable {
            None => Ok(instance),
            Some((slot, problem)) => Err(Unreadable { pointer: instance.pointer(slot), problem }),
        }
    }

    /// The first repeated member name.
    pub fn repeated_name(&self) -> Option<Unreadable> {
        let pointer = self.pointer(self.repeated?);
        Some(Unreadable { pointer, problem: Problem::RepeatedName })
    }

    /// The whole value.
    pub(super) fn root(&self) -> Part<'_> {
        Part { instance: self, slot: 0 }
    }

    /// Number of values; names do not count.
    pub(super) fn values(&self) -> usize {
        self.values
    }

    /// Bytes of the text.
    pub(super) fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Maximum size in bytes of the pointer and names in one error.
    pub(super) fn error_bytes(&self) -> usize {
        self.widest + self.longest
    }

    /// The value at a JSON pointer.
    pub(super) fn find(&self, pointer: &str) -> Option<Part<'_>> {
        let mut part = self.root();
        for token in pointer.split('/').skip(1) {
            let token = unescape(token);
            part = match part.kind() {
                Kind::Array => part.items().nth(token.parse().ok()?)?,
                Kind::Object => part.get(&token)?,
                _ => return None,
            };
        }
        Some(part)
    }

    /// The JSON pointer of the value in this slot, or of the value that the slot names.
    pub(super) fn pointer(&self, slot: u32) -> String {
        let mut pointer = String::new();
        let mut part = self.root();
        while part.slot < slot && (slot as usize) < self.slots.len() {
            let holds = |part: &Part<'_>| slot < part.end();
            let (token, next) = match part.kind() {
                Kind::Array => {
                    let found = part.items().enumerate().find(|(_, item)| holds(item));
                    let Some((index, item)) = found else { break };
                    (index.to_string(), item)
                }
                Kind::Object => {
                    let found = part.members().find(|(_, member)| holds(member));
                    let Some((name, member)) = found else { break };
                    (escape(&name), member)
                }
                _ => break,
            };
            pointer.push('/');
            pointer.push_str(&token);
            part = next;
        }
        pointer
    }

    fn name(&self, slot: u32) -> Cow<'_, str> {
        Part { instance: self, slot }.string()
    }
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

/// One value of an instance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    instance: &'a Instance<'a>,
    slot: u32,
}

impl<'a> Part<'a> {
    fn own(self) -> Slot {
        self.instance.slots[self.slot as usize]
    }

    /// The second slot of a container.
    fn second(self) -> Slot {
        self.instance.slots[self.slot as usize + 1]
    }

    /// The slot after the last one of this value.
    fn end(self) -> u32 {
        if self.is_container() { self.own().rest } else { self.slot + 1 }
    }

    pub(super) fn slot(self) -> u32 {
        self.slot
    }

    /// The value in another slot of the same instance.
    pub(super) fn at(self, slot: u32) -> Self {
        Self { slot, ..self }
    }

    /// An address that no other part of any instance has.
    pub(super) fn address(self) -> usize {
        std::ptr::from_ref(&self.instance.slots[self.slot as usize]).addr()
    }

    pub(super) fn kind(self) -> Kind {
        match self.instance.text.as_bytes()[self.own().at as usize] {
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            b'"' => Kind::String,
            b't' | b'f' => Kind::Boolean,
            b'n' => Kind::Null,
            _ => Kind::Number,
        }
    }

    fn is_container(self) -> bool {
        matches!(self.kind(), Kind::Array | Kind::Object)
    }

    /// The text of a scalar.
    fn token(self) -> &'a str {
        let Slot { at, rest } = self.own();
        &self.instance.text[at as usize..rest as usize]
    }

    /// The first bytes of this value as JSON without whitespace, for a message.
    pub(super) fn shown(self, most: usize) -> String {
        let mut out = String::new();
        self.show(most, &mut out);
        if out.len() > most {
            out.truncate(out.floor_char_boundary(most));
            out.push('…');
        }
        out
    }

    fn show(self, most: usize, out: &mut String) {
        let is_object = match self.kind() {
            Kind::Array => false,
            Kind::Object => true,
            _ => return out.push_str(self.beginning(most)),
        };
        out.push(if is_object { '{' } else { '[' });
        let mut items = self.items();
        let first = self.slot + 2;
        while let Some(mut item) = items.next() {
            if out.len() > most {
                return;
            }
            if item.slot > first {
                out.push(',');
            }
            if is_object {
                out.push_str(item.beginning(most));
                out.push(':');
                item = items.next().unwrap_or(item);
            }
            item.show(most, out);
        }
        out.push(if is_object { '}' } else { ']' });
    }

    /// The start of a scalar's text, longer than `most` bytes if the text is.
    fn beginning(self, most: usize) -> &'a str {
        let token = self.token();
        &token[..token.ceil_char_boundary(most + 1)]
    }

    /// The value of a scalar whose text has at most `most` bytes.
    pub(super) fn scalar(self, most: usize) -> Option<serde_json::Value> {
        let is_short = !self.is_container() && self.token_bytes() <= most;
        is_short.then(|| serde_json::from_str(self.token()).unwrap_or_default())
    }

    /// Length of a scalar's text.
    pub(super) fn token_bytes(self) -> usize {
        let Slot { at, rest } = self.own();
        (rest - at) as usize
    }

    pub(super) fn is_true(self) -> bool {
        self.token() == "true"
    }

    pub(super) fn number(self) -> Option<Number> {
        let token = self.token();
        // Most numbers are integers, and this is several times faster.
        token.parse::<i64>().map_or_else(|_| serde_json::from_str(token).ok(), |i| Some(i.into()))
    }

    /// A string without escapes; borrowed if it has none.
    pub(super) fn string(self) -> Cow<'a, str> {
        let token = self.token();
        let inner = token.get(1..token.len().saturating_sub(1)).unwrap_or_default();
        if inner.contains('\\') {
            return Cow::Owned(serde_json::from_str(token).unwrap_or_default());
        }
        Cow::Borrowed(inner)
    }

    /// Number of items or members.
    pub(super) fn len(self) -> usize {
        self.second().at as usize
    }

    /// The items of an array.
    pub(super) fn items(self) -> Items<'a> {
        Items { next: Part { slot: self.slot + 2, ..self }, end: self.end() }
    }

    /// The members of an object, in the order of the text.
    pub(super) fn members(self) -> Members<'a> {
        Members(self.items())
    }

    /// The member with this name; either of them if repeated.
    pub(super) fn get(self, name: &str) -> Option<Part<'a>> {
        self.get_comparing(name, |_| {})
    }

    /// Like [`Self::get`]; `compared` receives the length of each compared name.
    pub(super) fn get_comparing(
        self,
        name: &str,
        mut compared: impl FnMut(usize),
    ) -> Option<Part<'a>> {
        let mut text_of = |slot: u32| {
            let own = Part { slot, ..self };
            compared(own.token_bytes());
            own.string()
        };
        let Slot { at: count, rest: first } = self.second();
        let slot = if count <= NARROW {
            self.items().step_by(2).map(Part::slot).find(|slot| text_of(*slot) == name)?
        } else {
            let names = &self.instance.sorted[first as usize..(first + count) as usize];
            names[names.binary_search_by(|slot| (*text_of(*slot)).cmp(name)).ok()?]
        };
        Some(Part { slot: slot + 1, ..self })
    }
}

/// The values in consecutive slots.
#[derive(Debug, Clone)]
pub(super) struct Items<'a> {
    next: Part<'a>,
    end: u32,
}

impl<'a> Iterator for Items<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        let item = self.next;
        if item.slot >= self.end {
            return None;
        }
        self.next.slot = item.end();
        Some(item)
    }
}

/// Alternating names and values.
#[derive(Debug, Clone)]
pub(super) struct Members<'a>(Items<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, Part<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let name = self.0.next()?;
        Some((name.string(), self.0.next()?))
    }
}

/// An array or object whose end has not been reached.
struct Open {
    slot: usize,
    is_object: bool,
    count: u32,
    /// Bytes of its names as owned strings.
    names: usize,
    /// Bytes of its JSON pointer, and of the pointer of its current item.
    path: usize,
    item: usize,
}

struct Scanner<'s, 'a> {
    into: &'s mut Instance<'a>,
    innermost: Option<Open>,
    /// The other open containers, the outermost first. A flat object has none.
    enclosing: Vec<Open>,
    /// Whether the next value of an object has its name.
    is_named: bool,
    /// The first value that cannot be read.
    unreadable: Option<(u32, Problem)>,
}

impl Scanner<'_, '_> {
    fn scan(&mut self) {
        let text = self.into.text;
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            let mut end = at + 1;
            match byte {
                b'{' | b'[' => self.begin(at, *byte == b'{'),
                b'}' | b']' => self.finish(),
                b':' => self.is_named = true,
                b',' | b' ' | b'\t' | b'\n' | b'\r' => {}
                b'"' => {
                    end = end_of_string(bytes, at);
                    self.string(at, end);
                }
                _ => {
                    let is_over = |byte: &u8| b",]} \t\n\r".contains(byte);
                    end = bytes[at..].iter().position(is_over).map_or(bytes.len(), |n| at + n);
                    self.scalar(at, end);
                    if is_out_of_range(&text[at..end]) {
                        self.note(Problem::Number);
                    }
                }
            }
            at = end;
        }
    }

    /// Records a problem of the last scalar or name.
    fn note(&mut self, problem: Problem) {
        let slot = short(self.into.slots.len().saturating_sub(1));
        self.unreadable.get_or_insert((slot, problem));
    }

    fn push(&mut self, at: usize, rest: usize) {
        self.into.slots.push(Slot { at: short(at), rest: short(rest) });
    }

    /// Counts a value of the innermost container; returns the size of its pointer.
    fn count(&mut self) -> usize {
        self.into.values += 1;
        self.is_named = false;
        let Some(open) = &mut self.innermost else { return 0 };
        if !open.is_object {
            open.count += 1;
            open.item = INDEX_BYTES;
        }
        let path = open.path + 1 + open.item;
        self.into.longest = self.into.longest.max(path);
        path
    }

    fn scalar(&mut self, at: usize, end: usize) {
        self.count();
        self.push(at, end);
    }

    fn string(&mut self, at: usize, end: usize) {
        match &mut self.innermost {
            Some(open) if open.is_object && !self.is_named => {
                open.count += 1;
                open.item = end - at;
                open.names += end - at + NAME_BYTES;
                self.push(at, end);
            }
            _ => self.scalar(at, end),
        }
        let token = &self.into.text[at..end];
        let has_surrogates =
            token.contains('\\') && (token.contains("\\ud") || token.contains("\\uD"));
        if has_surrogates && serde_json::from_str::<String>(token).is_err() {
            self.note(Problem::Surrogate);
        }
    }

    fn begin(&mut self, at: usize, is_object: bool) {
        let path = self.count();
        let slot = self.into.slots.len();
        let open = Open { slot, is_object, count: 0, names: 0, path, item: 0 };
        self.enclosing.extend(self.innermost.replace(open));
        self.push(at, 0);
        self.push(0, 0);
    }

    fn finish(&mut self) {
        let Some(Open { slot, is_object, count, names, .. }) = self.innermost.take() else {
            return;
        };
        self.innermost = self.enclosing.pop();
        let sorted = short(self.into.sorted.len());
        self.into.slots[slot].rest = short(self.into.slots.len());
        self.into.slots[slot + 1] = Slot { at: count, rest: sorted };
        self.into.widest = self.into.widest.max(names);
        if is_object && count > 1 {
            self.sort(short(slot), count);
        }
    }

    /// Finds repeated names, and records the order of names of a wide object.
    fn sort(&mut self, slot: u32, count: u32) {
        let instance = &*self.into;
        let names = Part { instance, slot }.items().step_by(2);
        let mut sorted = Vec::new();
        let repeated = if count <= NARROW {
            let is_repeated = |(place, name): &(usize, Part<'_>)| {
                names.clone().take(*place).any(|earlier| earlier.string() == name.string())
            };
            names.clone().enumerate().find(is_repeated).map(|(_, name)| name.slot)
        } else {
            sorted.extend(names.map(Part::slot));
            sorted.sort_by_cached_key(|slot| instance.name(*slot));
            let is_same = |pair: &&[u32]| instance.name(pair[0]) == instance.name(pair[1]);
            sorted.windows(2).find(is_same).map(|pair| pair[1])
        };
        if let Some(name) = repeated {
            self.into.repeated.get_or_insert(name);
        }
        self.into.sorted.append(&mut sorted);
    }
}

/// The offset after the closing quote of the string that starts here.
fn end_of_string(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Maximum number of digits of a number that is certainly in range.
const SAFE_DIGITS: usize = 18;

fn is_out_of_range(token: &str) -> bool {
    let may_overflow = token.len() > SAFE_DIGITS || token.contains(['e', 'E']);
    let is_number = token.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    is_number && may_overflow && serde_json::from_str::<Number>(token).is_err()
}

/// An offset or count; the text has at most `u32::MAX` bytes, and fewer slots.
fn short(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
