//! One value for each row of a tile, from one role to the other.

use core::marker::PhantomData;

use tilewright_device::arch::shared::{dynamic_shared, dynamic_shared_volatile};
use tilewright_device::arch::special::thread_x;
use tilewright_device::arch::{mbarrier, sync};
use tilewright_device::tile::{Collective, CopyTo, Cta, Element, FragmentLayout, RowVector, Rows, TwoRoles};

use crate::relay::RelayTurn;

/// Vectors of `M` values of `T` in shared memory, one for each of a [`Relay`](super::Relay)'s `N` stages: written and read
/// by whom the stage has its turn with.
pub struct RowVectors<T, const M: usize, const N: usize> {
    /// Where they begin in the CTA's shared memory.
    begin: u32,
    element: PhantomData<T>,
}

/// A vector of `M` values that the second role sends to the first, once a tile.
pub struct RowMailbox<P, const M: usize> {
    /// Where it begins in the CTA's shared memory.
    begin: u32,
    roles: PhantomData<P>,
}

impl<P: TwoRoles, const M: usize> RowMailbox<P, M> {
    /// A vector of `M` values that the second role sends to the first. Make it before the relay, which all wait for.
    #[inline(always)]
    pub fn open(cta: &mut Cta<P>) -> Self {
        let begin = cta.reserve(M as u32 * 4 + 16, 16) - dynamic_shared();
        let mailbox = RowMailbox { begin, roles: PhantomData };
        if thread_x() == 0 {
            // SAFETY: the memory was just taken; nobody uses the barriers before the relay's threads met.
            unsafe {
                mbarrier::init(mailbox.full(), P::WARPS[1] * mbarrier::arrivals(32));
                mbarrier::init(mailbox.empty(), P::WARPS[0] * mbarrier::arrivals(32));
            }
        }
        mailbox
    }
}

impl<T: Element, const M: usize, const N: usize> RowVectors<T, M, N> {
    /// A vector of `M` values of `T` for each of `N` stages.
    #[inline(always)]
    pub fn new<P: Collective>(cta: &mut Cta<P>) -> Self {
        let begin = cta.reserve((M * N * T::BYTES) as u32, 16) - dynamic_shared();
        RowVectors { begin, element: PhantomData }
    }
    /// The vector of a turn's stage.
    #[inline(always)]
    pub fn at<'s>(&self, turn: &'s RelayTurn<N>) -> RowVector<'s, T, M> {
        let at = dynamic_shared_volatile() + self.begin + turn.stage() * (M * T::BYTES) as u32;
        // SAFETY: one of these vectors, whose turn is this role's.
        unsafe { RowVector::at(at) }
    }
}

impl<T: Element, const M: usize> RowVectors<T, M, 1> {
    /// The only vector: for threads of one warp to keep their rows' values in.
    #[inline(always)]
    pub fn only(&mut self) -> RowVector<'_, T, M> {
        // SAFETY: the only vector, borrowed as a whole; a warp keeps to its own rows.
        unsafe { RowVector::at(dynamic_shared_volatile() + self.begin) }
    }
}

impl<P: TwoRoles, const M: usize> RowMailbox<P, M> {
    #[inline(always)]
    fn full(&self) -> u32 {
        dynamic_shared_volatile() + self.begin + M as u32 * 4
    }
    #[inline(always)]
    fn empty(&self) -> u32 {
        self.full() + 8
    }
    #[inline(always)]
    fn vector(&self) -> RowVector<'_, f32, M> {
        // SAFETY: the mailbox's, whose barriers order what is written and read.
        unsafe { RowVector::at(dynamic_shared_volatile() + self.begin) }
    }

    /// In the second role: sends each row's value for the `turn`-th time, when the last ones have been received.
    #[inline(always)]
    pub fn send<L: FragmentLayout<M, C>, const C: usize>(&self, turn: u32, rows: Rows<f32, M, C, L>) {
        // SAFETY: the role's warps execute it whole; barriers that are new were left in the phase before their first.
        unsafe {
            mbarrier::wait(self.empty(), (turn % 2) ^ 1);
            rows.copy_to(self.vector());
            sync::sync_warp();
            mbarrier::arrive_if(self.full(), mbarrier::arrives(thread_x(), 32));
        }
    }
    /// In the first role: each row's value, when it has been sent for the `turn`-th time.
    #[inline(always)]
    pub fn receive<L: FragmentLayout<M, C>, const C: usize>(&self, turn: u32) -> Rows<f32, M, C, L> {
        // SAFETY: as in `send`.
        unsafe {
            mbarrier::wait(self.full(), turn % 2);
            let rows = Rows::from_vector(self.vector());
            sync::sync_warp();
            mbarrier::arrive_if(self.empty(), mbarrier::arrives(thread_x(), 32));
            rows
        }
    }
}
