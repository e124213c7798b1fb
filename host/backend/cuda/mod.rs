//! NVIDIA GPUs through the CUDA driver, which is loaded at run time.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::sys;
use tilewright_device::abi::TensorMap;

use super::{
    Backend, EventId, GraphId, KernelSource, LaunchConfig, Loaded, Properties, Residence, StreamId,
    TensorMapShape,
};
use crate::{Device, Error, Result};

mod context;
mod driver;
mod launch;
mod module;
mod tensor_map;
mod version;

use context::{Context, Current, Relaxed};
use driver::call;

/// A GPU.
#[derive(Debug)]
struct Cuda {
    context: Context,
    properties: Properties,
}

/// The device of this number, always the same one.
pub(crate) fn device(ordinal: usize) -> Result<Device> {
    static DEVICES: Mutex<Vec<(usize, Device)>> = Mutex::new(Vec::new());
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, device)) = devices.iter().find(|(number, _)| *number == ordinal) {
        return Ok(device.clone());
    }
    let (context, properties) = Context::primary(ordinal)?;
    let device = Device::new(Box::new(Cuda { context, properties }));
    devices.push((ordinal, device.clone()));
    Ok(device)
}

impl Cuda {
    fn enter(&self) -> Result<Current> {
        self.context.enter()
    }
}

fn stream(id: StreamId) -> sys::CUstream {
    std::ptr::without_provenance_mut(id.0)
}
fn event(id: EventId) -> sys::CUevent {
    std::ptr::without_provenance_mut(id.0)
}
fn graph(id: GraphId) -> sys::CUgraphExec {
    std::ptr::without_provenance_mut(id.0)
}

// SAFETY of the calls below, where nothing else is said: the context is current while `_current` lives, the handles
// are live ones of this context (see `Backend`), and references passed as pointers outlive the call.
impl Backend for Cuda {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn synchronize(&self) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: see above.
        unsafe { call!(cuCtxSynchronize()) }
    }

    fn free_memory(&self) -> Result<usize> {
        let _current = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: see above.
        unsafe { call!(cuMemGetInfo_v2(&mut free, &mut total)) }?;
        Ok(free)
    }

    fn allocate(&self, bytes: usize) -> Result<u64> {
        let _current = self.enter()?;
        let mut address = 0;
        // SAFETY: see above.
        match unsafe { sys::cuMemAlloc_v2(&mut address, bytes) } {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Err(Error::OutOfMemory {
                requested: bytes,
                free: self.free_memory().unwrap_or(0),
                total: self.properties.total_memory,
            }),
            result => driver::check("cuMemAlloc", result).map(|()| address),
        }
    }

    fn free(&self, address: u64) {
        // An error here is one of earlier work, or of a context that is gone; the next call reports it.
        let Ok(_current) = self.enter() else { return };
        let _relaxed = Relaxed::enter();
        // SAFETY: `cuMemFree` waits for the work that may use the memory.
        let _ = unsafe { call!(cuMemFree_v2(address)) };
    }

    fn residence(&self, address: u64) -> Result<Residence> {
        use sys::CUpointer_attribute as Attribute;
        let _current = self.enter()?;
        let mut context: sys::CUcontext = std::ptr::null_mut();
        let (mut kind, mut ordinal, mut start, mut size) = (0u32, 0i32, 0u64, 0usize);
        let mut attributes = [
            Attribute::CU_POINTER_ATTRIBUTE_CONTEXT,
            Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
            Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        ];
        let mut values: [*mut c_void; 5] = [
            (&raw mut context).cast(),
            (&raw mut kind).cast(),
            (&raw mut ordinal).cast(),
            (&raw mut start).cast(),
            (&raw mut size).cast(),
        ];
        let count = attributes.len() as u32;
        // SAFETY: see above; each value has the type of its attribute.
        unsafe {
            call!(cuPointerGetAttributes(count, attributes.as_mut_ptr(), values.as_mut_ptr(), address))
        }?;

        const HOST: u32 = sys::CUmemorytype::CU_MEMORYTYPE_HOST as u32;
        let ours = self.context.is(context);
        Ok(match kind {
            0 => Residence::Unknown,
            // Page-locked host memory: every GPU reads it.
            HOST => Residence::Here { end: u64::MAX },
            _ if usize::try_from(ordinal) != Ok(self.context.ordinal) => {
                Residence::Elsewhere(format!("cuda:{ordinal}"))
            }
            _ if !ours && !context.is_null() => {
                Residence::Elsewhere(format!("another context of cuda:{ordinal} than its primary one"))
            }
            // Memory that is mapped piece by piece belongs to no context, and its range is but one of the pieces.
            _ => Residence::Here { end: if ours { start.saturating_add(size as u64) } else { u64::MAX } },
        })
    }

    unsafe fn upload(&self, to: StreamId, address: u64, from: *const c_void, bytes: usize) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller vouches for the ranges; for the rest see above.
        unsafe { call!(cuMemcpyHtoDAsync_v2(address, from, bytes, stream(to))) }
    }

    unsafe fn download(&self, on: StreamId, from: u64, to: *mut c_void, bytes: usize) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller vouches for the ranges; for the rest see above.
        unsafe { call!(cuMemcpyDtoHAsync_v2(to, from, bytes, stream(on))) }
    }

    unsafe fn copy(&self, on: StreamId, to: u64, from: u64, bytes: usize) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller vouches for the ranges; for the rest see above.
        unsafe { call!(cuMemcpyDtoDAsync_v2(to, from, bytes, stream(on))) }
    }

    unsafe fn fill(&self, on: StreamId, to: u64, value: u64, width: usize, count: usize) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller vouches for the range; for the rest see above.
        unsafe {
            match width {
                1 => call!(cuMemsetD8Async(to, value as u8, count, stream(on))),
                2 => call!(cuMemsetD16Async(to, value as u16, count, stream(on))),
                4 => call!(cuMemsetD32Async(to, value as u32, count, stream(on))),
                // One word of each element after the other: the driver sets no more at a time.
                _ => [value as u32, (value >> 32) as u32].into_iter().zip([to, to + 4]).try_for_each(
                    |(word, to)| call!(cuMemsetD2D32Async(to, width, word, 1, count, stream(on))),
                ),
            }
        }
    }

    #[cfg(feature = "nccl")]
    fn within(&self, call: &mut dyn FnMut()) -> Result<()> {
        let _current = self.enter()?;
        call();
        Ok(())
    }

    fn create_stream(&self, urgent: bool) -> Result<StreamId> {
        let _current = self.enter()?;
        let mut handle = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // The driver takes the nearest priority that there is.
        let priority = if urgent { i32::MIN } else { 0 };
        // SAFETY: see above.
        unsafe { call!(cuStreamCreateWithPriority(&mut handle, flags, priority)) }?;
        Ok(StreamId(handle.addr()))
    }

    fn destroy_stream(&self, id: StreamId) {
        let Ok(_current) = self.enter() else { return };
        // SAFETY: see above; work still queued goes on.
        let _ = unsafe { call!(cuStreamDestroy_v2(stream(id))) };
    }

    fn check_stream(&self, id: StreamId) -> Result<()> {
        let _current = self.enter()?;
        let mut context = std::ptr::null_mut();
        // SAFETY: `Stream::from_raw`'s caller vouches for the handle; for the rest see above.
        unsafe { call!(cuStreamGetCtx(stream(id), &mut context)) }?;
        if self.context.is(context) {
            return Ok(());
        }
        Err(Error::WrongDevice {
            argument: "handle".into(),
            was: "another context".into(),
            expected: format!("the primary context of {}", self.properties.label),
        })
    }

    fn synchronize_stream(&self, id: StreamId) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: see above.
        unsafe { call!(cuStreamSynchronize(stream(id))) }
    }

    fn create_event(&self) -> Result<EventId> {
        let _current = self.enter()?;
        let mut handle = std::ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DEFAULT as u32;
        // SAFETY: see above.
        unsafe { call!(cuEventCreate(&mut handle, flags)) }?;
        Ok(EventId(handle.addr()))
    }

    fn destroy_event(&self, id: EventId) {
        let Ok(_current) = self.enter() else { return };
        // SAFETY: see above; the driver keeps an event that is still to come.
        let _ = unsafe { call!(cuEventDestroy_v2(event(id))) };
    }

    fn record(&self, id: EventId, on: StreamId) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: see above.
        unsafe { call!(cuEventRecord(event(id), stream(on))) }
    }

    fn wait(&self, on: StreamId, id: EventId) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: see above.
        unsafe { call!(cuStreamWaitEvent(stream(on), event(id), 0)) }
    }

    fn synchronize_event(&self, id: EventId) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: see above.
        unsafe { call!(cuEventSynchronize(event(id))) }
    }

    fn elapsed_ms(&self, from: EventId, to: EventId) -> Result<f32> {
        let _current = self.enter()?;
        driver::elapsed_ms(event(from), event(to))
    }

    fn begin_capture(&self, id: StreamId) -> Result<()> {
        let _current = self.enter()?;
        // Other threads may go on allocating.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: see above.
        unsafe { call!(cuStreamBeginCapture_v2(stream(id), mode)) }
    }

    fn is_captured(&self, id: StreamId) -> Result<bool> {
        let _current = self.enter()?;
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: see above.
        unsafe { call!(cuStreamIsCapturing(stream(id), &mut status)) }?;
        Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    fn end_capture(&self, id: StreamId) -> Result<(GraphId, usize)> {
        let _current = self.enter()?;
        let (mut recorded, mut runnable) = (std::ptr::null_mut(), std::ptr::null_mut());
        let mut nodes = 0;
        // SAFETY: see above; `recorded` is used only if the call before gave it.
        unsafe {
            call!(cuStreamEndCapture(stream(id), &mut recorded))?;
            let counted = call!(cuGraphGetNodes(recorded, std::ptr::null_mut(), &mut nodes));
            let made = counted.and_then(|()| call!(cuGraphInstantiateWithFlags(&mut runnable, recorded, 0)));
            let _ = call!(cuGraphDestroy(recorded));
            made?;
        }
        Ok((GraphId(runnable.addr()), nodes))
    }

    fn destroy_graph(&self, id: GraphId) {
        let Ok(_current) = self.enter() else { return };
        let _relaxed = Relaxed::enter();
        // SAFETY: see above; a launch that runs still goes on.
        let _ = unsafe { call!(cuGraphExecDestroy(graph(id))) };
    }

    unsafe fn launch_graph(&self, id: GraphId, on: StreamId) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller vouches for the memory; for the rest see above.
        unsafe { call!(cuGraphLaunch(graph(id), stream(on))) }
    }

    fn load(&self, kernel: KernelSource<'_>) -> Result<Loaded> {
        let _current = self.enter()?;
        module::load(&kernel, &self.properties)
    }

    fn encode(&self, shape: &TensorMapShape) -> Result<Option<TensorMap>> {
        if self.properties.capability < (9, 0) {
            return Ok(None);
        }
        let _current = self.enter()?;
        tensor_map::encode(shape)
    }

    unsafe fn launch(&self, config: &LaunchConfig, arguments: *const c_void, _bytes: usize) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the context is current; the caller vouches for the rest.
        unsafe { launch::launch(config, arguments) }
    }
}
