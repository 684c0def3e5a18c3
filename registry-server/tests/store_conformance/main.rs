//! Conformance suite of both databases, with additional tests for the features of each.

#![expect(clippy::unwrap_used, reason = "a test that panics says where")]

mod accounts;
mod alerts;
mod append;
mod approvals;
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
mod traces;
mod usage;

use fixture::Fixture;

/// Runs each case on both databases.
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
    accounts::late_report_of_ended_process_charges_nothing,
    accounts::account_without_ended_process_is_kept,
    accounts::only_stored_process_is_completed,
    accounts::late_report_about_a_lost_window_is_recorded,
    accounts::generations_of_one_backup_differ,
    accounts::reclaim_leaves_rights_of_live_processes,
    accounts::refused_reclaim_does_not_wait_for_commit,
    accounts::report_reads_other_accounts_only_if_refused,
    accounts::refused_reports_leave_others_of_transaction_granted,
    accounts::forced_and_unexplained_spending_is_stored,
    alerts::each_threshold_is_recorded_once,
    alerts::claimed_alert_is_claimed_again_later,
    alerts::alert_without_webhook_is_not_claimed,
    alerts::rates_expire_before_budgets,
    approvals::approval_is_consumed_once,
    approvals::refused_decision_does_not_wait_for_commit,
    approvals::concurrent_calls_share_one_request,
    approvals::flood_of_one_caller_is_bounded,
    approvals::standing_grant_approves_until_its_end,
    approvals::replaced_key_ends_grants,
    approvals::time_ends_and_erases_requests,
    approvals::unknown_outcomes_stay_while_grant_could_repeat_them,
    approvals::unknown_outcomes_do_not_fill_store,
    approvals::unknown_outcome_outlives_later_requests,
    approvals::expired_request_makes_way,
    approvals::restored_database_ends_requests_and_grants,
    append::empty_store_loads_an_empty_catalog,
    append::loaded_catalog_equals_the_folded_log,
    append::stored_commits_round_trip_byte_for_byte,
    append::wrong_head_conflicts_and_writes_nothing,
    append::commit_of_another_history_is_rejected,
    append::non_consecutive_commits_are_rejected,
    append::change_of_a_missing_entity_is_rejected,
    append::request_id_is_used_once,
    append::request_ids_are_scoped_to_their_author,
    append::request_ids_expire_after_seven_days,
    append::copies_keep_repeated_request_ids,
    append::commits_with_sealed_addresses_stay_valid,
    append::commit_events_are_stored_with_their_commits,
    append::concurrent_appends_are_atomic,
    bulk::commit_with_five_thousand_changes_is_stored,
    bulk::many_commits_are_appended_together,
    bulk::pages_end_early_at_large_commits,
    read::commit_pages_are_verified,
    read::commit_is_found_by_revision_and_request,
    read::commits_are_filtered_in_both_orders,
    read::name_history_is_complete_and_paged,
    tamper::edited_entity_is_reported,
    tamper::edited_log_is_reported,
    tamper::edited_head_is_reported,
    tamper::data_of_a_newer_server_is_not_corrupt,
    tamper::triggers_reject_edits_of_the_log,
    tokens::tokens_round_trip_and_expire,
    tokens::active_token_limit_is_enforced,
    tokens::token_pages_continue_after_a_cursor,
    tokens::access_events_are_read_in_order,
    tokens::access_events_become_visible_in_order,
    tokens::last_use_is_stored,
    tokens::triggers_reject_edits_of_access_events,
    gateways::gateways_round_trip,
    gateways::gateway_belongs_to_its_latest_server,
    gateways::followers_of_a_dead_server_are_disconnected,
    gateways::disconnected_gateways_expire,
    gateways::gateways_are_filtered_and_paged,
    gateways::commit_times_are_returned,
    gateways::many_gateways_are_upserted_together,
    traces::reported_calls_are_stored_once,
    traces::trace_calls_are_filtered_and_paged,
    traces::oldest_trace_calls_beyond_limits_are_deleted,
    traces::old_trace_calls_are_deleted,
    usage::usage_report_is_added_once,
    usage::old_minutes_merge_into_hours,
    usage::old_usage_is_deleted,
    usage::large_sums_end_at_their_maximum,
    usage::large_rows_are_summed_and_merged,
    usage::usage_is_filtered_and_paged,
    open::registry_id_is_stable,
    open::concurrent_opens_create_one_registry,
    open::interrupted_creation_is_completed,
    open::database_of_a_newer_schema_is_rejected,
    open::compatible_newer_schema_is_opened,
    open::migration_2_adds_settings,
    open::migration_3_adds_tokens,
    open::migration_4_stores_the_first_key,
    open::migration_5_adds_gateways,
    open::migration_6_adds_relay_signatures,
    open::migration_7_keeps_recent_request_ids,
    open::migration_8_keeps_access_events,
    open::migration_9_accepts_policies,
    open::migration_10_adds_the_ledger,
    open::migration_11_adds_usage,
    open::migration_12_adds_bounds,
    open::migration_13_adds_findings,
    open::migration_14_adds_claims,
    open::migration_15_adds_approvals,
    open::migration_16_keeps_one_currency,
    open::migration_17_keeps_unknown_outcomes,
    open::migration_18_adds_traces,
    open::migration_19_records_operators,
    open::migration_20_records_decisions,
    open::new_database_becomes_a_relay,
    open::concurrent_signature_updates_are_kept,
    open::edited_migration_is_reported,
    open::foreign_database_is_rejected,
}
