//! What copies by TMA complete on.

/// What a copy by TMA fills and completes on.
#[derive(Clone, Copy)]
pub struct Arrival {
    pub(in crate::tile) barrier: u32,
    pub(in crate::tile) part: u32,
    pub(in crate::tile) parts: u32,
}
