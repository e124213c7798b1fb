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
    /// quantised in activation order (`desc_act`), whose `g_idx` is not in order: those are for
    /// [`from_gptq_act_order`](Self::from_gptq_act_order).
    pub fn from_gptq(name: impl Into<String>, tensors: &GptqTensors) -> Result<Self> {
        let import = Import::new(name.into(), tensors)?;
        let len = import.scheme.group.len(import.k);
        if let Some(i) = import.out_of_order() {
            let was = format!("{} at {i}", import.group(i));
            let allowed = format!("{}: groups in order, not in activation order", i / len);
            return Err(import.scheme.error(&import.name, "g_idx", was, allowed));
        }
        import.weights(|k| k)
    }

    /// The weights of a GPTQ checkpoint with their input features in the order of their groups, and that order: column j of
    /// the weights is the checkpoint's input feature `order[j]`, so the activations' column `order[j]` must become column
    /// j. For checkpoints quantised in activation order (`desc_act`); for others the order is 0, 1, 2, ….
    ///
    /// Fails as [`from_gptq`](Self::from_gptq) does, and when `g_idx` gives a group more or fewer features than its size.
    pub fn from_gptq_act_order(name: impl Into<String>, tensors: &GptqTensors) -> Result<(Self, Vec<usize>)> {
        let import = Import::new(name.into(), tensors)?;
        let len = import.scheme.group.len(import.k);
        let mut order: Vec<usize> = (0..import.k).collect();
        order.sort_by_key(|&k| import.group(k));
        let misplaced = |&j: &usize| usize::try_from(import.group(order[j])) != Ok(j / len);
        if let Some(j) = (0..import.k).find(misplaced) {
            let was = format!("{} at {}", import.group(order[j]), order[j]);
            let allowed = format!("so that each group has {len} input features");
            return Err(import.scheme.error(&import.name, "g_idx", was, allowed));
        }
        Ok((import.weights(|j| order[j])?, order))
    }
}

/// A checkpoint's tensors, checked.
struct Import<'a> {
    name: String,
    scheme: Scheme,
    tensors: &'a GptqTensors<'a>,
    n: usize,
    k: usize,
    groups: usize,
    /// Codes of a word.
    per_word: usize,
}

impl<'a> Import<'a> {
    fn new(name: String, tensors: &'a GptqTensors<'a>) -> Result<Self> {
        let GptqTensors { bits, group, shape: [n, k], qweight, qzeros, scales, g_idx, .. } = *tensors;
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
        }
        Ok(Import { name, scheme, tensors, n, k, groups, per_word })
    }

    /// The group of an input feature.
    fn group(&self, k: usize) -> i32 {
        // Without `g_idx` groups are as many as scales, which are in memory: far fewer than i32 counts.
        self.tensors.g_idx.map_or((k / self.scheme.group.len(self.k)) as i32, |g_idx| g_idx[k])
    }

    /// The first input feature that is not in the group where its place puts it.
    fn out_of_order(&self) -> Option<usize> {
        let len = self.scheme.group.len(self.k);
        (0..self.k).find(|&k| usize::try_from(self.group(k)) != Ok(k / len))
    }

    /// The weights whose column j is input feature `feature(j)`.
    fn weights(self, feature: impl Fn(usize) -> usize) -> Result<QuantizedWeights> {
        let Import { name, scheme: Scheme { format, group, .. }, tensors, n, k, groups, per_word } = self;
        let bits = format.bits();
        let at = |i: usize| i % per_word * bits as usize;
        // Of unsigned codes: i8 has them less 128, which in two's complement flips the highest bit.
        let code = |code| if format == Format::I8 { format.packed(code) } else { code };
        let words = Words { words: tensors.qweight, columns: n };
        let codes = (0..n * k).map(|i| {
            let (row, k) = (i / k, feature(i % k));
            code(words.get(k / per_word, row, at(k), bits))
        });
        let words = Words { words: tensors.qzeros, columns: n.div_ceil(per_word) };
        let zeros = (0..n * groups).map(|i| {
            let (row, group) = (i / groups, i % groups);
            let stored = words.get(group, row / per_word, at(row), bits);
            let zero = match tensors.version {
                GptqVersion::V1 => stored.wrapping_add(1) & (0xff >> (8 - bits)),
                GptqVersion::V2 => stored,
            };
            format.value(code(zero)) as i16
        });
        let (codes, zeros) = (codes.collect(), ZeroPoints::Packed(zeros.collect()));
        let scales = transposed(tensors.scales, n, group, k);
        QuantizedWeights::new(name, format, group, [n, k], codes, scales, zeros)
    }
}
