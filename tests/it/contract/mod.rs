//! What is asked of decklog, line by line: which test holds it.
//!
//! | line | test |
//! |---|---|
//! | 000: audit and retrieval by `request_id` and `call_id` | `observability::calls_are_found_by_request_and_by_call_id_on_every_face` |
//! | 000: `args_sha256` is always required, the arguments may be left out | `observability::one_of_hash_and_arguments_is_required_and_both_must_agree`, `the_hash_alone_is_taken_on_every_face` |
//! | 000: `args_sha256` is the hash of canonicalized arguments JSON | `observability::the_hash_is_computed_from_the_arguments_on_every_face` |
//! | 000: `arguments_json` may be redacted, the hash correlates | `observability::redacted_arguments_keep_the_hash_of_what_was_given` |
//! | 003 §3a, §4a: what a caller gives, what the store mints | `thoughts::behaviour_01_genesis` to `behaviour_14_bad_type` |
//! | 003 §3b, §5b: `task_id` not empty, `limit` positive, on every face | `thoughts::filters_that_cannot_be_are_rejected_on_every_face` |
//! | 003 §4b: `getThoughtRecord` | `thoughts::behaviour_15_get_missing` to `behaviour_17_get_across_tasks` |
//! | 003 §4c: `listThoughtRecords` | `thoughts::behaviour_18_list_empty` to `behaviour_24_list_keeps_chain` |
//! | 003 §4c, §5b: no limit is all of them, over MCP in pages | `thoughts::a_list_without_limit_is_all_in_pages` |
//! | 003 §4d, §5: the tools and their envelopes | `thoughts::behaviour_25_tool_envelope` to `behaviour_30_double_registration` |
//! | 003 §5a: `details.issues` | `thoughts::issues_name_each_argument_at_fault` |
//! | 003 §6: lookup by `prev_hash` | `thoughts::thoughts_are_found_by_the_hash_before_them` |
//! | 003 §7: one chain a task | `thoughts::behaviour_03_tasks_are_independent`, `behaviour_24_list_keeps_chain` |
//! | 003 §8: determinism | `thoughts::behaviour_09_pinned_hash` |
//! | 003 §9b: the same again, and another under its id | `thoughts::the_same_again_is_unchanged_and_another_a_conflict` |
//! | 003 §11: nothing is changed or deleted | `thoughts::no_face_changes_or_deletes_a_thought` |
//! | first day: tokens are kept as input, cache write, cache read, output, reasoning | `first_day::the_tokens_of_both_tools_are_told_apart` |
//! | first day: thinking is kept apart from the answer | `first_day::what_the_model_thought_stands_apart_from_what_it_said`, `http::conversations::a_gateway_posts_what_it_sees_and_reads_it_back`, `capture::what_a_model_thinks_streams_apart` |
//! | first day: failed results are failed in `show` and `tree` | `first_day::a_failed_result_is_failed_wherever_it_is_shown` |
//! | first day: several calls in one message keep their ids | `first_day::several_calls_of_a_line_keep_their_ids` |

#[cfg(all(feature = "http", feature = "mcp"))]
mod faces;
mod first_day;
#[cfg(all(feature = "http", feature = "mcp"))]
mod observability;
#[cfg(all(feature = "http", feature = "mcp"))]
mod thoughts;
