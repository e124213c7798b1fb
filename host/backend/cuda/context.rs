//! The primary context of a GPU, and making it the thread's current one.

use std::ffi::CStr;
use std::ffi::c_char;

use cudarc::driver::sys;

use super::driver::{self, call};
use crate::backend::{H200_MEMORY_RATE, Properties};
use crate::{Error, Result};

/// The oldest GPUs that kernels are compiled for.
const OLDEST: (u32, u32) = (8, 0);

#[derive(Debug)]
pub(super) struct Context {
    handle: sys::CUcontext,
    pub(super) ordinal: usize,
}

// SAFETY: the driver's handles may be used from every thread.
unsafe impl Send for Context {}
// SAFETY: as above; the driver locks what it must.
unsafe impl Sync for Context {}

/// While it lives, the context is the thread's current one.
#[must_use]
pub(super) struct Current {
    previous: sys::CUcontext,
}

impl Context {
    /// Retains the primary context of a GPU, for the life of the process, and says what the GPU is.
    pub(super) fn primary(ordinal: usize) -> Result<(Self, Properties)> {
        let driver_version = driver::start().map_err(|error| match error {
            Error::NoDevice { reason, .. } => Error::NoDevice { ordinal, reason },
            other => other,
        })?;
        let mut count = 0;
        // SAFETY: the driver is initialised.
        unsafe { call!(cuDeviceGetCount(&mut count)) }?;
        let number = i32::try_from(ordinal).ok().filter(|&number| number < count).ok_or_else(|| {
            let reason = match count {
                1 => "the driver sees 1 GPU".into(),
                _ => format!("the driver sees {count} GPUs"),
            };
            Error::NoDevice { ordinal, reason }
        })?;
        let mut device = 0;
        // SAFETY: the number is below the count.
        unsafe { call!(cuDeviceGet(&mut device, number)) }?;
        let properties = properties(device, ordinal, driver_version)?;
        if properties.capability < OLDEST {
            return Err(Error::UnsupportedGpu {
                device: properties.name,
                capability: properties.capability,
                needs: format!("compute capability {}.{} or later is needed", OLDEST.0, OLDEST.1),
            });
        }
        let mut handle = std::ptr::null_mut();
        // SAFETY: the device is one that the driver gave.
        unsafe { call!(cuDevicePrimaryCtxRetain(&mut handle, device)) }?;
        Ok((Self { handle, ordinal }, properties))
    }

    pub(super) fn is(&self, handle: sys::CUcontext) -> bool {
        self.handle == handle
    }

    /// Makes the context current, so that the caller may call the driver.
    #[inline]
    pub(super) fn enter(&self) -> Result<Current> {
        let mut previous = std::ptr::null_mut();
        // SAFETY: the driver is initialised, or there would be no context.
        unsafe { call!(cuCtxGetCurrent(&mut previous)) }?;
        if self.is(previous) {
            return Ok(Current { previous: std::ptr::null_mut() });
        }
        // SAFETY: the context is retained.
        unsafe { call!(cuCtxSetCurrent(self.handle)) }?;
        Ok(Current { previous })
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        // A thread without a context keeps this one: that harms nobody and saves a call the next time.
        if !self.previous.is_null() {
            // SAFETY: it was current before.
            let _ = unsafe { call!(cuCtxSetCurrent(self.previous)) };
        }
    }
}

/// While it lives, the thread may give things back although it captures a stream: otherwise the driver refuses, and the capture
/// fails.
#[must_use]
pub(super) struct Relaxed {
    previous: sys::CUstreamCaptureMode,
}

impl Relaxed {
    pub(super) fn enter() -> Self {
        Self { previous: exchange(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED) }
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        exchange(self.previous);
    }
}

/// Sets the thread's capture mode; gives the one that it had.
fn exchange(mut mode: sys::CUstreamCaptureMode) -> sys::CUstreamCaptureMode {
    // SAFETY: the driver reads and writes `mode`; a mode that could not be exchanged is the one that stays.
    let _ = unsafe { call!(cuThreadExchangeStreamCaptureMode(&mut mode)) };
    mode
}

fn properties(device: sys::CUdevice, ordinal: usize, driver_version: (u32, u32)) -> Result<Properties> {
    use sys::CUdevice_attribute as Attribute;
    let attribute = |attribute: Attribute| -> Result<u32> {
        let mut value = 0;
        // SAFETY: the device is one that the driver gave.
        unsafe { call!(cuDeviceGetAttribute(&mut value, attribute, device)) }?;
        Ok(value.unsigned_abs())
    };
    let mut name: [c_char; 256] = [0; 256];
    let mut total_memory = 0;
    // SAFETY: the buffer is as long as said, and the driver ends what it writes with a zero.
    let name = unsafe {
        call!(cuDeviceGetName(name.as_mut_ptr(), name.len() as i32, device))?;
        CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
    };
    // SAFETY: as above.
    unsafe { call!(cuDeviceTotalMem_v2(&mut total_memory, device)) }?;
    Ok(Properties {
        name,
        label: format!("cuda:{ordinal}"),
        ordinal: Some(ordinal as i32),
        capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        sm_count: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        l2_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize,
        memory_rate: memory_rate(
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE).unwrap_or(0),
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH).unwrap_or(0),
        ),
        total_memory,
        shared_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        driver_version,
        emulated: false,
    })
}

/// What memory of this clock, in kHz, and this width, in bits, delivers in GB/s by its two edges; an H200's where the driver tells neither.
fn memory_rate(clock: u32, width: u32) -> u32 {
    let rate = u64::from(clock) * 2 * u64::from(width / 8) / 1_000_000;
    if rate == 0 { H200_MEMORY_RATE } else { u32::try_from(rate).unwrap_or(u32::MAX) }
}
