//! The names of agents' skills as tools: `agent__NAME__SKILL`, with one more `__` in names with a
//! namespace.
//!
//! Two underscores separate the parts. Within a part, an underscore stays if a letter other than
//! `x`, a digit or `-` follows it and it is not the first character. Each other byte that is not a
//! letter, digit or `-` becomes `_xHH`. So no two skills have one name, and the parts can be read
//! back. Models accept only letters, digits, `_` and `-` in names.

use std::fmt::Write as _;

use registry_core::{Kind, Name};

const PREFIX: &str = "agent";
const SEPARATOR: &str = "__";

/// The name of a skill as a tool. `None`: it is too long.
pub(super) fn of(agent: &Name, skill: &str) -> Option<Name> {
    let mut name = String::from(PREFIX);
    for part in agent.as_str().split('/').chain([skill]) {
        name.push_str(SEPARATOR);
        escape(&mut name, part);
    }
    Name::parse(Kind::Tool, &name).ok()
}

fn escape(name: &mut String, part: &str) {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let bytes = part.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        let next = bytes.get(at + 1).copied();
        let stays = byte == b'_' && at > 0 && next.is_some_and(|b| is_plain(b) && b != b'x');
        if stays || is_plain(byte) {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "_x{byte:02x}");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(agent: &str, skill: &str) -> Option<String> {
        let agent = Name::parse(Kind::Agent, agent).unwrap();
        of(&agent, skill).map(|name| name.as_str().to_owned())
    }

    /// The parts of a name, by the documented rule.
    fn parts(name: &str) -> Vec<String> {
        let unescaped = |part: &str| {
            let (mut bytes, mut rest) = (Vec::new(), part);
            while let Some(first) = rest.bytes().next() {
                let code = rest.strip_prefix("_x").map(|rest| &rest[..2]);
                let length = if code.is_some() { 4 } else { 1 };
                bytes.push(code.map_or(first, |code| u8::from_str_radix(code, 16).unwrap()));
                rest = &rest[length..];
            }
            String::from_utf8(bytes).unwrap()
        };
        name.split(SEPARATOR).skip(1).map(unescaped).collect()
    }

    #[test]
    fn name_has_agent_and_skill_with_escapes() {
        for (agent, skill, name) in [
            ("summarizer-agent", "complex_task", "agent__summarizer-agent__complex_task"),
            ("office/writer", "write", "agent__office__writer__write"),
            ("a.b", "say x", "agent__a_x2eb__say_x20x"),
            ("a", "__x_x", "agent__a___x5f_x5fx_x5fx"),
            ("a", "ends_", "agent__a__ends_x5f"),
        ] {
            assert_eq!(named(agent, skill).as_deref(), Some(name));
        }
        assert_eq!(named("a", &"x".repeat(128)), None, "too long for a tool");
    }

    proptest! {
        #[test]
        fn name_can_be_read_back(agent in "[a-cx_.-]{0,6}a(/[a-cx_.-]{0,6}a)?", skill in "[ax_é./ -]{1,8}") {
            let name = named(&agent, &skill).unwrap();
            let expected: Vec<_> = agent.split('/').chain([&*skill]).collect();
            prop_assert_eq!(parts(&name), expected);
        }
    }
}
