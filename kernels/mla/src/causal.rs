//! Which keys a row of queries sees.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::layout::FragmentLayout;
use tilewright_device::tile::Fragment;
use tilewright_device::tile::division::Division;

/// Rows are heads of one position after the other; the last position sees all keys, the one before it all but the last.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Causal {
    heads: Division,
    positions: u32,
}

impl Causal {
    /// For `heads` rows of each of `positions`; of 1 where every position sees all keys.
    pub const fn new(heads: u32, positions: u32) -> Self {
        Causal { heads: Division::by(heads), positions }
    }

    /// Of a sequence's keys, the first that every row sees.
    #[inline(always)]
    pub fn seen_by_all(&self, length: u32) -> u32 {
        (length + 1).saturating_sub(self.positions)
    }

    /// Scores of tile `m` and block `j`, -inf where the row does not see the key of a sequence of `length`.
    #[inline(always)]
    pub fn mask<const BM: usize, const BN: usize, L: FragmentLayout<BM, BN>>(
        &self,
        s: Fragment<f32, BM, BN, L>,
        m: u32,
        j: u32,
        length: u32,
    ) -> Fragment<f32, BM, BN, L> {
        let before = length + 1 - j * BN as u32;
        s.mask_beyond(|r| {
            let position = self.heads.of(m * BM as u32 + r).0.min(self.positions - 1);
            (before + position).saturating_sub(self.positions)
        })
    }
}

impl PassedAsIs for Causal {}
