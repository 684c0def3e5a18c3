//! Tests of input files.

use serde_json::json;

use super::*;
use crate::failure::Failure;

fn source(name: &str, text: &str) -> Source {
    let syntax = if name == "a.json" { Syntax::Json } else { Syntax::Yaml };
    Source::new(name.to_owned(), text.to_owned(), syntax)
}

fn at(source: &Source, pointer: &str) -> (usize, usize) {
    part_at(source, pointer, Part::Value)
}

fn part_at(source: &Source, pointer: &str, part: Part) -> (usize, usize) {
    let found = source.locate(&[(pointer, part)])[0].unwrap();
    (found.line, found.column)
}

#[test]
fn json_pointers_have_positions() {
    let source = source(
        "a.json",
        "{\n  \"größe\": 1, \"servers\": [\n    { \"name\": \"x\",\n      \"a/b~\": { \"deep\": [1, 2] } }\n  ]\n}\n",
    );
    assert_eq!(at(&source, ""), (1, 1));
    assert_eq!(at(&source, "/größe"), (2, 12));
    assert_eq!(at(&source, "/servers"), (2, 26));
    assert_eq!(at(&source, "/servers/0"), (3, 5));
    assert_eq!(at(&source, "/servers/0/a~1b~0/deep/1"), (4, 29));
    assert_eq!(at(&source, "/servers/0/absent"), (3, 5), "the innermost value around it");
    assert_eq!(at(&source, "/servers/7/name"), (2, 26));
    assert_eq!(part_at(&source, "/servers", Part::Key), (2, 15));
    assert_eq!(part_at(&source, "/servers/0", Part::Key), (3, 5));
}

#[test]
fn yaml_pointers_have_positions() {
    let text = "größe: 1\nbase: &base\n  version: 1.0.0\nservers:\n  - name: x\n    a/b~: { deep: [1, 2] }\n  - *base\n";
    let source = source("a.yaml", text);
    assert_eq!(at(&source, "/größe"), (1, 8));
    assert_eq!(at(&source, "/servers/0/name"), (5, 11));
    assert_eq!(at(&source, "/servers/0/a~1b~0/deep/1"), (6, 23));
    assert_eq!(at(&source, "/servers/1"), (7, 5), "the use of the alias");
    assert_eq!(at(&source, "/base/version"), (3, 12));
    assert_eq!(part_at(&source, "/base/version", Part::Key), (3, 3));
    assert_eq!(part_at(&source, "/servers/0/a~1b~0/deep", Part::Key), (6, 13));
    let value = source.value().unwrap();
    assert_eq!(value["servers"][1], json!({ "version": "1.0.0" }));
}

#[test]
fn json_errors_have_positions() {
    let error = source("a.json", "{\n  \"größe\": tru\n}").value().unwrap_err();
    let found = error.position.unwrap();
    assert_eq!((found.line, found.column), (2, 14), "{error:?}");
    insta::assert_snapshot!(error.message, @"not valid JSON: expected ident");
    for (text, place) in [
        ("{\n  \"a\": 1,\n  \"a\": 2 }", (3, 5)),
        ("{\n  \"a\": 1e400 }", (2, 12)),
        ("{\n  \"a\": \"\\ud800\" }", (2, 15)),
    ] {
        let found = source("a.json", text).value().unwrap_err().position.unwrap();
        assert_eq!((found.line, found.column), place, "{text}");
    }
    for extension in ["{ a: 1 }", "{\"a\": 1,}", "// x\n{}", "{'a': 1}"] {
        assert!(source("a.json", extension).value().is_err(), "{extension}");
    }
}

#[test]
fn yaml_errors_have_positions() {
    let error = source("a.yaml", "a: 1\nb: [1\nc: 2\n").value().unwrap_err();
    assert!(error.position.is_some(), "{error:?}");
    insta::assert_snapshot!(error.message, @"not valid YAML: illegal placement of ':' indicator");
    let deep = format!("a: {}{}", "[".repeat(80), "]".repeat(80));
    let error = source("a.yaml", &deep).value().unwrap_err();
    insta::assert_snapshot!(error.message, @"YAML nested deeper than 64 levels");
    assert_eq!(error.help(), "flatten the value");
    for bad in ["a: 1\na: 2\n", "a: .nan\n", "a: .inf\n", "a: 1\n---\nb: 2\n"] {
        assert!(source("a.yaml", bad).value().is_err(), "{bad}");
    }
    let value = source("a.yaml", "a: yes\nb: true\nc: 1.20.3\nd: null\n").value().unwrap();
    assert_eq!(value, json!({ "a": "yes", "b": true, "c": "1.20.3", "d": null }));
}

#[test]
fn yaml_accepts_many_comments_before_first_item() {
    let text = format!("cases:\n{}  - one # last\n", "  # why\n".repeat(100));
    let source = source("a.yaml", &text);
    assert_eq!(source.value().unwrap(), json!({ "cases": ["one"] }));
    assert_eq!(at(&source, "/cases/0"), (102, 5));
}

#[test]
fn alias_bombs_are_rejected() {
    let line = |i: usize| {
        let item = if i == 0 { "x".to_owned() } else { format!("*a{}", i - 1) };
        format!("a{i}: &a{i} [{}]\n", vec![item; 10].join(", "))
    };
    let text: String = (0..12).map(line).collect();
    assert!(source("a.yaml", &text).value().is_err());
}

#[test]
fn content_decides_syntax_without_extension() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("policies.yaml.new");
    for text in ["a: [1]\n", "{ \"a\": [1] }"] {
        fs::write(&path, text).unwrap();
        assert_eq!(Source::read(&path).unwrap().value(), Ok(json!({ "a": [1] })), "{text}");
    }
}

#[test]
fn directories_are_expanded_in_order() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["b.json", "a.yaml", "c.YML", "notes.txt"] {
        fs::write(dir.path().join(name), "{}").unwrap();
    }
    fs::create_dir(dir.path().join("d.json")).unwrap();
    let names: Vec<_> = expand(dir.path())
        .unwrap()
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names, ["a.yaml", "b.json", "c.YML"]);
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(Failure::from(expand(empty.path()).unwrap_err()).exit_code(), 2);
    let absent = Source::read(Path::new("/no/such/file.json")).unwrap_err();
    let absent = Failure::from(absent);
    insta::assert_snapshot!(
        absent,
        @"cannot read /no/such/file.json: No such file or directory (os error 2)"
    );
}

#[test]
fn large_files_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("big.json");
    File::create(&path).unwrap().set_len(FILE_BYTES + 1).unwrap();
    let error = Failure::from(Source::read(&path).unwrap_err()).to_string();
    insta::assert_snapshot!(
        error.replace(&path.display().to_string(), "big.json"),
        @"cannot read big.json: larger than 64 MiB"
    );
}
