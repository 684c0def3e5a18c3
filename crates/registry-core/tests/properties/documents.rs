//! Properties of documents.

use proptest::prelude::*;
use registry_core::{Document, Entity};
use registry_fixtures::{
    values::{damaged, json},
    world::{Wish, registration},
};
use serde_json::Value;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn document_round_trip_is_stable(wish in registration()) {
        let Wish::Register(kind, value) = wish else { unreachable!() };
        let document = Document::parse(kind, &value).unwrap();
        let again = Document::parse(kind, &document.entity().to_value()).unwrap();
        prop_assert_eq!(&again, &document);
        let verified = Document::verify(kind, document.bytes().clone(), document.digest()).unwrap();
        prop_assert_eq!(&verified, &document);
        let pretty = serde_json::to_vec_pretty(&value).unwrap();
        let pretty: Value = serde_json::from_slice(&pretty).unwrap();
        prop_assert_eq!(Document::parse(kind, &pretty).unwrap().digest(), document.digest());
    }

    #[test]
    fn damaged_document_reports_existing_pointers(
        wish in registration(), at in any::<usize>(), with in json(),
    ) {
        let Wish::Register(kind, value) = wish else { unreachable!() };
        let value = damaged(&value, at, &with);
        match Entity::parse(kind, &value) {
            Ok(entity) => prop_assert_eq!(Entity::parse(kind, &entity.to_value()), Ok(entity)),
            Err(problems) => {
                prop_assert!(!problems.is_empty());
                for problem in problems {
                    prop_assert!(value.pointer(&problem.pointer).is_some(), "{}", problem);
                }
            }
        }
    }
}
