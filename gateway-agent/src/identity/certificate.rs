//! The agent of a SPIFFE id.

use gateway_policy::AgentReference;
use registry_tls::SPIFFE;

/// A pattern such as `spiffe://trust/agent/{name}/{version}`; the version is optional. Names may
/// contain `/`, versions may not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpiffePattern {
    before: String,
    /// The text before the version, if the pattern has one.
    between: Option<String>,
}

impl SpiffePattern {
    /// Parses a pattern.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || {
            format!(
                "`{text}` is not a pattern; use the form {SPIFFE}trust/agent/{{name}}/{{version}}"
            )
        };
        let (before, after) = text.split_once("{name}").ok_or_else(invalid)?;
        let between = match after.strip_suffix("{version}") {
            Some(between) => Some(between.to_owned()),
            None if after.is_empty() => None,
            None => return Err(invalid()),
        };
        let trust = before.strip_prefix(SPIFFE).and_then(|rest| rest.split_once('/'));
        let has_trust = trust.is_some_and(|(trust, _)| !trust.is_empty());
        let is_plain = |part: &str| !part.contains(['{', '}']);
        let is_good = between.as_deref().is_none_or(|text| !text.is_empty() && is_plain(text));
        if !has_trust || !before.ends_with('/') || !is_plain(before) || !is_good {
            return Err(invalid());
        }
        Ok(Self { before: before.to_owned(), between })
    }

    /// The agent of an id.
    pub(super) fn agent(&self, id: &str) -> Option<AgentReference> {
        let rest = id.strip_prefix(&self.before)?;
        let (name, version) = match &self.between {
            Some(between) => {
                rest.rsplit_once(between).map(|(name, version)| (name, Some(version)))?
            }
            None => (rest, None),
        };
        let is_there = !name.is_empty() && version.is_none_or(|version| !version.is_empty());
        is_there.then(|| AgentReference { name: name.into(), version: version.map(Into::into) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn agent(pattern: &str, id: &str) -> Option<(String, Option<String>)> {
        let named = SpiffePattern::parse(pattern).unwrap().agent(id)?;
        Some((named.name.into(), named.version.map(Into::into)))
    }

    #[test]
    fn spiffe_pattern_extracts_name_and_version() {
        let pattern = "spiffe://td/agent/{name}/{version}";
        let found = agent(pattern, "spiffe://td/agent/team/a/1.0.0");
        assert_eq!(found, Some(("team/a".to_owned(), Some("1.0.0".to_owned()))));
        let found = agent("spiffe://td/agent/{name}", "spiffe://td/agent/team/a");
        assert_eq!(found, Some(("team/a".to_owned(), None)));
        for other in [
            "spiffe://td.evil/agent/a/1.0.0",
            "spiffe://td/agent/a",
            "spiffe://td/agent//1.0.0",
            "spiffe://td/agent/a/",
            "spiffe://td/agents/a/1.0.0",
            "SPIFFE://td/agent/a/1.0.0",
        ] {
            assert_eq!(agent(pattern, other), None, "{other}");
        }
    }

    #[test]
    fn spiffe_pattern_requires_trust_domain_and_name() {
        for bad in [
            "",
            "spiffe://{name}",
            "spiffe:///{name}",
            "spiffe://td{name}",
            "spiffe://td/x",
            "spiffe://td/{version}/{name}",
            "spiffe://td/{name}{version}",
            "spiffe://td/{name}/{name}",
            "https://td/{name}",
        ] {
            assert!(SpiffePattern::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn spiffe_pattern_parses_formatted_ids(name in "[a-z/]{1,20}", version in "[0-9.]{1,9}") {
            let id = format!("spiffe://td/agent/{name}/{version}");
            let found = agent("spiffe://td/agent/{name}/{version}", &id);
            prop_assert_eq!(found, Some((name, Some(version))));
        }
    }
}
