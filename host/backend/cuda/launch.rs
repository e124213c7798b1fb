//! Launches with attributes: clusters and programmatic dependent launch.

use std::ffi::c_void;
use std::mem::zeroed;

use cudarc::driver::sys;

use super::driver::call;
use crate::Result;
use crate::backend::LaunchConfig;

/// The attributes of a launch; the first `count` count.
pub(super) struct Attributes {
    list: [sys::CUlaunchAttribute; 2],
    count: u32,
}

impl Attributes {
    pub(super) fn of(launch: &LaunchConfig) -> Self {
        use sys::CUlaunchAttributeID as Id;
        // SAFETY: plain data, and 0 is an attribute's number: the one that is ignored.
        let mut attributes = Self { list: unsafe { zeroed() }, count: 0 };
        let mut next = attributes.list.iter_mut();
        if launch.cluster != [1, 1, 1]
            && let Some(attribute) = next.next()
        {
            attribute.id = Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
            // Writing a field of a `Copy` union is safe; the driver reads the one that the number names.
            (attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z) =
                launch.cluster.into();
            attributes.count += 1;
        }
        if launch.overlap_previous
            && let Some(attribute) = next.next()
        {
            attribute.id = Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
            attribute.value.programmaticStreamSerializationAllowed = 1;
            attributes.count += 1;
        }
        attributes
    }
}

/// The launch as the driver takes it; it points to `attributes`.
pub(super) fn config(launch: &LaunchConfig, attributes: &mut Attributes) -> sys::CUlaunchConfig {
    let [x, y, z] = launch.grid;
    sys::CUlaunchConfig {
        gridDimX: x,
        gridDimY: y,
        gridDimZ: z,
        blockDimX: launch.threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: launch.shared_bytes,
        hStream: std::ptr::without_provenance_mut(launch.stream.0),
        attrs: attributes.list.as_mut_ptr(),
        numAttrs: attributes.count,
    }
}

/// # Safety
/// The context is current, the function and stream are its own, `arguments` is the kernel's parameter block, and the
/// kernel is sound with it.
pub(super) unsafe fn launch(launch: &LaunchConfig, arguments: *const c_void) -> Result<()> {
    let mut attributes = Attributes::of(launch);
    let config = config(launch, &mut attributes);
    let mut parameters = [arguments.cast_mut()];
    let function = std::ptr::without_provenance_mut(launch.function.0);
    // SAFETY: the configuration and the one parameter live through the call, which copies them; the rest is the caller's.
    unsafe { call!(cuLaunchKernelEx(&config, function, parameters.as_mut_ptr(), std::ptr::null_mut())) }
}
