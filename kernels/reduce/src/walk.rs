//! Where numbered elements lie: counted along the innermost dimension first.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::tile::division::Division;

/// Dimensions at most.
const DIMS: usize = 5;

/// The offsets, in each of `N` tensors, of elements that are counted over several dimensions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Walk<const N: usize> {
    /// Elements in all.
    count: u32,
    /// Dimensions but the outermost.
    inner: u32,
    /// Their sizes, from the innermost.
    by: [Division; DIMS - 1],
    /// Elements from one index to the next: of the inner dimensions from the innermost, then of the outermost.
    strides: [[u64; DIMS]; N],
}

impl<const N: usize> Walk<N> {
    /// Elements in all are at most this many: numbers behind the last are below 2^31 too.
    pub const MOST: u32 = (1 << 31) - (1 << 16);

    /// Of up to 5 dimensions with these sizes and strides in each tensor, from the outermost; `None` for more elements than are counted.
    pub fn new(dims: &[(u32, [u64; N])]) -> Option<Self> {
        let empty = dims.iter().any(|&(size, _)| size == 0);
        let count = dims.iter().try_fold(u32::from(!empty), |all, &(size, _)| all.checked_mul(size))?;
        let (mut by, mut strides) = ([Division::by(1); DIMS - 1], [[0; DIMS]; N]);
        let mut all = dims.iter();
        let outermost = all.next().map_or([0; N], |&(_, strides)| strides);
        for (to, stride) in strides.iter_mut().zip(outermost) {
            to[DIMS - 1] = stride;
        }
        for (i, &(size, own)) in all.rev().enumerate() {
            *by.get_mut(i)? = Division::by(size);
            for (to, stride) in strides.iter_mut().zip(own) {
                to[i] = stride;
            }
        }
        let inner = dims.len().saturating_sub(1) as u32;
        (count <= Self::MOST).then_some(Walk { count, inner, by, strides })
    }

    /// Elements in all.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The offsets of an element, of a number below 2^31.
    #[inline(always)]
    pub(crate) fn at(&self, number: u32) -> [u64; N] {
        let (mut left, mut offsets) = (number, [0; N]);
        if self.inner == 0 {
            // Mostly, and where elements are taken one by one all that follows costs more than what is done with them.
            return self.step(offsets, DIMS - 1, left);
        }
        let mut dim = 0;
        while dim < DIMS - 1 {
            if (dim as u32) < self.inner {
                let (outer, index) = self.by[dim].of(left);
                left = outer;
                offsets = self.step(offsets, dim, index);
            }
            dim += 1;
        }
        self.step(offsets, DIMS - 1, left)
    }

    #[inline(always)]
    fn step(&self, mut offsets: [u64; N], dim: usize, index: u32) -> [u64; N] {
        let mut i = 0;
        while i < N {
            offsets[i] += index as u64 * self.strides[i][dim];
            i += 1;
        }
        offsets
    }
}

impl<const N: usize> PassedAsIs for Walk<N> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_counted_along_the_innermost_dimension() {
        let walk = Walk::new(&[(2, [100, 1]), (3, [7, 20]), (4, [1, 300])]).unwrap();
        assert_eq!(walk.count(), 24);
        assert_eq!([0, 1, 4, 12, 23].map(|i| walk.at(i)), [[0, 0], [1, 300], [7, 20], [100, 1], [117, 941]]);
        assert_eq!(Walk::new(&[(9, [3])]).unwrap().at(8), [24]);
        assert_eq!(Walk::<1>::new(&[]).unwrap().at(0), [0]);
        assert_eq!(Walk::new(&[(0, [3]), (5, [1])]).unwrap().count(), 0);
        assert!(Walk::new(&[(1 << 16, [1]), (1 << 15, [1])]).is_none());
    }
}
