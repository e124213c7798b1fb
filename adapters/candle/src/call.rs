//! A call of an operator: where it runs, what it reads and what it writes.

use std::borrow::Cow;
use std::sync::Mutex;

use candle_core::op::BackpropOp;
use candle_core::{
    CpuStorage, CudaStorage, CustomOp1, Layout, Result, Shape, Storage, StorageRef, Tensor, WithDType,
};
use tilewright::{Device, Stream, TensorView, TensorViewMut};

use crate::buffers;
use crate::element::Native;
use crate::error::Error;
use crate::memory::{Fresh, Place, Reading, Trouble};
use crate::write::lend;

/// What a call comes to, before its error is given the tensors' description.
pub(crate) type Outcome<T> = std::result::Result<T, Trouble>;

/// An argument that is not what a call takes.
pub(crate) fn refuse<T>(
    argument: &'static str,
    was: impl Into<String>,
    allowed: impl Into<Cow<'static, str>>,
) -> Outcome<T> {
    Err(tilewright::Error::argument(argument, was, allowed).into())
}

/// The dimensions of a tensor that has `N` of them.
pub(crate) fn dims<const N: usize>(
    argument: &'static str,
    tensor: &Tensor,
    allowed: &'static str,
) -> Outcome<[usize; N]> {
    let dims = tensor.dims();
    dims.try_into().or_else(|_| refuse(argument, format!("of shape {dims:?}"), allowed))
}

/// A call of an operator on candle's tensors, all on one device.
pub(crate) struct Call<'t> {
    op: &'static str,
    tensors: &'t [(&'static str, &'t Tensor)],
    place: Place,
}

impl<'t> Call<'t> {
    /// Runs an operator on tensors, by the names that messages use.
    pub(crate) fn run<R>(
        op: &'static str,
        tensors: &[(&'static str, &Tensor)],
        f: impl FnOnce(&Call<'_>) -> Outcome<R>,
    ) -> Result<R> {
        let outcome =
            Place::of(tensors).map_err(Trouble::Ours).and_then(|place| f(&Call { op, tensors, place }));
        outcome.map_err(|trouble| match trouble {
            Trouble::Ours(source) => Error::new(op, tensors, source).into(),
            Trouble::Candle(error) => error,
        })
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }
    /// tilewright's device.
    pub(crate) fn device(&self) -> &Device {
        self.place.device()
    }
    /// candle's stream, as tilewright knows it.
    pub(crate) fn stream(&self) -> &Stream {
        self.place.stream()
    }

    /// A tensor to be read, with the element type `T`.
    pub(crate) fn read<'h, T: Native>(&'h self, held: &'h Held<'_>) -> Outcome<Operand<'h, T>> {
        let (was, wanted) = (held.storage.dtype(), <T as WithDType>::DTYPE);
        if was != wanted {
            return refuse(held.name, format!("of {}", was.as_str()), format!("of {}", wanted.as_str()));
        }
        self.read_as::<T, T>(held)
    }

    /// A tensor of indices to be read: of i32, or of u32, whose values below 2³¹ have the same bits.
    pub(crate) fn indices<'h>(&'h self, held: &'h Held<'_>) -> Outcome<Operand<'h, i32>> {
        match held.storage.dtype() {
            candle_core::DType::I32 => self.read_as::<i32, i32>(held),
            candle_core::DType::U32 => self.read_as::<u32, i32>(held),
            other => refuse(held.name, format!("of {}", other.as_str()), "of i32 or u32"),
        }
    }

    /// A tensor of `S` whose bits are those of `T`.
    fn read_as<'h, S: Native, T: Native>(&'h self, held: &'h Held<'_>) -> Outcome<Operand<'h, T>> {
        const { assert!(size_of::<S>() == size_of::<T>()) };
        let memory = self.place.read::<S>(&held.storage, held.layout)?;
        let (shape, strides) = (held.layout.dims(), held.layout.stride());
        // SAFETY: the memory is that of candle's tensor, whose storage is held as long as the view lives, or a copy of it on the emulator. What uses
        // it is queued on candle's stream, which orders it with all else that candle queues. The types have the same size, and every bit
        // pattern is a value of them.
        let view =
            unsafe { TensorView::from_raw_parts_unchecked(self.device(), memory.address(), shape, strides)? };
        Ok(Operand { view, _memory: memory })
    }

    /// A tensor of this shape, contiguous, that `f` queues the writing of.
    pub(crate) fn write<T: Native>(
        &self,
        shape: &[usize],
        f: impl FnOnce(TensorViewMut<'_, T>) -> Outcome<()>,
    ) -> Outcome<Tensor> {
        let mut room = self.room::<T>(shape)?;
        room.lend(self, f)?;
        room.finish(self)
    }

    /// The same for two tensors.
    pub(crate) fn write_both<T: Native>(
        &self,
        [first, second]: [&[usize]; 2],
        f: impl FnOnce([TensorViewMut<'_, T>; 2]) -> Outcome<()>,
    ) -> Outcome<[Tensor; 2]> {
        let (mut first, mut second) = (self.room::<T>(first)?, self.room::<T>(second)?);
        first.lend(self, |a| second.lend(self, |b| f([a, b])))?;
        Ok([first.finish(self)?, second.finish(self)?])
    }

    /// Memory for what is computed in parts, of `len` elements of any values.
    pub(crate) fn scratch(&self, len: usize) -> Outcome<Room<f32>> {
        self.room::<f32>(&[len])
    }

    /// The same to be kept beyond the call.
    pub(crate) fn lasting_scratch(&self, len: usize) -> Outcome<Room<f32>> {
        self.fresh::<f32>(&[len])
    }

    /// The device and the stream.
    fn home(&self) -> (Device, usize) {
        (self.device().clone(), self.stream().raw().addr())
    }

    fn room<T: Native>(&self, shape: &[usize]) -> Outcome<Room<T>> {
        let tracked = self.tensors.iter().any(|(_, tensor)| tensor.track_op());
        if let (false, Some((_, tensor))) = (tracked, self.tensors.first()) {
            let dtype = <T as WithDType>::DTYPE;
            if let Some(kept) = buffers::next(shape, dtype, tensor.device(), self.tensors)? {
                return Ok(Room { memory: Memory::Kept(kept), shape: shape.to_vec(), home: self.home() });
            }
        }
        self.fresh(shape)
    }

    fn fresh<T: Native>(&self, shape: &[usize]) -> Outcome<Room<T>> {
        let memory = Memory::Fresh(Fresh::new(&self.place, shape.iter().product())?);
        Ok(Room { memory, shape: shape.to_vec(), home: self.home() })
    }

    /// A tensor of storage that the call has made. Where an argument is tracked for gradients the result is too, and going
    /// backward is candle's error that names the operator: it is never a gradient that silently stops.
    fn tensor(&self, storage: Storage, shape: Vec<usize>) -> Outcome<Tensor> {
        let tracked = self.tensors.iter().find(|(_, tensor)| tensor.track_op());
        Ok(match tracked {
            None => Tensor::from_storage(storage, shape, BackpropOp::none(), false),
            Some((_, tensor)) => {
                let result = Mutex::new(Some(storage));
                tensor.apply_op1(Made { op: self.op, result, shape: shape.into() })?
            }
        })
    }
}

/// A tensor whose storage is locked for reading.
pub(crate) struct Held<'t> {
    name: &'static str,
    storage: StorageRef<'t>,
    layout: &'t Layout,
}

impl<'t> Held<'t> {
    pub(crate) fn new(name: &'static str, tensor: &'t Tensor) -> Self {
        let (storage, layout) = tensor.storage_and_layout();
        Held { name, storage, layout }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }
    /// Whether it is part of this storage.
    pub(crate) fn is_of(&self, storage: *const Storage) -> bool {
        std::ptr::eq(&raw const *self.storage, storage)
    }
}

/// A tensor that the call reads.
pub(crate) struct Operand<'h, T: Native> {
    view: TensorView<'h, T>,
    /// What keeps the memory, and tells cudarc's events when it has been read.
    _memory: Reading<'h>,
}

impl<T: Native> Operand<'_, T> {
    /// All of it.
    pub(crate) fn view(&self) -> TensorView<'_, T> {
        self.view.clone()
    }
}

/// Memory of a result.
enum Memory<T: Native> {
    /// New.
    Fresh(Fresh<T>),
    /// That of an earlier result: see [`Buffers`](crate::Buffers).
    Kept(Tensor),
}

/// A tensor that the call makes.
pub(crate) struct Room<T: Native> {
    memory: Memory<T>,
    shape: Vec<usize>,
    home: (Device, usize),
}

impl<T: Native> Room<T> {
    /// Elements.
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }
    /// Whether it was made on the device and the stream of a call.
    pub(crate) fn is_of(&self, call: &Call<'_>) -> bool {
        self.home == call.home()
    }

    /// Lends the memory to what queues its writing.
    pub(crate) fn lend<R>(
        &mut self,
        call: &Call<'_>,
        f: impl FnOnce(TensorViewMut<'_, T>) -> Outcome<R>,
    ) -> Outcome<R> {
        let plain = Layout::contiguous(self.shape.as_slice());
        let view = |address| {
            // SAFETY: the memory is this value's own, or is locked for writing, and has as many elements; candle's stream orders what uses it.
            unsafe {
                TensorViewMut::from_raw_parts_unchecked(call.device(), address, &self.shape, plain.stride())
            }
        };
        match &mut self.memory {
            Memory::Fresh(memory) => {
                let (address, _guard) = memory.writing(&call.place)?;
                f(view(address)?)
            }
            Memory::Kept(tensor) => lend::<T, _, _>(call, ("result", tensor), |address| f(view(address)?)),
        }
    }

    fn finish(self, call: &Call<'_>) -> Outcome<Tensor> {
        match self.memory {
            Memory::Fresh(memory) => call.tensor(memory.finish(&call.place)?, self.shape),
            Memory::Kept(tensor) => Ok(tensor),
        }
    }
}

/// An operation of candle's whose result is there already.
struct Made {
    op: &'static str,
    result: Mutex<Option<Storage>>,
    shape: Shape,
}

impl Made {
    fn take(&self) -> Result<Storage> {
        let mut result = self.result.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        result.take().ok_or_else(|| candle_core::Error::Msg(format!("{} is not computed again", self.op)))
    }
}

impl CustomOp1 for Made {
    fn name(&self) -> &'static str {
        self.op
    }
    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        match self.take()? {
            Storage::Cpu(storage) => Ok((storage, self.shape.clone())),
            _ => Err(candle_core::Error::Msg(format!("{} was not computed on the CPU", self.op))),
        }
    }
    fn cuda_fwd(&self, _: &CudaStorage, _: &Layout) -> Result<(CudaStorage, Shape)> {
        match self.take()? {
            Storage::Cuda(storage) => Ok((storage, self.shape.clone())),
            _ => Err(candle_core::Error::Msg(format!("{} was not computed on a GPU", self.op))),
        }
    }
}
