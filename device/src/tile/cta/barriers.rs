//! The named barriers of a CTA, of which the hardware has 16: who has which.

/// Where all roles of a CTA meet when a pipeline opens.
pub(in crate::tile) const OPENING: u32 = 0;
/// One for each warpgroup, by its number: its own threads meet.
pub(in crate::tile) const WARPGROUP: u32 = 1;
/// One for each warpgroup, by its number: the sums of a CTA that shares the tile have been read.
pub(in crate::tile) const SPLIT_SUMS: u32 = 5;
/// One for each warpgroup, by its number: its turn.
pub(in crate::tile) const TURN: u32 = 8;
/// Where a producer waits for those who compute.
pub(in crate::tile) const FOLLOWING: u32 = 14;
/// Where a CTA's consumers meet around an exchange through shared memory.
pub(in crate::tile) const EXCHANGE: u32 = 15;
