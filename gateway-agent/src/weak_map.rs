//! Values that several users share by a key, as long as one of them has the value.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// The shared values.
#[derive(Debug)]
pub(crate) struct WeakMap<K, V>(Mutex<HashMap<K, Weak<V>>>);

impl<K, V> Default for WeakMap<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash, V> WeakMap<K, V> {
    /// The value of a key. It is created if no user has it.
    pub(crate) fn get_or_create(&self, key: &K, create: impl FnOnce() -> V) -> Arc<V> {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        values.retain(|_, value| value.strong_count() > 0);
        let known = values.get(key).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let created = Arc::new(create());
            values.insert(key.clone(), Arc::downgrade(&created));
            created
        })
    }

    /// The number of values, and of dropped ones that the next access removes.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
