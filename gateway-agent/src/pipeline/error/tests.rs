//! The effects of failed calls.

use super::*;

#[test]
fn possibly_executed_call_has_unknown_effects() {
    let is_unknown = |error: Error| error.effects() == Effects::Unknown;
    let timeout = |phase| Error::from(gateway_upstream::Error::Timeout { phase, after_ms: 1 });
    let open = gateway_upstream::Error::OpenTask { why: "?".to_owned(), said: None };
    let garbage = gateway_upstream::Error::Protocol {
        what: gateway_upstream::ProtocolViolation::ContentType,
    };
    for error in [
        Error::InvalidOutput { violations: Vec::new() },
        Error::MissingCapability { capability: "sampling" },
        Error::TooManyInputRounds { rounds: 1 },
        Error::UnknownInput,
        timeout(gateway_upstream::Phase::Call),
        gateway_upstream::Error::TooLarge { limit_bytes: 1 }.into(),
        open.into(),
        garbage.into(),
    ] {
        let told = error.to_string();
        assert!(is_unknown(error), "{told}");
    }
    let refused =
        gateway_upstream::Error::Rpc { code: -32_000, message: String::new(), data: None };
    let old = gateway_upstream::Error::Protocol {
        what: gateway_upstream::ProtocolViolation::NoCommonVersion,
    };
    for error in [
        Error::NoCatalog,
        Denial::NoSuchTool.into(),
        Error::HiddenField { pointer: "/a".to_owned() },
        Error::InvalidInput { violations: Vec::new() },
        timeout(gateway_upstream::Phase::Connect),
        gateway_upstream::Error::Refused { status: 403 }.into(),
        refused.into(),
        old.into(),
    ] {
        let told = error.to_string();
        assert!(!is_unknown(error), "{told}");
    }
}

#[test]
fn nested_composition_keeps_effects_and_retry() {
    use gateway_compose::{CompositionError, Steps};
    use registry_core::{Kind, Name};

    let second = Duration::from_secs(1);
    let spared = || {
        Error::from(gateway_upstream::Error::from(gateway_upstream::CircuitOpen {
            retry_after: second,
        }))
    };
    assert_eq!(spared().retry_after(), Some(second));
    let tool = Name::parse(Kind::Tool, "t").unwrap();
    let composed = Error::Composition(Box::new(CompositionError::rejected_result(
        &tool,
        spared().to_step("t"),
        Steps::default(),
    )));
    assert_eq!((composed.effects(), composed.retry_after()), (Effects::None, Some(second)));
}
