//! Test programs whose tests need a device.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use tilewright::{Arch, Device, Error};

use crate::watched;

/// How a test ends: panics and any error are failures.
pub type Outcome = Result<(), Failed>;

/// Set to anything, it makes tests run on a GPU or fail: none is emulated, none is skipped.
pub const REQUIRE_GPU: &str = "TILEWRIGHT_REQUIRE_GPU";

/// Whether a test of many combinations runs this one: all of them on a GPU; on the emulator, which takes a thousand times as long, one
/// of `of`, the same each time and spread evenly.
pub fn picked(device: &Device, combination: impl Hash, of: u64) -> bool {
    let mut hasher = DefaultHasher::new();
    combination.hash(&mut hasher);
    !device.is_emulator() || hasher.finish().is_multiple_of(of)
}

/// The one of `all` that a test runs on the emulator, another one for each `combination`; all of them on a GPU.
pub fn one_of<T: Hash>(device: &Device, all: Vec<T>, combination: impl Hash) -> Vec<T> {
    if !device.is_emulator() {
        return all;
    }
    let number = |of: &T| {
        let mut hasher = DefaultHasher::new();
        (of, &combination).hash(&mut hasher);
        hasher.finish()
    };
    all.into_iter().min_by_key(number).into_iter().collect()
}

/// A test program: `main` of a test target with `harness = false`.
///
/// Takes the arguments of the built-in harness. The device is [`Device::default`]: a GPU or, where there is none, the
/// emulator. Tests that it cannot run are reported as ignored, by name and number, and the reason is said at the end.
pub struct Suite {
    device: Arc<Result<Device, Error>>,
    require: bool,
    trials: Vec<Trial>,
    skipped: usize,
}

impl Default for Suite {
    fn default() -> Self {
        Self::new()
    }
}

impl Suite {
    /// A program without tests yet.
    pub fn new() -> Self {
        let require = std::env::var_os(REQUIRE_GPU).is_some();
        let device = if require { Device::cuda(0) } else { Device::default() };
        Self { device: Arc::new(device), require, trials: Vec::new(), skipped: 0 }
    }

    /// Adds a test that needs no device.
    pub fn test(mut self, name: impl Into<String>, test: impl FnOnce() -> Outcome + Send + 'static) -> Self {
        self.trials.push(Trial::test(name, test));
        self
    }

    /// Adds a test for devices that run kernels of `arch`; the emulator does.
    pub fn device(
        self,
        arch: Arch,
        name: impl Into<String>,
        test: impl FnOnce(&Device) -> Outcome + Send + 'static,
    ) -> Self {
        self.on(|device| device.runs(arch), arch, name.into(), test)
    }

    /// Adds a test of the driver itself, or of speed, for GPUs that run kernels of `arch`.
    pub fn gpu(
        self,
        arch: Arch,
        name: impl Into<String>,
        test: impl FnOnce(&Device) -> Outcome + Send + 'static,
    ) -> Self {
        self.on(|device| device.runs(arch) && !device.is_emulator(), arch, name.into(), test)
    }

    fn on(
        mut self,
        runs: impl FnOnce(&Device) -> bool,
        arch: Arch,
        name: String,
        test: impl FnOnce(&Device) -> Outcome + Send + 'static,
    ) -> Self {
        let runs = (*self.device).as_ref().is_ok_and(runs);
        // An error that is not the lack of a GPU shows in the tests.
        let skip = !runs && !self.require && self.device.is_ok();
        let device = Arc::clone(&self.device);
        let run = move || match &*device {
            Ok(device) if runs => test(device),
            Ok(device) => Err(format!("{device:?} does not run {}", arch.target()).into()),
            Err(error) => Err(error.into()),
        };
        self.trials.push(Trial::test(name, run).with_kind(arch.target()).with_ignored_flag(skip));
        self.skipped += usize::from(skip);
        self
    }

    /// Runs the tests that the program's arguments ask for.
    pub fn main(self) -> ExitCode {
        let mut arguments = Arguments::from_args();
        let device = self.device.as_ref().as_ref();
        // One at a time on a GPU: a test may fill its memory, and synchronising breaks another one's capture.
        arguments.test_threads =
            arguments.test_threads.or(device.is_ok_and(|d| !d.is_emulator()).then_some(1));
        if let (Ok(device), false) = (device, arguments.list) {
            println!("on {device:?}");
        }
        let listing = arguments.list;
        let conclusion = libtest_mimic::run(&arguments, self.trials);
        if let (Ok(device), 1.., false) = (device, self.skipped, listing) {
            println!("skipped {} tests that need a GPU that runs them: this is {device:?}\n", self.skipped);
        }
        if !listing && watched::in_vain() {
            println!("no test that ran has a kernel that is watched\n");
            return ExitCode::FAILURE;
        }
        conclusion.exit_code()
    }
}
