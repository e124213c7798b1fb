//! All sizes mixed, in every layout.

use tilewright::{Device, Result, bf16, f16};
use tilewright_support::suite::Outcome;

use crate::case::{Case, Input, Output};
use crate::operand::{LAYOUTS, Operand, Order, packed, padded};
use crate::reference::Reference;

const SIZES: [usize; 10] = [1, 7, 8, 15, 64, 127, 129, 255, 1000, 4097];
/// Rows of each product that are compared; the others are checked to be written.
const ROWS: usize = 48;

/// Lines that TMA can address, so that the fast kernels meet every edge.
pub fn with_padding(device: &Device) -> Outcome {
    all::<f16, f16>(device, &SIZES, padded)
}

/// No gaps between lines, whose lengths are odd: other kernels read them.
pub fn without_padding(device: &Device) -> Outcome {
    all::<bf16, f32>(device, &SIZES[..9], packed)?;
    all::<bf16, bf16>(device, &[8, 129, 4097], packed)
}

/// Products M N K that are computed at most: on the emulator large sizes meet small ones only.
fn most(device: &Device) -> usize {
    if device.is_emulator() { 1 << 21 } else { usize::MAX }
}

fn all<T: Input, U: Output>(device: &Device, sizes: &[usize], pitch: fn(usize) -> usize) -> Outcome {
    let most = most(device);
    for (i, &k) in sizes.iter().enumerate() {
        let both = |seed, rows, cols| -> Result<[Operand<T>; 2]> {
            let of = |order: Order| Operand::random(device, seed, order.place([1, rows, cols], pitch));
            Ok([of(Order::N)?, of(Order::T)?])
        };
        let right =
            sizes.iter().filter(|&n| k * n <= most).map(|&n| both(2, k, n)).collect::<Result<Vec<_>>>()?;
        for (j, &m) in sizes.iter().enumerate().filter(|(_, m)| *m * k <= most) {
            let left = both(1, m, k)?;
            for (l, (&n, right)) in
                sizes.iter().zip(&right).enumerate().filter(|(_, (n, _))| m * *n * k <= most)
            {
                // Every layout in turn.
                let [a, b] = LAYOUTS[(i + j + l) % 4];
                let (a, b) = (&left[a as usize], &right[b as usize]);
                let reference = Reference::new(a.values(), b.values(), 1, ROWS);
                let c = Order::N.place([1, m, n], pitch);
                Case::<T, U>::new(a, b, &reference, c).check(device)?;
            }
        }
    }
    Ok(())
}
