//! The bound is one: no path selects more than its shape says.

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::json;

use super::{super::Path, Shape};
use crate::spec::eval::Budget;

/// Also texts and blanks that must not confuse the count.
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
    fn no_path_selects_more_than_it_says(segments in vec(select(&SEGMENTS[..]), 0..5)) {
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
fn what_multiplies_is_seen_wherever_it_is() {
    for plain in ["$", "$.a.b", "$['a']['..*']", "$[0][-1]", "$ .a [ 'b' ]", "$[\"a\\\"[*]\"]"] {
        assert!(!Shape::of(plain).is_wide(), "{plain}");
    }
    for wide in ["$.*", "$..a", "$[*]", "$[0,1]", "$[:2]", "$[?@.a]", "$.a['b'] [ * ]"] {
        assert!(Shape::of(wide).is_wide(), "{wide}");
    }
}
