//! What a kernel tells the builder, as comments in its PTX, and where its parameters are.

/// Declares the launch configuration of the kernel that calls it.
///
/// rustc cannot write `.maxntid` and its kin; the builder reads this comment and adds them.
///
/// # Safety
/// None beyond its place: called once, at the start of an entry point. No instruction.
#[inline(always)]
pub unsafe fn declare<
    const THREADS: u32,
    const MIN_CTAS: u32,
    const CLUSTER_X: u32,
    const CLUSTER_Y: u32,
    const CLUSTER_Z: u32,
    const SHARED_BYTES: u32,
    const LOCAL: bool,
>() {
    // SAFETY: a comment.
    unsafe {
        ptx!(
            "// tilewright.kernel threads={} min_ctas={} cluster={},{},{} shared={} local={}",
            const THREADS, const MIN_CTAS, const CLUSTER_X, const CLUSTER_Y, const CLUSTER_Z, const SHARED_BYTES,
            const LOCAL as u32
        )
    }
}

/// Says how much dynamic shared memory the kernel has handed out so far, in bytes: the builder gives it as much at its launch.
///
/// A comment, of which the builder reads the number where the compiler knows it.
#[inline(always)]
pub fn takes_shared(bytes: u32) {
    // SAFETY: a comment.
    unsafe { ptx!("// tilewright.shared {0}", in(reg32) bytes, options(nomem)) }
}

/// The pointer to an argument that the kernel reads in place: the compiler knows nothing of it, so what is read through it is
/// read here. No instruction.
///
/// The builder makes loads of parameters (`ld.param`) of a kernel's loads where it finds this comment, `IN_PLACE` there.
#[inline(always)]
pub fn in_place<T>(pointer: *const T) -> *const T {
    let mut p = pointer;
    // SAFETY: a comment.
    unsafe { ptx!("// tilewright.in_place {0}", inout(reg64) p, options(nomem)) };
    p
}

/// The same number, which the compiler does not know before here: an epilogue's decisions by it are not held in registers through the loop above. No
/// instruction.
#[inline(always)]
pub fn late(mut x: u32) -> u32 {
    // SAFETY: a comment.
    unsafe { ptx!("// {0}", inout(reg32) x) };
    x
}

/// How many threads of the CTA hold fragments, as [`computing_threads_are`] has said.
///
/// The compiler replaces it by that number, so that what is asked of it is decided when compiling; no instruction is left.
#[inline(always)]
pub fn computing_threads() -> u32 {
    let threads: u32;
    // SAFETY: reads a special register.
    unsafe {
        ptx!("mov.u32 {0}, %ntid.x; // tilewright.computing", out(reg32) threads, options(pure, nomem))
    };
    threads
}

/// Says how many threads of the CTA hold fragments: [`computing_threads`].
///
/// # Safety
/// Called at the start of a kernel's body, with that number, before anything reads it.
#[inline(always)]
pub unsafe fn computing_threads_are(threads: u32) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: `computing_threads` is pure, so that the compiler takes all its results for one value; told here what that is, it
    // removes the instruction, whose own result nothing uses. The caller tells one number for the kernel.
    unsafe {
        core::hint::assert_unchecked(computing_threads() == threads)
    }
}

/// Refuses the kernel that reaches it: the builder shows the message, a literal, and fails.
///
/// For what only the compiled kernel shows. The condition around it has to fold away when kernels are compiled: a refusal
/// that is left in the PTX stops the build, also where it is never reached.
#[macro_export]
macro_rules! refuse {
    ($message:literal) => {{
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: a comment.
        unsafe {
            ::core::arch::asm!(concat!("// tilewright.refuse ", $message), options(nostack))
        }
    }};
}

/// The address of parameter 0 of the entry point with this name, which calls it, as `*const u8`.
///
/// PTX ISA, "Kernel Function Parameters" and "cvta"; sm_80. Only on the device, in an `unsafe` block.
#[macro_export]
macro_rules! param_address {
    ($entry:ident) => {{
        let address: *const u8;
        ::core::arch::asm!(
            concat!("mov.b64 {0}, ", stringify!($entry), "_param_0; cvta.param.u64 {0}, {0};"),
            out(reg64) address,
            options(pure, nomem, nostack)
        );
        address
    }};
}

pub use crate::{param_address, refuse};
