//! Cursors. Pages are tested with their views.

use proptest::prelude::*;

use super::*;

#[test]
fn cursors_round_trip() {
    for name in ["a", "search_documents", "x.y-Z_9", &"n".repeat(128)] {
        let name = Name::parse(Kind::Tool, name).unwrap();
        let server = Some("server/team/a.b@1.0.0-rc.1+x".parse().unwrap());
        let sourced = ListPosition { is_composed: false, server, position: 17 };
        let composed = ListPosition { is_composed: true, ..ListPosition::default() };
        for list_position in [sourced, composed] {
            let cursor = Cursor(list_position, name.clone());
            assert_eq!(Cursor::parse(&cursor.to_text()), Ok(cursor));
        }
    }
    for bad in ["a", "a 1", "a b ", "a 1 tool/x@1.0.0 x", "a 1 x", "a -1 "] {
        assert_eq!(Cursor::parse(&encode_cursor(bad)), Err(InvalidCursor), "{bad}");
    }
    for bad in
        ["", "t", "x61", "t6", "t6g", "tff", "t20", "t2f", "61", "T61", "t6A", &"t61".repeat(300)]
    {
        assert_eq!(Cursor::parse(bad), Err(InvalidCursor), "{bad}");
    }
}

proptest! {
    #[test]
    fn arbitrary_text_is_safe_cursor(text in ".*") {
        if let Ok(cursor) = Cursor::parse(&text) {
            prop_assert_eq!(cursor.to_text(), text);
        }
    }
}
