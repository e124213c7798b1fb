//! The driver's library: whether it is there, and what its results mean.

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

use cudarc::driver::sys;
use libloading::Library;

use crate::{Error, Result};

/// The driver must support this version of CUDA: the first with tensor maps.
const OLDEST: (u32, u32) = (12, 0);

const STUB: &str = "the library of that name is a stub, which is there to link programs with";

/// Calls a function of the driver; its result becomes a [`Result`] with the call's name.
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {
        $crate::backend::cuda::driver::check(stringify!($function), cudarc::driver::sys::$function($($argument),*))
    };
}
pub(super) use call;

pub(super) fn check(call: &'static str, result: sys::CUresult) -> Result<()> {
    match result {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        error => Err(describe(call, error)),
    }
}

#[cold]
fn describe(call: &'static str, error: sys::CUresult) -> Error {
    let text = |get: unsafe fn(sys::CUresult, *mut *const c_char) -> sys::CUresult| {
        let mut text = std::ptr::null();
        // SAFETY: the driver sets `text` to a string of its own, or leaves it null.
        let text = unsafe {
            get(error, &mut text);
            (!text.is_null()).then(|| CStr::from_ptr(text))
        };
        text.map_or_else(|| "unknown error".into(), |text| text.to_string_lossy().into_owned())
    };
    Error::Driver {
        call,
        code: error as u32,
        name: text(sys::cuGetErrorName),
        message: text(sys::cuGetErrorString),
    }
}

/// The driver's library. cudarc loads it too, but panics where it is missing.
fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    let names: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };
    // SAFETY: the driver's library may be loaded at any time; its initialisers ask nothing of the caller.
    LIBRARY.get_or_init(|| names.iter().find_map(|name| unsafe { Library::new(*name) }.ok())).as_ref()
}

/// Starts the driver, once; gives the version of CUDA that it supports.
pub(super) fn start() -> Result<(u32, u32)> {
    static STARTED: OnceLock<Result<(u32, u32)>> = OnceLock::new();
    STARTED.get_or_init(try_start).clone()
}

fn try_start() -> Result<(u32, u32)> {
    let no_driver = |reason: String| Error::NoDriver { reason };
    let unusable = |reason: String| Error::UnusableDriver { reason };
    if library().is_none() {
        let name = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };
        return Err(no_driver(format!("{name}, which NVIDIA's driver installs, could not be loaded")));
    }
    let mut version = 0;
    // SAFETY: the library is there, and this call needs no initialisation.
    match unsafe { sys::cuDriverGetVersion(&mut version) } {
        sys::CUresult::CUDA_SUCCESS => {}
        sys::CUresult::CUDA_ERROR_STUB_LIBRARY => {
            return Err(no_driver(STUB.into()));
        }
        error => return Err(unusable(describe("cuDriverGetVersion", error).to_string())),
    }
    let version = version.unsigned_abs();
    let version = (version / 1000, version % 1000 / 10);
    if version < OLDEST {
        let ((major, minor), (least, least_minor)) = (version, OLDEST);
        let reason =
            format!("it supports CUDA {major}.{minor}, and {least}.{least_minor} or later is needed");
        return Err(unusable(reason));
    }
    // SAFETY: the library is there.
    match unsafe { sys::cuInit(0) } {
        sys::CUresult::CUDA_SUCCESS => Ok(version),
        sys::CUresult::CUDA_ERROR_NO_DEVICE => {
            Err(Error::NoDevice { ordinal: 0, reason: "the driver sees no GPU".into() })
        }
        sys::CUresult::CUDA_ERROR_STUB_LIBRARY => Err(no_driver(STUB.into())),
        error => Err(unusable(describe("cuInit", error).to_string())),
    }
}

/// `cuEventElapsedTime`, by name: cudarc has it under one or the other of its names, depending on the version of CUDA
/// that it is configured for.
pub(super) fn elapsed_ms(from: sys::CUevent, to: sys::CUevent) -> Result<f32> {
    type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;
    let symbol = library().and_then(|library| {
        // SAFETY: every version of the function has this type.
        unsafe { library.get::<Elapsed>(c"cuEventElapsedTime").ok() }
    });
    let Some(elapsed) = symbol else {
        return Err(Error::UnusableDriver { reason: "its library lacks cuEventElapsedTime".into() });
    };
    let mut ms = 0.0;
    // SAFETY: both are events of this driver.
    check("cuEventElapsedTime", unsafe { elapsed(&mut ms, from, to) })?;
    Ok(ms)
}
