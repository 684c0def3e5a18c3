//! One suite for both stores: whatever holds for SQLite holds for Postgres, and what only one of
//! them can do has a test of its own.

#![expect(clippy::unwrap_used, reason = "a test that panics says where")]

mod append;
mod bulk;
mod fixture;
mod gateways;
mod log;
mod open;
mod postgres_faults;
mod postgres_only;
mod read;
mod sqlite_only;
mod tamper;
mod tokens;

use fixture::Fixture;

/// Runs each case once for every store.
macro_rules! conformance {
    ($($module:ident::$case:ident,)*) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    crate::$module::$case(&crate::Fixture::sqlite()).await;
                }
            )*
        }

        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    crate::$module::$case(&crate::Fixture::postgres().await).await;
                }
            )*
        }
    };
}

conformance! {
    append::an_empty_store_is_the_empty_registry,
    append::what_is_loaded_is_the_fold_of_the_log,
    append::everything_comes_back_byte_for_byte,
    append::a_wrong_head_is_a_conflict_and_writes_nothing,
    append::a_commit_of_another_history_is_refused,
    append::commits_that_do_not_follow_on_each_other_are_refused,
    append::a_change_of_what_does_not_exist_is_refused,
    append::a_request_id_is_used_once,
    append::request_ids_are_scoped_to_their_author,
    append::request_ids_expire_after_seven_days,
    append::copies_keep_repeated_request_ids,
    append::requests_of_older_servers_are_known,
    append::commits_with_sealed_addresses_stay_valid,
    append::commit_events_are_stored_with_their_commits,
    append::two_writers_lose_nothing_and_tear_nothing,
    bulk::five_thousand_changes_are_one_commit,
    bulk::many_commits_go_in_one_append,
    bulk::pages_end_early_where_commits_are_big,
    read::commits_are_read_in_pages_and_proved,
    read::one_commit_is_found_by_revision_and_by_request,
    read::commits_are_listed_in_both_orders_and_filtered,
    read::the_history_of_a_name_is_complete_and_paged,
    tamper::an_edited_entity_is_named,
    tamper::an_edited_log_is_named,
    tamper::an_edited_head_is_found,
    tamper::what_a_newer_server_wrote_is_not_called_damaged,
    tamper::the_log_is_not_edited_by_mistake,
    tokens::tokens_come_back_as_they_were_and_end_when_they_should,
    tokens::no_more_tokens_live_than_may,
    tokens::pages_of_tokens_go_on_after_a_place,
    tokens::the_trail_is_read_in_its_order,
    tokens::the_trail_is_seen_without_gaps_to_be_filled,
    tokens::the_last_use_is_kept,
    tokens::the_trail_only_grows,
    gateways::gateways_come_back_as_they_were,
    gateways::a_gateway_is_of_the_server_that_it_came_to_last,
    gateways::followers_of_a_dead_server_are_gone,
    gateways::those_that_are_gone_are_forgotten_in_the_end,
    gateways::gateways_are_filtered_and_paged,
    gateways::commits_say_when_they_were_made,
    gateways::many_are_noted_at_once,
    open::the_registry_keeps_its_identity,
    open::several_may_create_it_at_once,
    open::an_interrupted_creation_is_finished,
    open::a_database_that_needs_a_newer_program_is_refused,
    open::an_expanded_database_is_still_opened,
    open::a_database_without_settings_gets_a_place_for_them,
    open::a_database_without_tokens_gets_a_place_for_them,
    open::a_database_without_a_key_remembers_the_first,
    open::a_database_without_gateways_gets_a_place_for_them,
    open::a_database_without_signatures_gets_a_place_for_one,
    open::recent_requests_are_known_after_the_migration,
    open::trail_of_access_is_kept_by_the_migration,
    open::a_new_database_becomes_that_of_a_relay,
    open::signatures_that_are_kept_at_once_are_all_kept,
    open::an_edited_migration_is_found,
    open::a_database_of_something_else_is_left_alone,
}
