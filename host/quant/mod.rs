//! Narrow weights: number formats, quantisation, checkpoints, and the packed form that kernels read.
//!
//! [`QuantizedWeights`] hold the weights W \[N, K\] of a linear layer as codes of 1 to 8 bits with a scale, and possibly a
//! zero, for each [`Group`] of a row. They are rounded from wide weights or read from GPTQ and AWQ checkpoints.
//! [`PackedWeights`] hold the same in the order in which kernels read them; they are written to files and
//! read back, and unpack without loss. docs/quantized-weights.md specifies their form.
//!
//! ```
//! use tilewright::quant::{Format, Group, HalfType, Order, QuantizedWeights, Scheme, Zeros};
//!
//! # fn main() -> tilewright::Result<()> {
//! let weights: Vec<f32> = (0..64 * 256).map(|i| (i as f32 * 0.37).sin()).collect();
//! let scheme =
//!     Scheme { format: Format::U4, group: Group::K128, zeros: Zeros::Original, scales: HalfType::F16 };
//! let quantized = QuantizedWeights::quantize("up_proj", &weights, [64, 256], scheme)?;
//! let packed = quantized.pack(Order::B16)?;
//! assert_eq!(packed.codes().len(), 64 * 256 / 2);
//! assert_eq!(packed.unpack()?, quantized);
//! # Ok(())
//! # }
//! ```

mod awq;
mod bytes;
mod checkpoint;
mod format;
mod gptq;
mod group;
mod halves;
mod minifloat;
mod packed;
mod quantize;
mod range;
mod safetensors;
mod scheme;
mod stack;
mod weights;
mod words;

pub use awq::AwqTensors;
pub use checkpoint::CheckpointLayer;
pub use format::Format;
pub use gptq::{GptqTensors, GptqVersion};
pub use group::{Group, Zeros};
pub use halves::{HalfType, Halves};
#[cfg(feature = "dequant_gemm")]
pub(crate) use packed::order_name;
pub use packed::{PackedHeader, PackedWeights};
pub use quantize::WeightElement;
pub use scheme::Scheme;
pub use tilewright_device::layout::packed::Order;
pub use weights::{QuantizedWeights, ZeroPoints};
