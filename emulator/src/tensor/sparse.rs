//! Where the elements of a sparse A are: `mma.sp` and `wgmma.mma_async.sp`.
//!
//! PTX ISA, "Sparse matrix storage" of both. Of each four elements of a row two are stored, of tf32 one of two, of 4 bits two pairs of
//! four. Four bits of metadata tell which: those of a row are in one word, or of 16 bits and more in one half of a word,
//! whose other half is of the row eight below. A warp's metadata are of the 16 rows that it has of A.

use super::Register;
use crate::error::Reason;

/// How a sparse A is told where its elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sparse {
    /// Which lanes of four have the metadata.
    pub(crate) selector: usize,
    /// Whether indices must ascend.
    pub(crate) ordered: bool,
}

impl Sparse {
    /// Of each four lanes, how many have metadata, of elements of so many bits of which so many of a row are stored.
    pub(crate) fn lanes(bits: u32, stored: usize) -> usize {
        match bits {
            32 => stored / 4,
            16 => stored / 8,
            8 => stored / 16 * 2,
            _ => stored / 32 * 2,
        }
    }

    /// What PTX does not have of the selector, for such elements.
    pub(crate) fn check(self, bits: u32, stored: usize) -> Result<(), String> {
        match self.selector < 4 / Self::lanes(bits, stored) {
            true => Ok(()),
            false => Err("there are no lanes of this number with metadata".into()),
        }
    }

    /// The column of the full matrix that element `i` of those stored of a row, one of 16, is of.
    pub(crate) fn column(
        self,
        (bits, of_row): (u32, usize),
        metadata: &Register,
        row: usize,
        i: usize,
    ) -> Result<usize, Reason> {
        // Stored elements that four bits are for, and those of one index.
        let (stored, together) = match bits {
            32 => (1, 1),
            4 => (4, 2),
            _ => (2, 1),
        };
        let (chunk, within) = (i / stored, i % stored);
        let (group, lower) = (row % 8, row / 8);
        // Lanes of four: by columns where a word has both rows, else by rows first.
        let (lane, shift) = if bits >= 16 {
            (chunk / 4, lower * 16 + chunk % 4 * 4)
        } else {
            (chunk / 8 * 2 + lower, chunk % 8 * 4)
        };
        let word = metadata[group * 4 + self.selector * Self::lanes(bits, of_row) + lane];
        let indices = (word >> shift & 15) as usize;
        let [first, second] = [indices & 3, indices >> 2];
        if bits == 32 {
            // A pair of halves of one of two elements.
            return match indices {
                0b0100 => Ok(2 * chunk),
                0b1110 => Ok(2 * chunk + 1),
                other => Err(Reason::misuse(format!(
                    "metadata of {other:#06b} for one of two elements: must be 0b0100 or 0b1110"
                ))),
            };
        }
        if first == second || self.ordered && first > second {
            let must = if self.ordered { "be the greater one" } else { "be another one" };
            return Err(Reason::misuse(format!("metadata of {indices:#06b}: the second index must {must}")));
        }
        let index = if within / together == 0 { first } else { second };
        Ok((chunk * 4 + index) * together + within % together)
    }
}
