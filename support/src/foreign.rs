//! Memory of another CUDA context, as a program that does not use the primary one has it.

use std::ffi::{c_int, c_uint, c_void};

use libloading::Library;

use crate::Result;

type Handle = *mut c_void;

/// Memory in a context of its own on GPU 0, freed with the context when dropped.
pub struct ForeignMemory {
    driver: Library,
    context: Handle,
    address: u64,
}

impl ForeignMemory {
    /// So many bytes. The driver must be initialised already: make a `Device` first.
    pub fn new(bytes: usize) -> Result<Self> {
        let names = ["libcuda.so.1", "nvcuda.dll"];
        // SAFETY: the driver's library may be loaded at any time.
        let driver =
            names.iter().find_map(|name| unsafe { Library::new(*name) }.ok()).ok_or("no CUDA driver")?;
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
