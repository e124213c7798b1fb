//! `ptxas`, where there is one: registers, spills, and what it has to say.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::environment::Environment;
use crate::files::{hash, while_doing};
use crate::{Arch, BuildError};

/// The oldest release that knows the PTX that the builder writes.
const OLDEST: (u32, u32) = (12, 1);

/// Environment variables that decide which `ptxas` is taken.
pub(crate) const VARIABLES: [&str; 3] = ["TILEWRIGHT_PTXAS", "CUDA_HOME", "CUDA_PATH"];

/// A `ptxas` that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptxas {
    /// The program.
    pub path: PathBuf,
    /// Its release.
    pub version: String,
}

/// A kernel as `ptxas` assembled it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembled {
    /// Registers of a thread.
    pub registers: Option<u32>,
    /// Bytes that a thread stores and loads because it has too few registers.
    pub spilled: Option<[u32; 2]>,
    /// The machine's code.
    pub cubin: Vec<u8>,
}

/// What `ptxas` says of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub registers: Option<u32>,
    pub stack_bytes: u32,
    pub spill_store_bytes: u32,
    pub spill_load_bytes: u32,
    /// Messages on `wgmma` that it serialises.
    pub serialised: Vec<String>,
    /// Why it does not assemble the kernel.
    pub errors: Vec<String>,
}

impl Report {
    /// Bytes that are stored and loaded for want of registers, if the kernel was assembled.
    pub fn spilled(&self) -> Option<[u32; 2]> {
        self.registers.map(|_| [self.spill_store_bytes, self.spill_load_bytes])
    }
}

/// The folder beside the builds into which setup puts NVIDIA's package with `ptxas`.
pub(crate) fn fetched(shared: &Path) -> PathBuf {
    shared.join("ptxas")
}

/// The first `ptxas` that will do. One that the environment names and that does not is an error.
pub(crate) fn find(environment: &dyn Environment, shared: &Path) -> Result<Option<Ptxas>, BuildError> {
    if let Some(path) = environment.variable("TILEWRIGHT_PTXAS").map(PathBuf::from) {
        return usable(environment, &path).map(Some).map_err(|because| BuildError::System {
            doing: format!("using the ptxas that TILEWRIGHT_PTXAS names, {}", path.display()),
            error: std::io::Error::other(because),
        });
    }
    Ok(places(environment, &fetched(shared), "ptxas").flat_map(|path| usable(environment, &path)).next())
}

/// Where programs of NVIDIA's are: in the package that setup has put into `fetched`, in toolkits, on the path.
pub(crate) fn places(
    environment: &dyn Environment,
    fetched: &Path,
    program: &str,
) -> impl Iterator<Item = PathBuf> {
    let mut places = vec![fetched.join("nvidia/cu13/bin")];
    places.extend(
        ["CUDA_HOME", "CUDA_PATH"]
            .iter()
            .filter_map(|v| Some(PathBuf::from(environment.variable(v)?).join("bin"))),
    );
    places.push(PathBuf::from("/usr/local/cuda/bin"));
    places.extend(environment.variable("PATH").iter().flat_map(std::env::split_paths));
    places.into_iter().map(move |place| place.join(program)).filter(|path| path.is_file())
}

fn usable(environment: &dyn Environment, path: &Path) -> Result<Ptxas, String> {
    let version = environment.ptxas(path)?;
    let release = version.split_once("release ").map_or("", |(_, rest)| rest);
    let mut numbers = release.split([',', '.']).map(|n| n.trim().parse::<u32>().unwrap_or(0));
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < OLDEST {
        return Err(format!("it is `{version}`; {}.{} or later is needed", OLDEST.0, OLDEST.1));
    }
    Ok(Ptxas { path: path.to_owned(), version })
}

impl Ptxas {
    /// Assembles a kernel's module, as [`Built::ptx`](crate::Built::ptx) gives it.
    ///
    /// # Errors
    /// It cannot be run, or refuses the kernel.
    pub fn assemble(&self, arch: Arch, ptx: &str) -> Result<Assembled, BuildError> {
        let folder = std::env::temp_dir();
        let name = hash(&(ptx, std::process::id()));
        let [source, cubin] =
            ["ptx", "cubin"].map(|extension| folder.join(format!("tilewright-{name}.{extension}")));
        let text = self.run(arch, ptx, &source, &cubin);
        let code = fs::read(&cubin);
        let _ = fs::remove_file(&cubin);
        let (succeeded, text) = text?;
        let report = read(&text, ptx);
        let failed = |why: String| BuildError::System {
            doing: format!("assembling with {}", self.path.display()),
            error: std::io::Error::other(why),
        };
        if !succeeded {
            return Err(failed(text.trim().to_owned()));
        }
        let cubin = code.map_err(|error| failed(error.to_string()))?;
        Ok(Assembled { registers: report.registers, spilled: report.spilled(), cubin })
    }

    /// Writes the text to `source`, assembles it to `cubin`, and removes `source`: whether that went well, and what was said.
    fn run(&self, arch: Arch, ptx: &str, source: &Path, cubin: &Path) -> Result<(bool, String), BuildError> {
        fs::write(source, ptx).map_err(while_doing("writing", source))?;
        let mut command = Command::new(&self.path);
        command.arg(format!("-arch={}", arch.target())).arg("-v").arg("-o").arg(cubin).arg(source);
        let output = command.output().map_err(while_doing("running", &self.path));
        let _ = fs::remove_file(source);
        let output = output?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        if !output.status.success() && text.trim().is_empty() {
            text = output.status.to_string();
        }
        Ok((output.status.success(), text))
    }

    /// Assembles a kernel's module; that it was assembled before, and with which words, is remembered in `cache`.
    pub(crate) fn check(&self, arch: Arch, ptx: &str, cache: &Path) -> Result<Report, BuildError> {
        let name = hash(&(ptx, &self.version));
        let log = cache.join(format!("{name}.log"));
        if let Ok(output) = fs::read_to_string(&log) {
            return Ok(read(&output, ptx));
        }
        // A name that no build running at the same time has, in this process or another.
        static BEGUN: AtomicUsize = AtomicUsize::new(0);
        let number = BEGUN.fetch_add(1, Ordering::Relaxed);
        let own = |extension| cache.join(format!("{name}.{}.{number}.{extension}", std::process::id()));
        let (source, cubin, fresh) = (own("ptx"), own("cubin"), own("log"));
        let (succeeded, text) = self.run(arch, ptx, &source, &cubin)?;
        let _ = fs::remove_file(&cubin);
        let mut report = read(&text, ptx);
        // What failed is not remembered: it may have been the machine's fault.
        if !succeeded {
            if report.errors.is_empty() {
                report.errors.push(text.trim().to_owned());
            }
            return Ok(report);
        }
        fs::write(&fresh, text).map_err(while_doing("writing", &fresh))?;
        fs::rename(&fresh, &log).map_err(while_doing("writing", &log))?;
        Ok(report)
    }
}

/// Reads what `ptxas -v` wrote about `ptx`.
fn read(output: &str, ptx: &str) -> Report {
    let mut report = Report::default();
    for line in output.lines() {
        let number_before = |what: &str| -> u32 {
            let before = line.split(what).next().unwrap_or("");
            before.rsplit([' ', ',']).find(|word| !word.is_empty()).and_then(|n| n.parse().ok()).unwrap_or(0)
        };
        if line.contains(" bytes stack frame") {
            report.stack_bytes += number_before(" bytes stack frame");
            report.spill_store_bytes += number_before(" bytes spill stores");
            report.spill_load_bytes += number_before(" bytes spill loads");
        } else if line.contains("Used ") && line.contains(" registers") {
            report.registers = report.registers.max(Some(number_before(" registers")));
        } else if let Some(at) = line.find("(C75") {
            report.serialised.push(line[at..].trim().to_owned());
        } else if line.contains("; error") {
            report.errors.push(located(line, ptx));
        } else if line.contains("error   :") || (line.contains("fatal   :") && report.errors.is_empty()) {
            report.errors.push(line.trim().to_owned());
        }
    }
    report
}

/// `ptxas FILE, line 15; error   : MESSAGE`, with the line's text.
fn located(line: &str, ptx: &str) -> String {
    let (place, message) = line.split_once("; error").unwrap_or(("", line));
    let message = message.trim_start_matches([' ', ':']);
    let number = place.rsplit_once("line ").and_then(|(_, n)| n.trim().parse::<usize>().ok());
    match number.and_then(|n| ptx.lines().nth(n.checked_sub(1)?)) {
        Some(text) => format!("{message}, in `{}`", text.trim()),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_report() {
        let output = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 9 barriers, 1024 bytes smem
ptxas info    : Compile time = 8.004 ms
";
        assert_eq!(read(output, ""), Report { registers: Some(168), ..Report::default() });
    }

    #[test]
    fn spills_and_serialised_wgmma() {
        let output = "\
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to … in function 'k'
ptxas info    : Function properties for k
    40 bytes stack frame, 36 bytes spill stores, 72 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers
";
        let report = read(output, "");
        assert_eq!((report.stack_bytes, report.spill_store_bytes, report.spill_load_bytes), (40, 36, 72));
        assert_eq!(report.registers, Some(255));
        assert_eq!(report.serialised.len(), 1);
        assert!(report.serialised[0].starts_with("(C7510) Potential Performance Loss"));
    }

    #[test]
    fn errors_quote_the_line() {
        let output = "\
ptxas a.ptx, line 2; error   : Not a name of any known instruction: 'bogus'
ptxas fatal   : Ptx assembly aborted due to errors
";
        let report = read(output, "first\n\tbogus.b32 %r1;\n");
        assert_eq!(report.errors, ["Not a name of any known instruction: 'bogus', in `bogus.b32 %r1;`"]);
        let report = read("ptxas fatal   : Unsupported .version 8.1; current version is '7.8'\n", "");
        assert_eq!(report.errors.len(), 1);
    }
}
