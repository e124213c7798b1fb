//! Every instruction of `arch` in an entry point, to be compiled and assembled, never run.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(missing_docs)]

/// What instructions work on: values that the compiler does not know.
#[derive(Clone, Copy)]
pub struct Given {
    pub shared: u32,
    pub from: *const u8,
    pub to: *mut u8,
    pub x: u32,
    pub n: u32,
    pub f: f32,
}

/// Where results go, so that nothing is left out that only computes.
pub struct Results(pub *mut u32);

impl Results {
    #[inline(always)]
    pub fn keep<R: Words>(&mut self, result: R) {
        result.write(self)
    }
}

/// A result, as words.
pub trait Words {
    fn write(self, to: &mut Results);
}

macro_rules! words {
    ($($ty:ty: |$x:ident| $word:expr;)*) => { $(
        impl Words for $ty {
            #[inline(always)]
            fn write(self, to: &mut Results) {
                let $x = self;
                // SAFETY: nobody runs it.
                unsafe {
                    to.0.write_volatile($word);
                    to.0 = to.0.add(1);
                }
            }
        }
    )* };
}
words! {
    u8: |x| x as u32;
    u16: |x| x as u32;
    u32: |x| x;
    i32: |x| x as u32;
    u64: |x| x as u32;
    bool: |x| x as u32;
    f32: |x| x.to_bits();
    tilewright_device::f16: |x| x.to_bits() as u32;
    tilewright_device::bf16: |x| x.to_bits() as u32;
}

impl<W: Words + Copy, const N: usize> Words for [W; N] {
    #[inline(always)]
    fn write(self, to: &mut Results) {
        let mut i = 0;
        while i < N {
            self[i].write(to);
            i += 1;
        }
    }
}

/// An entry point for each `name => |results, given| { … }`.
macro_rules! entries {
    ($arch:ident: $($name:ident => |$results:ident, $given:ident| $body:block)*) => { $(
        #[tilewright_device::kernel(threads = 128, arch = tilewright_device::kernel::Arch::$arch)]
        #[allow(unused_mut, unused_unsafe, unused_variables)]
        pub fn $name(to: u64, from: u64, x: u32, n: u32, f: f32) {
            let mut $results = $crate::Results(to as *mut u32);
            let shared = tilewright_device::arch::shared::dynamic_shared();
            let $given = $crate::Given { shared, from: from as *const u8, to: from as *mut u8, x, n, f };
            // SAFETY: nobody runs it.
            unsafe { $body }
        }
    )* };
}

mod matrix;
mod memory;
mod registers;
mod synchronisation;
mod tma;
mod wgmma;
