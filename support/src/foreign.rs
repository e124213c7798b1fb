//! Memory as other libraries have it: of another CUDA context, or of a stream.

use std::ffi::{c_int, c_uint, c_void};

use libloading::Library;

use tilewright::Stream;

use crate::Result;

type Handle = *mut c_void;

/// The driver's library.
pub(crate) fn driver() -> Result<Library> {
    let names = ["libcuda.so.1", "nvcuda.dll"];
    // SAFETY: the driver's library may be loaded at any time.
    let found = names.iter().find_map(|name| unsafe { Library::new(*name) }.ok());
    found.ok_or_else(|| "no CUDA driver".into())
}

/// Memory in a context of its own on GPU 0, freed with the context when dropped.
pub struct ForeignMemory {
    driver: Library,
    context: Handle,
    address: u64,
}

impl ForeignMemory {
    /// So many bytes. The driver must be initialised already: make a `Device` first.
    pub fn new(bytes: usize) -> Result<Self> {
        let driver = driver()?;
        let (mut context, mut address) = (std::ptr::null_mut(), 0);
        // SAFETY: these are the functions' types in every version of CUDA; pointers live through the calls.
        unsafe {
            let create =
                driver.get::<unsafe extern "C" fn(*mut Handle, c_uint, c_int) -> c_int>(c"cuCtxCreate_v2")?;
            let pop = driver.get::<unsafe extern "C" fn(*mut Handle) -> c_int>(c"cuCtxPopCurrent_v2")?;
            let allocate = driver.get::<unsafe extern "C" fn(*mut u64, usize) -> c_int>(c"cuMemAlloc_v2")?;
            let results =
                [create(&mut context, 0, 0), allocate(&mut address, bytes), pop(&mut std::ptr::null_mut())];
            if results != [0; 3] {
                return Err(format!("making a context failed: {results:?}").into());
            }
        }
        Ok(Self { driver, context, address })
    }

    /// Its address.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for ForeignMemory {
    fn drop(&mut self) {
        // SAFETY: the context was made above and is current nowhere.
        unsafe {
            if let Ok(destroy) = self.driver.get::<unsafe extern "C" fn(Handle) -> c_int>(c"cuCtxDestroy_v2")
            {
                destroy(self.context);
            }
        }
    }
}

/// Allocates so many bytes on a stream of the primary context, as a framework's pool does; gives their address. While the stream is
/// captured, it is the graph that allocates them.
pub fn allocate_on(stream: &Stream, bytes: usize) -> Result<u64> {
    let (driver, mut address) = (driver()?, 0);
    type Allocate = unsafe extern "C" fn(*mut u64, usize, Handle) -> c_int;
    // SAFETY: this is the function's type in every version of CUDA; the pointer lives through the call, and so does the stream.
    match unsafe { driver.get::<Allocate>(c"cuMemAllocAsync")?(&mut address, bytes, stream.raw()) } {
        0 => Ok(address),
        error => Err(format!("cuMemAllocAsync: {error}").into()),
    }
}

/// Frees what [`allocate_on`] gave, behind the work on the stream.
///
/// # Safety
/// Nothing queued later uses it.
pub unsafe fn free_on(stream: &Stream, address: u64) -> Result<()> {
    let driver = driver()?;
    type Free = unsafe extern "C" fn(u64, Handle) -> c_int;
    // SAFETY: as above; the caller says that nobody uses it any more.
    match unsafe { driver.get::<Free>(c"cuMemFreeAsync")?(address, stream.raw()) } {
        0 => Ok(()),
        error => Err(format!("cuMemFreeAsync: {error}").into()),
    }
}
