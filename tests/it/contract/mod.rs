//! The requirements on decklog, line by line, and the tests that cover them.
//!
//! | line | test |
//! |---|---|
//! | 000: audit and retrieval by `request_id` and `call_id` | `observability::calls_are_found_by_request_and_by_call_id_on_every_face` |
//! | 000: `args_sha256` is always required, the arguments may be left out | `observability::one_of_hash_and_arguments_is_required_and_both_must_agree`, `the_hash_alone_is_taken_on_every_face` |
//! | 000: `args_sha256` is the hash of canonicalized arguments JSON | `observability::the_hash_is_computed_from_the_arguments_on_every_face` |
//! | 000: `arguments_json` may be redacted, the hash correlates | `observability::redacted_arguments_keep_the_hash_of_what_was_given` |
//! | 000: the trait and its types; serialize and deserialize | `observability::the_trait_is_used_through_pointers_and_its_types_convert` |
//! | 000: `error_kind`, `error_msg` on failed | `observability::a_completed_call_has_no_error_on_any_face` |
//! | 000: turns are upserted by their id; `list_conversation_since` | `observability::a_turn_is_upserted_by_its_id_on_every_face` |
//! | 000: `kind` of a turn | `observability::a_turn_has_one_of_five_kinds_on_every_face` |
//! | 000: the lifecycle of a call, its idempotency; `list_tool_calls_by_parent` | `observability::a_call_is_requested_and_done_once_on_every_face`, `the_outcome_of_a_call_is_posted_as_the_document_has_it` |
//! | 000: `code_edit_proposals` and their lifecycle | `observability::a_proposal_and_its_steps_have_the_names_of_the_files`, `a_proposal_is_posted_as_a_row_of_the_document` |
//! | 000: Validity: the state at a time, and retraction | `observability::what_stood_at_a_time_is_read_on_every_face`, `what_was_recorded_by_mistake_is_retracted_on_every_face`, `what_was_decided_or_done_is_retracted_too` |
//! | 001: a conversation is created, a message added, and conversations are queried as in the document | `conversation_service::create_conversation_as_it_is_written`, `add_message_as_it_is_written`, `query_conversations_by_a_workspace_and_what_is_below_it` |
//! | 001: DashboardMetrics | `conversation_service::dashboard_metrics_have_the_fields_and_types_of_the_document` |
//! | 001: Conversation, ConversationMessage | `conversation_service::what_the_models_of_the_document_say_can_be_posted`, `what_was_read_can_be_posted_back`, `a_body_without_a_type_is_read_as_json`, `a_conversation_has_every_field_of_the_model_on_every_face` |
//! | 001: messages are ordered by `sequence`, whatever their order of arrival | `conversation_service::messages_that_come_late_stand_where_their_sequence_says` |
//! | 001: InferenceMetadata | `conversation_service::inference_metadata_alone_fills_a_message`, `metadata_that_fills_nothing_is_kept_and_warned_about` |
//! | 001: the `conversation_id` is created with the first message | `conversation_service::a_first_message_of_an_unknown_conversation` |
//! | 001: capture is asynchronous | `conversation_service::what_a_202_promised_and_the_log_rejected_is_reported`, `rejections_are_bounded` |
//! | 001: indexes by time and workspace; history, debugging | `conversation_service::messages_of_all_conversations_are_found_by_what_they_say`, `search_finds_over_http_what_the_command_finds` |
//! | 001: error rate, error capture | `conversation_service::an_error_is_a_failed_request_whatever_its_role`, `a_secret_at_the_beginning_of_an_error_is_redacted` |
//! | 001: the eight reports and the example query | `conversation_service::each_report_says_what_the_query_of_the_document_would` |
//! | 001: task type distribution, `capture_request` and `capture_response` | `conversation_service::an_answer_has_the_task_type_of_the_request_before_it` |
//! | 001: retention of messages and error logs | `conversation_service::errors_are_kept_shorter_until_a_success_follows`, `config_shows_the_settings_in_force_and_knows_every_name_that_help_mentions` |
//! | 001: the client; what clients of providers send | `conversation_service::a_client_has_any_short_name`, `the_role_developer_is_system_and_content_may_be_blocks` |
//! | payloads are JSON | `conversation_service::json_scalars_come_back_as_they_were_given` |
//! | 002: `events`: id, timestamp, parent_id, event_type, payload | `events_inbox_history::an_event_takes_timestamp_on_every_face` |
//! | 002: `events` are never deleted | `events_inbox_history::events_inbox_and_history_are_kept_forever` |
//! | 002: the types of events, their payloads and parents | `events_inbox_history::events_of_every_type_make_the_trees_that_are_drawn` |
//! | 002: `input_tokens` and `output_tokens` of turns | `events_inbox_history::the_tokens_of_completed_turns_are_reported_by_model` |
//! | 002: `inbox`: chat_id, text, message_date, status, attempts, locked_at, error, created_at, updated_at | `events_inbox_history::an_inbox_row_has_the_columns_of_the_table`, `a_task_of_a_chat_has_a_text_and_a_date_on_every_face` |
//! | 002: `history`: id, chat_id, role, text, created_at | `events_inbox_history::a_history_row_has_the_columns_of_the_table` |
//! | 002 §4: `telegram_offset`, `current_good_rev`, `worker_instance_seq` | `events_inbox_history::what_is_derived_is_told_on_every_face` |
//! | 002: `worker.exited` is how a worker's process ends | `events_inbox_history::a_worker_that_exited_runs_no_more` |
//! | 002: ends pair with starts by `tool_name` and `task_id`, the names in the payloads | `events_inbox_history::parallel_calls_and_agents_have_their_own_outcomes` |
//! | 002: Agent, Turn, ToolCall: nothing runs under one that has ended | `events_inbox_history::nothing_runs_under_a_run_that_ended` |
//! | 002: a worker claims a task and ends it; updates are queued once | `events_inbox_history::a_task_is_claimed_by_one_worker_and_ends_once`, `the_error_of_the_latest_failure_stays_with_a_task`, `a_claim_needs_no_body` |
//! | 003 §3a, §4a: fields set by the caller and by the store | `thoughts::behaviour_01_genesis` to `behaviour_14_bad_type` |
//! | 003 §3b, §5b: `task_id` not empty, `limit` positive, on every face | `thoughts::filters_that_cannot_be_are_rejected_on_every_face` |
//! | 003 §4b: `getThoughtRecord` | `thoughts::behaviour_15_get_missing` to `behaviour_17_get_across_tasks` |
//! | 003 §4c: `listThoughtRecords` | `thoughts::behaviour_18_list_empty` to `behaviour_24_list_keeps_chain` |
//! | 003 §4c, §5b: without a limit, all records; over HTTP and MCP in pages | `thoughts::a_list_without_limit_is_all_in_pages` |
//! | 003 §4d, §5: the tools and their envelopes | `thoughts::behaviour_25_tool_envelope` to `behaviour_30_double_registration` |
//! | 003 §5a: `details.issues` | `thoughts::issues_name_each_argument_at_fault`, `each_field_at_fault_is_named_over_http` |
//! | 003 §6: lookup by `prev_hash` | `thoughts::thoughts_are_found_by_the_hash_before_them` |
//! | 003 §7: one chain a task | `thoughts::behaviour_03_tasks_are_independent`, `behaviour_24_list_keeps_chain` |
//! | 003 §8: determinism | `thoughts::behaviour_09_pinned_hash` |
//! | 003 §9b: repetition, and another record with the same id | `thoughts::the_same_again_is_unchanged_and_another_a_conflict` |
//! | 003 §11: nothing is changed or deleted | `thoughts::no_face_changes_or_deletes_a_thought` |
//! | first day: tokens are kept as input, cache write, cache read, output, reasoning | `first_day::the_tokens_of_both_tools_are_told_apart` |
//! | first day: tokens of repeated lines count once; a turn's parent is the turn before it | `first_day::what_files_of_one_session_repeat_is_counted_once` |
//! | first day: thinking is kept apart from the answer | `first_day::what_the_model_thought_stands_apart_from_what_it_said`, `http::conversations::a_gateway_posts_what_it_sees_and_reads_it_back`, `capture::what_a_model_thinks_streams_apart` |
//! | first day: failed results are failed in `show` and `tree` | `first_day::a_failed_result_is_failed_wherever_it_is_shown` |
//! | first day: several calls in one message keep their ids | `first_day::several_calls_of_a_line_keep_their_ids` |
//! | first day: summaries and first prompts become `title` | `first_day::a_session_has_the_title_that_it_was_given`, `first_day::a_title_that_a_person_gave_stays`, `http::conversations::sub_agents_are_conversations_of_their_own_and_all_may_have_a_title` |
//! | first day: sub-agents are conversations of their own, linked to the call that started them, under their parent's project | `first_day::sub_agents_are_linked_to_the_call_that_started_them`, `first_day::a_sub_agent_of_codex_is_a_part_of_the_session_that_started_it` |
//! | first day: Codex 0.155 as it writes today: commands, changes of files, calls to MCP servers, sub-agents, usage records | `first_day::what_codex_says_of_complete_items_is_kept` |

#[cfg(all(feature = "http", feature = "mcp"))]
mod conversation_service;
#[cfg(all(feature = "http", feature = "mcp"))]
mod events_inbox_history;
#[cfg(all(feature = "http", feature = "mcp"))]
mod faces;

mod first_day;
#[cfg(all(feature = "http", feature = "mcp"))]
mod observability;
#[cfg(all(feature = "http", feature = "mcp"))]
mod thoughts;
