//! The requirements of a project and its lock file: exact versions and digests of all dependencies.
//!
//! Constraints exist only in these two files; the registry contains exact versions.

use std::{collections::BTreeMap, fs, io, path::Path};

use registry_core::{Digest, Key, Kind, Version, resolve::Requirement};
use schema_compat::pointer::pointer_join;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    failure::Failure,
    input::{Part, Source, SyntaxError},
};

/// The supported version of the lock file format.
const FORMAT: u32 = 1;

/// A lock file. Its maps are sorted, so that equal locks have equal bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Lock {
    #[serde(rename = "lockVersion")]
    format: u32,
    /// Id of the registry.
    pub(crate) registry: String,
    /// The revision of the resolution.
    pub(crate) revision: u64,
    /// Locked requirements by `KIND/NAME`.
    pub(crate) requirements: BTreeMap<String, Locked>,
    /// Digests of the required entities and all their dependencies, by `KIND/NAME@VERSION`.
    pub(crate) entities: BTreeMap<String, String>,
}

/// A constraint and its resolved version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Locked {
    pub(crate) constraint: String,
    pub(crate) version: String,
}

impl Lock {
    pub(crate) fn new(
        registry: String,
        revision: u64,
        requirements: BTreeMap<String, Locked>,
        entities: BTreeMap<String, String>,
    ) -> Self {
        Self { format: FORMAT, registry, revision, requirements, entities }
    }

    /// Reads a lock file that must exist.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        Self::find(path)?.ok_or_else(|| {
            unreadable(path, "no such file; `registryctl lock` writes it".to_owned())
        })
    }

    /// Reads a lock file, if it exists.
    pub(crate) fn find(path: &Path) -> Result<Option<Self>, Failure> {
        match fs::metadata(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            _ => {}
        }
        let source = Source::read(path)?;
        let lock: Self = serde_json::from_str(source.text()).map_err(|e| {
            unreadable(path, format!("{e}; restore it, or delete it and lock again"))
        })?;
        if lock.format != FORMAT {
            let found = lock.format;
            return Err(unreadable(
                path,
                format!("`lockVersion` is {found}; this program supports {FORMAT}"),
            ));
        }
        if let Some((key, problem)) = lock.entities.iter().find_map(invalid_entity) {
            let problem = format!("`{key}` in `entities`: {problem}; restore it, or lock again");
            return Err(unreadable(path, problem));
        }
        Ok(Some(lock))
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        // Strings and numbers always serialize.
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Whether both have the same contents, apart from the revision.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Self { revision: other.revision, ..self.clone() } == *other
    }

    /// The locked version of a requirement, if it still matches.
    pub(crate) fn keeps(&self, required: &Requirement) -> Option<Version> {
        let locked = self.requirements.get(&name_of(required))?;
        let version = Version::parse(&locked.version).ok()?;
        required.constraint.admits(&version).then_some(version)
    }
}

/// The problem of an invalid entity.
fn invalid_entity<'a>((key, digest): (&'a String, &String)) -> Option<(&'a str, String)> {
    let problem = match (key.parse::<Key>(), Digest::parse(digest)) {
        (Ok(_), Ok(_)) => return None,
        (Err(e), _) => e.to_string(),
        (_, Err(e)) => e.to_string(),
    };
    Some((key, problem))
}

/// `KIND/NAME`.
pub(crate) fn name_of(required: &Requirement) -> String {
    format!("{}/{}", required.kind, required.name)
}

/// Reads a requirements file: names and constraints by kind.
pub(crate) fn read_requirements(path: &Path) -> Result<Vec<Requirement>, Failure> {
    if !path.exists() && path != Path::new("-") {
        let help =
            r#"write it, such as {"tools": {"fetch": "^1.2"}}, or pass another file with -f"#;
        return Err(Failure::unreadable(path, "no such file").with_help(help.to_owned()));
    }
    let source = Source::read(path)?;
    let value = source.value().map_err(|SyntaxError { position, message }| {
        let place = position.map(|p| format!(" at line {}", p.line)).unwrap_or_default();
        unreadable(path, format!("{message}{place}"))
    })?;
    let at = |pointer: &str| {
        let position = source.locate(&[(pointer, Part::Value)]).into_iter().flatten().next();
        position.map(|p| format!(" at line {}, column {}", p.line, p.column)).unwrap_or_default()
    };
    let wrong = |pointer: &str, problem: String| unreadable(path, problem + &at(pointer));
    let form = "not an object; write {\"tools\": {\"NAME\": \"^1.0\"}}";
    let Value::Object(kinds) = &value else { return Err(wrong("", form.to_owned())) };
    let mut required = Vec::new();
    for (section, names) in kinds.iter().filter(|(section, _)| *section != "$comment") {
        let pointer = pointer_join("", section);
        let kind = section.strip_suffix('s').and_then(|kind| kind.parse::<Kind>().ok());
        let (Some(kind), Value::Object(names)) = (kind, names) else {
            let problem = format!(
                "`{section}` must be `schemas`, `servers`, `tools` or `agents`, with an object of names \
                 and constraints"
            );
            return Err(wrong(&pointer, problem));
        };
        for (name, constraint) in names {
            let pointer = pointer_join(&pointer, name);
            let Value::String(constraint) = constraint else {
                return Err(wrong(&pointer, format!("the constraint of `{name}` is not a string")));
            };
            let requirement = Requirement::parse(kind, name, constraint);
            required.push(requirement.map_err(|e| wrong(&pointer, e.to_string()))?);
        }
    }
    if required.is_empty() {
        return Err(wrong("", "the file has no requirements".to_owned()));
    }
    Ok(required)
}

fn unreadable(path: &Path, reason: String) -> Failure {
    Failure::File { action: "use", path: path.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;

    /// Sequences of the tokens of both formats.
    fn tokens() -> impl Strategy<Value = Vec<u8>> {
        let words = "{ } [ ] : , \"tools\" \"agents\" \"a\" \"^1\" \"latest\" \"lockVersion\" 1 \
             \"registry\" \"revision\" \"requirements\" \"entities\" \"constraint\" \"version\" null";
        let words = select(words.split_whitespace().collect::<Vec<_>>());
        vec(words, 0..40).prop_map(|words| words.concat().into_bytes())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn arbitrary_files_are_read_or_rejected(
            bytes in prop_oneof![vec(any::<u8>(), 0..256), tokens()],
        ) {
            let dir = tempfile::tempdir().unwrap();
            for name in ["a.json", "a.yaml"] {
                let path = dir.path().join(name);
                fs::write(&path, &bytes).unwrap();
                if let Ok(Some(lock)) = Lock::find(&path) {
                    fs::write(&path, lock.write()).unwrap();
                    prop_assert_eq!(Lock::read(&path).unwrap(), lock);
                }
                fs::write(&path, &bytes).unwrap();
                if let Ok(required) = read_requirements(&path) {
                    prop_assert!(!required.is_empty());
                }
            }
        }
    }

    fn requirements(name: &str, text: &str) -> Result<Vec<String>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        let directory = format!("{}/", dir.path().display());
        let read = read_requirements(&path).map_err(|e| e.to_string().replace(&directory, ""))?;
        Ok(read.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn requirements_are_read_by_kind() {
        let json = r#"{ "tools": { "fetch": "^1.2" }, "agents": { "team/x": "latest" } }"#;
        let mut read = requirements("r.json", json).unwrap();
        read.sort();
        assert_eq!(read, ["agent/team/x@latest", "tool/fetch@^1.2"]);
        let yaml = "schemas:\n  A: '>=1, <2'\n";
        assert_eq!(requirements("r.yaml", yaml).unwrap(), ["schema/A@>=1, <2"]);
    }

    #[test]
    fn invalid_requirements_have_positions() {
        let wrong = [
            "{\n \"tools\": {\n  \"a\": \"newest\" } }",
            r#"{ "gadgets": {} }"#,
            r#"{ "tools": { "a": 1 } }"#,
            "[]",
            "{}",
            "{",
        ]
        .map(|text| requirements("r.json", text).unwrap_err());
        insta::assert_snapshot!(wrong.join("\n"), @r#"
        cannot use r.json: `newest` is not a version constraint: unexpected character 'n' while parsing major version number; write an exact version, a range like `^1.2`, `~1.2.3`, `>=1, <2` or `1.x`, or `latest` at line 3, column 8
        cannot use r.json: `gadgets` must be `schemas`, `servers`, `tools` or `agents`, with an object of names and constraints at line 1, column 14
        cannot use r.json: the constraint of `a` is not a string at line 1, column 19
        cannot use r.json: not an object; write {"tools": {"NAME": "^1.0"}} at line 1, column 1
        cannot use r.json: the file has no requirements at line 1, column 1
        cannot use r.json: not valid JSON: EOF while parsing an object at line 1
        "#);
    }

    #[test]
    fn lock_files_round_trip() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("registry.lock");
        assert!(Lock::find(&path).unwrap().is_none());
        let locked = Locked { constraint: "^1".to_owned(), version: "1.2.0".to_owned() };
        let lock = Lock::new(
            "id".to_owned(),
            7,
            BTreeMap::from([("tool/a".to_owned(), locked)]),
            BTreeMap::from([("tool/a@1.2.0".to_owned(), Digest::compute(b"a").to_string())]),
        );
        fs::write(&path, lock.write()).unwrap();
        assert_eq!(Lock::read(&path).unwrap(), lock);
        assert!(lock.is_same(&Lock { revision: 9, ..lock.clone() }));
        let keeps = |text: &str| lock.keeps(&text.parse().unwrap()).is_some();
        assert!(keeps("tool/a@~1.2") && !keeps("tool/a@^2") && !keeps("tool/b@*"));
        for bad in ["", "{}", "{\"lockVersion\": 1, \"x\": 2}"] {
            fs::write(&path, bad).unwrap();
            assert!(Lock::read(&path).is_err(), "{bad}");
        }
        fs::write(&path, Lock { format: 2, ..lock }.write()).unwrap();
        let newer = Lock::read(&path).unwrap_err().to_string();
        let directory = format!("{}/", dir.path().display());
        insta::assert_snapshot!(
            newer.replace(&directory, ""),
            @"cannot use registry.lock: `lockVersion` is 2; this program supports 1"
        );
    }
}
