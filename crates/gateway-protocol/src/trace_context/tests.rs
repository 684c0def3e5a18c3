//! Valid and invalid trace contexts.

use proptest::prelude::*;

use super::*;

const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn traceparent_is_parsed_as_specified() {
    assert_eq!(Parent::parse(GOOD).unwrap().to_string(), GOOD);
    let later = GOOD.replacen("00-", "cc-", 1);
    for good in [later.clone(), format!("{later}-what-comes")] {
        assert_eq!(Parent::parse(&good).unwrap().to_string(), GOOD, "{good}");
    }
    let unknown_flags = Parent::parse(&format!("{}ff", &GOOD[..53])).unwrap();
    assert_eq!(unknown_flags.flags, 3);
    let bad = [
        String::new(),
        GOOD.replacen("00-", "ff-", 1),
        GOOD.to_uppercase(),
        format!("{GOOD}-more"),
        format!("{GOOD} "),
        format!("{later}.more"),
        GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
        GOOD.replace("00f067aa0ba902b7", &"0".repeat(16)),
        GOOD.replace('-', "_"),
        GOOD.replacen('4', "+", 1),
        GOOD[..54].to_owned(),
        format!("{}é", &GOOD[..54]),
    ];
    for bad in bad {
        assert_eq!(Parent::parse(&bad), None, "{bad}");
    }
}

#[test]
fn state_member_is_replaced_at_start() {
    let state = "a=1, own=2 ,ownb=3";
    assert_eq!(state_member(state, "own"), Some("2"));
    assert_eq!(with_state_member(Some(state), ("own", "3")), "own=3,a=1,ownb=3");
    assert_eq!(with_state_member(None, ("own", "1")), "own=1");
    assert_eq!(state_member(state, "b"), None);
}

proptest! {
    #[test]
    fn written_parent_parses(trace in 1u128.., span in 1u64.., flags in 0u8..4) {
        let trace = TraceId(NonZeroU128::new(trace).unwrap());
        let parent = Parent { trace, span: SpanId(NonZeroU64::new(span).unwrap()), flags };
        let text = parent.to_string();
        prop_assert_eq!(text.len(), PARENT_BYTES);
        prop_assert_eq!(Parent::parse(&text), Some(parent));
        prop_assert_eq!(trace.to_string().parse(), Ok(trace));
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC*", near in "[0-9a-g]{2}-[0-9a-f]{31,33}-[0-9a-f]{15,17}-.{0,4}") {
        for text in [text, near] {
            if let Some(parent) = Parent::parse(&text) {
                prop_assert_eq!(&parent.to_string()[2..53], &text[2..53]);
            }
        }
    }

    #[test]
    fn forwarded_context_is_a_bounded_prefix(members in prop::collection::vec("[a-z=;é]{0,60}", 0..80)) {
        let text = members.join(",");
        match bounded_state(&text) {
            Some(kept) => {
                prop_assert!(text.starts_with(kept) && kept.len() <= 512);
                prop_assert!(kept.split(',').count() <= 32);
                prop_assert!(text[kept.len()..].is_empty() || text[kept.len()..].starts_with(','));
            }
            None => prop_assert!(!text.is_ascii() || text.is_empty() || text.starts_with(',')),
        }
    }
}
