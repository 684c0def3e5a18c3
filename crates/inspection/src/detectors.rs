//! The list of all detectors.

use std::sync::LazyLock;

use registry_core::entity::policy::DataClass;

use crate::{
    detect,
    detector::{Detector, Selection},
};

/// The name of no detector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown detector `{0}`")]
pub struct UnknownDetector(String);

impl Detector {
    /// All detectors, by class.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        static ALL: LazyLock<Vec<&Detector>> = LazyLock::new(|| {
            let mut all: Vec<_> = detect::detectors().collect();
            all.sort_by_key(|detector| detector.class());
            all
        });
        ALL.iter().copied()
    }

    /// The detector of this name.
    pub fn find(name: &str) -> Result<&'static Self, UnknownDetector> {
        let found = Self::all().find(|detector| detector.name() == name);
        found.ok_or_else(|| UnknownDetector(name.to_owned()))
    }
}

impl Selection {
    /// All detectors.
    pub fn all() -> Self {
        let opt_in = Detector::all().filter(|detector| detector.is_opt_in());
        opt_in.fold(Self::of(DataClass::ALL), Self::with)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn detector_names_are_unique() {
        let names: HashSet<_> = Detector::all().map(Detector::name).collect();
        assert_eq!(names.len(), Detector::all().count());
        assert!(names.iter().all(|name| Detector::find(name).is_ok()));
        assert!(Detector::find("unknown").is_err());
    }

    #[test]
    fn opt_in_detectors_are_selected_one_by_one() {
        let classes = Selection::of([DataClass::GovernmentId]);
        let opt_in = Detector::all().find(|detector| detector.is_opt_in()).unwrap();
        assert!(!classes.contains(opt_in));
        assert!(classes.with(opt_in).contains(opt_in));
        assert!(Detector::all().all(|detector| Selection::all().contains(detector)));
    }
}
