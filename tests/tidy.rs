//! Keeps the shape of the tree: dependency rules, sizes, module docs, one home for each concern.
//!
//! Deliberately absent: style that rustfmt and clippy check.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// Maximum lines of a source file.
const SOURCE_LINES: usize = 1000;
const TEST_LINES: usize = 1000;
/// Maximum lines of a function outside of tests.
const FUNCTION_LINES: usize = 100;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the root").to_path_buf()
}

/// The files that git tracks, or would track, with these endings; paths relative to the root.
fn files(endings: &[&str]) -> Vec<String> {
    let listing = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git runs");
    let text = String::from_utf8(listing.stdout).expect("paths are UTF-8");
    let wanted = |path: &&str| endings.iter().any(|end| path.ends_with(end));
    let found: Vec<_> = text.lines().filter(wanted).map(str::to_owned).collect();
    let found: Vec<_> = found.into_iter().filter(|path| root().join(path).exists()).collect();
    assert!(!found.is_empty(), "no files with {endings:?}: is this a git checkout?");
    found
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.starts_with("tests/") || path.ends_with("tests.rs")
}

/// The code of a file without comment lines and without its inline test module, which is the last item.
fn code(path: &str) -> String {
    let text = read(path);
    let inline = |(i, _): &(usize, &str)| {
        text[*i..]
            .lines()
            .nth(1)
            .is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    };
    let end = text.match_indices("#[cfg(test)]\nmod ").find(inline);
    let text = &text[..end.map_or(text.len(), |(i, _)| i)];
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    text.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

fn assert_none(what: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{what}:\n  {}", findings.join("\n  "));
}

#[test]
fn every_source_file_says_what_it_is_for() {
    let mute = |path: &String| !read(path).starts_with("//! ");
    let found: Vec<_> = files(&[".rs"]).into_iter().filter(mute).collect();
    assert_none("files that do not begin with `//!`", &found);
}

#[test]
fn files_stay_small() {
    let mut found = Vec::new();
    for path in files(&[".rs"]) {
        let lines = read(&path).lines().count();
        let limit = if is_test(&path) { TEST_LINES } else { SOURCE_LINES };
        if lines > limit {
            found.push(format!("{path} has {lines} lines, {limit} are allowed"));
        }
    }
    assert_none("files that are too long", &found);
}

/// rustfmt ends a function with a brace below its beginning, so lines tell its length.
#[test]
fn functions_stay_small() {
    let mut found = Vec::new();
    for path in files(&[".rs"]).iter().filter(|path| !is_test(path)) {
        let text = read(path);
        let lines: Vec<_> = text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let words = line.trim_start();
            let is_function = words.split(['(', '<']).next().is_some_and(|head| {
                head.starts_with("fn ") || head.contains(" fn ") && !head.contains(['/', '"', '='])
            });
            if !is_function || line.trim_end().ends_with([';', '}']) {
                continue;
            }
            let end = format!("{}}}", &line[..line.len() - words.len()]);
            let length = lines[i..].iter().position(|line| **line == end).unwrap_or(usize::MAX);
            if length > FUNCTION_LINES {
                found.push(format!("{path}:{}: {length} lines: {words}", i + 1));
            }
        }
    }
    assert_none("functions that are too long", &found);
}

#[test]
fn modules_have_one_layout() {
    let found: Vec<_> = files(&[".rs"]).into_iter().filter(|p| p.ends_with("/mod.rs")).collect();
    assert_none("use `foo.rs` beside `foo/` instead of", &found);
}

/// What the two services stand on.
const SERVICE: [&str; 5] =
    ["registry-core", "registry-proto", "registry-follow", "registry-tls", "registry-jwt"];

/// Which workspace crates a crate may depend on, tests apart (architecture, section 3, rule 1).
fn allowed_dependencies() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    [
        ("registry-core", vec![]),
        ("registry-proto", vec!["registry-core"]),
        ("registry-follow", vec!["registry-core", "registry-proto"]),
        ("registry-tls", vec![]),
        ("registry-jwt", vec!["registry-core"]),
        ("registry-server", SERVICE.to_vec()),
        ("gateway-agent", SERVICE.to_vec()),
        ("registryctl", vec!["registry-core", "registry-proto"]),
        ("demo-backend", vec![]),
        ("acceptance", vec!["registry-core", "registry-proto"]),
        ("bench", vec!["registry-core", "registry-proto", "acceptance"]),
        ("history-check", vec![]),
        ("proof", vec!["registry-core", "registry-proto", "acceptance", "history-check"]),
    ]
    .into_iter()
    .map(|(name, allowed)| (name, allowed.into_iter().collect()))
    .collect()
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

#[test]
fn crates_depend_only_downwards() {
    let allowed = allowed_dependencies();
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let names: BTreeSet<_> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(names, allowed.keys().copied().collect(), "a crate without a rule");
    let mut found = Vec::new();
    for package in packages {
        let name = package["name"].as_str().expect("name");
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let to = dependency["name"].as_str().expect("name");
            if names.contains(to) && dependency["kind"] != "dev" && !allowed[name].contains(to) {
                found.push(format!("{name} -> {to}"));
            }
        }
    }
    assert_none("dependencies against the rules", &found);
}

/// The modules of the gateway, the lowest first. A module imports only earlier ones.
const LAYERS: &str = "
    clock fast_map files lanes logging origin outcome random secret tls_metrics capacity shares
    workers buffers jsonrpc content trace policy identity seal
    upstream findings startup admission cache freshness feed sync source contract
    composition view health audit pipeline
    mcp admin config check server
";

/// The top-level modules that a file imports by `crate::` paths, also in nested `use` trees.
fn imported_modules(code: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for (i, _) in code.match_indices("crate::") {
        if code[..i].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[i + "crate::".len()..];
        let Some(list) = rest.strip_prefix('{') else {
            found.extend(rest.split(|c: char| !c.is_alphanumeric() && c != '_').next());
            continue;
        };
        let (mut depth, mut is_first) = (0_usize, true);
        for (j, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => is_first = true,
                c if is_first && !c.is_whitespace() => {
                    let name = list[j..].split(|c: char| !c.is_alphanumeric() && c != '_').next();
                    found.extend(name);
                    is_first = false;
                }
                _ => {}
            }
        }
    }
    found
}

#[test]
fn gateway_modules_import_only_lower_layers() {
    let layers: Vec<_> = LAYERS.split_whitespace().collect();
    let rank = |module: &str| layers.iter().position(|layer| *layer == module);
    let mut found = Vec::new();
    for path in files(&[".rs"]) {
        let Some(rest) = path.strip_prefix("gateway-agent/src/") else { continue };
        let module = rest.split(['/', '.']).next().unwrap_or_default();
        if is_test(&path) || path.ends_with("/testing.rs") || ["lib", "main"].contains(&module) {
            continue;
        }
        let Some(own) = rank(module) else {
            found.push(format!("{path}: `{module}` has no layer"));
            continue;
        };
        let code = code(&path);
        let higher = imported_modules(&code).into_iter().filter(|name| rank(name) > Some(own));
        found.extend(higher.map(|name| format!("{path} imports `{name}`, a higher layer")));
    }
    assert_none("imports against the order of layers", &found);
}

#[test]
fn the_domain_knows_no_io() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let core = packages.iter().find(|p| p["name"] == "registry-core").expect("registry-core");
    let banned = ["tokio", "tonic", "sqlx", "axum", "reqwest", "tracing", "rand", "uuid"];
    let found: Vec<_> = core["dependencies"]
        .as_array()
        .expect("dependencies")
        .iter()
        .filter(|d| d["kind"] != "dev")
        .filter_map(|d| d["name"].as_str())
        .filter(|name| banned.contains(name))
        .map(str::to_owned)
        .collect();
    assert_none("registry-core depends on", &found);
}

/// A text that only the files under some paths may contain.
struct Home {
    text: &'static str,
    within: &'static str,
    homes: &'static [&'static str],
}

const HOMES: &[Home] = &[
    Home { text: "sqlx::", within: "registry-server/src/", homes: &["registry-server/src/store"] },
    Home { text: "Status::", within: "registry-server/src/", homes: &["registry-server/src/grpc"] },
    Home {
        text: "v1::",
        within: "registry-server/src/",
        homes: &["registry-server/src/grpc", "registry-server/src/relay"],
    },
    Home { text: "v1::", within: "gateway-agent/src/", homes: &["gateway-agent/src/sync"] },
    Home {
        text: "Permit {",
        within: "gateway-agent/src/",
        homes: &["gateway-agent/src/policy/permit.rs"],
    },
    Home {
        text: "HttpConnector",
        within: "gateway-agent/src/",
        homes: &["gateway-agent/src/upstream"],
    },
    Home {
        text: "CommandWrap",
        within: "gateway-agent/src/",
        homes: &["gateway-agent/src/upstream"],
    },
    Home { text: "tonic::", within: "gateway-agent/src/", homes: &["gateway-agent/src/sync"] },
    Home {
        text: "reqwest::",
        within: "gateway-agent/src/",
        homes: &[
            "gateway-agent/src/upstream",
            "gateway-agent/src/sync",
            "gateway-agent/src/source",
            "gateway-agent/src/trace/export.rs",
        ],
    },
    Home {
        text: "env::var",
        within: "registry-server/src/",
        homes: &["registry-server/src/config"],
    },
    Home { text: "env::var", within: "gateway-agent/src/", homes: &["gateway-agent/src/config"] },
    Home {
        text: "SystemTime::now",
        within: "registry-server/src/",
        homes: &["registry-server/src/clock.rs"],
    },
    Home {
        text: "SystemTime::now",
        within: "gateway-agent/src/",
        homes: &["gateway-agent/src/clock.rs"],
    },
    Home { text: "SystemTime::now", within: "crates/registry-core/src/", homes: &[] },
    Home {
        text: "jsonschema::",
        within: "crates/registry-core/src/",
        homes: &["crates/registry-core/src/schema_compile"],
    },
    Home { text: "jsonschema::", within: "gateway-agent/src/", homes: &[] },
];

#[test]
fn each_concern_has_one_home() {
    let mut found = Vec::new();
    for Home { text, within, homes } in HOMES {
        for home in *homes {
            let is_there = files(&[".rs"]).iter().any(|path| path.starts_with(home));
            assert!(is_there, "`{text}` is at home in {home}, which is not there");
        }
        for path in files(&[".rs"]).iter().filter(|path| path.starts_with(within)) {
            let at_home = homes.iter().any(|home| path.starts_with(home));
            if !at_home && code(path).contains(text) {
                found.push(format!("{path} names `{text}`, which belongs under {homes:?}"));
            }
        }
    }
    assert_none("concerns away from home", &found);
}

#[test]
fn every_proto_message_and_field_is_documented() {
    let mut found = Vec::new();
    for path in files(&[".proto"]) {
        let text = read(&path);
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        for (i, line) in lines.iter().enumerate() {
            let declares =
                line.ends_with(';') && line.contains(" = ") && !line.starts_with("syntax")
                    || ["message ", "enum ", "service ", "rpc ", "oneof "]
                        .iter()
                        .any(|word| line.starts_with(word));
            if declares && !line.starts_with("//") && !lines[i - 1].starts_with("//") {
                found.push(format!("{path}:{}: {line}", i + 1));
            }
        }
    }
    assert_none("undocumented", &found);
}

#[test]
fn lints_are_silenced_only_with_a_reason() {
    let bare = |path: &String| {
        let text = code(path);
        text.contains("#[allow(") || text.contains("#![allow(")
    };
    let found: Vec<_> =
        files(&[".rs"]).into_iter().filter(|path| path != "tests/tidy.rs").filter(bare).collect();
    assert_none("use #[expect(.., reason = \"..\")] in", &found);
}

#[test]
fn every_error_is_documented() {
    let errors = read("docs/errors.md");
    let is_reason = |text: &&str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    };
    let status = code("registry-server/src/grpc/status.rs");
    let reasons: Vec<_> = status.split('"').skip(1).step_by(2).filter(is_reason).collect();
    assert!(reasons.contains(&"VALIDATION_FAILED"), "reasons are written elsewhere now");
    let codes = registry_core::Code::ALL.iter().map(|code| code.as_str());
    let is_missing = |name: &&str| !errors.contains(&format!("\n| `{name}` |"));
    let found: Vec<_> = codes.chain(reasons).filter(is_missing).map(str::to_owned).collect();
    assert_none("not in docs/errors.md", &found);
}

#[test]
fn every_refusal_of_a_gateway_is_documented() {
    let errors = read("docs/errors.md");
    let refusals = ["mcp/rejection.rs", "identity/challenge.rs"]
        .map(|file| code(&format!("gateway-agent/src/{file}")))
        .concat();
    let words = refusals.split("=> \"").skip(1).filter_map(|rest| rest.split('"').next());
    let words: Vec<_> = words.map(|word| format!("`{word}`")).collect();
    let codes = read("gateway-agent/src/jsonrpc.rs");
    let codes = codes.split(": i64 = ").skip(1).filter_map(|rest| rest.split(';').next());
    let codes: Vec<_> = codes.map(|code| code.replace('_', "")).collect();
    assert!(words.contains(&"`origin`".to_owned()) && codes.contains(&"-32600".to_owned()));
    let all = words.into_iter().chain(codes);
    let found: Vec<_> = all.filter(|name| !errors.contains(name.as_str())).collect();
    assert_none("not in docs/errors.md", &found);
}
