//! Tests of path shapes.

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::json;

use super::{super::Path, Shape};
use crate::spec::eval::Budget;

/// Includes strings and blanks that a naive scanner would misinterpret.
const SEGMENTS: [&str; 14] = [
    ".a",
    "..a",
    ".*",
    "..*",
    "[*,*]",
    "['a',\"b\"]",
    "['..[*,?']",
    "[0:2]",
    "[?@.a]",
    "[?@..*]",
    "[?count($..a) > 1, *]",
    "[?!(@.b || $.a == 'x]')]",
    " [ 0 ]",
    "[?@[?@.a], 1]",
];

proptest! {
    #[test]
    fn path_selection_never_exceeds_bound(segments in vec(select(&SEGMENTS[..]), 0..5)) {
        let text = format!("${}", segments.concat());
        let value = json!([[{ "a": { "a": [[1], { "b": 2 }], "b": [0, 1] } }], { "a": 1, "b": "x]" }]);
        let path = Path::parse(&text).unwrap();
        let size = Budget::new(0).measure(&value).unwrap();
        let found = path.query.query(&value).all().len() as u64;
        prop_assert!(found <= path.shape.looks(size), "{text}: {found}");
        prop_assert!(found <= 1 || path.shape.is_wide(), "{text}");
    }
}

#[test]
fn wide_paths_are_detected() {
    for plain in ["$", "$.a.b", "$['a']['..*']", "$[0][-1]", "$ .a [ 'b' ]", "$[\"a\\\"[*]\"]"] {
        assert!(!Shape::parse(plain).is_wide(), "{plain}");
    }
    for wide in ["$.*", "$..a", "$[*]", "$[0,1]", "$[:2]", "$[?@.a]", "$.a['b'] [ * ]"] {
        assert!(Shape::parse(wide).is_wide(), "{wide}");
    }
}
