//! The sources of catalogs: the Sync client with a scripted server, the copy on disk with damaged
//! files, file and HTTP sources, and the running gateway with its health.

mod cut;
mod disk;
mod files;
mod findings;
mod garbage;
mod history;
mod journal;
mod ledger;
mod refusal;
mod script;
mod serve;
mod sync;
mod web;
