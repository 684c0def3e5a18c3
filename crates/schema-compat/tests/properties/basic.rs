//! Basic schemas, which the registry does not compile at their registration, compile.

use proptest::{collection::vec, prelude::*, test_runner::Config};
use schema_compat::schema_compile::{compile, is_basic, problems_if_referred_to};

use crate::schemas::{Choices, misfit};

proptest! {
    #![proptest_config(Config { cases: 20_000, failure_persistence: None, ..Config::default() })]

    #[test]
    fn basic_schemas_compile(bytes in vec(any::<u8>(), 0..60)) {
        let schema = misfit(&mut Choices::new(&bytes));
        if is_basic(&schema) {
            prop_assert!(compile(&schema, &|_| None).is_ok(), "{schema}");
            prop_assert!(problems_if_referred_to(&schema).is_empty(), "{schema}");
        }
    }
}
