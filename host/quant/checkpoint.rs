//! The layers of GPTQ and AWQ checkpoints in safetensors files.

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use super::safetensors::{not_a_file, wrong};
use super::{AwqTensors, GptqTensors, GptqVersion, Group, HalfType, Halves};
use crate::{Error, Result};

/// The tensors of one linear layer of a GPTQ or AWQ checkpoint: `qweight`, `qzeros`, `scales` and possibly `g_idx`.
///
/// ```no_run
/// use tilewright::quant::{CheckpointLayer, GptqVersion, Group, QuantizedWeights};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let file = std::fs::read("model.safetensors")?;
/// let name = "model.layers.0.mlp.up_proj";
/// let layer = CheckpointLayer::read(name, &file)?;
/// // bits, group_size and checkpoint_format of the checkpoint's quantization_config
/// let weights = QuantizedWeights::from_gptq(name, &layer.gptq(4, Group::K128, GptqVersion::V1))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CheckpointLayer {
    /// Lines of `qweight`.
    lines: usize,
    /// Columns of `scales`.
    n: usize,
    qweight: Vec<i32>,
    qzeros: Vec<i32>,
    scales: Halves,
    g_idx: Option<Vec<i32>>,
}

impl CheckpointLayer {
    /// Reads the tensors `name.qweight`, `name.qzeros` (I32), `name.scales` (F16 or BF16) and, if there is one, `name.g_idx` (I32)
    /// of a safetensors file.
    ///
    /// Fails when the file is none, or when one of the tensors is missing or of another type. Their sizes are checked on import.
    pub fn read(name: &str, file: &[u8]) -> Result<Self> {
        let tensors = SafeTensors::deserialize(file).map_err(|error| not_a_file(name, &error))?;
        let part = |part: &'static str| {
            let missing = |_| wrong(name, part, "missing", format!("the tensor `{name}.{part}` of the file"));
            let tensor = tensors.tensor(&format!("{name}.{part}")).map_err(missing)?;
            Ok::<_, Error>(Part { name, part, tensor })
        };
        let (qweight, scales) = (part("qweight")?, part("scales")?);
        let g_idx = if tensors.names().contains(&format!("{name}.g_idx").as_str()) {
            Some(part("g_idx")?.integers()?)
        } else {
            None
        };
        Ok(CheckpointLayer {
            lines: qweight.matrix()?[0],
            n: scales.matrix()?[1],
            qweight: qweight.integers()?,
            qzeros: part("qzeros")?.integers()?,
            scales: scales.halves()?,
            g_idx,
        })
    }

    /// As a GPTQ checkpoint's, with what its configuration says: bits of a code, `group_size` and `checkpoint_format`.
    pub fn gptq(&self, bits: u32, group: Group, version: GptqVersion) -> GptqTensors<'_> {
        let Self { lines, n, qweight, qzeros, scales, g_idx } = self;
        // A wrong number of bits is the import's to refuse, and so is a size that files state of tensors without values.
        let padded = lines.saturating_mul((32 / bits.max(1)) as usize);
        let k = g_idx.as_ref().map_or(padded, Vec::len);
        GptqTensors { bits, group, version, shape: [*n, k], qweight, qzeros, scales, g_idx: g_idx.as_deref() }
    }

    /// As an AWQ checkpoint's, with its configuration's `group_size`.
    pub fn awq(&self, group: Group) -> AwqTensors<'_> {
        let Self { lines, n, qweight, qzeros, scales, .. } = self;
        AwqTensors { group, shape: [*n, *lines], qweight, qzeros, scales }
    }
}

/// A layer's tensor.
struct Part<'a> {
    name: &'a str,
    part: &'static str,
    tensor: TensorView<'a>,
}

impl Part<'_> {
    fn matrix(&self) -> Result<[usize; 2]> {
        let shape = self.tensor.shape();
        let wrong = |_| wrong(self.name, self.part, format!("of shape {shape:?}"), "a matrix");
        shape.try_into().map_err(wrong)
    }

    fn of_type(&self, allowed: &'static str) -> Error {
        wrong(self.name, self.part, format!("of {}", self.tensor.dtype()), allowed)
    }

    fn integers(&self) -> Result<Vec<i32>> {
        match self.tensor.dtype() {
            Dtype::I32 => {
                Ok(self.tensor.data().as_chunks().0.iter().copied().map(i32::from_le_bytes).collect())
            }
            _ => Err(self.of_type("of I32")),
        }
    }

    fn halves(&self) -> Result<Halves> {
        match self.tensor.dtype() {
            Dtype::F16 => Ok(Halves::from_bytes(HalfType::F16, self.tensor.data())),
            Dtype::BF16 => Ok(Halves::from_bytes(HalfType::BF16, self.tensor.data())),
            _ => Err(self.of_type("of F16 or BF16")),
        }
    }
}
