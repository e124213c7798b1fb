//! Choosing kernels by measuring them.

mod choices;
mod measure;
#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use choices::{Call, Choice, Choices};

use crate::{Device, Error, KernelEntry, Result, Stream};

/// What a [`Tuner`] does about calls that it does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tuning {
    /// Nothing, and neither about those that it knows: the first kernel is chosen, which an operator estimates to be the fastest.
    Off,
    /// It chooses the first kernel.
    #[default]
    Read,
    /// It measures the kernels and keeps the choice.
    Write,
}

/// The environment variable that says which [`Tuning`] a tuner of [`Tuner::from_env`] does: `off`, `read` or `write`.
const MODE: &str = "TILEWRIGHT_TUNE";
/// The one that names its file.
const FILE: &str = "TILEWRIGHT_TUNE_FILE";

/// A kernel that was measured, as [`Tuner::on_progress`] tells it.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// The call.
    pub call: &'a str,
    /// The kernel.
    pub kernel: &'static str,
    /// Milliseconds of one run.
    pub ms: f32,
    /// How many of the call's kernels were measured.
    pub done: usize,
    /// Of how many.
    pub of: usize,
}

/// Measures which of several kernels computes a call the soonest on the user's GPU, and keeps the choice in a file.
///
/// Operators choose their kernels by estimates. Where an estimate errs for the shapes of a model, a tuner finds that out once:
///
/// ```
/// use tilewright::ops::{Gemm, GemmViews, Tuner};
/// use tilewright::{Device, Tensor, f16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::default()?;
/// let stream = device.default_stream();
/// let x = Tensor::filled(&device, f16::ONE, &[32, 64])?;
/// let w = Tensor::filled(&device, f16::ONE, &[64, 64])?;
/// let mut y = Tensor::<f16>::zeros(&device, &[32, 64])?;
///
/// let tuner = Tuner::from_env()?;
/// let plan = Gemm::new().tuned_plan(&tuner, &stream, &x.view(), &w.view(), &mut y.view_mut())?;
/// plan.run(&stream, &x.view(), &w.view(), &mut y.view_mut(), &GemmViews::default())?;
/// assert_eq!(y.to_vec()?[0].to_f32(), 64.0);
/// # Ok(())
/// # }
/// ```
///
/// [`choose`](Self::choose) does the same for any list of kernels: other operators' candidates, or instances of a kernel of one's own.
///
/// A choice holds for the device's name, its number of SMs, the driver's version, the kernels' code and the call's text; where one of them
/// differs it is not known. The file is written whole, under another name first, and what another process added meanwhile is kept.
pub struct Tuner {
    tuning: Tuning,
    file: Option<PathBuf>,
    ignored: Option<String>,
    known: Mutex<Choices>,
    progress: Option<Box<Progress>>,
}

type Progress = dyn Fn(&Measured<'_>) + Send + Sync;

impl Tuner {
    /// A tuner that keeps its choices in memory, and measures.
    pub fn in_memory() -> Self {
        let known = Mutex::new(Choices::default());
        Tuner { tuning: Tuning::Write, file: None, ignored: None, known, progress: None }
    }

    /// A tuner with the choices of a file, which need not exist.
    ///
    /// A file that cannot be read, or that holds something else, counts as empty: [`ignored`](Self::ignored) says why. It is replaced when a
    /// choice is kept.
    pub fn open(file: impl Into<PathBuf>, tuning: Tuning) -> Self {
        let file = file.into();
        let (known, ignored) = match Choices::read(&file) {
            Ok(known) => (known, None),
            Err(why) => (Choices::default(), Some(format!("{}: {why}", file.display()))),
        };
        Tuner { tuning, file: Some(file), ignored, known: Mutex::new(known), progress: None }
    }

    /// The tuner that the environment asks for: `TILEWRIGHT_TUNE` is `off`, `read` (unless set) or `write`; `TILEWRIGHT_TUNE_FILE` names the
    /// file, or else it is `tilewright/tuned.json` in the user's folder for caches.
    ///
    /// # Errors
    /// `TILEWRIGHT_TUNE` is something else; there is no folder for caches, and choices are to be kept.
    pub fn from_env() -> Result<Self> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let tuning = match variable(MODE) {
            None => Tuning::default(),
            Some(value) => value.to_str().and_then(Tuning::named).ok_or_else(|| {
                Error::argument(MODE, format!("{:?}", value.display()), "`off`, `read` or `write`")
            })?,
        };
        let file =
            variable(FILE).map(PathBuf::from).or_else(|| Some(caches()?.join("tilewright/tuned.json")));
        match file {
            Some(file) if tuning != Tuning::Off => Ok(Self::open(file, tuning)),
            None if tuning == Tuning::Write => {
                Err(Error::argument(FILE, "not set", "a path: there is no folder for caches"))
            }
            _ => Ok(Tuner { tuning, ..Self::in_memory() }),
        }
    }

    /// What is told of each kernel that was measured.
    pub fn on_progress(self, progress: impl Fn(&Measured<'_>) + Send + Sync + 'static) -> Self {
        Tuner { progress: Some(Box::new(progress)), ..self }
    }

    /// What it does about calls that it does not know.
    pub fn tuning(&self) -> Tuning {
        self.tuning
    }
    /// The file of its choices.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
    /// Why the choices of the file were not taken, if they were not.
    pub fn ignored(&self) -> Option<&str> {
        self.ignored.as_deref()
    }

    /// The kernel that computes a call the soonest, of these: the one that is known, or else, as the [`Tuning`] says, the first or the one that
    /// is measured to be.
    ///
    /// `call` says all that the time depends on beside the kernel: the operator, types, shapes, strides. `run` queues the call on the stream that
    /// it is given, with the kernel that it is given. To measure, it is captured in graphs and runs some hundred times, on the same
    /// memory: what it writes holds what the last of them left. Measuring waits for the device; work that was queued on `stream` is done
    /// before. The kernels take turns, forwards and backwards, and medians count; the first kernel stays where no other is faster by a
    /// hundredth. On the emulator, whose time is not a GPU's, nothing is measured.
    ///
    /// # Errors
    /// There is no kernel; a run fails; `stream` is captured; the choice cannot be kept in the file.
    pub fn choose(
        &self,
        stream: &Stream,
        call: &str,
        kernels: &[&'static KernelEntry],
        mut run: impl FnMut(&Stream, &'static KernelEntry) -> Result<()>,
    ) -> Result<&'static KernelEntry> {
        let Some(&first) = kernels.first() else {
            return Err(Error::argument("kernels", "empty", "at least one kernel"));
        };
        let device = stream.device();
        if self.tuning == Tuning::Off || device.is_emulator() {
            return Ok(first);
        }
        let key = Call::new(device, call, hash(kernels));
        if let Some(known) = self.known(&key)
            && let Some(kernel) = kernels.iter().find(|kernel| kernel.name == known)
        {
            return Ok(kernel);
        }
        if self.tuning == Tuning::Read || kernels.len() == 1 {
            return Ok(first);
        }
        // What is captured loads nothing and allocates nothing.
        kernels.iter().try_for_each(|kernel| run(stream, kernel))?;
        let mut done = 0;
        let told = |kernel: usize, ms| {
            done += 1;
            if let Some(progress) = &self.progress {
                progress(&Measured { call, kernel: kernels[kernel].name, ms, done, of: kernels.len() });
            }
        };
        let mut timer = measure::Timer::new(stream)?;
        let time = |kernel: usize, times| timer.time(times, |stream| run(stream, kernels[kernel]));
        let (fastest, ms) = measure::fastest(kernels.len(), time, told)?;
        let kernel = kernels[fastest];
        self.keep(key, Choice { kernel: kernel.name.to_owned(), ms })?;
        Ok(kernel)
    }

    fn known(&self, call: &Call) -> Option<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(call).map(|choice| choice.kernel.clone())
    }

    fn keep(&self, call: Call, choice: Choice) -> Result<()> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &self.file {
            // Those of other processes. What cannot be read is replaced, as it was ignored.
            known.extend(Choices::read(file).unwrap_or_default());
        }
        known.insert(call, choice);
        let Some(file) = &self.file else { return Ok(()) };
        known.write(file).map_err(|error| {
            Error::argument("file", format!("{}: {error}", file.display()), "a path that can be written")
        })
    }
}

impl Tuning {
    fn named(name: &str) -> Option<Self> {
        match name {
            "off" => Some(Tuning::Off),
            "read" => Some(Tuning::Read),
            "write" => Some(Tuning::Write),
            _ => None,
        }
    }
}

impl fmt::Debug for Tuner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tuner")
            .field("tuning", &self.tuning)
            .field("file", &self.file)
            .field("ignored", &self.ignored)
            .finish_non_exhaustive()
    }
}

/// A number for the kernels' code. Another version of the standard library may give another one: then it is measured again.
fn hash(kernels: &[&KernelEntry]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for kernel in kernels {
        (kernel.name, kernel.arch, kernel.ptx).hash(&mut hasher);
    }
    hasher.finish()
}

/// The user's folder for caches, as the system has it.
fn caches() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if cfg!(windows) {
        return folder("LOCALAPPDATA");
    }
    folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))
}

impl Call {
    fn new(device: &Device, call: &str, kernels: u64) -> Self {
        let (major, minor) = device.driver_version();
        Call {
            device: device.name().to_owned(),
            sms: device.sm_count(),
            driver: format!("{major}.{minor}"),
            kernels: format!("{kernels:016x}"),
            call: call.to_owned(),
        }
    }
}
