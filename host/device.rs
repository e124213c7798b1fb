//! Devices: where tensors lie and kernels run.

use std::fmt;
use std::sync::Arc;

use crate::backend::{Backend, StreamId, cuda, emulator};
use crate::kernel::FunctionCache;
use crate::{Arch, Error, Function, Instance, KernelSet, Result, Stream};

/// A device that runs kernels. Clones are the same device.
#[derive(Clone)]
pub struct Device {
    shared: Arc<Shared>,
}

struct Shared {
    backend: Box<dyn Backend>,
    functions: FunctionCache,
}

impl Device {
    /// The first CUDA device.
    #[expect(clippy::should_implement_trait, reason = "there may be no device")]
    pub fn default() -> Result<Self> {
        Self::cuda(0)
    }

    /// A CUDA device by its number, through its primary context.
    ///
    /// Fails with [`Error::NoDriver`] where there is no driver, [`Error::NoDevice`] where there is no such device, and
    /// [`Error::UnsupportedGpu`] if it is older than compute capability 8.0. The context stays for the life of the
    /// process, and calls with the same number give the same device.
    pub fn cuda(ordinal: usize) -> Result<Self> {
        cuda::device(ordinal)
    }

    /// The CPU, which runs the kernels that are compiled for sm_80 and sm_90a, slowly and with every access checked.
    ///
    /// Calls give the same device.
    pub fn emulator() -> Self {
        emulator::device()
    }

    pub(crate) fn new(backend: Box<dyn Backend>) -> Self {
        Self { shared: Arc::new(Shared { backend, functions: FunctionCache::default() }) }
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.shared.backend
    }
    pub(crate) fn functions(&self) -> &FunctionCache {
        &self.shared.functions
    }

    /// The GPU's name.
    pub fn name(&self) -> &str {
        &self.backend().properties().name
    }
    /// What messages call the device: `cuda:0`.
    pub fn label(&self) -> &str {
        &self.backend().properties().label
    }
    /// The compute capability, major and minor.
    pub fn compute_capability(&self) -> (u32, u32) {
        self.backend().properties().capability
    }
    /// Streaming multiprocessors.
    pub fn sm_count(&self) -> u32 {
        self.backend().properties().sm_count
    }
    /// Size of the L2 cache in bytes.
    pub fn l2_bytes(&self) -> usize {
        self.backend().properties().l2_bytes
    }
    /// Size of the memory in bytes.
    pub fn total_memory(&self) -> usize {
        self.backend().properties().total_memory
    }
    /// Bytes of memory that are free now.
    pub fn free_memory(&self) -> Result<usize> {
        self.backend().free_memory()
    }
    /// Dynamic shared memory that one CTA may have, in bytes.
    pub fn shared_memory_per_cta(&self) -> u32 {
        self.backend().properties().shared_bytes
    }
    /// The CUDA version that the driver supports, major and minor.
    pub fn driver_version(&self) -> (u32, u32) {
        self.backend().properties().driver_version
    }
    /// Whether kernels compiled for `arch` run on it.
    pub fn runs(&self, arch: Arch) -> bool {
        self.backend().runs(arch)
    }

    /// Waits until all work queued so far, on all streams, is done.
    pub fn synchronize(&self) -> Result<()> {
        self.backend().synchronize()
    }

    /// The default stream, which other libraries' default stream is too. It cannot be captured.
    pub fn default_stream(&self) -> Stream {
        Stream::borrowed(self, StreamId(0))
    }

    /// The kernel `K` of a set, ready to be launched.
    ///
    /// The first call for a kernel has the driver compile it, which takes from milliseconds to a second unless the driver's
    /// cache has it; later calls look it up.
    pub fn kernel<K: Instance>(&self, set: &'static KernelSet) -> Result<Function<K>> {
        Function::new(self, set)
    }

    pub(crate) fn expect_same(&self, other: &Device, argument: &'static str) -> Result<()> {
        if self == other {
            return Ok(());
        }
        Err(Error::WrongDevice {
            argument: argument.into(),
            was: other.label().into(),
            expected: self.label().into(),
        })
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.compute_capability();
        write!(f, "{} ({}, compute capability {major}.{minor})", self.label(), self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds with a GPU, with a driver alone, and without either.
    #[test]
    fn a_missing_device_is_an_error() {
        match Device::cuda(1000).unwrap_err() {
            Error::NoDevice { ordinal, reason } => {
                assert_eq!(ordinal, 1000);
                assert!(reason.starts_with("the driver sees"), "{reason}");
            }
            Error::NoDriver { reason } => {
                assert!(reason.contains("libcuda") || reason.contains("CUDA"), "{reason}")
            }
            other => panic!("{other}"),
        }
    }
}
