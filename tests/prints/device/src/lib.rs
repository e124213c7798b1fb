//! Kernels that print and assert, and the same without.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

use tilewright_device::arch::special::{thread_x, trap};
use tilewright_device::tile::{Fragment, Global, GlobalMut, Striped, block_x, copy};
use tilewright_device::{bf16, device_assert, device_print, f16, kernel};

/// Columns of the matrices.
pub const COLS: usize = 256;

/// y = scale · x by rows, and what it thinks of it.
#[kernel(threads = 32)]
pub fn talks(x: Global<f32, 2>, mut y: GlobalMut<f32, 2>, scale: f32) {
    if thread_x() < 2 {
        let row = block_x();
        device_print!("{} columns in row {row}, 100% of {:x}", x.cols(), -1_i32);
    }
    device_assert!(x.cols() <= COLS as u32);
    let tile = Fragment::<f32, 1, COLS, Striped<1>>::load(x.tile([block_x(), 0]));
    let scaled = tile.map(|x| {
        device_assert!(scale > 0.0, "the scale is {scale}, not {}", f16::ONE);
        x * scale
    });
    copy(scaled, y.tile([block_x(), 0]));
}

/// The same in silence.
#[kernel(threads = 32)]
pub fn stays(x: Global<f32, 2>, mut y: GlobalMut<f32, 2>, scale: f32) {
    if thread_x() < 2 {
        let _row = block_x();
    }
    let tile = Fragment::<f32, 1, COLS, Striped<1>>::load(x.tile([block_x(), 0]));
    let scaled = tile.map(|x| x * scale);
    copy(scaled, y.tile([block_x(), 0]));
}

/// A value of every type.
#[kernel(threads = 1)]
pub fn values(large: u64, small: i8, real: f32) {
    device_print!("{large} {small} {small:x} {small:5}|{real} {real:e} {real:08.3}|{real:x}");
    device_print!("{} {} {} {}", large > 5, bf16::ONE, &small, f64::from(real));
    device_print!(
        "{{}} {:#x} {:?}",
        core::ptr::without_provenance::<u8>(4096).addr(),
        core::ptr::without_provenance::<u8>(4096)
    );
}

/// Stops where it is inlined.
#[inline(always)]
fn refuse_negative(x: f32) {
    if x < 0.0 {
        trap()
    }
}

/// Does not take negative numbers.
#[kernel(threads = 1)]
pub fn stops(x: f32, y: f32) {
    refuse_negative(x);
    refuse_negative(y);
}
