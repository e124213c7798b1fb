//! tilewright's GPU kernels for [candle](https://github.com/huggingface/candle): on candle's tensors, in candle's memory, on candle's stream.
//!
//! - Attention: the functions of candle-flash-attn under their names, with their argument orders and layouts ([`flash_attn`] and its kin);
//!   [`paged_attention`] for decoding over paged caches, and [`append_to_cache`], which writes them; [`MlaDecode`] for DeepSeek's latent caches, of 8 bits
//!   too, which [`append_to_latent_cache`] writes.
//! - Linear layers: [`matmul`], [`Matmul`] and [`Linear`] with bias and activation in the product's epilogue; [`QuantizedLinear`] of GPTQ and AWQ checkpoints,
//!   and of weights rounded here to 1 to 8 bits; [`GatedLinear`] with gate and up in one kernel.
//! - [`rms_norm`], with the residual's addition too, [`layer_norm`], [`softmax`], [`rope`] and [`Rotary`], [`swiglu`].
//!
//! ```
//! use candle_core::{DType, Device, Tensor};
//!
//! # fn main() -> candle_core::Result<()> {
//! # if cfg!(feature = "emulator") {
//! let device = Device::cuda_if_available(0)?;
//! let q = Tensor::ones((1, 16, 8, 64), DType::BF16, &device)?;
//! let kv = Tensor::ones((1, 16, 2, 64), DType::BF16, &device)?;
//! let o = tilewright_candle::flash_attn(&q, &kv, &kv, 0.125, true)?;
//! assert_eq!(o.dims(), q.dims());
//! # }
//! # Ok(())
//! # }
//! ```
//!
//! # What a call does
//!
//! It checks its tensors, chooses a kernel and launches it on the stream of candle's device. It copies nothing, waits for nothing, and allocates its result alone, from
//! candle's pool, and scratch memory where a kernel computes in parts; what does otherwise says so. Any strides and offsets of candle's layouts are read as they
//! are. Kernels are compiled by the driver at their first use: [`ops::warm_up`](tilewright::ops::warm_up) does that ahead.
//!
//! Calls can be captured in CUDA graphs, on a device of `Device::new_cuda_with_stream` whose event tracking is off; best in [`Buffers::run`]. Gradients are not computed: going backward
//! through a result is candle's error, which names the function.
//!
//! # Errors
//!
//! Functions return [`candle_core::Error`]; [`Error::of`] finds tilewright's in it, which names the argument, what it was and what is allowed. The message has all
//! of candle's tensors.
//!
//! # Features
//!
//! - `cuda`: tensors on candle's CUDA devices; candle's own feature `cuda`, which takes CUDA's toolkit to build.
//! - `emulator`: tensors on the CPU, by tilewright's emulator, which runs the very kernels, slowly: for tests on machines without a GPU.

mod append;
mod attention;
mod buffers;
mod call;
mod element;
mod error;
mod gated;
mod gated_linear;
mod linear;
mod matmul;
mod memory;
mod mla;
mod norm;
mod quantized;
mod rope;
mod softmax;
mod write;

pub use append::append_to_cache;
pub use attention::*;
pub use buffers::Buffers;
pub use error::Error;
pub use gated::{geglu, swiglu, swiglu_packed};
pub use gated_linear::GatedLinear;
pub use linear::Linear;
pub use matmul::{Matmul, matmul};
pub use mla::{MlaDecode, append_to_latent_cache};
pub use norm::{layer_norm, rms_norm, rms_norm_residual};
pub use quantized::{CheckpointTensors, QuantizedLinear, Workspace};
pub use rope::{Rotary, rope, rope_i, rope_thd};
pub use softmax::{log_softmax, softmax, softmax_last_dim};
pub use tilewright;
pub use tilewright::ops::Activation;
pub use tilewright::quant;
