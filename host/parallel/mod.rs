//! Layers whose weights lie on several GPUs: tensor parallelism (Shoeybi et al., "Megatron-LM: training multi-billion parameter language models
//! using model parallelism", 2019).
//!
//! Each GPU is a rank of a group and has a [`Communicator`], with which a thread of its own computes: [`ColumnParallel`] and [`RowParallel`]
//! layers put their products on that thread's stream and their collectives on the communicator's, so that the collective of some rows runs under the
//! product of the next ones ([`Chunks`]).
//!
//! Collectives are NCCL's, through the feature `nccl`, which loads the library when the first communicator is made. Ranks on emulators sum on the host,
//! for tests: they check that layers are divided and put together right, and say nothing of speed.
//!
//! ```
//! use tilewright::ops::Gemm;
//! use tilewright::parallel::{Chunks, Communicator, CommunicatorOptions, RowParallel};
//! use tilewright::{Device, Tensor, f16};
//!
//! # fn main() -> tilewright::Result<()> {
//! let devices = [Device::emulator(), Device::emulator()];
//! let ranks = Communicator::all(&devices, CommunicatorOptions::default())?;
//! std::thread::scope(|scope| {
//!     let threads: Vec<_> = ranks
//!         .into_iter()
//!         .map(|mut rank| {
//!             scope.spawn(move || {
//!                 let device = rank.device().clone();
//!                 // Of x [4, 64] and w [64, 16] each rank has a half of the depth.
//!                 let x = Tensor::filled(&device, f16::ONE, &[4, 32])?;
//!                 let w = Tensor::filled(&device, f16::ONE, &[32, 16])?;
//!                 let mut y = Tensor::<f16>::zeros(&device, &[4, 16])?;
//!                 let (stream, chunks) = (device.default_stream(), Chunks::one(4));
//!                 let layer = RowParallel::new(Gemm::new());
//!                 layer.run(&mut rank, &stream, &chunks, &x.view(), &w.view(), &mut y.view_mut())?;
//!                 assert_eq!(y.to_vec()?, [f16::from_f32(64.0); 64]);
//!                 Ok(())
//!             })
//!         })
//!         .collect();
//!     threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
//! })
//! # }
//! ```

mod chunks;
mod communicator;
#[cfg(feature = "emulator")]
mod emulated;
mod estimate;
mod group;
mod linear;
#[cfg(feature = "nccl")]
mod nccl;
mod transport;

pub use chunks::Chunks;
pub use communicator::{Communicator, CommunicatorOptions};
pub use linear::{ColumnParallel, RowParallel};
