//! Checkpoints of AWQ.

use super::words::{Expected, Words, transposed};
use super::{Format, Group, Halves, QuantizedWeights, Scheme, ZeroPoints, Zeros};
use crate::Result;

/// Codes of a word.
const PER_WORD: usize = 8;
/// The nibble of a word that holds each of 8 neighbours along N.
const NIBBLE: [usize; PER_WORD] = [0, 4, 1, 5, 2, 6, 3, 7];

/// The tensors of one linear layer in an AWQ checkpoint (Lin et al. 2023; the layout is that of AutoAWQ's `gemm` version).
///
/// A word holds the codes of 8 neighbours along N; its nibbles, from the lowest, are those of neighbours 0, 2, 4, 6,
/// 1, 3, 5, 7.
#[derive(Clone, Copy, Debug)]
pub struct AwqTensors<'a> {
    /// Weights that share a scale: `group_size` of the configuration, -1 being [`Group::Row`].
    pub group: Group,
    /// Output features N, a multiple of 8, and input features K.
    pub shape: [usize; 2],
    /// Codes \[K, N / 8\].
    pub qweight: &'a [i32],
    /// Zeros \[groups, N / 8\].
    pub qzeros: &'a [i32],
    /// Scales \[groups, N\].
    pub scales: &'a Halves,
}

impl QuantizedWeights {
    /// The weights of an AWQ checkpoint, exactly, in u4 with packed zeros.
    ///
    /// Fails when a tensor has not the size that the shape asks for.
    pub fn from_awq(name: impl Into<String>, tensors: &AwqTensors) -> Result<Self> {
        let name = name.into();
        let AwqTensors { group, shape: [n, k], qweight, qzeros, scales } = *tensors;
        let format = Format::U4;
        let scheme = Scheme { format, group, zeros: Zeros::Packed, scales: scales.kind() };
        let (_, groups) = scheme.count(&name, n, k)?;
        if !n.is_multiple_of(PER_WORD) {
            return Err(scheme.error(&name, "shape", format!("[{n}, {k}]"), "[N, K] with N a multiple of 8"));
        }
        let columns = n / PER_WORD;
        let expected = Expected { tensor: &name, scheme };
        expected.size("qweight", qweight.len(), k, columns)?;
        expected.size("qzeros", qzeros.len(), groups, columns)?;
        expected.size("scales", scales.len(), groups, n)?;
        let get = |words, line, row| {
            Words { words, columns }.get(line, row / PER_WORD, NIBBLE[row % PER_WORD] * 4, format.bits())
        };
        let codes = (0..n * k).map(|i| get(qweight, i % k, i / k)).collect();
        let zeros = (0..n * groups).map(|i| get(qzeros, i % groups, i / groups).into()).collect();
        let (scales, zeros) = (transposed(scales, n, group, k), ZeroPoints::Packed(zeros));
        Self::new(name, format, group, [n, k], codes, scales, zeros)
    }
}
