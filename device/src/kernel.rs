//! What a kernel is: its launch configuration as associated constants, its arguments, its body.

use core::ops::Deref;

/// A GPU architecture that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arch {
    /// Ampere and everything later: `cp.async`, `ldmatrix`, `mma.sync`.
    Sm80,
    /// Hopper's own instructions: TMA, `wgmma`, `setmaxnreg`, clusters.
    Sm90a,
}

impl Arch {
    /// The target's name in PTX.
    pub const fn target(self) -> &'static str {
        match self {
            Arch::Sm80 => "sm_80",
            Arch::Sm90a => "sm_90a",
        }
    }

    /// Whether a GPU of compute capability `major.minor` runs this code.
    ///
    /// Code for `sm_90a` runs on compute capability 9.0 alone; code for `sm_80` on 8.0 and later.
    pub const fn runs_on(self, major: u32, minor: u32) -> bool {
        match self {
            Arch::Sm80 => major >= 8,
            Arch::Sm90a => major == 9 && minor == 0,
        }
    }
}

/// How the warps of a CTA share a kernel's body.
///
/// Implemented by the programs of [`tile`](crate::tile): `WarpSpecialized`, `Multistage`.
pub trait Program {
    /// The architecture whose instructions the program uses.
    const ARCH: Arch;
    /// Threads of a CTA.
    const THREADS: u32;
    /// Of these, those that hold fragments: the first.
    const COMPUTING: u32 = Self::THREADS;
    /// CTAs that an SM must be able to hold.
    const CTAS: u32 = 1;

    /// Runs `body` in each role that the CTA's warps have.
    ///
    /// # Safety
    /// Called once, by every thread of the CTA, at the start of a kernel launched with `THREADS` threads.
    unsafe fn run(body: impl FnOnce());
}

/// A kernel, generic or not: what `#[kernel]` makes of a function.
pub trait Kernel {
    /// The arguments as the host passes them: one `repr(C)` block.
    type Args: Copy;
    /// The architecture that it is compiled for.
    const ARCH: Arch;
    /// Threads of a CTA.
    const THREADS: u32;
    /// CTAs that an SM must be able to hold (`.minnctapersm`).
    const MIN_CTAS: u32;
    /// CTAs of a cluster in each dimension.
    const CLUSTER: [u32; 3];
    /// Dynamic shared memory in bytes that it has at least. It has more where its [`Cta`](crate::tile::Cta) hands out more:
    /// [`KernelEntry::shared_bytes`](crate::embedded::KernelEntry::shared_bytes).
    const SHARED_BYTES: u32;
    /// True when the kernel may use local memory; the builder refuses it otherwise.
    const LOCAL: bool;

    /// The kernel's body.
    ///
    /// # Safety
    /// Called on the device alone, by every thread of a launch as the constants above say, with `args`
    /// in parameter space.
    unsafe fn run(args: *const Self::Args);
}

/// A kernel with all its parameters chosen, so that it has an entry point.
pub trait Instance: Kernel {
    /// The entry point's symbol in the PTX.
    const NAME: &'static str;
}

/// A kernel that says of itself what the host chooses it by: tile, element types, orders.
pub trait Described: Kernel {
    /// What there is to say of kernels of this kind; plain data.
    type Description: Copy + 'static;
    /// What is said of this one.
    const DESCRIPTION: Self::Description;
}

/// A row of the table that [`kernels!`](crate::kernels) makes: one compiled kernel, its type forgotten.
#[derive(Clone, Copy, Debug)]
pub struct Listed<D> {
    /// The entry point's symbol in the PTX.
    pub name: &'static str,
    /// The architecture that it is compiled for.
    pub arch: Arch,
    /// Threads of a CTA.
    pub threads: u32,
    /// CTAs that an SM must be able to hold.
    pub min_ctas: u32,
    /// CTAs of a cluster in each dimension.
    pub cluster: [u32; 3],
    /// Bytes of [`Kernel::Args`].
    pub args_bytes: usize,
    /// What the host chooses it by.
    pub description: D,
}

impl<D: Copy + 'static> Listed<D> {
    /// The row of a kernel.
    pub const fn of<K: Instance + Described<Description = D>>() -> Self {
        Listed {
            name: K::NAME,
            arch: K::ARCH,
            threads: K::THREADS,
            min_ctas: K::MIN_CTAS,
            cluster: K::CLUSTER,
            args_bytes: size_of::<K::Args>(),
            description: K::DESCRIPTION,
        }
    }
}

impl<D> Deref for Listed<D> {
    type Target = D;
    fn deref(&self) -> &D {
        &self.description
    }
}
