//! How long records are kept, and what goes when their time is over.

mod settings;

pub use settings::{Keep, RetentionSettings};
