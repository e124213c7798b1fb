//! Collectives of GPUs: NCCL's.

use std::ffi::{CStr, c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::nccl::sys;

use super::transport::{Collective, Kind, Transport};
use crate::{DType, Device, Error, Result, Stream};

/// A rank's communicator of NCCL's.
#[derive(Debug)]
struct Rank {
    device: Device,
    /// None when it was aborted.
    handle: Mutex<Option<Handle>>,
}

#[derive(Clone, Copy, Debug)]
struct Handle(sys::ncclComm_t);

// SAFETY: NCCL's communicators may be used from every thread, by one at a time.
unsafe impl Send for Handle {}

/// Calls a function of NCCL's, and makes an error of its result.
macro_rules! call {
    ($name:ident($($argument:expr),*)) => { check(stringify!($name), sys::$name($($argument),*)) };
}

fn check(call: &'static str, result: sys::ncclResult_t) -> Result<()> {
    match result {
        sys::ncclResult_t::ncclSuccess | sys::ncclResult_t::ncclInProgress => Ok(()),
        other => {
            // SAFETY: NCCL's texts are constants that end with a zero.
            let reason = unsafe { CStr::from_ptr(sys::ncclGetErrorString(other)) };
            Err(Error::Nccl { call, reason: reason.to_string_lossy().into_owned() })
        }
    }
}

/// A communicator for each GPU.
pub(super) fn all(devices: &[Device], ctas: u32) -> Result<Vec<Arc<dyn Transport + Sync>>> {
    // SAFETY: loading NCCL runs no code but its initialisation.
    if !unsafe { sys::is_culib_present() } {
        let reason = "the loader finds no libnccl.so; where there is a libnccl.so.2 alone, a link to it by that name is enough";
        return Err(Error::NoNccl { reason: reason.into() });
    }
    let mut version = 0;
    // SAFETY: the library is there.
    unsafe { call!(ncclGetVersion(&mut version)) }?;
    let ranks = c_int::try_from(devices.len()).unwrap_or(c_int::MAX);
    let mut id = sys::ncclUniqueId { internal: [0; 128] };
    let mut handles = vec![std::ptr::null_mut(); devices.len()];
    // SAFETY: NCCL writes the id; the handles and the configuration outlive the group's end, at which they are written.
    unsafe {
        call!(ncclGetUniqueId(&mut id))?;
        let mut config = config(version.cast_unsigned(), c_int::try_from(ctas).unwrap_or(c_int::MAX));
        call!(ncclGroupStart())?;
        let mut begun = Ok(());
        for (rank, (device, handle)) in (0..).zip(devices.iter().zip(&mut handles)) {
            let mut init = || begun = call!(ncclCommInitRankConfig(handle, ranks, id, rank, &mut config));
            device.backend().within(&mut init)?;
            begun.clone()?;
        }
        call!(ncclGroupEnd())?;
    }
    let rank = |(device, handle): (&Device, sys::ncclComm_t)| {
        Arc::new(Rank { device: device.clone(), handle: Mutex::new(Some(Handle(handle))) }) as _
    };
    Ok(devices.iter().zip(handles).map(rank).collect())
}

/// NCCL's configuration with all left to it but how many CTAs a kernel has (NCCL_CONFIG_INITIALIZER).
fn config(version: u32, ctas: c_int) -> sys::ncclConfig_t {
    const UNDEFINED: c_int = c_int::MIN;
    const MAGIC: u32 = 0xcafe_beef;
    // SAFETY: a structure of integers and pointers, for which zeros are values.
    let mut config: sys::ncclConfig_t = unsafe { std::mem::zeroed() };
    let words = size_of::<sys::ncclConfig_t>() / size_of::<c_int>();
    // SAFETY: it is aligned to integers and has as many; pointers are set below.
    let all = unsafe { std::slice::from_raw_parts_mut((&raw mut config).cast::<c_int>(), words) };
    all.fill(UNDEFINED);
    config.size = size_of::<sys::ncclConfig_t>();
    config.magic = MAGIC;
    config.version = version;
    config.netName = std::ptr::null();
    config.commName = std::ptr::null();
    config.maxCTAs = ctas;
    config
}

fn dtype(of: DType) -> Result<sys::ncclDataType_t> {
    match of {
        DType::F16 => Ok(sys::ncclDataType_t::ncclFloat16),
        DType::BF16 => Ok(sys::ncclDataType_t::ncclBfloat16),
        DType::F32 => Ok(sys::ncclDataType_t::ncclFloat32),
        other => Err(Error::argument("x", format!("of {other}"), "of f16, bf16 or f32")),
    }
}

impl Transport for Rank {
    unsafe fn queue(&self, what: Collective, from: u64, to: u64, stream: &Stream) -> Result<()> {
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Handle(comm)) = *handle else {
            return Err(Error::Nccl { call: "a collective", reason: "the communicator was aborted".into() });
        };
        let Collective { kind, dtype: of, count } = what;
        let (dtype, sum, stream) = (dtype(of)?, sys::ncclRedOp_t::ncclSum, stream.raw().cast());
        let from = std::ptr::without_provenance::<c_void>(from as usize);
        let to = std::ptr::without_provenance_mut::<c_void>(to as usize);
        let mut queued = Ok(());
        // SAFETY: the communicator is not aborted while it is locked; memory and stream are promised by the caller.
        let mut queue = || unsafe {
            queued = match kind {
                Kind::AllReduce => call!(ncclAllReduce(from, to, count, dtype, sum, comm, stream)),
                Kind::ReduceScatter => call!(ncclReduceScatter(from, to, count, dtype, sum, comm, stream)),
                Kind::AllGather => call!(ncclAllGather(from, to, count, dtype, comm, stream)),
            };
        };
        self.device.backend().within(&mut queue)?;
        queued
    }

    fn abort(&self) {
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Handle(comm)) = handle {
            // SAFETY: nobody else has the handle from now on. What the kernels wrote is of no use, and the caller is told.
            let mut abort = || drop(unsafe { call!(ncclCommAbort(comm)) });
            let _ = self.device.backend().within(&mut abort);
        }
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let handle = self.handle.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Handle(comm)) = handle {
            // SAFETY: as in `abort`. Work that is queued goes on to its end.
            let mut destroy = || drop(unsafe { call!(ncclCommDestroy(comm)) });
            let _ = self.device.backend().within(&mut destroy);
        }
    }
}
