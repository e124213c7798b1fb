//! The CPU as a device: how it is chosen, and what it alone tells.

use std::ffi::OsStr;

use tilewright_emulator::{Limits, LimitsError, Progress};

use crate::backend::emulator;
use crate::device::LIMITS;
use crate::profile::KernelProfile;
use crate::{Device, Error, Result};

/// How an emulator runs kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmulatorOptions {
    /// The seed of the random order that warps run in; `None` for the fixed one.
    pub seed: Option<u64>,
    /// What ends a launch that does not end by itself, and how much memory may be held.
    pub limits: Limits,
}

/// Here with the feature `emulator`.
impl Device {
    /// The CPU, which runs the kernels that are compiled for sm_80 and sm_90a, slowly and with every access checked.
    ///
    /// Warps run in a fixed order, so that everything repeats. Calls give the same device.
    pub fn emulator() -> Self {
        Self::emulator_with(EmulatorOptions::default())
    }

    /// The CPU, with warps that run in a random order, the same for the same seed: kernels that rely on an order that
    /// nothing promises go wrong for some.
    ///
    /// Calls with the same seed give the same device, with memory of its own.
    pub fn emulator_with_seed(seed: u64) -> Self {
        Self::emulator_with(EmulatorOptions { seed: Some(seed), ..EmulatorOptions::default() })
    }

    /// The CPU, with an order of warps and with [`Limits`] of one's own. A launch that reaches one gives [`Error::Emulator`], which
    /// names it and says where the launch was.
    ///
    /// Calls with the same options give the same device, with memory of its own.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tilewright::{Device, EmulatorOptions, Limits};
    ///
    /// let limits = Limits { time: Duration::from_secs(60), ..Limits::default() };
    /// let device = Device::emulator_with(EmulatorOptions { limits, ..EmulatorOptions::default() });
    /// assert!(device.is_emulator());
    /// ```
    pub fn emulator_with(options: EmulatorOptions) -> Self {
        emulator::device(options)
    }

    /// What kernels did since [`reset_profile`](Self::reset_profile), by name, if this is the emulator: it counts
    /// instructions, traffic, bank conflicts, waits and live stages.
    pub fn profile(&self) -> Option<Vec<KernelProfile>> {
        self.backend().profile()
    }
    /// How far the launches are that run now, if this is the emulator: other threads see where a kernel is that does not end.
    pub fn running(&self) -> Option<Vec<Progress>> {
        self.backend().running()
    }
}

/// The emulator that the environment chooses.
pub(crate) fn chosen(seed: Option<u64>, limits: Option<&OsStr>) -> Result<Device> {
    Ok(Device::emulator_with(EmulatorOptions { seed, limits: read(limits)? }))
}

/// The limits that the environment says.
fn read(limits: Option<&OsStr>) -> Result<Limits> {
    let Some(limits) = limits else { return Ok(Limits::default()) };
    let wrong = |why: String| {
        Error::argument(LIMITS, format!("{limits:?}"), format!("such as `time=60s,memory=4GiB`: {why}"))
    };
    let text = limits.to_str().ok_or_else(|| wrong("it is no text in UTF-8".into()))?;
    text.parse().map_err(|error: LimitsError| wrong(error.what))
}
