//! The gradients of RMSNorm and LayerNorm of rows that lie in shared memory.

use tilewright_device::arch::special::{thread_x, trap};
use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Cols, ColumnsFrom, Cta, Element, Fragment, FragmentLayout, GlobalMut, RowMajor, RowOrder, RowPart, Rows,
    Unmapped, UnmappedMut, block_x,
};

use crate::norm_backward::{How, Moments, by_weight, distances_of, gradient, plus, weighted};
use crate::program::{RowProgram, resident};

/// Stores a part of a line of sums.
#[inline(always)]
fn store_line<L: FragmentLayout<1, N>, const N: usize, const RAGGED: bool>(
    sums: &Fragment<f32, 1, N, L>,
    part: &RowPart,
    mut to: GlobalMut<f32, 3, RowMajor, 0>,
    line: u32,
) {
    if !RAGGED {
        sums.store_rows(to.tile([0, line, part.number()]));
        return;
    }
    let to = to.tile([0, line, 0]);
    let mut i = 0;
    while i < L::Regs::<f32>::LEN {
        // What lies before the first column has wrapped, and is in no tensor either.
        to.put::<1, N>(0, part.first().wrapping_add(L::coord(thread_x(), i).1), sums.regs.get(i));
        i += 1;
    }
}

/// As [`norm_gradient`](fn@crate::norm_gradient), for rows of at most `N` `CTAS` `PARTS` columns: shared memory holds them, and what it has room for of
/// the next ones, and a thread has weights and sums for `PARTS` parts.
///
/// `RAGGED` rows, of contiguous tensors, begin anywhere, but all rows of a cluster begin alike behind a multiple of 16 bytes, so that a thread has the
/// same columns of each: the clusters of a grid are as many as have rows, or a multiple of the elements of 16 bytes. The kernel traps at others, and where
/// `continued` is not 0.
#[kernel(program = P, cluster = [CTAS as u32, 1, 1], min_ctas = resident(P::THREADS, 512))]
pub fn norm_gradient_held<
    P: RowProgram,
    T: Element,
    L,
    const N: usize,
    const CTAS: usize,
    const PLACES: usize,
    const PARTS: usize,
    const RAGGED: bool,
>(
    mut cta: Cta<P>,
    x: Unmapped<T, 3>,
    dy: Unmapped<T, 3>,
    d_sum: Unmapped<T, 3>,
    weight: Unmapped<T, 3>,
    dx: UnmappedMut<T, 3>,
    d_weight: UnmappedMut<f32, 3>,
    d_bias: UnmappedMut<f32, 3>,
    order: RowOrder,
    per_column: f32,
    epsilon: f32,
    centred: u32,
    continued: u32,
) where
    L: FragmentLayout<1, N>,
{
    let mut rows = cta.row_reducer::<L, 1, N, CTAS>();
    let line = block_x() / CTAS as u32;
    let how = How { per_column, epsilon, centred: centred != 0 };
    P::wait_for_preceding_grid();
    let mut parts = cta.row_parts::<T, L, N, CTAS, PLACES, RAGGED, 2>([x.get(), dy.get()], order, T::ZERO);
    // Of the first row; the parts of the others begin alike.
    let mut own = [parts.part(0); PARTS];
    let [one, _] = T::from_f32x2(1.0, 0.0);
    let from = RAGGED.then(|| ColumnsFrom::new(weight.get().tile([0, 0, 0]), one));
    let mut held = [Cols::<T, 1, N, L>::splat(one); PARTS];
    let (mut weights, mut biases) = ([Fragment::<f32, 1, N, L>::zero(); PARTS], [Fragment::zero(); PARTS]);
    if RAGGED && continued != 0 {
        trap();
    }
    let mut i = 0;
    while i < PARTS {
        own[i] = parts.part(i as u32);
        held[i] = match &from {
            Some(from) => from.load(own[i].first()),
            None => Cols::load(weight.get().tile([0, 0, own[i].number()]), one),
        };
        if continued != 0 && !RAGGED {
            let at = [0, line, own[i].number()];
            weights[i] = Fragment::load_rows(d_weight.get().read(at), 0.0);
            biases[i] = Fragment::load_rows(d_bias.get().read(at), 0.0);
        }
        i += 1;
    }
    while parts.row().exists() {
        if RAGGED && parts.part(0).first() != own[0].first() {
            trap();
        }
        let mut mean = Rows::<f32, 1, N, L>::splat(0.0);
        if how.centred {
            let sums = parts.fold(mean, |before, [x, _], _| {
                x.map(T::to_f32).fold_rows(0.0, |sum, x| sum + x).zip(&before, |own, before| own + before)
            });
            mean = rows.reduce(sums, |a, b| a + b).map(|sum| sum * per_column);
        }
        let moments = parts.fold_each::<PARTS, _>(Moments::NONE, |before, i, [x, dy], part| {
            let g = weighted(dy, &held[i].anew());
            let pairs = distances_of(x, &mean).map(|d| (d, 0.0)).zip(&g, |(d, _), g| (d, g));
            part.fold(&pairs, before, Moments::and)
        });
        let factors = rows.reduce(Rows::splat(moments), Moments::with).map(|all| how.factors(all));
        let mut to = parts.row_of(&mut dx.get());
        parts.take_each::<PARTS>(|i, [x, dy], part| {
            let (d, g) = (distances_of(x, &mean), weighted(dy, &held[i].anew()));
            let mut of_part = gradient(d, g, &factors);
            if d_sum.get().cols() > 0 {
                let added = match RAGGED {
                    true => part.load(&d_sum.get(), T::ZERO),
                    false => Fragment::load_rows(d_sum.get().tile(part.tile()), T::ZERO),
                };
                of_part = of_part.zip(&added, |dx, d_sum| dx + d_sum.to_f32());
            }
            part.store(&of_part.cast::<T>(), &mut to);
            weights[i] = plus(weights[i], &by_weight(d, &dy, &factors));
            biases[i] = plus(biases[i], &dy.map(T::to_f32));
        });
    }
    let mut i = 0;
    while i < PARTS {
        store_line::<L, N, RAGGED>(&weights[i], &own[i], d_weight.get(), line);
        store_line::<L, N, RAGGED>(&biases[i], &own[i], d_bias.get(), line);
        i += 1;
    }
}
