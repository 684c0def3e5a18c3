//! The documentation lists the detectors.

use inspection::Detector;
use registry_core::entity::policy::DataClass;

const PAGE: &str = include_str!("../../../docs/inspection.md");

/// The section of a class, up to the next heading.
fn section(class: DataClass) -> &'static str {
    let heading = format!("### `{class}`\n");
    let (_, rest) = PAGE.split_once(&heading).unwrap_or_else(|| panic!("no section of {class}"));
    rest.split("\n#").next().unwrap_or(rest)
}

#[test]
fn page_lists_each_detector_in_its_class() {
    for detector in Detector::all() {
        let name = format!("`{}`", detector.name());
        assert!(section(detector.class()).contains(&name), "{name}");
    }
}

#[test]
fn page_lists_no_unknown_detector() {
    for class in DataClass::ALL {
        let rows = section(class).lines().filter(|line| line.starts_with("| `"));
        let names = rows.filter_map(|row| row.split('|').nth(1)).flat_map(|cell| cell.split('`'));
        for name in names.filter(|part| part.starts_with(|first: char| first.is_ascii_lowercase()))
        {
            assert!(Detector::find(name).is_ok_and(|found| found.class() == class), "{name}");
        }
    }
}
