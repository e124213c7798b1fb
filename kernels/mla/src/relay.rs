//! A ring whose stages pass from role to role.

use core::marker::PhantomData;

use tilewright_device::arch::shared::{self, dynamic_shared, dynamic_shared_volatile};
use tilewright_device::arch::special::thread_x;
use tilewright_device::arch::warp::{elect_one, uniform};
use tilewright_device::arch::{mbarrier, sync};
use tilewright_device::tile::barriers::OPENING;
use tilewright_device::tile::{Arrival, Cta, Fill, Full, Pending, TwoRoles};

use crate::cell::Cell;
use crate::rewrite::{Met, Rewrite};

/// A ring of `N` stages that the roles of [`Roles`](tilewright_device::tile::Roles) hand on: filled, read and rewritten by the second role,
/// read by the first, filled again. Its position goes on from tile to tile.
///
/// A barrier for each hand-over and stage: it is full when what was loaded is there, ready when every warp of the second role
/// has published it, empty when every warp of the first has released it. A thread of the first role [loads](Self::loads), or all of a
/// third role [fill](Self::filled) what they wait for to be [empty](Self::emptied).
pub struct Relay<P, const N: usize> {
    /// Where the barriers begin, in the CTA's shared memory.
    begin: u32,
    /// Twice the stage, and the parity of the phase: a register in all.
    position: u32,
    /// The warpgroup of this thread.
    warpgroup: u32,
    roles: PhantomData<P>,
}

/// A full, a ready and an empty barrier.
const STAGE_BYTES: u32 = 3 * 8;

impl<P: TwoRoles, const N: usize> Relay<P, N> {
    /// A ring of `N` stages for the roles to hand on, for which all of them wait.
    ///
    /// Also waits for the kernels that this one was launched to overlap (programmatic dependent launch): make it last, before
    /// the first access to global memory.
    #[inline(always)]
    pub fn open(cta: &mut Cta<P>) -> Self {
        let begin = cta.reserve(STAGE_BYTES * N as u32, 8) - dynamic_shared();
        let relay = Relay { begin, position: 0, warpgroup: uniform(thread_x() / 128), roles: PhantomData };
        let first = thread_x() < 32 * P::WARPS[0];
        let warps = if first { P::WARPS[0] } else { P::WARPS[0] + P::WARPS[1] + P::FILLING };
        // SAFETY: a role's warpgroups are as many.
        unsafe { core::hint::assert_unchecked(relay.warpgroup < warps / 4) };
        // SAFETY: the memory was just taken, by every role in the same way; one thread initialises the barriers, and
        // nobody uses them before all threads met.
        unsafe {
            if thread_x() == 0 {
                let mut stage = 0;
                while stage < N as u32 {
                    let filling = if P::FILLING > 0 { P::FILLING * mbarrier::arrivals(32) } else { 1 };
                    mbarrier::init(relay.full(stage), filling);
                    mbarrier::init(relay.ready(stage), P::WARPS[1] * mbarrier::arrivals(32));
                    mbarrier::init(relay.empty(stage), P::WARPS[0] * P::CLUSTER * mbarrier::arrivals(32));
                    stage += 1;
                }
                sync::fence_mbarrier_init();
            }
            sync::barrier_sync(OPENING.get::<0>(), P::THREADS);
            if P::CLUSTER > 1 {
                sync::cluster_arrive_release();
                sync::cluster_wait();
            }
            sync::griddep_launch_dependents();
            sync::griddep_wait();
        }
        relay
    }

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
        self.position = if last { (self.position % 2) ^ 1 } else { self.position + 2 };
    }

    /// Ends it: no CTA of the cluster goes while others write to its memory.
    #[inline(always)]
    pub fn close(self) {
        if P::CLUSTER > 1 {
            // SAFETY: all threads of the cluster execute it once.
            unsafe {
                sync::cluster_arrive_release();
                sync::cluster_wait();
            }
        }
    }

    /// In the third role: the barrier that says when a stage is full, for copies that complete on it.
    #[inline(always)]
    pub fn filling(&self, turn: &RelayTurn<N>) -> Filling {
        Filling(self.full(turn.stage()))
    }
    /// In the third role: waits for the next stage to be given back, by all CTAs of the cluster.
    #[inline(always)]
    pub fn emptied(&mut self) -> RelayTurn<N> {
        const { assert!(P::FILLING > 0, "a role fills the stages") };
        let turn = self.turn();
        // SAFETY: the barrier is initialised, and was left in the phase before its first.
        unsafe { mbarrier::wait(self.empty(turn.stage()), turn.phase() ^ 1) };
        self.advance();
        turn
    }
    /// In the third role: hands a stage on that holds what each of its threads has written to it, what `load` copies to it in one of them, and
    /// `bytes` that other CTAs of the cluster write.
    #[inline(always)]
    pub fn filled(&mut self, turn: RelayTurn<N>, bytes: u32, load: impl FnOnce(Fill<'_, P, N>))
    where
        P: TwoRoles<Ticket = Arrival>,
    {
        let full = self.full(turn.stage());
        // SAFETY: the role's warps execute it whole; writes are visible to the asynchronous units before the arrival. Of the warp whose
        // thread loads nobody arrives before the barrier expects what is loaded.
        unsafe {
            sync::fence_proxy_async_shared();
            sync::sync_warp();
            if uniform(thread_x() / 32) == P::WARPS[0] + P::WARPS[1] {
                if elect_one() {
                    if bytes > 0 {
                        mbarrier::expect_tx(full, bytes);
                    }
                    load(Fill::new(turn.stage(), Arrival::new(full)));
                }
                sync::sync_warp();
            }
            mbarrier::arrive_if(full, mbarrier::arrives(thread_x(), 32));
        }
    }

    /// What the other roles take part in where a third one fills the stages.
    #[inline(always)]
    pub fn filled_apart(&mut self, next: Cell) -> FilledApart<'_, P, N>
    where
        P: TwoRoles<Ticket = Arrival>,
    {
        const { assert!(P::FILLING > 0, "a role fills the stages") };
        RelayLoads { relay: self, next, full: false, steps: core::iter::empty(), load: |_, _| () }
    }

    /// The loads of all turns, in order: `load(stage, step)` fills a stage for each of `steps`, until the end or twice
    /// `u32::MAX`.
    ///
    /// One thread of the first role loads, `N` turns ahead of the last that was released; what comes next it works out while
    /// [a gemm runs](RelayLoads::during), and keeps in `next`.
    #[inline(always)]
    pub fn loads<I, F>(&mut self, next: Cell, steps: I, load: F) -> RelayLoads<'_, P, N, I, F>
    where
        P: TwoRoles<Ticket = Arrival>,
        I: Iterator<Item = [u32; 2]>,
        F: for<'s> FnMut(Fill<'s, P, N>, [u32; 2]),
    {
        let mut loads = RelayLoads { relay: self, next, full: false, steps, load };
        loads.by_one(
            #[inline(always)]
            |loads| {
                // Barriers that are new were left in the phase before their first.
                let turn = |stage: usize| RelayTurn { position: 2 * stage as u32 + 1 };
                let first = loads.step();
                loads.fill(turn(0), first);
                // All others are worked out before one is loaded: what they are looked up in is fetched at the same time.
                let mut steps = [NONE; N];
                let mut stage = 1;
                while stage < N {
                    steps[stage] = loads.step();
                    stage += 1;
                }
                let mut stage = 1;
                while stage < N {
                    loads.fill(turn(stage), steps[stage]);
                    stage += 1;
                }
            },
        );
        loads
    }
}

/// The loads of a [`Relay`], and the turns that they give.
pub struct RelayLoads<'r, P, const N: usize, I, F> {
    relay: &'r mut Relay<P, N>,
    next: Cell,
    /// Whether the next stage of the second role is known to be full.
    full: bool,
    steps: I,
    load: F,
}

/// The turns of a [`Relay`] whose stages a third role fills.
pub type FilledApart<'r, P, const N: usize> =
    RelayLoads<'r, P, N, core::iter::Empty<[u32; 2]>, fn(Fill<'_, P, N>, [u32; 2])>;

/// What follows the last step.
const NONE: [u32; 2] = [u32::MAX; 2];

/// The barrier of a stage that is being filled: see [`Relay::filling`].
pub struct Filling(u32);

impl Filling {
    /// Where it is in shared memory.
    #[inline(always)]
    pub(crate) fn address(&self) -> u32 {
        self.0
    }
}

/// A stage's turn with a role.
#[must_use = "hand the stage on when it has been read"]
pub struct RelayTurn<const N: usize> {
    position: u32,
}

impl<const N: usize> RelayTurn<N> {
    #[inline(always)]
    pub(crate) fn stage(&self) -> u32 {
        self.position / 2
    }
    #[inline(always)]
    fn phase(&self) -> u32 {
        self.position % 2
    }
    /// The stage, to be read.
    #[inline(always)]
    pub fn full(&self) -> Full<'_, N> {
        // SAFETY: a role that has the turn has been told that the stage is full; the turn is borrowed while it is read.
        unsafe { Full::new(self.stage()) }
    }
    /// The stage, to be written by the role whose turn it is, when its warps have met behind the gemms that read it.
    #[inline(always)]
    pub fn rewrite(&mut self, _: &Met) -> Rewrite<'_, N> {
        Rewrite::new(self.stage())
    }
    /// The stage, to be written by each warpgroup where nobody but itself may still be reading.
    #[inline(always)]
    pub fn rewrite_own(&mut self) -> Rewrite<'_, N> {
        Rewrite::new(self.stage())
    }
}

impl<P, const N: usize, I, F> RelayLoads<'_, P, N, I, F>
where
    P: TwoRoles<Ticket = Arrival>,
    I: Iterator<Item = [u32; 2]>,
    F: for<'s> FnMut(Fill<'s, P, N>, [u32; 2]),
{
    /// Calls `f` in one thread, of the first role.
    #[inline(always)]
    fn by_one(&mut self, f: impl FnOnce(&mut Self)) {
        if P::FILLING > 0 || self.relay.warpgroup > 0 || thread_x() >= 32 {
            return;
        }
        // SAFETY: a whole warp executes it. `elect.sync`, so that ptxas knows that one lane goes on, and loops over no others.
        unsafe {
            sync::sync_warp();
            if elect_one() {
                f(self)
            }
            sync::sync_warp();
        }
    }
    /// The next step.
    #[inline(always)]
    fn step(&mut self) -> [u32; 2] {
        self.steps.next().unwrap_or(NONE)
    }
    /// Loads a step into a stage when the turn that it has is over.
    #[inline(always)]
    fn fill(&mut self, turn: RelayTurn<N>, step: [u32; 2]) {
        if step == NONE {
            return;
        }
        let barrier = self.relay.full(turn.stage());
        let ticket = Arrival::new(barrier);
        // SAFETY: an empty stage is this thread's until its full barrier completes.
        unsafe {
            mbarrier::wait(self.relay.empty(turn.stage()), turn.phase());
            (self.load)(Fill::new(turn.stage(), ticket), step);
            mbarrier::arrive(barrier);
        }
    }

    /// In the second role: asks whether the next stage is full. It takes a while to know, in which other work goes on.
    #[inline(always)]
    pub fn look_ahead(&mut self) {
        let turn = self.relay.turn();
        // SAFETY: the barrier is initialised.
        self.full = unsafe { mbarrier::test_wait(self.relay.full(turn.stage()), turn.phase()) };
    }
    /// In the second role: waits for the next stage to be full, unless it is known to be.
    #[inline(always)]
    pub fn take(&mut self) -> RelayTurn<N> {
        let turn = self.relay.turn();
        if !core::mem::replace(&mut self.full, false) {
            // SAFETY: the barrier is initialised.
            unsafe { mbarrier::wait(self.relay.full(turn.stage()), turn.phase()) };
        }
        if P::CLUSTER > 1 {
            // The other CTA wrote the rotary part through the generic proxy (`st.async`); `wgmma` reads it through the asynchronous one.
            // SAFETY: a fence may stand anywhere.
            unsafe { sync::fence_proxy_async_shared() };
        }
        self.relay.advance();
        turn
    }
    /// In the second role: hands a stage to the first, with what was written to it, if there is one to hand over.
    ///
    /// Without a branch, so that it may stand between the instructions of a gemm.
    #[inline(always)]
    pub fn publish(&self, turn: Option<RelayTurn<N>>) {
        let (there, stage) = (turn.is_some(), turn.map_or(0, |turn| turn.stage()));
        // SAFETY: the role's warps execute it whole; writes are visible to the asynchronous units before the arrival.
        unsafe {
            sync::fence_proxy_async_shared();
            sync::sync_warp();
            mbarrier::arrive_if(self.relay.ready(stage), there & mbarrier::arrives(thread_x(), 32));
        }
    }

    /// In the first role: waits for the stage behind the last that was released to be published.
    #[inline(always)]
    pub fn receive(&mut self) -> RelayTurn<N> {
        let turn = self.relay.turn();
        // SAFETY: the barrier is initialised.
        unsafe { mbarrier::wait(self.relay.ready(turn.stage()), turn.phase()) };
        turn
    }
    /// In the first role: the same for a stage of which no gemm reads, and works out what to load when it is released. Unless `more`
    /// is loaded, the stage is free: it waits for the other CTAs of a cluster alone, which get copies of what was in it.
    #[inline(always)]
    pub fn receive_aside(&mut self, more: bool) -> RelayTurn<N> {
        self.prepare();
        if more {
            return self.receive();
        }
        let turn = self.relay.turn();
        if P::CLUSTER > 1 {
            // SAFETY: the barrier is initialised, and was left in the phase before its first. All CTAs gave the stage back, or will: each takes the same turns.
            unsafe { mbarrier::wait(self.relay.empty(turn.stage()), turn.phase() ^ 1) };
        }
        turn
    }
    /// In the first role: waits for gemms of this turn, and meanwhile works out what to load when it is released.
    #[inline(always)]
    pub fn during<D: Pending>(&mut self, gemms: D) -> D::Done {
        let running = gemms.commit();
        self.prepare();
        running.wait()
    }
    /// In the first role: gives back a stage that no gemm in flight reads, to be filled again.
    #[inline(always)]
    pub fn release(&mut self, turn: RelayTurn<N>) {
        let empty = self.relay.empty(turn.stage());
        // SAFETY: the role's warps execute it whole, after their last read. All CTAs of a cluster write to the stages of each.
        unsafe {
            sync::sync_warp();
            if P::CLUSTER == 1 {
                mbarrier::arrive_if(empty, mbarrier::arrives(thread_x(), 32));
            } else if mbarrier::EVERY_LANE {
                let mut cta = 0;
                while cta < P::CLUSTER {
                    mbarrier::arrive_remote(shared::mapa(empty, cta));
                    cta += 1;
                }
            } else if thread_x() % 32 < P::CLUSTER {
                mbarrier::arrive_remote(shared::mapa(empty, thread_x() % 32));
            }
        }
        self.by_one(
            #[inline(always)]
            |loads| loads.fill(turn, loads.next.get()),
        );
        self.relay.advance();
    }
    /// In the first role, if `here`: gives the next stage back as it comes.
    #[inline(always)]
    pub fn pass_if(&mut self, here: bool) {
        if here {
            let turn = self.receive_aside(true);
            self.release(turn);
        }
    }
    /// Works out what to load when the next stage is released.
    #[inline(always)]
    fn prepare(&mut self) {
        self.by_one(
            #[inline(always)]
            |loads| {
                let step = loads.step();
                loads.next.set(step);
            },
        );
    }
}
