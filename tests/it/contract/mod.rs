//! What is asked of decklog, line by line: which test holds it.
//!
//! | line | test |
//! |---|---|
//! | first day: tokens are kept as input, cache write, cache read, output, reasoning | `first_day::the_tokens_of_both_tools_are_told_apart` |

mod first_day;
