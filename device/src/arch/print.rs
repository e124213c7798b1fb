//! The driver's function that prints, and the name of the kernel.

/// Prints: the format of C's `printf`, and the address of its arguments, one after the other, each aligned to its size. Gives the
/// number of arguments, or a negative one.
///
/// CUDA C++ Programming Guide, "Formatted Output"; PTX, "System Calls".
///
/// # Safety
/// `format` is the address of a text that ends with a zero, `arguments` that of as many values as it names, of their types.
#[inline(always)]
pub unsafe fn vprintf(format: *const u8, arguments: *const u8) -> i32 {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller's.
    unsafe {
        core::arch::nvptx::vprintf(format, arguments.cast())
    }
    #[cfg(not(target_arch = "nvptx64"))]
    // SAFETY: as its documentation says.
    unsafe {
        let _ = (format, arguments);
        super::on_host()
    }
}

/// The address of the name of the kernel that this code is compiled into, a zero after it: the builder writes it into each kernel.
#[inline(always)]
pub fn kernel_name() -> *const u8 {
    #[cfg(target_arch = "nvptx64")]
    {
        unsafe extern "C" {
            static tilewright_kernel_name: u8;
        }
        &raw const tilewright_kernel_name
    }
    #[cfg(not(target_arch = "nvptx64"))]
    // SAFETY: as its documentation says.
    unsafe {
        super::on_host()
    }
}
