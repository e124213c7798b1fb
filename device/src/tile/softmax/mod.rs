//! Statistics of rows that arrive in blocks.

pub mod chained;
pub mod online;
