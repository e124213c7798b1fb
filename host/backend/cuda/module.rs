//! Loading kernels: the driver compiles their PTX for its GPU.

use std::ffi::{CString, c_void};

use cudarc::driver::sys;

use super::driver::{self, call};
use super::launch::{Attributes, config};
use super::version;
use crate::backend::{FunctionId, KernelSource, LaunchConfig, Loaded, Properties, StreamId};
use crate::{Error, Result};

/// Dynamic shared memory that every kernel may have without asking.
const SHARED_BY_DEFAULT: u32 = 48 << 10;
/// CTAs of a cluster that every GPU with clusters can run.
const PORTABLE_CLUSTER: u32 = 8;

/// Loads a kernel into the current context.
pub(super) fn load(kernel: &KernelSource<'_>, device: &Properties) -> Result<Loaded> {
    let damaged =
        |_| Error::KernelLoad { kernel: kernel.name, reason: "its PTX or name contains a zero byte".into() };
    let text = CString::new(kernel.ptx).map_err(damaged)?;
    let name = CString::new(kernel.name).map_err(damaged)?;

    // Loading is fine for a stream that is being captured, but the driver must be told that one knows.
    let _relaxed = Relaxed::enter()?;
    let module = compile(kernel.name, &text, device.driver_version)?;
    let mut function = std::ptr::null_mut();
    // SAFETY: the module is loaded and stays so; the name ends with a zero.
    unsafe { call!(cuModuleGetFunction(&mut function, module, name.as_ptr())) }?;
    allow(function, kernel)?;
    measure(function, kernel, device.sm_count)
}

fn compile(kernel: &'static str, text: &CString, driver: (u32, u32)) -> Result<sys::CUmodule> {
    use sys::CUjit_option as Option;
    let mut log = vec![0u8; 8 << 10];
    let mut options = [Option::CU_JIT_ERROR_LOG_BUFFER, Option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let size: *mut c_void = std::ptr::without_provenance_mut(log.len());
    let mut values = [log.as_mut_ptr().cast(), size];
    let mut module = std::ptr::null_mut();
    // SAFETY: the text ends with a zero, and each option has a value of the kind that it asks for.
    let result = unsafe {
        sys::cuModuleLoadDataEx(
            &mut module,
            text.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    if result == sys::CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
        && let Some(ptx) = version::of(text.as_bytes())
    {
        return Err(Error::KernelLoad { kernel, reason: version::too_new(ptx, driver) });
    }
    driver::check("cuModuleLoadDataEx", result).map(|()| module).map_err(|error| {
        let log =
            String::from_utf8_lossy(log.split(|&byte| byte == 0).next().unwrap_or(&[])).trim().to_owned();
        let reason = if log.is_empty() { error.to_string() } else { format!("{error}\n{log}") };
        Error::KernelLoad { kernel, reason }
    })
}

/// Allows what a kernel needs beyond the default.
fn allow(function: sys::CUfunction, kernel: &KernelSource<'_>) -> Result<()> {
    use sys::CUfunction_attribute as Attribute;
    let set = |attribute: Attribute, value: i32| {
        // SAFETY: the function is loaded.
        unsafe { call!(cuFuncSetAttribute(function, attribute, value)) }
    };
    if kernel.shared_bytes > SHARED_BY_DEFAULT {
        let bytes = i32::try_from(kernel.shared_bytes).unwrap_or(i32::MAX);
        set(Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes)?;
    }
    if kernel.cluster.iter().product::<u32>() > PORTABLE_CLUSTER {
        set(Attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)?;
    }
    Ok(())
}

fn measure(function: sys::CUfunction, kernel: &KernelSource<'_>, sm_count: u32) -> Result<Loaded> {
    use sys::CUfunction_attribute as Attribute;
    let get = |attribute: Attribute| -> Result<u32> {
        let mut value = 0;
        // SAFETY: the function is loaded.
        unsafe { call!(cuFuncGetAttribute(&mut value, attribute, function)) }?;
        Ok(value.unsigned_abs())
    };
    let mut ctas = 0;
    let (threads, shared) = (kernel.threads as i32, kernel.shared_bytes as usize);
    // SAFETY: the function is loaded.
    unsafe { call!(cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut ctas, function, threads, shared)) }?;
    let ctas_per_sm = ctas.unsigned_abs();

    let clusters = if kernel.cluster == [1, 1, 1] {
        ctas_per_sm * sm_count
    } else {
        let [x, y, z] = kernel.cluster;
        let launch = LaunchConfig {
            function: FunctionId(function.addr()),
            stream: StreamId(0),
            grid: [x.saturating_mul(sm_count), y, z],
            threads: kernel.threads,
            cluster: kernel.cluster,
            shared_bytes: kernel.shared_bytes,
            overlap_previous: false,
        };
        let mut attributes = Attributes::of(&launch);
        let mut clusters = 0;
        let config = config(&launch, &mut attributes);
        // SAFETY: the function is loaded, and the configuration with its attributes lives through the call.
        unsafe { call!(cuOccupancyMaxActiveClusters(&mut clusters, function, &config)) }?;
        clusters.unsigned_abs()
    };
    Ok(Loaded {
        function: FunctionId(function.addr()),
        shared_bytes: kernel.shared_bytes,
        registers: get(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
        local_bytes: get(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
        ctas_per_sm,
        clusters,
    })
}

/// While it lives, this thread may make calls that would break the capture of a stream that depended on them.
struct Relaxed {
    mode: sys::CUstreamCaptureMode,
}

impl Relaxed {
    fn enter() -> Result<Self> {
        let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the driver exchanges the value.
        unsafe { call!(cuThreadExchangeStreamCaptureMode(&mut mode)) }?;
        Ok(Self { mode })
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // SAFETY: as above.
        let _ = unsafe { call!(cuThreadExchangeStreamCaptureMode(&mut self.mode)) };
    }
}
