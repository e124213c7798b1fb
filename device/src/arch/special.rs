//! Special registers: who is executing, where, and when.
//!
//! PTX ISA, "Special Registers".

/// Registers that LLVM knows: it derives their ranges, which asm would hide.
macro_rules! known {
    ($($(#[$doc:meta])* $name:ident: $intrinsic:ident;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name() -> u32 {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: reads a special register.
            unsafe { core::arch::nvptx::$intrinsic() as u32 }
            #[cfg(not(target_arch = "nvptx64"))]
            // SAFETY: as its documentation says.
            unsafe { super::on_host() }
        }
    )* };
}

known! {
    /// `%tid.x`: the thread in its CTA. sm_80.
    thread_x: _thread_idx_x;
    /// `%tid.y`. sm_80.
    thread_y: _thread_idx_y;
    /// `%tid.z`. sm_80.
    thread_z: _thread_idx_z;
    /// `%ctaid.x`: the CTA in the grid. sm_80.
    block_x: _block_idx_x;
    /// `%ctaid.y`. sm_80.
    block_y: _block_idx_y;
    /// `%ctaid.z`. sm_80.
    block_z: _block_idx_z;
    /// `%nctaid.x`: CTAs of the grid. sm_80.
    grid_x: _grid_dim_x;
    /// `%nctaid.y`. sm_80.
    grid_y: _grid_dim_y;
    /// `%nctaid.z`. sm_80.
    grid_z: _grid_dim_z;
}

macro_rules! register {
    ($($(#[$doc:meta])* $name:ident -> $ty:ty, $class:ident, $asm:literal $(, $option:ident)*;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name() -> $ty {
            let r: $ty;
            // SAFETY: reads a special register.
            unsafe { ptx!($asm, out($class) r $(, options($option))*) };
            r
        }
    )* };
}

register! {
    /// `%laneid`: the thread in its warp. sm_80.
    lane -> u32, reg32, "mov.u32 {0}, %laneid;", pure, nomem;
    /// `%cluster_ctarank`: the CTA in its cluster. sm_90.
    cluster_rank -> u32, reg32, "mov.u32 {0}, %cluster_ctarank;", pure, nomem;
    /// `%cluster_nctarank`: CTAs of the cluster. sm_90.
    cluster_size -> u32, reg32, "mov.u32 {0}, %cluster_nctarank;", pure, nomem;
    /// `%dynamic_smem_size`: bytes of dynamic shared memory that the launch gave the CTA. sm_80.
    dynamic_shared_bytes -> u32, reg32, "mov.u32 {0}, %dynamic_smem_size;", pure, nomem;
    /// `%smid`: the SM that executes now. sm_80.
    sm_id -> u32, reg32, "mov.u32 {0}, %smid;", nomem;
    /// `%clock64`: the SM's cycle counter. sm_80.
    clock64 -> u64, reg64, "mov.u64 {0}, %clock64;";
    /// `%globaltimer`: nanoseconds, at a resolution that the GPU chooses. sm_80.
    globaltimer -> u64, reg64, "mov.u64 {0}, %globaltimer;";
    /// `%tid.x`, read anew at each call. sm_80.
    ///
    /// What is computed from it is not live before the call: it keeps an epilogue's addresses out
    /// of the registers of the loop above it.
    thread_x_volatile -> u32, reg32, "mov.u32 {0}, %tid.x;";
}

/// `%ctaid.x`, read anew at each call: see [`thread_x_volatile`]. sm_80.
#[inline(always)]
pub fn block_x_volatile() -> u32 {
    let r: u32;
    // SAFETY: reads a special register.
    unsafe { ptx!("mov.u32 {0}, %ctaid.x;", out(reg32) r) };
    r
}

/// `%nctaid.x`, read anew at each call: see [`thread_x_volatile`]. sm_80.
#[inline(always)]
pub fn grid_x_volatile() -> u32 {
    let r: u32;
    // SAFETY: reads a special register.
    unsafe { ptx!("mov.u32 {0}, %nctaid.x;", out(reg32) r) };
    r
}

/// `trap`: stops the kernel with an error that the host sees at its next call.
///
/// PTX ISA, "trap"; sm_80.
#[inline(always)]
pub fn trap() -> ! {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: `trap` has no preconditions.
    unsafe {
        core::arch::nvptx::trap()
    }
    #[cfg(not(target_arch = "nvptx64"))]
    // SAFETY: as its documentation says.
    unsafe {
        super::on_host()
    }
}

/// The number, hidden from the compiler: it can neither fold it nor derive anything from it.
///
/// An empty instruction; sm_80.
#[inline(always)]
pub fn same_number(x: u32) -> u32 {
    let mut r = x;
    // SAFETY: no instruction.
    unsafe { ptx!("// {0}", inout(reg32) r, options(nomem)) };
    r
}
