//! Links, sizes and paths of the pages.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use acceptance::root;

/// Maximum size of a page of `docs`.
const PAGE_BYTES: usize = 15 * 1024;

/// The Markdown files that git tracks, or would track.
fn pages() -> Vec<String> {
    let listing = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"])
        .current_dir(root())
        .output()
        .expect("git runs");
    let text = String::from_utf8(listing.stdout).expect("paths are UTF-8");
    let pages = text.lines().filter(|path| root().join(path).exists());
    let pages: Vec<_> = pages.map(str::to_owned).collect();
    assert!(pages.iter().any(|path| path == "docs/architecture.md"), "{pages:?}");
    pages
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The lines outside of fenced blocks.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// The anchors of a page, as GitHub derives them from its headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in prose(text).lines().filter(|line| line.starts_with('#')) {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor = kept.collect::<String>().replace(' ', "-");
        let mut numbered = anchor.clone();
        for number in 1.. {
            if found.insert(numbered) {
                break;
            }
            numbered = format!("{anchor}-{number}");
        }
    }
    found
}

/// The targets of the links in a page.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.map(|target| target.split(' ').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn links_of_pages_resolve() {
    let mut found = Vec::new();
    for page in pages() {
        for link in links(&read(&page)) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let directory = Path::new(&page).parent().expect("a directory");
            let target = if path.is_empty() { page.clone().into() } else { directory.join(path) };
            if !root().join(&target).exists() {
                found.push(format!("{page}: {link}"));
            } else if !anchor.is_empty()
                && !anchors(&read(&target.to_string_lossy())).contains(anchor)
            {
                found.push(format!("{page}: no heading for {link}"));
            }
        }
    }
    assert!(found.is_empty(), "broken links:\n  {}", found.join("\n  "));
}

/// Pages generated from the code are as long as the code requires.
#[test]
fn pages_stay_short() {
    let generated = |text: &str| text.contains("<!-- Generated");
    let pages = pages().into_iter().filter(|path| path.starts_with("docs/"));
    let long: Vec<_> = pages
        .filter_map(|path| {
            let text = read(&path);
            let is_long = text.len() > PAGE_BYTES && !generated(&text);
            is_long.then(|| format!("{path}: {} bytes", text.len()))
        })
        .collect();
    assert!(long.is_empty(), "pages over {PAGE_BYTES} bytes: {long:?}");
}

/// Paths such as `crates/registry-core` in the text of pages.
#[test]
fn paths_in_pages_exist() {
    let top =
        ["crates/", "registry-server/", "gateway-agent/", "registryctl/", "tests/", "examples/"];
    let mut found = Vec::new();
    for page in pages().into_iter().filter(|path| path.starts_with("docs/") || path == "README.md")
    {
        let prose = prose(&read(&page));
        let quoted = prose.split('`').skip(1).step_by(2);
        for path in quoted.filter(|text| top.iter().any(|top| text.starts_with(top))) {
            let is_path = !path.contains([' ', '*', '{', '<', ':']);
            if is_path && !root().join(path).exists() {
                found.push(format!("{page}: {path}"));
            }
        }
    }
    assert!(found.is_empty(), "no such files:\n  {}", found.join("\n  "));
}

#[test]
fn architecture_lists_all_crates() {
    let page = read("docs/architecture.md");
    let entries = fs::read_dir(root().join("crates")).expect("a directory of crates");
    let names = entries.map(|entry| entry.expect("a crate").file_name());
    let names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    let missing: Vec<_> =
        names.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "not in docs/architecture.md: {missing:?}");
}
