//! The gradient of sinks.

use tilewright_device::arch::special::{block_x, thread_x};
use tilewright_device::kernel;
use tilewright_device::layout::Spread;
use tilewright_device::tile::{Collective, Cta, Global, GlobalMut, InPlace, RowMajor, Rows, math};

use super::ranges::Ranges;
use super::stats::LINE;
use crate::terms::HeadTerms;

/// Queries that a warp takes at a time.
const PIECE: u32 = 256;

/// The gradient of attention by its heads' sinks: a sink's weight has no value, so that what is left of P ∘ (dP - dO · O) is -P (dO · O), summed over all
/// queries, in an order that is the same each time.
///
/// `stats` as [`query_stats`](fn@super::query_stats) leaves it, of so many `sequences`; `d_sinks` \[1, heads\]. CTA (head).
#[kernel(program = P)]
pub fn sink_gradient<P: Collective>(
    mut cta: Cta<P>,
    stats: InPlace<Global<f32, 4, RowMajor, 0>>,
    mut d_sinks: GlobalMut<f32, 2, RowMajor, 0>,
    ranges: InPlace<Ranges>,
    terms: InPlace<HeadTerms>,
    sequences: u32,
) {
    const { assert!(P::THREADS == 512, "threads of a row of so many columns") };
    let (head, warp, lane) = (block_x(), thread_x() / 32, thread_x() % 32);
    let mut over_warps = cta.row_reducer::<Spread<16, 512, 1, 1>, 1, 512, 1>();
    let sink = terms.get().sink(head);
    let pieces = ranges.get().longest.div_ceil(PIECE);
    let mut sum = 0.0;
    let (mut z, mut piece) = (0, warp);
    loop {
        while piece >= pieces && z < sequences {
            (z, piece) = (z + 1, piece - pieces);
        }
        if z >= sequences {
            break;
        }
        let of = ranges.get().sequence(z);
        let lines = stats.get().tile([of.matrix, head, 0, 0]).of_rows(of.first_line, u32::MAX);
        let end = of.queries.min((piece + 1) * PIECE);
        let mut query = piece * PIECE + lane;
        while query < end {
            let (line, column) = (query / LINE, query % LINE);
            let log = lines.element::<1, 32>(line, column);
            let mean = lines.element::<1, 32>(line, column + LINE);
            sum = math::fma(math::ex2(sink - log), -mean, sum);
            query += 32;
        }
        piece += P::THREADS / 32;
    }
    let sum = over_warps.reduce(Rows::splat(sum), |x, y| x + y);
    sum.for_each(|_, is_first, sum| {
        if is_first {
            d_sinks.tile([0, head]).put::<1, 1>(0, 0, sum);
        }
    });
}
