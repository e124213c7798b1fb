//! A ring whose stages pass from role to role.

use core::marker::PhantomData;

use super::pipeline::Arrival;
use super::roles::TwoRoles;
use super::{Cta, Fill, Full, Rewrite};
use crate::arch::special::thread_x;
use crate::arch::warp::uniform;
use crate::arch::shared::{dynamic_shared, dynamic_shared_volatile};
use crate::arch::{mbarrier, sync};

/// A ring of `N` stages that the roles of [`Roles`](super::Roles) hand on: filled, read and rewritten by the second role,
/// read by the first, filled again. Its position goes on from tile to tile.
///
/// A barrier for each hand-over and stage: it is full when what was loaded is there, ready when every warp of the second role
/// has published it, empty when every warp of the first has released it.
pub struct Relay<P, const N: usize> {
    /// Where the barriers begin, in the CTA's shared memory.
    begin: u32,
    /// Twice the stage, and the parity of the phase: a register in all.
    position: u32,
    /// The warpgroup of this thread.
    warpgroup: u32,
    roles: PhantomData<P>,
}

impl<P: TwoRoles> Cta<P> {
    /// Whether this is the instance of the body for `role`, 0 or 1.
    #[inline(always)]
    pub fn in_role(&self, role: u32) -> bool {
        (thread_x() >= 32 * P::WARPS[0]) == (role == 1)
    }

    /// A ring of `N` stages for the roles to hand on, for which all of them wait.
    ///
    /// Also waits for the kernels that this one was launched to overlap (programmatic dependent launch): make it last, before
    /// the first access to global memory.
    #[inline(always)]
    pub fn relay<const N: usize>(&mut self) -> Relay<P, N> {
        let begin = self.take(P::STAGE_BYTES * N as u32, 8) - dynamic_shared();
        let relay = Relay { begin, position: 0, warpgroup: uniform(thread_x() / 128), roles: PhantomData };
        let warps = if thread_x() < 32 * P::WARPS[0] { P::WARPS[0] } else { P::WARPS[0] + P::WARPS[1] };
        // SAFETY: a role's warpgroups are as many.
        unsafe { core::hint::assert_unchecked(relay.warpgroup < warps / 4) };
        // SAFETY: the memory was just taken, by every role in the same way; one thread initialises the barriers, and
        // nobody uses them before all threads met.
        unsafe {
            if thread_x() == 0 {
                let mut stage = 0;
                while stage < N as u32 {
                    mbarrier::init(relay.full(stage), 1);
                    mbarrier::init(relay.ready(stage), P::WARPS[1]);
                    mbarrier::init(relay.empty(stage), P::WARPS[0]);
                    stage += 1;
                }
                sync::fence_mbarrier_init();
            }
            sync::barrier_sync(0, P::THREADS);
            sync::griddep_launch_dependents();
            sync::griddep_wait();
        }
        relay
    }
}

impl<P: TwoRoles, const N: usize> Relay<P, N> {
    #[inline(always)]
    fn full(&self, stage: u32) -> u32 {
        dynamic_shared_volatile() + self.begin + stage * 8
    }
    #[inline(always)]
    fn ready(&self, stage: u32) -> u32 {
        self.full(N as u32 + stage)
    }
    #[inline(always)]
    fn empty(&self, stage: u32) -> u32 {
        self.full(2 * N as u32 + stage)
    }
    /// This role's current turn.
    #[inline(always)]
    fn turn(&self) -> RelayTurn<N> {
        // The same in all lanes, as ptxas cannot know of what a loop with branches carries: so are the stage's addresses.
        RelayTurn { position: uniform(self.position) }
    }
    #[inline(always)]
    fn advance(&mut self) {
        let last = self.position >= 2 * (N as u32 - 1);
        self.position = if last { self.position % 2 ^ 1 } else { self.position + 2 };
    }

    /// The loads of all turns, in order: `load(stage, step)` fills a stage for each of `steps`.
    ///
    /// One thread of the first role loads, `N` turns ahead of the last that was released.
    #[inline(always)]
    pub fn loads<I, F>(&mut self, steps: I, load: F) -> RelayLoads<'_, P, N, I, F>
    where
        P: TwoRoles<Ticket = Arrival>,
        I: Iterator,
        F: for<'s> FnMut(Fill<'s, P, N>, I::Item),
    {
        let mut loads = RelayLoads { relay: self, steps, load };
        if thread_x() == 0 {
            let mut stage = 0;
            while stage < N as u32 {
                // SAFETY: this thread alone fills; barriers that are new were left in the phase before their first.
                unsafe { loads.fill(RelayTurn { position: 2 * stage + 1 }) };
                stage += 1;
            }
        }
        if thread_x() < 32 {
            // SAFETY: a whole warp executes it.
            unsafe { sync::sync_warp() }
        }
        loads
    }
}

/// The loads of a [`Relay`], and the turns that they give.
pub struct RelayLoads<'r, P, const N: usize, I, F> {
    relay: &'r mut Relay<P, N>,
    steps: I,
    load: F,
}

/// A stage's turn with a role.
#[must_use = "hand the stage on when it has been read"]
pub struct RelayTurn<const N: usize> {
    position: u32,
}

impl<const N: usize> RelayTurn<N> {
    #[inline(always)]
    pub(super) fn stage(&self) -> u32 {
        self.position / 2
    }
    #[inline(always)]
    fn phase(&self) -> u32 {
        self.position % 2
    }
    /// The stage, to be read.
    #[inline(always)]
    pub fn full(&self) -> Full<'_, N> {
        Full { stage: self.stage(), turn: PhantomData }
    }
    /// The stage, to be written where nobody reads it any more: by this role's threads, whose gemms have been waited for.
    #[inline(always)]
    pub fn rewrite(&mut self) -> Rewrite<'_, N> {
        Rewrite { stage: self.stage(), turn: PhantomData }
    }
}

impl<P, const N: usize, I, F> RelayLoads<'_, P, N, I, F>
where
    P: TwoRoles<Ticket = Arrival>,
    I: Iterator,
    F: for<'s> FnMut(Fill<'s, P, N>, I::Item),
{
    /// Loads the next step into a stage when the turn that it has is over.
    ///
    /// # Safety
    /// One thread calls it, for one turn after the other.
    #[inline(always)]
    unsafe fn fill(&mut self, turn: RelayTurn<N>) {
        let (stage, phase) = (turn.stage(), turn.phase());
        let Some(step) = self.steps.next() else { return };
        let barrier = self.relay.full(stage);
        // SAFETY: an empty stage is this thread's until its full barrier completes.
        unsafe {
            mbarrier::wait(self.relay.empty(stage), phase);
            (self.load)(
                Fill { stage, ticket: Arrival { barrier, part: 0, parts: 1 }, turn: PhantomData },
                step,
            );
            mbarrier::arrive(barrier);
        }
    }

    /// In the second role: waits for the next stage to be full.
    #[inline(always)]
    pub fn next(&mut self) -> RelayTurn<N> {
        let turn = self.relay.turn();
        // SAFETY: the barrier is initialised.
        unsafe { mbarrier::wait(self.relay.full(turn.stage()), turn.phase()) };
        self.relay.advance();
        turn
    }
    /// In the second role: hands a stage to the first, with what was written to it.
    ///
    /// Without a branch, so that it may stand between the instructions of a gemm.
    #[inline(always)]
    pub fn publish(&self, turn: RelayTurn<N>) {
        // SAFETY: the role's warps execute it whole; writes are visible to the asynchronous units before the arrival.
        unsafe {
            sync::fence_proxy_async_shared();
            sync::sync_warp();
            mbarrier::arrive_if(self.relay.ready(turn.stage()), thread_x().is_multiple_of(32));
        }
    }
    /// In the second role: gives back a stage, of whose turn only word is left to [publish](Self::publish): the first role
    /// [skips](Self::skip) it.
    #[inline(always)]
    pub fn keep(&self, turn: RelayTurn<N>) -> RelayTurn<N> {
        const {
            assert!(
                P::WARPS[0].is_multiple_of(P::WARPS[1]),
                "each warp arrives for as many of the other role"
            )
        };
        // SAFETY: the role's warps execute it whole, after their last read, and arrive for the other role's too.
        unsafe {
            sync::sync_warp();
            mbarrier::arrive_if(self.relay.empty(turn.stage()), thread_x() % 32 < P::WARPS[0] / P::WARPS[1]);
        }
        turn
    }

    /// In the first role: waits for the stage behind the last that was released to be published.
    #[inline(always)]
    pub fn receive(&mut self) -> RelayTurn<N> {
        let turn = self.relay.turn();
        // SAFETY: the barrier is initialised.
        unsafe { mbarrier::wait(self.relay.ready(turn.stage()), turn.phase()) };
        turn
    }
    /// In the first role: gives back a stage that no gemm in flight reads, to be filled again.
    #[inline(always)]
    pub fn release(&mut self, turn: RelayTurn<N>) {
        // SAFETY: the role's warps execute it whole, after their last read.
        unsafe {
            sync::sync_warp();
            mbarrier::arrive_if(self.relay.empty(turn.stage()), thread_x().is_multiple_of(32));
        }
        self.refill(turn);
    }
    /// In the first role: leaves out a stage that the second one [keeps](Self::keep) to itself, until it is published.
    #[inline(always)]
    pub fn skip(&mut self) {
        let (stage, phase) = (self.relay.turn().stage(), self.relay.turn().phase());
        self.refill(self.relay.turn());
        // SAFETY: the barrier is initialised, and behind by a phase at most: the role's next turns wait for later ones.
        unsafe { mbarrier::wait(self.relay.ready(stage), phase) };
    }
    #[inline(always)]
    fn refill(&mut self, turn: RelayTurn<N>) {
        if self.relay.warpgroup == 0 && thread_x() == 0 {
            // SAFETY: this thread alone fills.
            unsafe { self.fill(turn) }
        }
        if self.relay.warpgroup == 0 && thread_x() < 32 {
            // SAFETY: a whole warp executes it.
            unsafe { sync::sync_warp() }
        }
        self.relay.advance();
    }
}
