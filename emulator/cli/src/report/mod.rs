//! What is said of the runs.

mod counters;
mod json;
mod text;

pub use json::json;
pub use text::text;
