//! The gradients of RMSNorm and LayerNorm of rows that lie in shared memory.

use tilewright_device::arch::special::same_number;
use tilewright_device::kernel;
use tilewright_device::tile::{
    Cols, Cta, Element, Fragment, FragmentLayout, Global, GlobalMut, InBlock, RowOrder, RowPart, Rows,
    block_x, math,
};

use crate::norm_backward::{How, Moments, by_weight, distances, gradient, moments, plus, weighted};
use crate::program::RowProgram;

/// As [`Moments`], of some columns whose mean is not known before: the sums count from their own.
#[derive(Clone, Copy)]
struct OwnMoments {
    count: f32,
    mean: f32,
    moments: Moments,
}

impl OwnMoments {
    const NONE: Self = OwnMoments { count: 0.0, mean: 0.0, moments: Moments::NONE };

    /// Those of what this thread has of its rows, in columns before `inside`, or of all the threads over which `over` adds up: in the other
    /// columns x and g are 0. Of rows that are not centred the mean is 0.
    #[inline(always)]
    fn of<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        x: Fragment<T, M, N, L>,
        g: &Fragment<f32, M, N, L>,
        (inside, centred): (u32, bool),
        over: impl Fn(Rows<f32, M, N, L>) -> Rows<f32, M, N, L>,
    ) -> Rows<Self, M, N, L> {
        let mut own = Rows::splat(Self::NONE);
        if centred {
            let ones = Fragment::<u32, M, N, L>::splat(1);
            let counts =
                over(ones.fold_rows_before(inside, 0, |count, one| count + one).map(|count| count as f32));
            let sums = over(x.map(T::to_f32).fold_rows(0.0, |sum, x| sum + x));
            own = counts.map(|count| OwnMoments { count, ..Self::NONE }).zip(&sums, |own, sum| OwnMoments {
                mean: sum * math::rcp(math::max(own.count, 1.0)),
                ..own
            });
        }
        let d = distances(x.anew(), &own.map(|own| own.mean), inside);
        let moments = moments(d, g);
        let [squares, along] = [moments.map(|own| own.squares), moments.map(|own| own.along)].map(&over);
        let total = over(moments.map(|own| own.total));
        let all = squares.map(|squares| Moments { squares, ..Moments::NONE });
        let all = all.zip(&along, |all, along| Moments { along, ..all });
        let all = all.zip(&total, |all, total| Moments { total, ..all });
        own.zip(&all, |own, moments| OwnMoments { moments, ..own })
    }

    /// Those of both (Chan et al. 1983), the same to the bit whichever comes first.
    #[inline(always)]
    fn with(self, other: Self) -> Self {
        let (count, apart) = (self.count + other.count, self.mean - other.mean);
        let per = math::rcp(math::max(count, 1.0));
        let mean = (self.count * self.mean + other.count * other.mean) * per;
        let weight = self.count * other.count * per;
        if weight == 0.0 {
            // Of columns and none nothing is between, not even infinity times 0.
            let moments = self.moments.with(other.moments);
            return OwnMoments { count, mean, moments };
        }
        let from = |own: Self| math::fma(own.moments.total, own.mean - mean, own.moments.along);
        let both = self.moments.with(other.moments);
        let squares = both.squares + apart * apart * weight;
        OwnMoments { count, mean, moments: Moments { squares, along: from(self) + from(other), ..both } }
    }
}

/// As [`norm_gradient`](fn@crate::norm_gradient), for rows of at most `N` `CTAS` `PARTS` columns: shared memory holds them, and what it has room for of
/// the next ones, and a thread has sums for `PARTS` parts.
#[kernel(program = P, cluster = [CTAS as u32, 1, 1])]
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
    x: InBlock<Global<T, 3>>,
    dy: InBlock<Global<T, 3>>,
    d_sum: InBlock<Global<T, 3>>,
    weight: InBlock<Global<T, 3>>,
    dx: InBlock<GlobalMut<T, 3>>,
    d_weight: InBlock<GlobalMut<f32, 3>>,
    d_bias: InBlock<GlobalMut<f32, 3>>,
    order: RowOrder,
    per_column: f32,
    epsilon: f32,
    centred: u32,
    continued: u32,
) where
    L: FragmentLayout<1, N>,
{
    let mut rows = cta.row_reducer::<L, 1, N, CTAS>();
    let (first, line) = (rows.part(), block_x() / CTAS as u32);
    let part_of = |i: usize| first + (i * CTAS) as u32;
    let how = How { per_column, epsilon, centred: centred != 0 };
    P::wait_for_preceding_grid();
    let mut parts = cta.row_parts::<T, L, N, CTAS, PLACES, false, 2>([x.get(), dy.get()], order, T::ZERO);
    let [one, _] = T::from_f32x2(1.0, 0.0);
    let weight =
        |part: RowPart| Cols::<T, 1, N, L>::load(weight.get().tile([0, 0, same_number(part.number())]), one);
    let (mut weights, mut biases) = ([Fragment::<f32, 1, N, L>::zero(); PARTS], [Fragment::zero(); PARTS]);
    let mut i = 0;
    while i < PARTS {
        let at = [0, line, part_of(i)];
        if continued != 0 {
            weights[i] = Fragment::load_rows(d_weight.get().read(at), 0.0);
            biases[i] = Fragment::load_rows(d_bias.get().read(at), 0.0);
        }
        i += 1;
    }
    while parts.row().exists() {
        let own = parts.fold(Rows::splat(OwnMoments::NONE), |before, [x, dy], part| {
            let [_, inside] = part.inside();
            let own = OwnMoments::of(x, &weighted(dy, &weight(part)), (inside, how.centred), |sums| sums);
            own.zip(&before, |own, before| before.with(own))
        });
        let all = rows.reduce(own, OwnMoments::with);
        let mean = all.map(|all| all.mean);
        let factors = all.map(|all| how.factors(all.moments));
        let mut to = parts.row_of(&mut dx.get());
        parts.take_each::<PARTS>(|i, [x, dy], part| {
            let added = Fragment::load_rows(d_sum.get().tile(part.tile()), T::ZERO);
            let d = x.map(T::to_f32).zip_rows(&mean, |x, mean| x - mean);
            let of_part = gradient(d, weighted(dy, &weight(part)), &factors, &added);
            part.store(&of_part, &mut to);
            weights[i] = plus(weights[i], &by_weight(d, &dy, &factors));
            biases[i] = plus(biases[i], &dy.map(T::to_f32));
        });
    }
    let mut i = 0;
    while i < PARTS {
        let at = [0, line, part_of(i)];
        weights[i].store_rows(d_weight.get().tile(at));
        biases[i].store_rows(d_bias.get().tile(at));
        i += 1;
    }
}
