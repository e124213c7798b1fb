//! The gradients of RMSNorm and LayerNorm of rows that lie in shared memory, or begin anywhere.

use tilewright_device::arch::special::{thread_x, trap};
use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Cols, ColumnsFrom, Cta, Element, Fragment, FragmentLayout, RowOrder, Rows, Unmapped, UnmappedMut, block_x,
};

use crate::norm_backward::{
    How, Moments, distances_of, gradient, normalised, pairs, plus, plus_products, weighted,
};
use crate::program::{RowProgram, resident};

/// As [`norm_gradient`](fn@crate::norm_gradient), for rows of at most `N` `CTAS` `PARTS` columns: shared memory holds them, and what it has room for of
/// the next ones, and a thread has weights and sums for `PARTS` parts.
#[kernel(program = P, cluster = [CTAS as u32, 1, 1], min_ctas = resident(P::THREADS, 512))]
pub fn norm_gradient_held<
    P: RowProgram,
    T: Element,
    L,
    const N: usize,
    const CTAS: usize,
    const PLACES: usize,
    const PARTS: usize,
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
    let mut parts = cta.row_parts::<T, L, N, CTAS, PLACES, false, 2>([x.get(), dy.get()], order, T::ZERO);
    let [one, _] = T::from_f32x2(1.0, 0.0);
    let mut held = [Cols::<T, 1, N, L>::splat(one); PARTS];
    let (mut weights, mut biases) = ([Fragment::<f32, 1, N, L>::zero(); PARTS], [Fragment::zero(); PARTS]);
    let mut i = 0;
    while i < PARTS {
        let part = parts.part(i as u32).number();
        held[i] = Cols::load(weight.get().tile([0, 0, part]), one);
        if continued != 0 {
            weights[i] = Fragment::load_rows(d_weight.get().read([0, line, part]), 0.0);
            biases[i] = Fragment::load_rows(d_bias.get().read([0, line, part]), 0.0);
        }
        i += 1;
    }
    while parts.row().exists() {
        let mut mean = Rows::<f32, 1, N, L>::splat(0.0);
        if how.centred {
            let sums = parts.fold(mean, |before, [x, _], _| {
                x.map(T::to_f32).fold_rows(0.0, |sum, x| sum + x).zip(&before, |own, before| own + before)
            });
            mean = rows.reduce(sums, |a, b| a + b).map(|sum| sum * per_column);
        }
        let moments = parts.fold_each::<PARTS, _>(Moments::NONE, |before, i, [x, dy], part| {
            let g = weighted(dy, &held[i].anew());
            part.fold(&pairs(distances_of(x, &mean), &g), before, Moments::and)
        });
        let factors = rows.reduce(Rows::splat(moments), Moments::with).map(|all| how.factors(all));
        let mut to = parts.row_of(&mut dx.get());
        parts.take_each::<PARTS>(|i, [x, dy], part| {
            let x = normalised(distances_of(x, &mean), &factors);
            let mut of_part = gradient(x, &weighted(dy, &held[i].anew()), &factors);
            if d_sum.get().cols() > 0 {
                let added = Fragment::load_rows(d_sum.get().tile(part.tile()), T::ZERO);
                of_part = of_part.zip(&added, |dx, d_sum| dx + d_sum.to_f32());
            }
            part.store(&of_part.cast::<T>(), &mut to);
            weights[i] = plus_products(weights[i], x, &dy);
            biases[i] = plus(biases[i], &dy.map(T::to_f32));
        });
    }
    let mut i = 0;
    while i < PARTS {
        let at = [0, line, parts.part(i as u32).number()];
        weights[i].store_rows(d_weight.get().tile(at));
        biases[i].store_rows(d_bias.get().tile(at));
        i += 1;
    }
}

/// As [`norm_gradient`](fn@crate::norm_gradient), for rows of contiguous tensors that begin anywhere, of at most `N` `CTAS` `PARTS` columns less those of a
/// vector but one: shared memory holds a row and the next `AHEAD` ones.
///
/// All rows of a cluster begin alike behind a multiple of 16 bytes, so that a thread has the same columns of each: the clusters of a grid are as many as
/// have rows, or a multiple of the elements of 16 bytes. The kernel traps at others, and where `continued` is not 0.
#[kernel(program = P, cluster = [CTAS as u32, 1, 1], min_ctas = resident(P::THREADS, 512))]
pub fn norm_gradient_alike<
    P: RowProgram,
    T: Element,
    L,
    const N: usize,
    const CTAS: usize,
    const PARTS: usize,
    const AHEAD: u32,
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
    let how = How { per_column, epsilon, centred: centred != 0 };
    P::wait_for_preceding_grid();
    if continued != 0 {
        trap();
    }
    let mut alike = cta.rows_alike::<T, L, N, CTAS, PARTS, AHEAD, 2>([x.get(), dy.get()], order);
    let added = (d_sum.get().cols() > 0).then(|| alike.beside(d_sum.get()));
    let mut to = alike.beside_mut(dx.get());
    let [one, _] = T::from_f32x2(1.0, 0.0);
    let from = ColumnsFrom::new(weight.get().tile([0, 0, 0]), one);
    let mut held = [Cols::<T, 1, N, L>::splat(one); PARTS];
    let (mut weights, mut biases) = ([Fragment::<f32, 1, N, L>::zero(); PARTS], [Fragment::zero(); PARTS]);
    let mut i = 0;
    while i < PARTS {
        held[i] = from.load(alike.first_of(i));
        i += 1;
    }
    while alike.exist() {
        let mut mean = Rows::<f32, 1, N, L>::splat(0.0);
        if how.centred {
            let own = alike.fold(0.0, |before, part, [x, _]| {
                alike.fold_inside(part, &x.map(T::to_f32), before, |sum, x| sum + x)
            });
            mean = rows.reduce(Rows::splat(own), |a, b| a + b).map(|sum| sum * per_column);
        }
        let own = alike.fold(Moments::NONE, |before, part, [x, dy]| {
            let g = weighted(dy, &held[part.number()].anew());
            alike.fold_inside(part, &pairs(distances_of(x, &mean), &g), before, Moments::and)
        });
        let factors = rows.reduce(Rows::splat(own), Moments::with).map(|all| how.factors(all));
        alike.fold((), |(), part, [x, dy]| {
            let x = normalised(distances_of(x, &mean), &factors);
            let mut of_part = gradient(x, &weighted(dy, &held[part.number()].anew()), &factors);
            if let Some(added) = added {
                of_part = of_part.zip(&alike.read(part, added), |dx, d_sum| dx + d_sum.to_f32());
            }
            alike.store(part, &of_part.cast::<T>(), &mut to);
            let i = part.number();
            weights[i] = plus_products(weights[i], x, &dy);
            biases[i] = plus(biases[i], &dy.map(T::to_f32));
        });
        alike.next();
    }
    let (line, mut i) = (block_x() / CTAS as u32, 0);
    while i < PARTS {
        // What lies before the first column has wrapped, and is in no tensor either.
        let first = alike.first_of(i);
        for (sums, mut to) in [(&weights[i], d_weight.get()), (&biases[i], d_bias.get())] {
            let (to, mut e) = (to.tile([0, line, 0]), 0);
            while e < L::Regs::<f32>::LEN {
                let col = first.wrapping_add(L::coord(thread_x(), e).1);
                to.put::<1, N>(0, col, sums.regs.get(e));
                e += 1;
            }
        }
        i += 1;
    }
}
