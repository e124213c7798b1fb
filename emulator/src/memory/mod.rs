//! The address spaces, and global memory.

mod allocation;
pub(crate) mod budget;
pub(crate) mod bytes;
pub(crate) mod global;
mod table;
pub(crate) mod view;

/// The first address of global memory that is given out.
pub(crate) const GLOBAL_START: u64 = 1 << 36;
/// Where the variables of modules begin.
pub(crate) const MODULES_START: u64 = 1 << 44;
/// Where shared memory begins among generic addresses.
pub(crate) const SHARED: u64 = 1 << 48;
/// Where the kernel's parameters begin among generic addresses.
pub(crate) const PARAMETERS: u64 = 1 << 49;
/// Where local memory begins among generic addresses: each thread of a CTA has a window of its own, and what another one does
/// with the address is seen.
pub(crate) const LOCAL: u64 = 1 << 50;
/// Threads whose windows of local memory are told apart: those of a CTA in so many CTAs.
const THREADS: u64 = 1 << 16;
/// Where functions begin, for pointers to them.
pub(crate) const FUNCTIONS: u64 = 1 << 51;
/// Bytes of each of those windows.
const WINDOW: u64 = 1 << 32;

/// The first shared-memory address of a CTA; what is below belongs to the system, as on sm_90.
pub(crate) const SHARED_START: u32 = 1024;
/// Where in a `shared::cluster` address the CTA is: its rank plus one. Zero is the CTA's own memory.
pub(crate) const RANK_SHIFT: u32 = 24;
/// The part of a `shared::cluster` address that is the address in its CTA.
pub(crate) const IN_CTA: u32 = (1 << RANK_SHIFT) - 1;

/// Where a generic address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Global(u64),
    /// A `shared::cluster` address.
    Shared(u32),
    Parameters(u32),
    Local(u32),
    /// An address in the local memory of another thread.
    Foreign(u64),
}

/// Where the window of local memory begins of a thread that has this number.
#[inline]
pub(crate) fn local_window(thread: u64) -> u64 {
    LOCAL + thread % THREADS * WINDOW
}

/// Takes a generic address apart.
pub(crate) fn place(generic: u64) -> Place {
    match generic {
        SHARED.. if generic - SHARED < WINDOW => Place::Shared((generic - SHARED) as u32),
        PARAMETERS.. if generic - PARAMETERS < WINDOW => Place::Parameters((generic - PARAMETERS) as u32),
        LOCAL.. if generic - LOCAL < THREADS * WINDOW => Place::Local((generic - LOCAL) as u32),
        global => Place::Global(global),
    }
}
