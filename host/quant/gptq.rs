//! Checkpoints of GPTQ.

use super::words::{Expected, Words, transposed};
use super::{Format, Group, Halves, QuantizedWeights, Scheme, ZeroPoints, Zeros};
use crate::{Error, Result};

/// How a GPTQ checkpoint stores zeros: `checkpoint_format` of its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GptqVersion {
    /// `gptq`: less one, and -1 as the highest code.
    V1,
    /// `gptq_v2`: as they are.
    V2,
}

/// The tensors of one linear layer in a GPTQ checkpoint (Frantar et al. 2022; the layout is that of AutoGPTQ and GPTQModel).
///
/// With p = 32 / bits codes to a word, the first in its lowest bits:
#[derive(Clone, Copy, Debug)]
pub struct GptqTensors<'a> {
    /// Bits of a code: 2, 4 or 8.
    pub bits: u32,
    /// Weights that share a scale: `group_size` of the configuration, -1 being [`Group::Row`].
    pub group: Group,
    /// How zeros are stored.
    pub version: GptqVersion,
    /// Output features N and input features K.
    pub shape: [usize; 2],
    /// Codes \[K / p, N\]: a word holds neighbours along K.
    pub qweight: &'a [i32],
    /// Zeros \[groups, N / p\]: a word holds neighbours along N.
    pub qzeros: &'a [i32],
    /// Scales \[groups, N\].
    pub scales: &'a Halves,
    /// The group of each input feature \[K\]; without it they are in order.
    pub g_idx: Option<&'a [i32]>,
}

impl QuantizedWeights {
    /// The weights of a GPTQ checkpoint, exactly, in u2, u4 or i8 (codes and zeros of 8 bits less 128) with packed zeros.
    ///
    /// Fails when a tensor has not the size that the shape asks for, for other numbers of bits, and for checkpoints
    /// quantised in activation order (`desc_act`) whose `g_idx` is not in order.
    pub fn from_gptq(name: impl Into<String>, tensors: &GptqTensors) -> Result<Self> {
        let name = name.into();
        let GptqTensors { bits, group, version, shape: [n, k], qweight, qzeros, scales, g_idx } = *tensors;
        let format = match bits {
            2 => Format::U2,
            4 => Format::U4,
            8 => Format::I8,
            _ => {
                let (was, group) = (bits.to_string(), Some(group));
                let allowed = "2, 4 or 8".into();
                return Err(Error::Weights {
                    tensor: name,
                    format: None,
                    group,
                    argument: "bits",
                    was,
                    allowed,
                });
            }
        };
        let scheme = Scheme { format, group, zeros: Zeros::Packed, scales: scales.kind() };
        let (_, groups) = scheme.count(&name, n, k)?;
        let per_word = (32 / bits) as usize;
        let expected = Expected { tensor: &name, scheme };
        expected.size("qweight", qweight.len(), k.div_ceil(per_word), n)?;
        expected.size("qzeros", qzeros.len(), groups, n.div_ceil(per_word))?;
        expected.size("scales", scales.len(), groups, n)?;
        if let Some(g_idx) = g_idx {
            expected.size("g_idx", g_idx.len(), 1, k)?;
            let in_order = |(i, &index): (usize, &i32)| usize::try_from(index) == Ok(i / group.len(k));
            if let Some(i) = g_idx.iter().enumerate().position(|entry| !in_order(entry)) {
                let was = format!("{} at {i}", g_idx[i]);
                let allowed = format!("{}: groups in order, not in activation order", i / group.len(k));
                return Err(scheme.error(&name, "g_idx", was, allowed));
            }
        }
        let at = |i: usize| i % per_word * bits as usize;
        // Of unsigned codes: i8 has them less 128, which in two's complement flips the highest bit.
        let code = |code| if format == Format::I8 { format.packed(code) } else { code };
        let words = Words { words: qweight, columns: n };
        let codes = (0..n * k).map(|i| {
            let (row, k) = (i / k, i % k);
            code(words.get(k / per_word, row, at(k), bits))
        });
        let words = Words { words: qzeros, columns: n.div_ceil(per_word) };
        let zeros = (0..n * groups).map(|i| {
            let (row, group) = (i / groups, i % groups);
            let stored = words.get(group, row / per_word, at(row), bits);
            let zero = match version {
                GptqVersion::V1 => stored.wrapping_add(1) & (0xff >> (8 - bits)),
                GptqVersion::V2 => stored,
            };
            format.value(code(zero)) as i16
        });
        let (codes, zeros) = (codes.collect(), ZeroPoints::Packed(zeros.collect()));
        Self::new(name, format, group, [n, k], codes, transposed(scales, n, group, k), zeros)
    }
}
