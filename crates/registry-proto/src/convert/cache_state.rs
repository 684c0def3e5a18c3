//! The state of a follower's persistent cache.

use registry_core::follower::CacheState;

use crate::v1;

/// Reads the two fields of a state. States of newer followers are unknown.
pub fn cache_state(state: i32, problem: String) -> CacheState {
    match v1::CacheState::try_from(state) {
        Ok(v1::CacheState::Ok) => CacheState::Ok,
        Ok(v1::CacheState::Failing) => CacheState::Failing(problem),
        Ok(v1::CacheState::None) => CacheState::None,
        Ok(v1::CacheState::Unspecified) | Err(_) => CacheState::Unknown,
    }
}

/// Writes the two fields of a state.
pub fn cache_state_fields(state: CacheState) -> (i32, String) {
    let (state, problem) = match state {
        CacheState::Unknown => (v1::CacheState::Unspecified, String::new()),
        CacheState::Ok => (v1::CacheState::Ok, String::new()),
        CacheState::Failing(problem) => (v1::CacheState::Failing, problem),
        CacheState::None => (v1::CacheState::None, String::new()),
    };
    (state.into(), problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_state_round_trips() {
        let failing = CacheState::Failing("the disk is full".to_owned());
        for state in [CacheState::Unknown, CacheState::Ok, failing, CacheState::None] {
            let (number, problem) = cache_state_fields(state.clone());
            assert_eq!(cache_state(number, problem), state);
        }
        assert_eq!(cache_state(99, "new".to_owned()), CacheState::Unknown);
    }
}
