//! Collectives of GPUs: NCCL's.

use std::ffi::{CStr, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use cudarc::nccl::sys;

use super::transport::{Collective, Kind, Share, Transport};
use crate::{DType, Device, Error, Result, Stream};

/// A rank's communicators of NCCL's.
#[derive(Debug)]
struct Rank {
    device: Device,
    /// Of [`Share::Alone`] and of [`Share::Beside`].
    comms: Mutex<[Comm; 2]>,
}

/// A communicator, which a rank destroys with itself. Work that is queued then goes on to its end.
#[derive(Debug)]
struct Comm(sys::ncclComm_t);

// SAFETY: NCCL's communicators may be used from every thread, by one at a time.
unsafe impl Send for Comm {}

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

/// An end for each GPU.
pub(super) fn all(devices: &[Device], ctas: u32) -> Result<Vec<Box<dyn Transport>>> {
    // SAFETY: loading NCCL runs no code but its initialisation.
    if !unsafe { sys::is_culib_present() } {
        let reason = "the loader finds no libnccl.so; where there is a libnccl.so.2 alone, a link to it by that name is enough";
        return Err(Error::NoNccl { reason: reason.into() });
    }
    let alone = comms(devices, None)?;
    let beside = comms(devices, Some(c_int::try_from(ctas).unwrap_or(c_int::MAX)))?;
    let pairs = alone.into_iter().zip(beside).map(|(alone, beside)| Mutex::new([alone, beside]));
    let rank = |(device, comms): (&Device, _)| Box::new(Rank { device: device.clone(), comms }) as _;
    Ok(devices.iter().zip(pairs).map(rank).collect())
}

/// A communicator for each GPU, whose kernels have so many CTAs at most.
fn comms(devices: &[Device], ctas: Option<c_int>) -> Result<Vec<Comm>> {
    let ranks = c_int::try_from(devices.len()).unwrap_or(c_int::MAX);
    let (mut version, mut id) = (0, sys::ncclUniqueId { internal: [0; 128] });
    let mut handles = vec![std::ptr::null_mut(); devices.len()];
    // SAFETY: the library is there; NCCL writes the version and the id; the handles and the configuration outlive the group's end, at which
    // they are written.
    unsafe {
        call!(ncclGetVersion(&mut version))?;
        call!(ncclGetUniqueId(&mut id))?;
        let mut config = config(version.cast_unsigned(), ctas);
        call!(ncclGroupStart())?;
        let mut begun = Ok(());
        for (rank, (device, handle)) in (0..).zip(devices.iter().zip(&mut handles)) {
            let mut init = || begun = call!(ncclCommInitRankConfig(handle, ranks, id, rank, &mut config));
            device.backend().within(&mut init)?;
            begun.clone()?;
        }
        call!(ncclGroupEnd())?;
    }
    Ok(handles.into_iter().map(Comm).collect())
}

/// NCCL's configuration with all left to it but how many CTAs a kernel has (NCCL_CONFIG_INITIALIZER).
fn config(version: u32, ctas: Option<c_int>) -> sys::ncclConfig_t {
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
    if let Some(ctas) = ctas {
        config.minCTAs = ctas;
        config.maxCTAs = ctas;
    }
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
    unsafe fn queue(
        &self,
        what: Collective,
        share: Share,
        from: u64,
        to: u64,
        stream: &Stream,
    ) -> Result<()> {
        let Collective { kind, dtype: of, count } = what;
        let (dtype, sum, stream) = (dtype(of)?, sys::ncclRedOp_t::ncclSum, stream.raw().cast());
        let from = std::ptr::without_provenance::<c_void>(from as usize);
        let to = std::ptr::without_provenance_mut::<c_void>(to as usize);
        let [alone, beside] = &*self.comms.lock().unwrap_or_else(PoisonError::into_inner);
        let Comm(comm) = if share == Share::Alone { alone } else { beside };
        let (comm, mut queued) = (*comm, Ok(()));
        // SAFETY: the communicator is this call's alone while they are locked; memory and stream are promised by the caller.
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
}

impl Drop for Rank {
    fn drop(&mut self) {
        let comms = self.comms.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: nobody else has the handles.
        let mut destroy =
            || comms.iter().for_each(|Comm(comm)| drop(unsafe { call!(ncclCommDestroy(*comm)) }));
        // An error now is one of a device that is gone.
        let _ = self.device.backend().within(&mut destroy);
    }
}
