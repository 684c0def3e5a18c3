//! Version 1 of the registry file, read with warnings that say how to migrate.
//!
//! Deliberately absent: writing it.
