//! Results of attention over different keys, put together.

use core::f32::consts::{LN_2, LOG2_E};

use tilewright_device::arch::math::{ex2, lg2, max};
use tilewright_device::kernel;
use tilewright_device::tile::division::Division;
use tilewright_device::tile::{
    Element, Fragment, FragmentLayout, Global, GlobalMut, InPlace, Overlaps, RowMajor, Rows, Striped,
    block_x, copy,
};

/// O and log-sum-exp of two attentions of the same queries over different keys, as of one over all of these.
///
/// Each O \[batch, heads, queries, DV\] and log-sum-exp \[batch, heads, queries, 1\] in natural logarithms; `lse` has no rows where it is not wanted. A row without any
/// key is 0 and -inf. CTA (`M` of the `rows`), which takes `N` columns at a time; `by_queries` and `by_heads` divide by as many as there are.
#[kernel(program = P)]
pub fn merge_states<P: Overlaps, T: Element, const M: usize, const N: usize>(
    o_first: InPlace<Global<T, 4, RowMajor, 0>>,
    o_second: InPlace<Global<T, 4, RowMajor, 0>>,
    lse_first: InPlace<Global<f32, 4, RowMajor, 0>>,
    lse_second: InPlace<Global<f32, 4, RowMajor, 0>>,
    o: InPlace<GlobalMut<T, 4, RowMajor, 0>>,
    lse: InPlace<GlobalMut<f32, 4, RowMajor, 0>>,
    by_queries: Division,
    by_heads: Division,
    rows: u32,
) where
    Striped<4>: FragmentLayout<M, N>,
{
    P::wait_for_preceding_grid();
    let place = |r: u32, column: u32| {
        let row = block_x() * M as u32 + r;
        let (line, query) = by_queries.of(row);
        let (batch, head) = by_heads.of(line);
        (row < rows).then_some([batch, head, query, column])
    };
    let logs = |of: &InPlace<Global<f32, 4, RowMajor, 0>>| {
        Rows::<f32, M, N, Striped<4>>::indexed(|r| match place(r, 0) {
            Some([batch, head, query, _]) => of.get().tile([batch, head, 0, 0]).element::<1, 1>(query, 0),
            None => f32::NEG_INFINITY,
        })
    };
    let (first, second) = (logs(&lse_first), logs(&lse_second));
    let most = first.zip(&second, max);
    // Of rows without keys no exponent is -inf less -inf.
    let from = most.map(|most| if most == f32::NEG_INFINITY { 0.0 } else { most });
    let [first, second] = [first, second].map(|logs| logs.zip(&from, |log, from| ex2((log - from) * LOG2_E)));
    let sum = first.zip(&second, |x, y| x + y);
    let inverse = sum.map(|sum| if sum == 0.0 { 0.0 } else { 1.0 / sum });
    let [first, second] = [first, second].map(|part| part.zip(&inverse, |part, by| part * by));
    let (columns, mut o) = (o_first.get().cols(), o.get());
    let mut column = 0;
    while column < columns {
        let [x, y] = [&o_first, &o_second]
            .map(|of| Fragment::<T, M, N, Striped<4>>::load(of.get().gather(|r| place(r, column))).to_f32());
        let all = x.zip_rows(&first, |x, weight| x * weight).add_scaled(&y, &second);
        copy(all.cast::<T>(), o.scatter(|r| place(r, column)));
        column += N as u32;
    }
    let mut lse = lse.get();
    if lse.rows() > 0 {
        let log = sum.zip(&from, |sum, from| lg2(sum) * LN_2 + from);
        copy(log, lse.scatter(|r| place(r, 0)));
    }
}
