//! Statistics of rows that arrive in blocks, or in parts.

pub mod chained;
pub mod merge;
pub mod online;
pub mod split_parts;
