//! Test programs that need a GPU for some of their tests.

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use tilewright::{Arch, Device, Error};

/// How a test ends: panics and any error are failures.
pub type Outcome = Result<(), Failed>;

/// Set to anything, it makes tests fail that would be skipped for want of a GPU.
pub const REQUIRE_GPU: &str = "TILEWRIGHT_REQUIRE_GPU";

/// A test program: `main` of a test target with `harness = false`.
///
/// Takes the arguments of the built-in harness. Where there is no GPU, or one that cannot run them, tests are reported
/// as ignored, by name and number, and the reason is said at the end.
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
        Self { device: Arc::new(Device::default()), require, trials: Vec::new(), skipped: 0 }
    }

    /// Adds a test that needs no GPU.
    pub fn test(mut self, name: impl Into<String>, test: impl FnOnce() -> Outcome + Send + 'static) -> Self {
        self.trials.push(Trial::test(name, test));
        self
    }

    /// Adds a test for GPUs that run kernels of `arch`.
    pub fn gpu(
        mut self,
        arch: Arch,
        name: impl Into<String>,
        test: impl FnOnce(&Device) -> Outcome + Send + 'static,
    ) -> Self {
        let runs = (*self.device).as_ref().is_ok_and(|device| device.runs(arch));
        let skip = !runs && !self.require;
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
        // One at a time on a GPU: a test may fill its memory, and synchronising breaks another one's capture.
        arguments.test_threads = arguments.test_threads.or(self.device.is_ok().then_some(1));
        let listing = arguments.list;
        let conclusion = libtest_mimic::run(&arguments, self.trials);
        if self.skipped > 0 && !listing {
            let why = match &*self.device {
                Ok(device) => format!("{device:?} does not run them"),
                Err(error) => error.to_string(),
            };
            println!("skipped {} tests that need a GPU: {why}\n", self.skipped);
        }
        conclusion.exit_code()
    }
}
