//! Exact semantic versions. Ranges and aliases are never stored.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::{limits, visible::escape_invisible};

/// The effect of a new release on users of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReleaseChange {
    /// No change of promises, such as changed texts or an equivalent schema.
    Editorial,
    /// An extension that existing users can adopt.
    Compatible,
    /// Existing users may fail.
    Breaking,
}

/// An exact version by semver 2.0.0, ordered by its precedence rules.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(semver::Version);

/// The text is not an exact version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an exact semantic version: {reason}")]
pub struct InvalidVersion {
    text: String,
    reason: String,
}

impl InvalidVersion {
    /// The remedy.
    pub fn help(&self) -> &'static str {
        "write major.minor.patch, like `1.4.0`; ranges, `*` and `latest` are not stored"
    }
}

impl Version {
    /// Parses an exact version such as `1.4.0` or `2.0.0-rc.1`.
    pub fn parse(text: &str) -> Result<Self, InvalidVersion> {
        if text.len() > limits::VERSION_BYTES {
            let start = text.chars().take(32).collect::<String>() + "…";
            let reason = format!("longer than {} bytes", limits::VERSION_BYTES);
            return Err(InvalidVersion { text: escape_invisible(start), reason });
        }
        semver::Version::parse(text)
            .map(Self)
            .map_err(|e| InvalidVersion { text: escape_invisible(text), reason: e.to_string() })
    }

    /// The lowest version (`0.0.0-0`), for range queries only.
    pub(crate) fn lowest() -> Self {
        let mut lowest = semver::Version::new(0, 0, 0);
        lowest.pre = semver::Prerelease::new("0").unwrap_or_default();
        Self(lowest)
    }

    /// The next release after a change of this kind (semver sections 4 and 6 to 8). A breaking
    /// change starts the next line; below 1.0.0 any other change is a patch. Returns `None` if a
    /// 64-bit number would overflow.
    pub fn next(&self, change: ReleaseChange) -> Option<Self> {
        let semver::Version { major, minor, patch, .. } = self.0;
        let next = match change {
            ReleaseChange::Breaking => return self.next_breaking(),
            ReleaseChange::Compatible if major > 0 => {
                semver::Version::new(major, minor.checked_add(1)?, 0)
            }
            ReleaseChange::Compatible | ReleaseChange::Editorial => {
                semver::Version::new(major, minor, patch.checked_add(1)?)
            }
        };
        Some(Self(next))
    }

    /// The underlying value, for version constraints of the same library.
    pub(crate) fn semver(&self) -> &semver::Version {
        &self.0
    }

    /// The release of a pre-release; a release itself.
    pub(crate) fn release(&self) -> Self {
        Self(semver::Version::new(self.0.major, self.0.minor, self.0.patch))
    }

    /// The compatibility line (semver 2.0.0): the major version, below 1.0.0 the minor version,
    /// below 0.1.0 the exact version.
    pub fn line(&self) -> (u64, u64, u64) {
        match (self.0.major, self.0.minor, self.0.patch) {
            (0, 0, patch) => (0, 0, patch),
            (0, minor, _) => (0, minor, 0),
            (major, _, _) => (major, 0, 0),
        }
    }

    /// The first version of the next line; `None` on overflow.
    pub fn next_breaking(&self) -> Option<Self> {
        Some(Self(match self.line() {
            (0, 0, patch) => semver::Version::new(0, 0, patch.checked_add(1)?),
            (0, minor, _) => semver::Version::new(0, minor.checked_add(1)?, 0),
            (major, _, _) => semver::Version::new(major.checked_add(1)?, 0, 0),
        }))
    }

    /// Whether this is a pre-release such as `1.0.0-beta`.
    pub fn is_prerelease(&self) -> bool {
        !self.0.pre.is_empty()
    }
}

/// The exact version closest to a text: `v1.2` is `1.2.0`, `2026.01.05` is `2026.1.5`.
pub fn closest_version(text: &str) -> Option<Version> {
    let text = text.trim();
    if let Ok(version) = Version::parse(text) {
        return Some(version);
    }
    let text = text.strip_prefix(['v', 'V', '=']).unwrap_or(text).trim();
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (core, rest) = text.split_at(end);
    let mut numbers = Vec::new();
    for number in core.split('.').take(4) {
        numbers.push(number.parse::<u32>().ok()?);
    }
    if numbers.len() > 3 {
        return None;
    }
    numbers.resize(3, 0);
    let core: Vec<_> = numbers.iter().map(u32::to_string).collect();
    Version::parse(&format!("{}{rest}", core.join("."))).ok()
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_accepts_only_exact_versions() {
        for good in ["0.0.0", "1.2.3", "1.0.0-rc.1", "1.0.0+build.7"] {
            assert_eq!(Version::parse(good).unwrap().to_string(), good);
        }
        let bad = ["", "1", "1.0", "v1.0.0", "^1.0.0", "1.x", "*", "latest", "01.0.0", "1.0.0 "];
        let refused = bad.map(|bad| Version::parse(bad).unwrap_err().to_string());
        insta::assert_snapshot!(refused.join("\n"), @"
        `` is not an exact semantic version: empty string, expected a semver version
        `1` is not an exact semantic version: unexpected end of input while parsing major version number
        `1.0` is not an exact semantic version: unexpected end of input while parsing minor version number
        `v1.0.0` is not an exact semantic version: unexpected character 'v' while parsing major version number
        `^1.0.0` is not an exact semantic version: unexpected character '^' while parsing major version number
        `1.x` is not an exact semantic version: unexpected character 'x' while parsing minor version number
        `*` is not an exact semantic version: unexpected character '*' while parsing major version number
        `latest` is not an exact semantic version: unexpected character 'l' while parsing major version number
        `01.0.0` is not an exact semantic version: invalid leading zero in major version number
        `1.0.0 ` is not an exact semantic version: unexpected character ' ' after patch version number
        ");
        let long = |bytes: usize| Version::parse(&format!("1.0.0-{}", "x".repeat(bytes - 6)));
        assert!(long(255).is_ok());
        insta::assert_snapshot!(
            long(256).unwrap_err(),
            @"`1.0.0-xxxxxxxxxxxxxxxxxxxxxxxxxx…` is not an exact semantic version: longer than \
              255 bytes"
        );
    }

    #[test]
    fn next_version_matches_kind_of_change() {
        let next =
            |text: &str, change| Version::parse(text).unwrap().next(change).unwrap().to_string();
        for (version, words, compatible, breaking) in [
            ("1.2.3", "1.2.4", "1.3.0", "2.0.0"),
            ("1.2.3-rc.1+b", "1.2.4", "1.3.0", "2.0.0"),
            ("0.2.3", "0.2.4", "0.2.4", "0.3.0"),
            ("0.1.0", "0.1.1", "0.1.1", "0.2.0"),
            ("0.0.3", "0.0.4", "0.0.4", "0.0.4"),
            ("0.0.0", "0.0.1", "0.0.1", "0.0.1"),
        ] {
            let all =
                [ReleaseChange::Editorial, ReleaseChange::Compatible, ReleaseChange::Breaking];
            assert_eq!(all.map(|change| next(version, change)), [words, compatible, breaking]);
        }
    }

    #[test]
    fn only_breaking_change_starts_new_line() {
        for version in ["1.2.3", "10.0.0", "0.2.3", "0.1.0", "0.0.3", "0.0.0"] {
            let version = Version::parse(version).unwrap();
            let next = |change| version.next(change).unwrap();
            assert_ne!(next(ReleaseChange::Breaking).line(), version.line());
            assert_eq!(Some(next(ReleaseChange::Breaking)), version.next_breaking());
            // Each version below 0.1.0 is a line of its own.
            let stays = version.line().0 > 0 || version.line().1 > 0;
            for change in [ReleaseChange::Editorial, ReleaseChange::Compatible] {
                assert_eq!(next(change).line() == version.line(), stays, "{version}");
                assert!(next(change) > version);
            }
        }
    }

    #[test]
    fn next_of_maximum_version_is_none() {
        let last = Version::parse(&format!("1.0.{}", u64::MAX)).unwrap();
        assert_eq!(last.next(ReleaseChange::Editorial), None);
        assert_eq!(last.next(ReleaseChange::Compatible), Version::parse("1.1.0").ok());
        let last = Version::parse(&format!("{}.0.0", u64::MAX)).unwrap();
        assert_eq!((last.next(ReleaseChange::Breaking), last.next_breaking()), (None, None));
    }

    #[test]
    fn line_follows_semver() {
        let version = |text: &str| Version::parse(text).unwrap();
        assert_eq!(version("1.2.3").line(), version("1.0.0").line());
        assert_eq!(version("0.2.3").line(), version("0.2.0").line());
        assert_ne!(version("0.2.3").line(), version("0.3.0").line());
        assert_ne!(version("0.0.3").line(), version("0.0.4").line());
        let next =
            ["1.2.3", "0.2.3", "0.0.3"].map(|v| version(v).next_breaking().unwrap().to_string());
        assert_eq!(next, ["2.0.0", "0.3.0", "0.0.4"]);
    }

    #[test]
    fn version_orders_by_semver_precedence() {
        let mut versions: Vec<_> =
            ["1.10.0", "1.2.0", "1.10.0-rc.1"].iter().map(|v| Version::parse(v).unwrap()).collect();
        versions.sort();
        assert_eq!(format!("{versions:?}"), "[1.2.0, 1.10.0-rc.1, 1.10.0]");
    }

    #[test]
    fn closest_version_normalizes_text() {
        let version = |text: &str| closest_version(text).map(|version| version.to_string());
        for (text, expected) in [
            ("1.2.3", "1.2.3"),
            ("v1.2.3-rc.1", "1.2.3-rc.1"),
            ("1.2", "1.2.0"),
            ("3", "3.0.0"),
            (" 2026.01.05 ", "2026.1.5"),
        ] {
            assert_eq!(version(text).as_deref(), Some(expected), "{text}");
        }
        for bad in ["", "latest", "1.2.3.4", "one", "1..2", "99999999999"] {
            assert_eq!(version(bad), None, "{bad}");
        }
    }
}
