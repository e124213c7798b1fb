//! Elements as numbers that are ordered as they are to be.

use tilewright_device::arch::shared;
use tilewright_device::tile::Element;

/// The most columns of a row.
pub const MAX_COLUMNS: u32 = 1 << 18;

/// An element of a row: the greater one comes first.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// Greater for one that is to come before: an ordered form of its value's bits, at the upper end.
    pub(super) key: u32,
    /// Greater for one farther left: how many columns of the most that a row has are behind it.
    pub(super) behind: u32,
}

impl Entry {
    /// Bytes in shared memory.
    pub(super) const BYTES: u32 = 8;
    /// Less than any other, or the last column's.
    pub(super) const LEAST: Self = Entry { key: 0, behind: 0 };

    /// The column.
    #[inline(always)]
    pub(super) fn column(self) -> u32 {
        MAX_COLUMNS - 1 - self.behind
    }
    /// Whether it does not come behind another one.
    #[inline(always)]
    pub(super) fn is_at_least(self, other: Self) -> bool {
        self.key > other.key || self.key == other.key && self.behind >= other.behind
    }

    /// # Safety
    /// `at` is a multiple of 8, in shared memory, and no thread writes there meanwhile.
    #[inline(always)]
    pub(super) unsafe fn load(at: u32) -> Self {
        // SAFETY: the caller's.
        let [key, behind] = unsafe { shared::load_u32x2(at) };
        Entry { key, behind }
    }
    /// # Safety
    /// `at` is a multiple of 8, in shared memory, and no other thread uses it meanwhile.
    #[inline(always)]
    pub(super) unsafe fn store(self, at: u32) {
        // SAFETY: the caller's.
        unsafe { shared::store_u32x2(at, [self.key, self.behind]) }
    }
}

/// What makes keys of elements of type `T`.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    /// The bits of infinity.
    infinity: u32,
    /// What is changed where the least are wanted.
    flip: u32,
}

impl Keys {
    /// Bits that elements do not have.
    const fn shift<T: Element>() -> u32 {
        32 - 8 * T::BYTES as u32
    }

    #[inline(always)]
    pub(super) fn new<T: Element>(least: bool) -> Self {
        let all = u32::MAX << Self::shift::<T>();
        let [infinity, _] = T::from_f32x2(f32::INFINITY, f32::INFINITY);
        Keys { infinity: infinity.bits() << Self::shift::<T>(), flip: if least { all } else { 0 } }
    }

    /// A word whose elements' signs change where the least are wanted.
    #[inline(always)]
    pub(super) fn signs<T: Element>(&self) -> u32 {
        let signs = if T::BYTES == 2 { 0x8000_8000 } else { 1 << 31 };
        if self.flip != 0 { signs } else { 0 }
    }

    /// The least value that comes no later than an entry, its sign changed where the least are wanted; NaN if there is none.
    #[inline(always)]
    pub(super) fn value<T: Element>(&self, entry: Entry) -> f32 {
        // As the keys of the largest are: those of the least are the others' of values with other signs, but for zeros, of which -0 comes first here.
        let sign = 1 << 31;
        let bits = if entry.key & sign != 0 { entry.key & !sign } else { !entry.key };
        T::from_bits(bits >> Self::shift::<T>()).to_f32()
    }

    /// Of the bits of an element. NaN is larger than all numbers; -0 is 0.
    #[inline(always)]
    pub(super) fn entry<T: Element>(&self, bits: u32, column: u32) -> Entry {
        let (sign, bits) = (1 << 31, bits << Self::shift::<T>());
        let magnitude = bits & !sign;
        let ordered = if bits & sign == 0 || magnitude == 0 { magnitude | sign } else { !bits };
        let ordered = if magnitude > self.infinity { u32::MAX } else { ordered };
        let key = (ordered ^ self.flip) & u32::MAX << Self::shift::<T>();
        // Lanes without an element have columns behind the last; what they make is not used.
        Entry { key, behind: (MAX_COLUMNS - 1).wrapping_sub(column) }
    }
}
