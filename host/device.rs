//! Devices: where tensors lie and kernels run.

use std::ffi::OsStr;
use std::fmt;
use std::sync::Arc;

use crate::backend::{Backend, StreamId, cuda};
#[cfg(feature = "emulator")]
use crate::emulated::chosen as emulated;
use crate::kernel::FunctionCache;
#[cfg(any(feature = "gemm", feature = "scaled_gemm"))]
use crate::scratch::Scratch;
use crate::{AnyFunction, Arch, Error, Function, Instance, KernelSet, Listed, Result, Stream, graph};

/// The environment variable that chooses what [`Device::default`] gives.
const CHOICE: &str = "TILEWRIGHT_DEVICE";
/// What it may be.
const CHOICES: &str = if cfg!(feature = "emulator") {
    "`cuda`, `emulator`, or `emulator:` and a number"
} else {
    "`cuda`: this build is without the feature `emulator` of tilewright"
};
/// The one that says what an emulator that it gives is limited to.
pub(crate) const LIMITS: &str = "TILEWRIGHT_EMULATOR_LIMITS";

/// A device that runs kernels. Clones are the same device.
#[derive(Clone)]
pub struct Device {
    shared: Arc<Shared>,
    /// Why it is not the GPU that was looked for first.
    fallback: Option<Arc<Error>>,
}

struct Shared {
    backend: Box<dyn Backend>,
    functions: FunctionCache,
    #[cfg(any(feature = "gemm", feature = "scaled_gemm"))]
    scratch: Scratch,
}

#[cfg(any(feature = "gemm", feature = "scaled_gemm"))]
impl Drop for Shared {
    fn drop(&mut self) {
        self.scratch.clear(&*self.backend);
    }
}

impl Device {
    /// The first CUDA device or, on a machine without a driver or without a GPU, the emulator, which runs kernels on the CPU.
    ///
    /// The emulator names itself: see [`is_emulator`](Self::is_emulator) and [`fallback`](Self::fallback), which the
    /// device's `Debug` text shows too. A GPU that is there and cannot be used is an error, as in [`cuda`](Self::cuda); and so is one
    /// that is not there, in a build without the feature `emulator`.
    ///
    /// The environment variable `TILEWRIGHT_DEVICE` chooses: with `cuda` there is no falling back, with `emulator` no
    /// looking for a GPU, and `emulator:7` is an emulator whose warps run in a random order of seed 7. If it gives an emulator,
    /// `TILEWRIGHT_EMULATOR_LIMITS` says what that is limited to, such as `time=60s,memory=4GiB`.
    #[expect(clippy::should_implement_trait, reason = "the device may not be usable")]
    pub fn default() -> Result<Self> {
        Self::chosen(std::env::var_os(CHOICE).as_deref(), std::env::var_os(LIMITS).as_deref())
    }

    fn chosen(choice: Option<&OsStr>, limits: Option<&OsStr>) -> Result<Self> {
        let there = cfg!(feature = "emulator");
        let Some(choice) = choice else {
            let gpu = Self::cuda(0);
            return if there { Self::or_else(gpu, || emulated(None, limits)) } else { gpu };
        };
        let seed = |choice: &str| choice.strip_prefix("emulator:")?.parse().ok();
        match choice.to_str() {
            Some("cuda") => Self::cuda(0),
            Some("emulator") if there => emulated(None, limits),
            text => match text.and_then(seed).filter(|_| there) {
                Some(seed) => emulated(Some(seed), limits),
                None => Err(Error::argument(CHOICE, format!("{choice:?}"), CHOICES)),
            },
        }
    }

    /// The emulator in place of a GPU that does not exist.
    fn or_else(gpu: Result<Self>, emulator: impl FnOnce() -> Result<Self>) -> Result<Self> {
        match gpu {
            Err(none @ (Error::NoDriver { .. } | Error::NoDevice { .. })) => {
                Ok(Self { fallback: Some(Arc::new(none)), ..emulator()? })
            }
            there => there,
        }
    }

    /// A CUDA device by its number, through its primary context.
    ///
    /// Fails with [`Error::NoDriver`] where there is no driver, [`Error::UnusableDriver`] if it does not work or is older
    /// than CUDA 12.0, [`Error::NoDevice`] where there is no such device, and [`Error::UnsupportedGpu`] if it is older than
    /// compute capability 8.0. The context stays for the life of the process, and calls with the same number give the same
    /// device.
    pub fn cuda(ordinal: usize) -> Result<Self> {
        cuda::device(ordinal)
    }

    pub(crate) fn new(backend: Box<dyn Backend>) -> Self {
        let shared = Shared {
            backend,
            functions: FunctionCache::default(),
            #[cfg(any(feature = "gemm", feature = "scaled_gemm"))]
            scratch: Scratch::default(),
        };
        Self { shared: Arc::new(shared), fallback: None }
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.shared.backend
    }
    pub(crate) fn functions(&self) -> &FunctionCache {
        &self.shared.functions
    }
    /// Memory for what CTAs compute in parts.
    #[cfg(any(feature = "gemm", feature = "scaled_gemm"))]
    pub(crate) fn scratch(&self) -> &Scratch {
        &self.shared.scratch
    }

    /// Whether it is the CPU, whose speed says nothing about a GPU's.
    pub fn is_emulator(&self) -> bool {
        self.backend().properties().emulated
    }
    /// Why [`default`](Self::default) gave the emulator and not a GPU, if it did.
    pub fn fallback(&self) -> Option<&Error> {
        self.fallback.as_deref()
    }

    /// The GPU's name, or what the emulator emulates.
    pub fn name(&self) -> &str {
        &self.backend().properties().name
    }
    /// What messages call the device: `cuda:0`, `emulator`, or `emulator:7` with a seed of 7, followed by limits that are not those
    /// by default. No two devices have the same.
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
    /// The CUDA version that the driver supports, major and minor; zeros on the emulator, which has no driver.
    pub fn driver_version(&self) -> (u32, u32) {
        self.backend().properties().driver_version
    }
    /// Whether kernels compiled for `arch` run on it.
    pub fn runs(&self, arch: Arch) -> bool {
        self.backend().runs(arch)
    }

    /// What kernels have printed by `device_print!` since this was asked last, if this is the emulator, which shows it on the standard
    /// error stream too. A GPU's driver prints to the standard output stream when the host waits for the GPU, what is left in a ring of
    /// 1 MiB (CUDA C++ Programming Guide, "Formatted Output").
    pub fn printed(&self) -> Option<String> {
        self.backend().printed()
    }
    /// Forgets what the emulator's profile counted so far, in all clones of the device.
    pub fn reset_profile(&self) {
        self.backend().reset_profile();
    }

    /// Ends the launches that run now, by whichever threads, if this is the emulator: they give [`Error::Emulator`], which says so,
    /// and where they were. Those that begin later run.
    ///
    /// A GPU ends no kernel: there it is an error, and nothing is done.
    pub fn cancel(&self) -> Result<()> {
        self.backend().cancel()
    }

    /// Waits until all work queued so far, on all streams, is done. An error while this thread captures a stream; on a GPU also
    /// while another thread does, whose capture then fails too.
    pub fn synchronize(&self) -> Result<()> {
        graph::refuse("Device::synchronize")?;
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

    /// The kernel of a row of a crate's table, ready to be launched with arguments whose types are not checked: as
    /// [`kernel`](Self::kernel) otherwise.
    pub fn listed<D>(&self, set: &'static KernelSet, row: &Listed<D>) -> Result<AnyFunction> {
        AnyFunction::listed(self, set, row)
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

/// No emulator: callers ask first whether there is one.
#[cfg(not(feature = "emulator"))]
fn emulated(_: Option<u64>, _: Option<&OsStr>) -> Result<Device> {
    Err(Error::argument(CHOICE, "an emulator", CHOICES))
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
        write!(f, "{} ({}, compute capability {major}.{minor})", self.label(), self.name())?;
        match &self.fallback {
            Some(reason) => write!(f, ", because there is {reason}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EmulatorOptions, Limits};

    /// Holds with a GPU, with a driver alone, and without either.
    #[test]
    fn a_missing_device_is_an_error() {
        match Device::cuda(1000).unwrap_err() {
            Error::NoDevice { ordinal, reason } => {
                assert_eq!(ordinal, 1000);
                assert!(reason.starts_with("the driver sees"), "{reason}");
            }
            Error::NoDriver { reason } => {
                assert!(reason.contains("libcuda") || reason.contains("library"), "{reason}")
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_gpu_that_does_not_exist_is_emulated() {
        let reason = Error::NoDevice { ordinal: 0, reason: "the driver sees no GPU".into() };
        let device = Device::or_else(Err(reason.clone()), || Ok(Device::emulator())).unwrap();
        assert!(device.is_emulator() && device == Device::emulator());
        assert_eq!(device.fallback(), Some(&reason));
        assert_eq!(device.default_stream().device().fallback(), Some(&reason));
        let text = "emulator (sm_90a on the CPU, compute capability 9.0), \
                    because there is no CUDA device 0: the driver sees no GPU";
        assert_eq!(format!("{device:?}"), text);
        assert_eq!(Device::emulator().fallback(), None);
    }

    #[test]
    fn a_gpu_that_cannot_be_used_is_an_error() {
        let broken = Error::UnusableDriver { reason: "it supports CUDA 11.4".into() };
        assert_eq!(Device::or_else(Err(broken.clone()), || Ok(Device::emulator())), Err(broken));
    }

    #[test]
    fn messages_tell_devices_apart() {
        let (fixed, random) = (Device::emulator(), Device::emulator_with_seed(7));
        let error = fixed.expect_same(&random, "b").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`b` was on emulator:7; it must be on emulator, the device of this call"
        );
    }

    #[test]
    fn the_environment_chooses() {
        let chosen = |choice: &str| Device::chosen(Some(OsStr::new(choice)), None);
        assert_eq!(chosen("emulator"), Ok(Device::emulator()));
        assert_eq!(chosen("emulator:7"), Ok(Device::emulator_with_seed(7)));
        assert_ne!(Device::emulator_with_seed(7), Device::emulator());
        assert!(Device::emulator_with_seed(7).name().ends_with("order of seed 7"));
        assert_eq!(Device::emulator_with_seed(7).label(), "emulator:7");
        assert_eq!(chosen("cuda"), Device::cuda(0));
        for wrong in ["gpu", "emulator:", "emulator:x"] {
            let text = chosen(wrong).unwrap_err().to_string();
            let allowed = "it must be `cuda`, `emulator`, or `emulator:` and a number";
            assert_eq!(text, format!("`TILEWRIGHT_DEVICE` was {wrong:?}; {allowed}"));
        }
    }

    #[test]
    fn the_environment_limits() {
        let limited = |limits: &str| Device::chosen(Some(OsStr::new("emulator:7")), Some(OsStr::new(limits)));
        let limits = Limits { instructions: 5, memory: 1 << 20, ..Limits::default() };
        let device = limited("instructions=5,memory=1MiB").unwrap();
        assert_eq!(device, Device::emulator_with(EmulatorOptions { seed: Some(7), limits }));
        assert_ne!(device, Device::emulator_with_seed(7));
        assert_eq!(device.label(), "emulator:7 (instructions=5,time=14400s,memory=1048576)");
        assert_eq!(device.total_memory(), 1 << 20);
        let text = limited("time=soon").unwrap_err().to_string();
        let allowed = "it must be such as `time=60s,memory=4GiB`: `time` was `soon`; it must be a time such as 90s, 500ms, 10m or 2h";
        assert_eq!(text, format!("`TILEWRIGHT_EMULATOR_LIMITS` was \"time=soon\"; {allowed}"));
    }

    #[test]
    fn a_gpu_is_not_cancelled() {
        let (gpu, _) = crate::backend::fake::device((9, 0));
        assert_eq!(gpu.running(), None);
        let text = gpu.cancel().unwrap_err().to_string();
        assert_eq!(text, "`device` was fake:0; it must be the emulator, which alone ends kernels that run");
        assert_eq!(Device::emulator_with_seed(8).cancel(), Ok(()));
    }
}
