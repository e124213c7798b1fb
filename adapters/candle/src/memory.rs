//! Where candle's tensors are: on a GPU, whose memory and stream are used as they are; or on the CPU, for the emulator.

use std::any::Any;

#[cfg(feature = "cuda")]
use candle_core::cuda_backend::cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut, SyncOnDrop};
use candle_core::{CpuStorage, Layout, Storage, Tensor};
use tilewright::{Device, Stream, TensorView};

use crate::element::Native;
use crate::error::label;

/// What fails is tilewright's to say, or candle's.
pub(crate) enum Trouble {
    Ours(tilewright::Error),
    Candle(candle_core::Error),
}

impl From<tilewright::Error> for Trouble {
    fn from(error: tilewright::Error) -> Self {
        Trouble::Ours(error)
    }
}

impl From<candle_core::Error> for Trouble {
    fn from(error: candle_core::Error) -> Self {
        Trouble::Candle(error)
    }
}

/// A device of candle's, as tilewright knows it.
pub(crate) struct Place {
    device: Device,
    stream: Stream,
    /// candle's own; on the emulator there is none.
    #[cfg(feature = "cuda")]
    cuda: Option<(candle_core::CudaDevice, std::sync::Arc<CudaStream>)>,
}

impl Place {
    /// Where all of the tensors are.
    pub(crate) fn of(tensors: &[(&'static str, &Tensor)]) -> Result<Self, tilewright::Error> {
        let Some(&(name, first)) = tensors.first() else {
            return Err(tilewright::Error::argument("tensors", "none", "one or more"));
        };
        let place = Self::on(name, first.device())?;
        let here = first.device().location();
        match tensors.iter().find(|(_, tensor)| tensor.device().location() != here) {
            None => Ok(place),
            Some((other, tensor)) => Err(tilewright::Error::WrongDevice {
                argument: (*other).into(),
                was: label(tensor.device()),
                expected: label(first.device()),
            }),
        }
    }

    /// A device of candle's, for the argument of this name.
    pub(crate) fn on(name: &'static str, device: &candle_core::Device) -> Result<Self, tilewright::Error> {
        match device {
            #[cfg(feature = "cuda")]
            candle_core::Device::Cuda(candle) => Self::cuda(candle),
            #[cfg(feature = "emulator")]
            candle_core::Device::Cpu => {
                let device = Device::emulator();
                let stream = device.default_stream();
                #[cfg(feature = "cuda")]
                return Ok(Place { device, stream, cuda: None });
                #[cfg(not(feature = "cuda"))]
                Ok(Place { device, stream })
            }
            other => {
                let allowed = match (cfg!(feature = "cuda"), cfg!(feature = "emulator")) {
                    (true, true) => "on a CUDA device, or on the CPU",
                    (true, false) => {
                        "on a CUDA device; tensors on the CPU take the feature `emulator` of tilewright-candle"
                    }
                    (false, true) => "on the CPU; CUDA devices take the feature `cuda` of tilewright-candle",
                    (false, false) => {
                        "on a device that a feature of tilewright-candle is for: `cuda` or `emulator`"
                    }
                };
                Err(tilewright::Error::argument(name, format!("on {}", label(other)), allowed))
            }
        }
    }

    #[cfg(feature = "cuda")]
    fn cuda(candle: &candle_core::CudaDevice) -> Result<Self, tilewright::Error> {
        let theirs = candle.cuda_stream();
        let device = Device::of_cudarc(theirs.context())?;
        let stream = Stream::of_cudarc(&theirs)?;
        Ok(Place { device, stream, cuda: Some((candle.clone(), theirs)) })
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// A tensor's memory, from its first element on: candle's own, or on the emulator a copy.
    pub(crate) fn read<'h, T: Native>(
        &'h self,
        storage: &'h Storage,
        layout: &Layout,
    ) -> Result<Reading<'h>, Trouble> {
        let start = layout.start_offset();
        match storage {
            #[cfg(feature = "cuda")]
            Storage::Cuda(storage) => {
                let Some((_, stream)) = &self.cuda else { return Err(elsewhere()) };
                let slice = storage.as_cuda_slice::<T>()?;
                let (address, guard) = slice.device_ptr(stream);
                let address = address + (start * size_of::<T>()) as u64;
                Ok(Reading { address, _guard: Some(guard), _copy: None })
            }
            Storage::Cpu(storage) => {
                let all = T::cpu_storage_as_slice(storage)?;
                let span = all.get(start..start + extent(layout)).ok_or_else(elsewhere)?;
                let memory = tilewright::Tensor::from_slice(&self.device, span, &[span.len()])?;
                let address = memory.address();
                Ok(Reading { address, _guard: None, _copy: Some(Box::new(memory)) })
            }
            _ => Err(elsewhere()),
        }
    }
}

/// A tensor's memory that is written in place.
pub(crate) struct Edited<'h, T> {
    address: u64,
    _guard: Option<Guard<'h>>,
    /// The emulator's copy, and where it goes back to.
    copy: Option<(tilewright::Tensor<T>, &'h mut CpuStorage, usize)>,
}

impl<T: Native> Edited<'_, T> {
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Says that the writing is queued; on the emulator copies back what was written.
    pub(crate) fn finish(self, stream: &Stream) -> Result<(), Trouble> {
        let Some((memory, storage, start)) = self.copy else { return Ok(()) };
        let written = memory.to_vec_on(stream)?;
        let mut all = T::cpu_storage_data(std::mem::replace(storage, CpuStorage::U8(Vec::new())))?;
        let outcome = all.get_mut(start..start + written.len()).ok_or_else(elsewhere);
        let outcome = outcome.map(|span| span.copy_from_slice(&written));
        *storage = T::to_cpu_storage_owned(all);
        outcome
    }
}

impl Place {
    /// The memory of a contiguous tensor on the CPU.
    pub(crate) fn edit_cpu<'h, T: Native>(
        &'h self,
        storage: &'h mut CpuStorage,
        layout: &Layout,
    ) -> Result<Edited<'h, T>, Trouble> {
        let start = layout.start_offset();
        let all = T::cpu_storage_as_slice(storage)?;
        let span = all.get(start..start + extent(layout)).ok_or_else(elsewhere)?;
        let memory = tilewright::Tensor::from_slice(&self.device, span, &[span.len()])?;
        Ok(Edited { address: memory.address(), _guard: None, copy: Some((memory, storage, start)) })
    }

    /// The memory of a tensor on a GPU.
    #[cfg(feature = "cuda")]
    pub(crate) fn edit_cuda<'h, T: Native>(
        &'h self,
        storage: &'h mut candle_core::CudaStorage,
        layout: &Layout,
    ) -> Result<Edited<'h, T>, Trouble> {
        let Some((_, stream)) = &self.cuda else { return Err(elsewhere()) };
        let (address, guard) = storage.as_cuda_slice_mut::<T>()?.device_ptr_mut(stream);
        let address = address + (layout.start_offset() * size_of::<T>()) as u64;
        Ok(Edited { address, _guard: Some(guard), copy: None })
    }
}

/// Elements from the first to the last.
fn extent(layout: &Layout) -> usize {
    let (dims, strides) = (layout.dims(), layout.stride());
    if dims.contains(&0) {
        return 0;
    }
    1 + dims.iter().zip(strides).map(|(dim, stride)| (dim - 1) * stride).sum::<usize>()
}

/// candle's tensors have storage of their device's kind, and of their layout's extent.
fn elsewhere() -> Trouble {
    Trouble::Candle(candle_core::Error::Msg(
        "a tensor's storage is not what its device and layout say".into(),
    ))
}

/// Tells cudarc's events, when dropped, that what uses the memory is queued.
#[cfg(feature = "cuda")]
type Guard<'h> = SyncOnDrop<'h>;
/// The emulator needs none.
#[cfg(not(feature = "cuda"))]
type Guard<'h> = std::marker::PhantomData<&'h ()>;

/// Memory that is read as long as this lives.
pub(crate) struct Reading<'h> {
    address: u64,
    _guard: Option<Guard<'h>>,
    /// The emulator's copy.
    _copy: Option<Box<dyn Any>>,
}

impl Reading<'_> {
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

/// New memory that a call writes.
pub(crate) enum Fresh<T: Native> {
    #[cfg(feature = "cuda")]
    Candle(CudaSlice<T>),
    Emulated(tilewright::Tensor<T>),
}

impl<T: Native> Fresh<T> {
    /// Of so many elements, with whatever values.
    pub(crate) fn new(place: &Place, count: usize) -> Result<Self, Trouble> {
        #[cfg(feature = "cuda")]
        if let Some((device, _)) = &place.cuda {
            // SAFETY: operators write all of their results, and take scratch memory of any values.
            // The driver has no memory of no bytes.
            return Ok(Fresh::Candle(unsafe { device.alloc::<T>(count.max(1))? }));
        }
        Ok(Fresh::Emulated(tilewright::Tensor::uninit(&place.device, &[count])?))
    }

    /// The address of the first element, to be written as long as the second value lives.
    pub(crate) fn writing<'h>(&'h mut self, place: &'h Place) -> Result<(u64, Option<Guard<'h>>), Trouble> {
        match self {
            #[cfg(feature = "cuda")]
            Fresh::Candle(slice) => {
                let Some((_, stream)) = &place.cuda else { return Err(elsewhere()) };
                let (address, guard) = slice.device_ptr_mut(stream);
                Ok((address, Some(guard)))
            }
            Fresh::Emulated(tensor) => {
                let _ = place;
                Ok((tensor.address(), None))
            }
        }
    }

    /// As candle's storage: on the emulator a copy, once the work is done.
    pub(crate) fn finish(self, place: &Place) -> Result<Storage, Trouble> {
        match self {
            #[cfg(feature = "cuda")]
            Fresh::Candle(slice) => {
                let Some((device, _)) = &place.cuda else { return Err(elsewhere()) };
                Ok(Storage::Cuda(candle_core::CudaStorage::wrap_cuda_slice(slice, device.clone())))
            }
            Fresh::Emulated(tensor) => {
                let view: TensorView<'_, T> = tensor.view();
                Ok(Storage::Cpu(cpu(view.to_vec_on(&place.stream)?)))
            }
        }
    }
}

fn cpu<T: Native>(data: Vec<T>) -> CpuStorage {
    T::to_cpu_storage_owned(data)
}
