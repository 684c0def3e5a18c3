//! The gateway's following side, from the outside: the Sync client against a scripted server, the
//! copy on disk against torn and edited files, the other sources against files and HTTP, and the
//! running gateway with its health.

mod cut;
mod disk;
mod files;
mod findings;
mod garbage;
mod history;
mod journal;
mod refusal;
mod script;
mod serve;
mod sync;
mod web;
