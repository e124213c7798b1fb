//! Values of any type on their way to other threads, word by word.

use core::mem::MaybeUninit;

use crate::arch::{shared, warp};

/// Bytes that a value may have: its room in shared memory.
pub(in crate::tile) const ROOM: u32 = 32;

/// A value's bytes, of which some may be padding. Words are f32, so that f32, which most values are, pass as they are.
#[derive(Clone, Copy)]
#[repr(C)]
union Bytes<T: Copy> {
    value: T,
    words: [MaybeUninit<f32>; ROOM as usize / 4],
}

/// Words that hold a value.
const fn words<T>() -> usize {
    assert!(size_of::<T>() <= ROOM as usize, "values that threads exchange have at most 32 bytes");
    size_of::<T>().div_ceil(4)
}

/// Bytes of shared memory that a value takes at least.
pub(in crate::tile) const fn bytes<T>() -> u32 {
    4 * words::<T>() as u32
}

impl<T: Copy> Bytes<T> {
    #[inline(always)]
    fn of(value: T) -> Self {
        let mut bytes = Bytes { words: [MaybeUninit::uninit(); ROOM as usize / 4] };
        bytes.value = value;
        bytes
    }
    #[inline(always)]
    fn get(&self, i: usize) -> MaybeUninit<f32> {
        // SAFETY: words need not be initialised.
        unsafe { self.words[i] }
    }
    #[inline(always)]
    fn set(&mut self, i: usize, word: MaybeUninit<f32>) {
        // SAFETY: a place of words is written.
        unsafe { self.words[i] = word }
    }
}

/// The value whose words are `other` of this value's.
///
/// # Safety
/// They are the words of another thread's value.
#[inline(always)]
unsafe fn by_words<T: Copy>(value: T, other: impl Fn(MaybeUninit<f32>) -> MaybeUninit<f32>) -> T {
    let mut bytes = Bytes::of(value);
    let mut i = 0;
    while i < const { words::<T>() } {
        bytes.set(i, other(bytes.get(i)));
        i += 1;
    }
    // SAFETY: the caller's.
    unsafe { bytes.value }
}

/// The value of lane `own ^ mask`.
///
/// # Safety
/// All 32 lanes execute it.
#[inline(always)]
pub(in crate::tile) unsafe fn of_lane<T: Copy>(value: T, mask: u32) -> T {
    // SAFETY: the caller's.
    unsafe { by_words(value, |word| warp::shfl_bfly_word(word, mask)) }
}

/// The value of the lane that is `by` below this one; the first `by` lanes keep their own.
///
/// # Safety
/// All 32 lanes execute it.
#[inline(always)]
pub(in crate::tile) unsafe fn of_lane_below<T: Copy>(value: T, by: u32) -> T {
    // SAFETY: the caller's.
    unsafe { by_words(value, |word| warp::shfl_up_word(word, by)) }
}

/// The value of lane `lane`.
///
/// # Safety
/// All 32 lanes execute it; `lane` is below 32.
#[inline(always)]
pub(in crate::tile) unsafe fn of_lane_at<T: Copy>(value: T, lane: u32) -> T {
    // SAFETY: the caller's.
    unsafe { by_words(value, |word| warp::shfl_idx_word(word, lane)) }
}

/// # Safety
/// The value's room at `to` is this thread's to write.
#[inline(always)]
pub(in crate::tile) unsafe fn store<T: Copy>(to: u32, value: T) {
    let bytes = Bytes::of(value);
    let mut i = 0;
    while i < const { words::<T>() } {
        // SAFETY: the caller's.
        unsafe { shared::store_word(to + 4 * i as u32, bytes.get(i)) };
        i += 1;
    }
}

/// Its [bytes] complete at the barrier `bar` when they are visible.
///
/// # Safety
/// As for [`store`]; `to` and `bar` are addresses of one CTA of the cluster, and nobody uses the room before the barrier completes.
#[inline(always)]
pub(in crate::tile) unsafe fn send<T: Copy>(to: u32, value: T, bar: u32) {
    let bytes = Bytes::of(value);
    let mut i = 0;
    while i < const { words::<T>() } {
        // SAFETY: the caller's.
        unsafe { shared::st_async_word(to + 4 * i as u32, bytes.get(i), bar) };
        i += 1;
    }
}

/// # Safety
/// A value of this type was stored at `from`, and nobody writes there.
#[inline(always)]
pub(in crate::tile) unsafe fn load<T: Copy>(from: u32) -> T {
    let mut bytes = Bytes { words: [MaybeUninit::uninit(); ROOM as usize / 4] };
    let mut i = 0;
    while i < const { words::<T>() } {
        // SAFETY: the caller's.
        bytes.set(i, unsafe { shared::load_word(from + 4 * i as u32) });
        i += 1;
    }
    // SAFETY: the words are those that were stored.
    unsafe { bytes.value }
}
