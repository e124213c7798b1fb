//! Devices: where tensors lie and kernels run.

use std::ffi::OsStr;
use std::fmt;
use std::sync::Arc;

use tilewright_emulator::Schedule;

use crate::backend::{Backend, StreamId, cuda, emulator};
use crate::kernel::FunctionCache;
use crate::profile::KernelProfile;
use crate::{AnyFunction, Arch, Error, Function, Instance, KernelSet, Listed, Result, Stream, graph};

/// The environment variable that chooses what [`Device::default`] gives.
const CHOICE: &str = "TILEWRIGHT_DEVICE";

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
}

impl Device {
    /// The first CUDA device or, on a machine without a driver or without a GPU, the [`emulator`](Self::emulator).
    ///
    /// The emulator names itself: see [`is_emulator`](Self::is_emulator) and [`fallback`](Self::fallback), which the
    /// device's `Debug` text shows too. A GPU that is there and cannot be used is an error, as in [`cuda`](Self::cuda).
    ///
    /// The environment variable `TILEWRIGHT_DEVICE` chooses: with `cuda` there is no falling back, with `emulator` no
    /// looking for a GPU, and `emulator:7` is [`emulator_with_seed`](Self::emulator_with_seed) of 7.
    #[expect(clippy::should_implement_trait, reason = "the device may not be usable")]
    pub fn default() -> Result<Self> {
        Self::chosen(std::env::var_os(CHOICE).as_deref())
    }

    fn chosen(choice: Option<&OsStr>) -> Result<Self> {
        let Some(choice) = choice else { return Self::or_emulator(Self::cuda(0)) };
        let seed = |choice: &str| choice.strip_prefix("emulator:")?.parse().ok();
        match choice.to_str() {
            Some("cuda") => Self::cuda(0),
            Some("emulator") => Ok(Self::emulator()),
            text => match text.and_then(seed) {
                Some(seed) => Ok(Self::emulator_with_seed(seed)),
                None => Err(Error::argument(
                    CHOICE,
                    format!("{choice:?}"),
                    "`cuda`, `emulator`, or `emulator:` and a number",
                )),
            },
        }
    }

    /// The emulator in place of a GPU that does not exist.
    fn or_emulator(gpu: Result<Self>) -> Result<Self> {
        match gpu {
            Err(none @ (Error::NoDriver { .. } | Error::NoDevice { .. })) => {
                Ok(Self { fallback: Some(Arc::new(none)), ..Self::emulator() })
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

    /// The CPU, which runs the kernels that are compiled for sm_80 and sm_90a, slowly and with every access checked.
    ///
    /// Warps run in a fixed order, so that everything repeats. Calls give the same device.
    pub fn emulator() -> Self {
        emulator::device(Schedule::Fixed)
    }

    /// The CPU, with warps that run in a random order, the same for the same seed: kernels that rely on an order that
    /// nothing promises go wrong for some.
    ///
    /// Calls with the same seed give the same device, with memory of its own.
    pub fn emulator_with_seed(seed: u64) -> Self {
        emulator::device(Schedule::Random(seed))
    }

    pub(crate) fn new(backend: Box<dyn Backend>) -> Self {
        Self { shared: Arc::new(Shared { backend, functions: FunctionCache::default() }), fallback: None }
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.shared.backend
    }
    pub(crate) fn functions(&self) -> &FunctionCache {
        &self.shared.functions
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
    /// What messages call the device: `cuda:0`, `emulator`, or `emulator:7` with a seed of 7. No two devices have the same.
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

    /// What kernels did since [`reset_profile`](Self::reset_profile), by name, if this is the emulator: it counts
    /// instructions, traffic, bank conflicts, waits and live stages.
    pub fn profile(&self) -> Option<Vec<KernelProfile>> {
        self.backend().profile()
    }
    /// What kernels have printed by `device_print!` since this was asked last, if this is the emulator, which shows it on the standard
    /// error stream too. A GPU's driver prints to the standard output stream when the host waits for the GPU.
    pub fn printed(&self) -> Option<String> {
        self.backend().printed()
    }
    /// Forgets what [`profile`](Self::profile) counted so far, in all clones of the device.
    pub fn reset_profile(&self) {
        self.backend().reset_profile();
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
        let device = Device::or_emulator(Err(reason.clone())).unwrap();
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
        assert_eq!(Device::or_emulator(Err(broken.clone())), Err(broken));
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
        let chosen = |choice: &str| Device::chosen(Some(OsStr::new(choice)));
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
}
