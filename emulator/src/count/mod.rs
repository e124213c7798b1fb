//! What a launch did: instructions by class, and what they asked of the machine.
//!
//! Instructions are counted as they are executed; what they ask of memory is worked out from their addresses, by rules
//! that follow NVIDIA's description of the hardware. Nothing here is a time.

/// A struct of numbers that add up.
macro_rules! counters {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident $(: $type:ty)?,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: counters!(@ $($type)?),)* }

        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }
    };
    (@) => { u64 };
    (@ $type:ty) => { $type };
}

pub(crate) mod banks;
pub(crate) mod executed;
pub(crate) mod stages;
mod table;
pub(crate) mod traffic;

use banks::SharedTraffic;
use executed::Classes;
use traffic::GlobalTraffic;

use std::ops::AddAssign;

counters! {
    /// Accesses of global memory by who made them. Instructions fetched, parameters, local memory and tensor maps
    /// are none of them.
    GlobalCounters {
        /// `ld`.
        loads: GlobalTraffic,
        /// `st`.
        stores: GlobalTraffic,
        /// `atom` and `red`.
        atomics: GlobalTraffic,
        /// What `cp.async` reads.
        copies: GlobalTraffic,
        /// What bulk copies and the TMA unit read; for several CTAs at once, once.
        bulk_loads: GlobalTraffic,
        /// What bulk copies, reductions and the TMA unit write.
        bulk_stores: GlobalTraffic,
    }
}

impl GlobalCounters {
    /// All that was read, but for atomics.
    pub fn read(&self) -> GlobalTraffic {
        sum(&[self.loads, self.copies, self.bulk_loads])
    }

    /// All that was written, but for atomics.
    pub fn written(&self) -> GlobalTraffic {
        sum(&[self.stores, self.bulk_stores])
    }
}

counters! {
    /// Accesses of shared memory by who made them. Operations of mbarriers are none of them.
    SharedCounters {
        /// `ld`.
        loads: SharedTraffic,
        /// `st` and `st.async`.
        stores: SharedTraffic,
        /// `atom` and `red`.
        atomics: SharedTraffic,
        /// `ldmatrix`.
        ldmatrix: SharedTraffic,
        /// `stmatrix`.
        stmatrix: SharedTraffic,
        /// Operands of `wgmma`, each read once for the warpgroup.
        wgmma: SharedTraffic,
        /// What `cp.async` writes.
        copies: SharedTraffic,
        /// What bulk copies and the TMA unit write, in every CTA.
        bulk_writes: SharedTraffic,
        /// What bulk copies and the TMA unit read.
        bulk_reads: SharedTraffic,
    }
}

impl SharedCounters {
    /// All accesses.
    pub fn total(&self) -> SharedTraffic {
        let Self { loads, stores, atomics, ldmatrix, stmatrix, wgmma, copies, bulk_writes, bulk_reads } =
            *self;
        sum(&[loads, stores, atomics, ldmatrix, stmatrix, wgmma, copies, bulk_writes, bulk_reads])
    }
}

fn sum<T: Copy + Default + AddAssign>(of: &[T]) -> T {
    of.iter().fold(T::default(), |mut sum, &one| {
        sum += one;
        sum
    })
}

counters! {
    /// Waits of warps.
    Waits {
        /// Times that a warp could not go on at once.
        times,
        /// Turns of the schedule that it was passed over: not a time, and another order of warps gives others.
        turns,
    }
}

counters! {
    /// Waits by what was waited for.
    WaitCounters {
        /// `bar.sync`, `barrier.sync`.
        barriers: Waits,
        /// `barrier.cluster.wait`.
        clusters: Waits,
        /// Polls of mbarriers, `try_wait` and `test_wait`, that failed in some lane; each is a turn.
        mbarriers: Waits,
    }
}

/// What a launch did.
///
/// Where counting is [off](crate::Emulator::counting), all after `contested_stores` is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Instructions, each counted once for a warp.
    pub instructions: u64,
    /// Instructions, each counted once for every lane that executed it.
    pub lane_instructions: u64,
    /// The same by class.
    pub classes: Classes,
    /// Multiplications and additions of tensor cores.
    pub tensor_operations: u64,
    /// Stores in which lanes of a warp wrote different values to one place. One of them stays, and which is not defined. Zero where
    /// the order is [not checked](crate::Emulator::checking_order).
    pub contested_stores: u64,
    /// Accesses of global memory.
    pub global: GlobalCounters,
    /// Accesses of shared memory.
    pub shared: SharedCounters,
    /// Waits at barriers.
    pub waits: WaitCounters,
    /// The most stages of a CTA that were live at a time: filled by asynchronous copies of one mbarrier's phase, or of the
    /// warps' n-th group of `cp.async`, and still to be read. A stage is live from its first copy to its last read.
    pub live_stages: u64,
}

/// Adds numbers up; of the live stages, the most stays.
impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.lane_instructions += other.lane_instructions;
        self.classes += other.classes;
        self.tensor_operations += other.tensor_operations;
        self.contested_stores += other.contested_stores;
        self.global += other.global;
        self.shared += other.shared;
        self.waits += other.waits;
        self.live_stages = self.live_stages.max(other.live_stages);
    }
}
