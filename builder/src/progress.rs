//! Progress on the terminal: a line that is written over every second, and erased at the end.
//!
//! cargo hides what a build script writes. What it writes itself goes to its standard error output: where that is a
//! terminal, someone is looking at it, and the line goes there too. Otherwise nothing is written.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::Arch;
use crate::environment::Environment;

/// What is being done for an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Other builds go first.
    Waiting,
    /// What the crate depends on is compiled, of which `core` takes the longest.
    Dependencies,
    /// rustc compiles the kernels; it does not say how far it is.
    Compiling,
    /// Kernels are checked and written.
    Checking {
        /// So many are.
        done: usize,
        /// Of so many.
        of: usize,
    },
    /// Nothing more.
    Done,
}

/// What is known of a build, and shown while it lives.
pub(crate) struct Progress {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    crate_name: String,
    begun: Instant,
    phases: BTreeMap<Arch, Phase>,
    /// Whether the build has ended.
    ended: bool,
    /// Whether a thread shows it.
    shown: bool,
}

impl Progress {
    /// The progress of a crate's build, shown on this terminal every `period`.
    pub fn new(crate_name: &str, terminal: Option<Box<dyn Write + Send>>, period: Duration) -> Self {
        let state = State {
            crate_name: crate_name.to_owned(),
            begun: Instant::now(),
            phases: BTreeMap::new(),
            ended: false,
            shown: terminal.is_some(),
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        if let Some(terminal) = terminal {
            let shared = Arc::clone(&shared);
            // Not joined: a terminal that is stopped must not stop the build.
            thread::spawn(move || shared.show(terminal, period));
        }
        Self { shared }
    }

    /// Says what is done now for this architecture.
    pub fn enter(&self, arch: Arch, phase: Phase) {
        self.shared.lock().phases.insert(arch, phase);
    }

    /// Says that one more kernel is checked.
    pub fn checked(&self, arch: Arch) {
        if let Some(Phase::Checking { done, .. }) = self.shared.lock().phases.get_mut(&arch) {
            *done += 1;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.ended = true;
        self.shared.changed.notify_all();
        // A moment, in which the line is erased.
        let moment = Duration::from_millis(500);
        let _ = self.shared.changed.wait_timeout_while(state, moment, |state| state.shown);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn show(&self, mut terminal: Box<dyn Write + Send>, period: Duration) {
        let mut written = false;
        loop {
            let wait = self.changed.wait_timeout_while(self.lock(), period, |state| !state.ended);
            let state = wait.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
            if state.ended {
                break;
            }
            // A line that is too long for the terminal is cut, not continued below. The cursor goes back to the begin, where
            // cargo expects it. The lock is not held while the terminal takes its time.
            let line = format!("\r\x1b[?7l{state}\x1b[K\x1b[?7h\r");
            drop(state);
            if terminal.write_all(line.as_bytes()).and_then(|()| terminal.flush()).is_err() {
                break;
            }
            written = true;
        }
        if written {
            let _ = terminal.write_all(b"\r\x1b[K").and_then(|()| terminal.flush());
        }
        self.lock().shown = false;
        self.changed.notify_all();
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernels of {}, {} s", self.crate_name, self.begun.elapsed().as_secs())?;
        for (index, (arch, phase)) in self.phases.iter().enumerate() {
            write!(f, "{} {} {phase}", if index == 0 { ":" } else { "," }, arch.target())?;
        }
        Ok(())
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting => f.write_str("waiting"),
            Self::Dependencies => f.write_str("compiling core"),
            Self::Compiling => f.write_str("compiling"),
            Self::Checking { done, of } => write!(f, "{done} of {of} checked"),
            Self::Done => f.write_str("done"),
        }
    }
}

/// The terminal that the cargo which runs this build script writes to, unless it was asked for quiet.
pub(crate) fn terminal(environment: &dyn Environment) -> Option<Box<dyn Write + Send>> {
    let is = |name: &str, value: &str| environment.variable(name).is_some_and(|v| v == value);
    let quiet = environment.variable("CI").is_some()
        || environment.variable("TERM").is_none_or(|term| term == "dumb")
        || is("CARGO_TERM_QUIET", "true")
        || is("CARGO_TERM_PROGRESS_WHEN", "never");
    if quiet { None } else { of_parent() }
}

#[cfg(target_os = "linux")]
fn of_parent() -> Option<Box<dyn Write + Send>> {
    use std::fs::{self, OpenOptions};
    use std::io::IsTerminal;

    let cargo = format!("/proc/{}", std::os::unix::process::parent_id());
    let arguments = fs::read(format!("{cargo}/cmdline")).ok()?;
    let own = arguments.split(|byte| *byte == 0).take_while(|argument| *argument != b"--");
    if own.into_iter().any(|argument| argument == b"-q" || argument == b"--quiet") {
        return None;
    }
    let output = format!("{cargo}/fd/2");
    // Nothing but a device is opened: opening a pipe may block.
    let device = fs::read_link(&output).ok().filter(|path| path.starts_with("/dev"))?;
    let terminal = OpenOptions::new().write(true).open(device).ok().filter(IsTerminal::is_terminal)?;
    Some(Box::new(terminal))
}

/// Elsewhere there is no telling where cargo writes, and so whether someone would see the line or stumble over it.
#[cfg(not(target_os = "linux"))]
fn of_parent() -> Option<Box<dyn Write + Send>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A terminal whose text can be read.
    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Screen {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// A terminal that takes nothing, ever.
    struct Stopped;

    impl Write for Stopped {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            loop {
                thread::park();
            }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_line_says_what_is_done_and_is_erased() {
        let screen = Screen::default();
        let progress = Progress::new("gemm", Some(Box::new(screen.clone())), Duration::from_millis(1));
        progress.enter(Arch::Sm90a, Phase::Compiling);
        progress.enter(Arch::Sm80, Phase::Checking { done: 36, of: 120 });
        progress.checked(Arch::Sm80);
        let line =
            "\r\x1b[?7lkernels of gemm, 0 s: sm_80 37 of 120 checked, sm_90a compiling\x1b[K\x1b[?7h\r";
        while !screen.text().contains(line) {
            thread::sleep(Duration::from_millis(1));
        }
        drop(progress);
        let end = screen.text();
        assert!(end.ends_with("\r\x1b[K") && !end.contains('\n'), "{end:?}");
        thread::sleep(Duration::from_millis(20));
        assert_eq!(screen.text(), end, "nothing is written after the end");
    }

    #[test]
    fn a_short_build_shows_nothing() {
        let screen = Screen::default();
        let progress = Progress::new("gemm", Some(Box::new(screen.clone())), Duration::from_secs(60));
        progress.enter(Arch::Sm80, Phase::Done);
        drop(progress);
        assert_eq!(screen.text(), "");
    }

    #[test]
    fn a_terminal_that_is_stopped_does_not_stop_the_build() {
        let progress = Progress::new("gemm", Some(Box::new(Stopped)), Duration::from_millis(1));
        thread::sleep(Duration::from_millis(20));
        let begun = Instant::now();
        drop(progress);
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
