//! Copies between tensors of one shape whose elements lie in the same order, or anyhow.

use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::tile::{InBlock, Overlaps};

use crate::pieces::{PieceOrder, Strided, load_bits, number, store_bits};

/// Dimensions that copies go through: as many as tensors have.
pub const RANK: usize = 5;

/// Pieces that a thread holds.
pub(crate) const EACH: usize = 4;

/// y = x, in pieces of `BYTES` bytes in the order of `order`.
///
/// The last dimension's pieces are neighbours in both tensors, or single elements that lie anyhow. Strides are in units of `BYTES`.
#[kernel(program = P)]
pub fn copied<P: Overlaps, const BYTES: usize>(
    x: Strided<RANK>,
    y: Strided<RANK>,
    order: InBlock<PieceOrder<RANK>>,
) {
    let order = order.get();
    let place = |i| order.at(number(thread_x(), P::THREADS, EACH, i));
    P::wait_for_preceding_grid();
    let mut pieces = [[0; 4]; EACH];
    let mut i = 0;
    while i < EACH {
        let (at, inside) = place(i);
        // SAFETY: x has the elements that the order counts; the host checked how they lie.
        pieces[i] = unsafe { load_bits::<BYTES>(x.address_of(at, BYTES as u32), inside, 0) };
        i += 1;
    }
    let mut i = 0;
    while i < EACH {
        let (at, inside) = place(i);
        // SAFETY: an element of y, which no other thread has.
        unsafe { store_bits::<BYTES>(y.address_of(at, BYTES as u32), pieces[i], inside) };
        i += 1;
    }
}
