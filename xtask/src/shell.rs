//! Running programs, saying which.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Instant;

/// What a command comes to: nothing, or a message for the user.
pub type Done = Result<(), String>;

/// The project's folder.
pub fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// The target folder that this program was built in.
pub fn target() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| format!("where is this program? {error}"))?;
    // target/PROFILE/xtask
    program
        .ancestors()
        .nth(2)
        .map(Path::to_path_buf)
        .ok_or_else(|| "this program is in no target folder".to_owned())
}

/// The cargo that runs this program, in the project's folder.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.args(arguments).current_dir(root());
    command
}

/// Arguments of cargo for packages outside of the workspace: their tests are few and small, and compiling with less optimisation takes about half
/// the time. Tests spend theirs in the emulator, which keeps level 1. Kernels are compiled as ever: the builder sets its own profile.
pub const QUICK: [&str; 6] = [
    "--config",
    "profile.release.opt-level=0",
    "--config",
    "profile.release.package.tilewright-emulator.opt-level=1",
    "--config",
    "profile.release.package.tilewright-emulator.codegen-units=16",
];

/// The same for packages of few kernels, which the builder reads as fast without optimisation.
pub const QUICKER: [&str; 6] = [
    "--config",
    "profile.release.package.tilewright-builder.opt-level=0",
    "--config",
    "profile.release.package.tilewright-ptx.opt-level=0",
    "--config",
    "profile.release.package.miniz_oxide.opt-level=0",
];

/// Says what is done, and how long after the first such line, in minutes and seconds.
pub fn say(what: &str) {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let seconds = BEGIN.elapsed().as_secs();
    eprintln!("== {}:{:02} {what}", seconds / 60, seconds % 60);
}

/// Says and runs a command.
pub fn run(command: &mut Command) -> Done {
    let line = line(command);
    say(&line);
    let status = command.status().map_err(|error| format!("cannot run `{line}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{line}` failed: {status}")) }
}

/// Whether a command runs and succeeds; what it writes is not shown.
pub fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let quiet = |command: &mut Command| command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet(Command::new(program).args(arguments)).is_ok_and(|status| status.success())
}

/// A number of the commit's: what is checked in part is another part with each commit.
pub fn commit_number() -> usize {
    let commit = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(root()).output();
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    commit.ok().and_then(|commit| usize::from_str_radix(commit.get(..4)?, 16).ok()).unwrap_or(0)
}

/// A command as one would type it.
pub fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy());
    std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ")
}
