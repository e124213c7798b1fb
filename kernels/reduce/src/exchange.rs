//! States of results that change hands: among the lanes of a warp, and through shared memory.

use tilewright_device::arch::{shared, warp};

use crate::fold::{Fold, State};

/// Merges the states of each `lanes` neighbouring lanes, a power of two up to 32: all of these get the same one.
///
/// # Safety
/// All lanes of the warp execute it, with the same number.
#[inline(always)]
pub(crate) unsafe fn across_lanes<F: Fold>(mut state: F::State, lanes: u32) -> F::State {
    let mut mask = 1;
    while mask < lanes {
        // SAFETY: the caller's.
        let other = F::State::of_words(|i| unsafe { warp::shfl_bfly_u32(state.word(i), mask) });
        state = F::merge(state, other);
        mask *= 2;
    }
    state
}

/// Room for states in shared memory: `count` of them, at whose address each word's are neighbours.
#[derive(Clone, Copy)]
pub(crate) struct States {
    pub(crate) address: u32,
    pub(crate) count: u32,
}

impl States {
    #[inline(always)]
    fn place(&self, slot: u32, word: u32) -> u32 {
        self.address + (word * self.count + slot) * 4
    }

    /// # Safety
    /// The slot is there, and no other thread uses it.
    #[inline(always)]
    pub(crate) unsafe fn put<S: State>(&self, slot: u32, state: S) {
        let mut i = 0;
        while i < S::WORDS {
            // SAFETY: the caller's.
            unsafe { shared::store_u32(self.place(slot, i), state.word(i)) };
            i += 1;
        }
    }

    /// The same in the memory of another CTA of the cluster.
    ///
    /// # Safety
    /// As for [`put`](Self::put); that CTA runs.
    #[inline(always)]
    pub(crate) unsafe fn put_in<S: State>(&self, rank: u32, slot: u32, state: S) {
        let mut i = 0;
        while i < S::WORDS {
            // SAFETY: the caller's.
            unsafe { shared::store_cluster_u32(shared::mapa(self.place(slot, i), rank), state.word(i)) };
            i += 1;
        }
    }

    /// # Safety
    /// The slot has been written, and no thread writes it meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn get<S: State>(&self, slot: u32) -> S {
        // SAFETY: the caller's.
        S::of_words(|i| unsafe { shared::load_u32(self.place(slot, i)) })
    }

    /// The states of `count` slots from `first` on, in this order.
    ///
    /// # Safety
    /// As for [`get`](Self::get).
    #[inline(always)]
    pub(crate) unsafe fn merged<F: Fold>(&self, first: u32, count: u32) -> F::State {
        // SAFETY: the caller's.
        let mut state = unsafe { self.get(first) };
        let mut i = 1;
        while i < count {
            // SAFETY: the caller's.
            state = F::merge(state, unsafe { self.get(first + i) });
            i += 1;
        }
        state
    }
}
