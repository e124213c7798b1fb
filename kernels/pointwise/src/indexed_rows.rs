//! Rows of a table, by index.

use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::tile::{Element, InBlock, Overlaps};

use crate::pieces::{PieceOrder, Strided, load, load_bits, number, store};

/// Pieces that a thread holds.
pub(crate) const EACH: usize = 4;

/// y = table\[index\], row by row.
///
/// y is \[batch, rows, columns\], in pieces of `V` elements in the order of `order`; `indices` \[batch, rows\], of `index_bytes`: 4 or 8; the table has
/// `count` rows. A row whose index is not below `count` becomes elements of the bits `outside`. Indices that are signed count as unsigned: the
/// host lets a table of signed ones of 32 bits have fewer than 2^31 rows. Elements are only copied: those of 16 bytes serve every type.
#[kernel(program = P)]
pub fn embedding<P: Overlaps, T: Element, const V: usize>(
    table: Strided<2>,
    indices: Strided<2>,
    y: Strided<3>,
    order: InBlock<PieceOrder>,
    count: u32,
    outside: u32,
    index_bytes: u32,
) {
    let order = order.get();
    let place = |i| order.at(number(thread_x(), P::THREADS, EACH, i));
    P::wait_for_preceding_grid();
    let mut rows = [0; EACH];
    let mut i = 0;
    while i < EACH {
        let ([matrix, row, _], inside) = place(i);
        let from = indices.address_of([matrix, row], index_bytes);
        // SAFETY: the order counts the rows that have indices.
        rows[i] = unsafe {
            if index_bytes == 8 {
                let [low, high, ..] = load_bits::<8>(from, inside, 0);
                // No table has this row.
                if high == 0 { low } else { u32::MAX }
            } else {
                load_bits::<4>(from, inside, 0)[0]
            }
        };
        i += 1;
    }
    let mut pieces = [[0; 4]; EACH];
    let mut i = 0;
    while i < EACH {
        let ([_, _, piece], inside) = place(i);
        // SAFETY: the row is one of the table's, and has as many columns as y; the host checked how it lies.
        pieces[i] = unsafe {
            load::<T, V>(table.at::<T>([rows[i], piece * V as u32]), inside && rows[i] < count, outside)
        };
        i += 1;
    }
    let mut i = 0;
    while i < EACH {
        let ([matrix, row, piece], inside) = place(i);
        // SAFETY: an element of y, which no other thread has.
        unsafe { store::<T, V>(y.at::<T>([matrix, row, piece * V as u32]), pieces[i], inside) };
        i += 1;
    }
}
