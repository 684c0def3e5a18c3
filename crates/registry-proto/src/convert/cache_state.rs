//! How the copy on a follower's disk is.
//!
//! Deliberately absent: the limit on what a follower says of it; the server has that.

use crate::v1;

/// How the copy on a follower's disk is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CacheState {
    /// The follower does not say.
    #[default]
    Unknown,
    /// It is written.
    Ok,
    /// It cannot be written, and why.
    Failing(String),
    /// The follower keeps none.
    None,
}

impl CacheState {
    /// From its two fields on the wire. What a newer follower says is not known.
    pub fn read(state: i32, problem: String) -> Self {
        match v1::CacheState::try_from(state) {
            Ok(v1::CacheState::Ok) => Self::Ok,
            Ok(v1::CacheState::Failing) => Self::Failing(problem),
            Ok(v1::CacheState::None) => Self::None,
            Ok(v1::CacheState::Unspecified) | Err(_) => Self::Unknown,
        }
    }

    /// Its two fields on the wire.
    pub fn into_fields(self) -> (i32, String) {
        let (state, problem) = match self {
            Self::Unknown => (v1::CacheState::Unspecified, String::new()),
            Self::Ok => (v1::CacheState::Ok, String::new()),
            Self::Failing(problem) => (v1::CacheState::Failing, problem),
            Self::None => (v1::CacheState::None, String::new()),
        };
        (state.into(), problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_comes_back_and_a_newer_one_is_not_known() {
        let failing = CacheState::Failing("the disk is full".to_owned());
        for state in [CacheState::Unknown, CacheState::Ok, failing, CacheState::None] {
            let (number, problem) = state.clone().into_fields();
            assert_eq!(CacheState::read(number, problem), state);
        }
        assert_eq!(CacheState::read(99, "new".to_owned()), CacheState::Unknown);
    }
}
