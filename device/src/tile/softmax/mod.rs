//! Statistics of rows that arrive in blocks.

pub mod chained;
pub mod lazy;
pub mod online;
