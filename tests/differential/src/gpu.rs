//! Cases on a GPU, through the driver.

use std::ffi::{CString, c_void};
use std::mem::zeroed;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{self, CUresult};
use tilewright_emulator::{DataType, Fill, Im2col, Swizzle, TensorMap};

use crate::case::{Case, Group, layout};
use crate::emulated::Outcome;

/// How long a launch may take before it is taken for one that never ends.
const PATIENCE: Duration = Duration::from_secs(5);

/// The first GPU.
#[derive(Debug)]
pub struct Gpu {
    device: sys::CUdevice,
}

/// Calls a function of the driver; an error names it.
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {
        match sys::$function($($argument),*) {
            CUresult::CUDA_SUCCESS => Ok(()),
            error => Err(format!("{}: {error:?}", stringify!($function))),
        }
    };
}

/// Memory of the GPU.
struct Memory(u64);

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated by the driver; nothing that is queued uses it any more.
        let _ = unsafe { sys::cuMemFree_v2(self.0) };
    }
}

// SAFETY of the calls: the driver is initialised and a context is current once `open` has returned, all handles are the
// driver's own, and what pointers point to lives through the call.
impl Gpu {
    /// The first GPU, if there is one with tensor cores of the kind that sm_90a kernels use.
    pub fn open() -> Result<Self, String> {
        // SAFETY: asks only whether the library can be loaded.
        if !unsafe { sys::is_culib_present() } {
            return Err("there is no CUDA driver".into());
        }
        let mut gpu = Self { device: 0 };
        let (mut major, mut minor) = (0, 0);
        use sys::CUdevice_attribute as Attribute;
        // SAFETY: see above; these calls come first.
        unsafe {
            call!(cuInit(0))?;
            call!(cuDeviceGet(&mut gpu.device, 0))?;
            let of = Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
            call!(cuDeviceGetAttribute(&mut major, of, gpu.device))?;
            let of = Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
            call!(cuDeviceGetAttribute(&mut minor, of, gpu.device))?;
        }
        if (major, minor) != (9, 0) {
            return Err(format!("the GPU has compute capability {major}.{minor}, where 9.0 is needed"));
        }
        gpu.enter()?;
        Ok(gpu)
    }

    /// Makes the GPU's context, and the thread's current one.
    fn enter(&self) -> Result<(), String> {
        let mut context = std::ptr::null_mut();
        // SAFETY: see above.
        unsafe {
            call!(cuDevicePrimaryCtxRetain(&mut context, self.device))?;
            call!(cuCtxSetCurrent(context))
        }
    }

    /// Runs the cases of a group, to the first that faults: then nothing works in this process any more.
    pub fn run(&self, group: &Group) -> Vec<Outcome> {
        // Another thread may have made the GPU ready.
        let module = match self.enter().and_then(|()| load(group)) {
            Ok(module) => module,
            Err(error) => return group.cases.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut outcomes = Vec::new();
        for case in &group.cases {
            outcomes.push(launch(module, case));
            if self.is_lost() {
                return outcomes;
            }
        }
        // SAFETY: see above; its launches are over.
        let _ = unsafe { sys::cuModuleUnload(module) };
        outcomes
    }

    /// Whether a kernel has faulted.
    pub fn is_lost(&self) -> bool {
        // SAFETY: see above.
        unsafe { sys::cuCtxSynchronize() != CUresult::CUDA_SUCCESS }
    }
}

fn load(group: &Group) -> Result<sys::CUmodule, String> {
    let text = CString::new(group.ptx.as_str()).map_err(|error| error.to_string())?;
    use sys::CUjit_option as Option;
    let mut log = vec![0u8; 8 << 10];
    let mut options = [
        Option::CU_JIT_ERROR_LOG_BUFFER,
        Option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        Option::CU_JIT_OPTIMIZATION_LEVEL,
    ];
    let size: *mut c_void = std::ptr::without_provenance_mut(log.len());
    let level: *mut c_void = std::ptr::without_provenance_mut(if group.optimised { 4 } else { 0 });
    let mut values = [log.as_mut_ptr().cast(), size, level];
    let mut module = std::ptr::null_mut();
    // SAFETY: the text ends with a zero, and each option has a value of the kind that it asks for.
    let result = unsafe {
        let count = options.len() as u32;
        let text = text.as_ptr().cast();
        call!(cuModuleLoadDataEx(&mut module, text, count, options.as_mut_ptr(), values.as_mut_ptr()))
    };
    result.map(|()| module).map_err(|error| {
        let log = log.split(|&byte| byte == 0).next().unwrap_or(&[]);
        format!("{error}\n{}", String::from_utf8_lossy(log))
    })
}

fn launch(module: sys::CUmodule, case: &Case) -> Outcome {
    let name = CString::new(case.kernel.as_str()).map_err(|error| error.to_string())?;
    let mut memories = Vec::new();
    let mut function = std::ptr::null_mut();
    // SAFETY: see above.
    unsafe {
        call!(cuModuleGetFunction(&mut function, module, name.as_ptr()))?;
        let most = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        if case.launch.dynamic_shared > 48 << 10 {
            call!(cuFuncSetAttribute(function, most, case.launch.dynamic_shared as i32))?;
        }
        for bytes in case.memories() {
            let mut address = 0;
            call!(cuMemAlloc_v2(&mut address, bytes.len().max(1)))?;
            memories.push(Memory(address));
            call!(cuMemcpyHtoD_v2(address, bytes.as_ptr().cast(), bytes.len()))?;
        }
    }
    let addresses: Vec<_> = memories.iter().map(|memory| memory.0).collect();
    let mut block = case.parameters(&addresses, encode)?;
    let (offsets, _) = layout(&case.arguments);
    let mut parameters: Vec<*mut c_void> =
        offsets.iter().map(|&offset| block[offset..].as_mut_ptr().cast()).collect();
    let [threads, grid, cluster] = [case.launch.threads, case.launch.grid, case.launch.cluster];
    // SAFETY: plain data, for which zeros are a value.
    let mut attribute: sys::CUlaunchAttribute = unsafe { zeroed() };
    attribute.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    (attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z) =
        cluster.into();
    let config = sys::CUlaunchConfig {
        gridDimX: grid[0],
        gridDimY: grid[1],
        gridDimZ: grid[2],
        blockDimX: threads[0],
        blockDimY: threads[1],
        blockDimZ: threads[2],
        sharedMemBytes: case.launch.dynamic_shared,
        hStream: std::ptr::null_mut(),
        attrs: &mut attribute,
        numAttrs: u32::from(cluster != [1, 1, 1]),
    };
    // SAFETY: see above.
    unsafe { call!(cuLaunchKernelEx(&config, function, parameters.as_mut_ptr(), std::ptr::null_mut()))? };
    wait(&case.name)?;
    let mut result = Vec::new();
    for (bytes, memory) in case.memories().zip(&memories) {
        let start = result.len();
        result.resize(start + bytes.len(), 0);
        // SAFETY: see above; the result has as many bytes as the memory.
        unsafe { call!(cuMemcpyDtoH_v2(result[start..].as_mut_ptr().cast(), memory.0, bytes.len()))? };
    }
    Ok(result)
}

/// Waits for the launch of the case of this name.
fn wait(name: &str) -> Result<(), String> {
    let start = Instant::now();
    loop {
        // SAFETY: see above; the null stream is the launch's.
        match unsafe { sys::cuStreamQuery(std::ptr::null_mut()) } {
            CUresult::CUDA_SUCCESS => return Ok(()),
            CUresult::CUDA_ERROR_NOT_READY if start.elapsed() < PATIENCE => std::thread::yield_now(),
            CUresult::CUDA_ERROR_NOT_READY => {
                // Nothing but the end of the process stops a kernel that does not end.
                eprintln!("{name}: the kernel has not ended after {PATIENCE:?}");
                std::process::exit(1);
            }
            error => return Err(format!("the kernel failed: {error:?}")),
        }
    }
}

fn encode(map: &TensorMap) -> Result<[u64; 16], String> {
    use sys::CUtensorMapDataType as Type;
    use sys::CUtensorMapFloatOOBfill as OobFill;
    use sys::CUtensorMapSwizzle as Swizzled;
    let data = match map.data {
        DataType::U8 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        DataType::U16 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        DataType::U32 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        DataType::I32 => Type::CU_TENSOR_MAP_DATA_TYPE_INT32,
        DataType::U64 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT64,
        DataType::I64 => Type::CU_TENSOR_MAP_DATA_TYPE_INT64,
        DataType::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        DataType::F32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        DataType::F64 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        DataType::Bf16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    };
    let swizzle = match map.swizzle {
        Swizzle::None => Swizzled::CU_TENSOR_MAP_SWIZZLE_NONE,
        Swizzle::B32 => Swizzled::CU_TENSOR_MAP_SWIZZLE_32B,
        Swizzle::B64 => Swizzled::CU_TENSOR_MAP_SWIZZLE_64B,
        Swizzle::B128 => Swizzled::CU_TENSOR_MAP_SWIZZLE_128B,
    };
    let fill = match map.fill {
        Fill::Zero => OobFill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        Fill::Nan => OobFill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
    };
    let mut encoded = sys::CUtensorMap { opaque: [0; 16] };
    let (rank, address) = (map.rank as u32, std::ptr::without_provenance_mut(map.address as usize));
    let interleave = sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE;
    let promotion = sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE;
    let (shape, strides) = (map.shape.as_ptr(), map.strides.as_ptr());
    let steps = map.steps.as_ptr();
    // SAFETY: the arrays have at least as many entries as the rank, those of corners two less; the address is only written into the map.
    unsafe {
        match map.im2col {
            None => call!(cuTensorMapEncodeTiled(
                &mut encoded,
                data,
                rank,
                address,
                shape,
                strides,
                map.tile.as_ptr(),
                steps,
                interleave,
                swizzle,
                promotion,
                fill,
            ))?,
            Some(Im2col { lower, upper }) => call!(cuTensorMapEncodeIm2col(
                &mut encoded,
                data,
                rank,
                address,
                shape,
                strides,
                lower.map(i32::from).as_ptr(),
                upper.map(i32::from).as_ptr(),
                map.tile[0],
                map.tile[1],
                steps,
                interleave,
                swizzle,
                promotion,
                fill,
            ))?,
        }
    }
    Ok(encoded.opaque)
}
