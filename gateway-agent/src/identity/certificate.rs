//! Which agent a SPIFFE id names.

use gateway_policy::Named;
use registry_tls::SPIFFE;

/// `spiffe://trust/agent/{name}/{version}`, or without a version at its end. Names may have a `/`
/// in them, versions may not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpiffePattern {
    before: String,
    /// What stands before the version, where there is one.
    between: Option<String>,
}

impl SpiffePattern {
    /// Reads a pattern; what is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || {
            format!(
                "`{text}` is no pattern; write one like {SPIFFE}trust/agent/{{name}}/{{version}}"
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

    /// The agent of this id.
    pub(super) fn agent(&self, id: &str) -> Option<Named> {
        let rest = id.strip_prefix(&self.before)?;
        let (name, version) = match &self.between {
            Some(between) => {
                rest.rsplit_once(between).map(|(name, version)| (name, Some(version)))?
            }
            None => (rest, None),
        };
        let is_there = !name.is_empty() && version.is_none_or(|version| !version.is_empty());
        is_there.then(|| Named { name: name.into(), version: version.map(Into::into) })
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
    fn an_id_names_what_stands_at_the_places_of_the_pattern() {
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
    fn a_pattern_names_a_trust_domain_and_the_name() {
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
        fn what_is_written_by_the_pattern_is_read_back(name in "[a-z/]{1,20}", version in "[0-9.]{1,9}") {
            let id = format!("spiffe://td/agent/{name}/{version}");
            let found = agent("spiffe://td/agent/{name}/{version}", &id);
            prop_assert_eq!(found, Some((name, Some(version))));
        }
    }
}
