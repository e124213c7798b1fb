//! A kernel that does nothing: what a launch takes at least.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

use libloading::Library;

use tilewright::{Error, Stream};

use crate::Result;
use crate::foreign::driver;

type Handle = *mut c_void;

/// As kernels for Hopper do, it lets the next grid start and waits for the preceding one.
const PTX: &CStr = c".version 8.0\n.target sm_90\n.address_size 64\n\
    .visible .entry empty() { griddepcontrol.launch_dependents; griddepcontrol.wait; ret; }\n";

/// `CUlaunchAttribute`.
#[repr(C, align(8))]
struct Attribute {
    id: c_int,
    padding: c_int,
    value: [c_int; 16],
}

/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`, on.
const OVERLAPPED: Attribute =
    Attribute { id: 6, padding: 0, value: [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] };

/// `CUlaunchConfig`.
#[repr(C)]
struct Config {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: Handle,
    attributes: *const Attribute,
    count: c_uint,
}

/// The kernel, on GPU 0, which is Hopper or later.
pub struct EmptyKernel {
    driver: Library,
    function: Handle,
}

impl EmptyKernel {
    /// Loads it for as long as the program runs.
    pub fn new() -> Result<Self> {
        let driver = driver()?;
        let (mut context, mut module, mut function) = (null_mut(), null_mut(), null_mut());
        // SAFETY: these are the functions' types in every version of CUDA; pointers live through the calls. The context is the one that the library
        // uses, which nobody resets.
        unsafe {
            let retain = driver
                .get::<unsafe extern "C" fn(*mut Handle, c_int) -> c_int>(c"cuDevicePrimaryCtxRetain")?;
            let enter = driver.get::<unsafe extern "C" fn(Handle) -> c_int>(c"cuCtxPushCurrent_v2")?;
            let leave = driver.get::<unsafe extern "C" fn(*mut Handle) -> c_int>(c"cuCtxPopCurrent_v2")?;
            let load = driver
                .get::<unsafe extern "C" fn(*mut Handle, *const c_void) -> c_int>(c"cuModuleLoadData")?;
            let find = driver.get::<unsafe extern "C" fn(*mut Handle, Handle, *const c_char) -> c_int>(
                c"cuModuleGetFunction",
            )?;
            let results = [
                retain(&mut context, 0),
                enter(context),
                load(&mut module, PTX.as_ptr().cast()),
                find(&mut function, module, c"empty".as_ptr()),
                leave(&mut null_mut()),
            ];
            if results != [0; 5] {
                return Err(format!("loading an empty kernel failed: {results:?}").into());
            }
        }
        Ok(EmptyKernel { driver, function })
    }

    /// Queues it: one CTA of 256 threads, which may start while the preceding grid runs if they are to `overlap`.
    pub fn launch(&self, stream: &Stream, overlap: bool) -> tilewright::Result<()> {
        type Launch = unsafe extern "C" fn(*const Config, Handle, *const Handle, *const Handle) -> c_int;
        let config = Config {
            grid: [1; 3],
            block: [256, 1, 1],
            shared: 0,
            stream: stream.raw(),
            attributes: &OVERLAPPED,
            count: overlap.into(),
        };
        let failed = |code, message: String| Error::Driver {
            call: "cuLaunchKernelEx",
            code,
            name: "an empty kernel".to_owned(),
            message,
        };
        // SAFETY: this is the function's type since CUDA 11.8; the kernel has no arguments, and what the configuration points to lives.
        let code = unsafe {
            let launch = self.driver.get::<Launch>(c"cuLaunchKernelEx");
            launch.map_err(|error| failed(0, error.to_string()))?(&config, self.function, null(), null())
        };
        if code == 0 { Ok(()) } else { Err(failed(code as u32, "not launched".to_owned())) }
    }
}
