//! Rows of images on their way to shared memory, in the registers of the threads that compute meanwhile.

use core::marker::PhantomData;

/// What a tile of outputs of one row sees of an image's rows: read, and not yet stored.
///
/// Rows begin where the first output's window does, at any element. They are read in pieces of 16 bytes that begin at multiples of them, and are
/// stored as many elements earlier as the window begins behind.
#[derive(Clone, Copy)]
pub struct RowsAhead<T, const LINE: usize, const N: usize> {
    /// This thread's pieces.
    pub(in crate::tile) pieces: [[u32; 4]; N],
    /// Elements of a row's first piece before the window.
    pub(in crate::tile) before: u32,
    pub(in crate::tile) element: PhantomData<T>,
}
