//! To be told.
