//! A tile's elements in global memory, one by one.

use crate::arch::global;
use crate::layout::Element;
use crate::refuse;

/// Where a tile of `R` x `C` begins, and how far the tensor reaches from there.
#[derive(Clone, Copy)]
pub(in crate::tile) struct Window<T> {
    /// The tile's first element.
    pub(in crate::tile) pointer: *mut T,
    /// Elements between rows.
    pub(in crate::tile) row_stride: u64,
    /// Elements between columns.
    pub(in crate::tile) col_stride: u64,
    /// Rows of the tile that are inside the tensor.
    pub(in crate::tile) rows: u32,
    /// Columns of the tile that are inside the tensor.
    pub(in crate::tile) cols: u32,
}

/// The bits of an element; zero if it is not `inside`.
///
/// # Safety
/// If `inside`, the element is readable and aligned.
#[inline(always)]
pub(in crate::tile) unsafe fn read_if<T: Element>(from: *const T, inside: bool) -> u32 {
    if T::BYTES == 1 {
        refuse!("codes of 8 bits are read in vectors alone");
    }
    // SAFETY: the caller's.
    unsafe {
        if T::BYTES == 2 {
            global::ld_global_u16_if(from.cast(), inside) as u32
        } else {
            global::ld_global_u32_if(from.cast(), inside)
        }
    }
}

/// Stores an element if it is `inside`.
///
/// # Safety
/// If `inside`, the element is writable and aligned.
#[inline(always)]
pub(in crate::tile) unsafe fn write_if<T: Element>(to: *mut T, x: T, inside: bool) {
    // SAFETY: the caller's.
    unsafe {
        if T::BYTES == 2 {
            global::st_global_u16_if(to.cast(), x.bits() as u16, inside)
        } else {
            global::st_global_u32_if(to.cast(), x.bits(), inside)
        }
    }
}

impl<T: Element> Window<T> {
    /// The address of (row, col): inside the tensor if row < rows and col < cols.
    #[inline(always)]
    pub(in crate::tile) fn at(&self, row: u32, col: u32) -> *mut T {
        self.pointer.wrapping_add((row as u64 * self.row_stride + col as u64 * self.col_stride) as usize)
    }
    /// The part of the window that begins at (row, col).
    #[inline(always)]
    pub(in crate::tile) fn from(&self, row: u32, col: u32) -> Self {
        Window {
            pointer: self.at(row, col),
            rows: self.rows.saturating_sub(row),
            cols: self.cols.saturating_sub(col),
            ..*self
        }
    }
    /// The window, or one with nothing inside.
    #[inline(always)]
    pub(in crate::tile) fn only_if(self, live: bool) -> Self {
        Window { rows: if live { self.rows } else { 0 }, ..self }
    }
    /// The element at (row, col); zero outside the tensor.
    #[inline(always)]
    pub(in crate::tile) fn read(&self, row: u32, col: u32) -> T {
        let (at, inside) = (self.at(row, col), row < self.rows && col < self.cols);
        // SAFETY: the tensor's host view says that its elements are readable and aligned.
        T::from_bits(unsafe { read_if(at, inside) })
    }
    /// Stores the element at (row, col), unless that is outside the tensor.
    #[inline(always)]
    pub(in crate::tile) fn write(&self, row: u32, col: u32, x: T) {
        let (at, inside) = (self.at(row, col), row < self.rows && col < self.cols);
        // SAFETY: the tensor's host view says that its elements are writable and aligned.
        unsafe { write_if(at, x, inside) }
    }
    /// Stores the bits of an element of 8 bits at (row, col), unless that is outside the tensor.
    #[inline(always)]
    pub(in crate::tile) fn write_byte(&self, row: u32, col: u32, bits: u8) {
        let (at, inside) = (self.at(row, col), row < self.rows && col < self.cols);
        // SAFETY: the tensor's host view says that its elements are writable, of a byte each.
        unsafe { global::st_global_u8_if(at.cast(), bits, inside) }
    }
}
