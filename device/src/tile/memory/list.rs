//! Plain numbers in global memory: tables and lists that say what a kernel does.

use crate::abi::KernelArg;
use crate::arch::global;

/// A list of numbers as the host passes it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ListAbi {
    /// Address of the first.
    pub address: u64,
    /// How many.
    pub len: u32,
    /// Nothing.
    pub padding: u32,
}

impl ListAbi {
    /// No numbers.
    pub const EMPTY: Self = Self { address: 0, len: 0, padding: 0 };
}

/// A list of numbers in global memory that a kernel reads, aligned to 16 bytes.
#[derive(Clone, Copy)]
pub struct List {
    pointer: *const u32,
    len: u32,
}

impl List {
    /// How many.
    #[inline(always)]
    #[expect(clippy::len_without_is_empty, reason = "a length of the host's choosing")]
    pub fn len(&self) -> u32 {
        self.len
    }
    /// The number at `i`; `u32::MAX` beyond the end.
    #[inline(always)]
    pub fn get(&self, i: u32) -> u32 {
        if i >= self.len {
            return u32::MAX;
        }
        // SAFETY: inside the list, which nobody writes while the kernel runs.
        unsafe { global::ld_global_nc_u32(self.pointer.wrapping_add(i as usize)) }
    }
    /// The `i`-th four numbers; `u32::MAX` beyond the end.
    #[inline(always)]
    pub fn get4(&self, i: u32) -> [u32; 4] {
        if i >= self.len / 4 {
            return [u32::MAX; 4];
        }
        // SAFETY: inside the list, which is aligned and which nobody writes while the kernel runs.
        unsafe { global::ld_global_nc_u32x4(self.pointer.wrapping_add(4 * i as usize).cast()) }
    }
}

impl KernelArg for List {
    type Abi = ListAbi;
    #[inline(always)]
    unsafe fn load(at: *const ListAbi) -> Self {
        // SAFETY: the caller passes an initialised parameter.
        unsafe { List { pointer: (*at).address as *const u32, len: (*at).len } }
    }
}
