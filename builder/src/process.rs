//! From a module of PTX to checked kernels in the output folder, each on its own.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::{Deserialize, Serialize};

use crate::checks::{self, Fault};
use crate::files::{self, hash, make_folder, own_age, read};
use crate::output::{ptx_file, remove_others, write_ptx};
use crate::progress::{Phase, Progress};
use crate::ptx::{Item, Kind, Module, Role, annotate, load_parameters, scan, with_places};
use crate::ptxas::Ptxas;
use crate::record::Record;
use crate::{Arch, BuildError, Check, Complaint, Kernel};

/// The folder of [`Work::refused`].
const REFUSED: &str = "refused";

/// The work on one architecture's module.
pub(crate) struct Work<'a> {
    pub arch: Arch,
    /// The file with the PTX.
    pub module: &'a Path,
    pub out: &'a Path,
    pub shared: &'a Path,
    pub ptxas: Option<&'a Ptxas>,
    /// What is known that this `ptxas` says.
    pub record: &'a Record,
    /// How many kernels are checked at a time.
    pub workers: usize,
    pub progress: &'a Progress,
}

/// The variable that code declares to have the name of the kernel that it is compiled into.
const KERNEL_NAME: &str = "tilewright_kernel_name";

/// What came of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Processed {
    kernels: Vec<Kernel>,
    wrong: Vec<Complaint>,
    slow: Vec<Complaint>,
    /// Entries that are for another architecture, and for which.
    others: Vec<(String, Arch, String)>,
}

impl Work<'_> {
    /// Does the work, unless it was done before on the same PTX with the same `ptxas`.
    pub fn run(&self) -> Result<Processed, BuildError> {
        let done = self.processed()?;
        self.progress.enter(self.arch, Phase::Done);
        Ok(done)
    }

    fn processed(&self) -> Result<Processed, BuildError> {
        let text = read(self.module)?;
        let version = self.ptxas.map(|ptxas| &ptxas.version);
        let stamp = hash(&(&text, version, own_age()));
        let record = self.out.join(self.arch.target()).join("processed.json");
        if let Some(done) = self.done_before(&record, &stamp) {
            return Ok(done);
        }
        let done = self.process(&text)?;
        let json = serde_json::to_string(&(&stamp, &done)).unwrap_or_default();
        files::write(&record, json.as_bytes())?;
        Ok(done)
    }

    fn done_before(&self, record: &Path, stamp: &str) -> Option<Processed> {
        let (of, done): (String, Processed) = serde_json::from_str(&fs::read_to_string(record).ok()?).ok()?;
        let there = |kernel: &Kernel| self.out.join(ptx_file(self.arch, &kernel.entry)).is_file();
        let complaints = done.wrong.len() + done.slow.len();
        let shown = complaints == 0 || self.refused().is_dir();
        (of == stamp && shown && done.kernels.iter().all(there)).then_some(done)
    }

    fn process(&self, text: &str) -> Result<Processed, BuildError> {
        let placed = with_places(text);
        let text = placed.as_deref().unwrap_or(text);
        let module = Module::parse(text).map_err(|problem| BuildError::System {
            doing: format!("reading {}", self.module.display()),
            error: std::io::Error::other(problem),
        })?;
        make_folder(&self.out.join(self.arch.target()))?;
        make_folder(&self.shared.join("checked"))?;
        let _ = fs::remove_dir_all(self.refused());
        let version = version(text);
        let entries: Vec<_> = module.entries().collect();
        let next = AtomicUsize::new(0);
        let results = Mutex::new(Vec::new());
        self.progress.enter(self.arch, Phase::Checking { done: 0, of: entries.len() });
        // Kernels are independent, and ptxas takes seconds on a large one.
        thread::scope(|scope| {
            for _ in 0..self.workers.min(entries.len()) {
                scope.spawn(|| {
                    while let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let result = self.one(&module, version, entry);
                        self.progress.checked(self.arch);
                        results.lock().unwrap_or_else(|e| e.into_inner()).push(result);
                    }
                });
            }
        });
        let mut processed = Processed::default();
        for result in results.into_inner().unwrap_or_else(|e| e.into_inner()) {
            processed.add(result?);
        }
        processed.sort();
        remove_others(self.out, self.arch, &processed.kernels)?;
        Ok(processed)
    }

    /// Where the PTX of kernels that are complained of can be read.
    fn refused(&self) -> PathBuf {
        self.out.join(REFUSED).join(self.arch.target())
    }

    /// Checks and writes one kernel.
    fn one(&self, module: &Module, version: (u32, u32), entry: &Item) -> Result<Processed, BuildError> {
        let mut processed = Processed::default();
        let mut complain = |fault: Fault| {
            let complaint = |problem| Complaint { kernel: entry.name.to_owned(), arch: self.arch, problem };
            match fault {
                Fault::Wrong(problem) => processed.wrong.push(complaint(problem)),
                Fault::Slow(problem) => processed.slow.push(complaint(problem)),
            }
        };
        let used = module.used_by(entry);
        let (role, mut findings) = scan(entry.text);
        let mut declared = match role {
            Role::Kernel(declared) => declared,
            Role::Other(target) => {
                processed.others.push((entry.name.to_owned(), self.arch, target));
                return Ok(processed);
            }
            Role::Undeclared => {
                complain(Fault::Wrong(
                    "it does not declare its launch: kernels are made by #[kernel]".into(),
                ));
                return Ok(processed);
            }
        };
        for item in &used {
            findings.add(scan(item.text).1);
            let defined = used.iter().any(|other| other.kind == Kind::Function && other.name == item.name);
            if item.kind == Kind::Declaration && !defined {
                checks::call(item.name).into_iter().for_each(&mut complain);
            }
        }
        if findings.shared_unknown && declared.shared_bytes == 0 {
            complain(Fault::Wrong(
                "how much shared memory it takes is known at its launch alone: say the most by `shared = …`"
                    .into(),
            ));
        }
        // What is printed lies in local memory, and who looks for a fault does not mind the time.
        let prints = used.iter().any(|item| item.name == checks::PRINT);
        declared.local |= prints;
        declared.shared_bytes = declared.shared_bytes.max(findings.shared_bytes);
        checks::declaration(self.arch, &declared).into_iter().for_each(&mut complain);
        checks::code(&declared, &findings).into_iter().for_each(&mut complain);
        let texts = || used.iter().map(|item| item.text);
        let files = module.files_of(texts().chain([entry.text]));
        let texts = || used.iter().map(|item| named(item, entry.name));
        let ptx = annotate(self.arch, version, texts(), &load_parameters(entry.text), &declared, &files);
        let (mut registers, mut spilled) = (None, None);
        if let Some(ptxas) = self.ptxas {
            let report = match self.record.find(&ptx) {
                Some(report) => report,
                None => ptxas.check(self.arch, &ptx, &self.shared.join("checked"))?,
            };
            (registers, spilled) = (report.registers, report.spilled());
            let faults = checks::assembled(&declared, &findings, &report).into_iter();
            faults.filter(|fault| !prints || matches!(fault, Fault::Wrong(_))).for_each(&mut complain);
        }
        let compressed_bytes = write_ptx(self.out, self.arch, entry.name, &ptx)?;
        if !(processed.wrong.is_empty() && processed.slow.is_empty()) {
            let folder = self.refused();
            make_folder(&folder)?;
            files::write(&folder.join(format!("{}.ptx", entry.name)), ptx.as_bytes())?;
        }
        processed.kernels.push(Kernel {
            entry: entry.name.to_owned(),
            arch: self.arch,
            threads: declared.threads,
            min_ctas: declared.min_ctas,
            cluster: declared.cluster,
            shared_bytes: declared.shared_bytes,
            registers,
            spilled,
            ptx_bytes: ptx.len(),
            compressed_bytes,
        });
        Ok(processed)
    }
}

impl Processed {
    /// Takes in what came of other work.
    pub fn add(&mut self, other: Processed) {
        self.kernels.extend(other.kernels);
        self.wrong.extend(other.wrong);
        self.slow.extend(other.slow);
        self.others.extend(other.others);
    }

    fn sort(&mut self) {
        self.kernels.sort_by(|a, b| a.entry.cmp(&b.entry));
        self.wrong.sort_by(|a, b| a.kernel.cmp(&b.kernel));
        self.slow.sort_by(|a, b| a.kernel.cmp(&b.kernel));
        self.others.sort();
    }

    /// The kernels and what is to be warned of, if nothing forbids them.
    pub fn judge(
        mut self,
        check: Check,
        archs: &BTreeSet<Arch>,
        out: &Path,
    ) -> Result<(Vec<Kernel>, Vec<Complaint>), BuildError> {
        for (kernel, arch, target) in self.others {
            // An entry that is empty everywhere was never compiled.
            if !self.kernels.iter().any(|k| k.entry == kernel) && !archs.iter().any(|a| a.target() == target)
            {
                let variant = if target == Arch::Sm80.target() { "Sm80" } else { "Sm90a" };
                let problem = format!(
                    "it is for {target}, for which this build does not compile: add `.arch(Arch::{variant})` to the build \
                     script, or say `arch = Arch::{}` in its #[kernel]",
                    arch.variant()
                );
                self.wrong.push(Complaint { kernel, arch, problem });
            }
        }
        if check == Check::Deny {
            self.wrong.append(&mut self.slow);
        }
        self.wrong.sort_by(|a, b| (a.arch, &a.kernel).cmp(&(b.arch, &b.kernel)));
        if self.wrong.is_empty() {
            Ok((self.kernels, self.slow))
        } else {
            Err(BuildError::Kernels { complaints: self.wrong, ptx: out.join(REFUSED) })
        }
    }
}

/// The item's text, or where it is the variable that stands for the kernel's name, that.
fn named<'a>(item: &Item<'a>, kernel: &str) -> Cow<'a, str> {
    if item.kind != Kind::Variable || item.name != KERNEL_NAME {
        return Cow::Borrowed(item.text);
    }
    let bytes = kernel.bytes().chain([0]).map(|byte| byte.to_string()).collect::<Vec<_>>();
    Cow::Owned(format!(".global .align 1 .b8 {KERNEL_NAME}[{}] = {{{}}};", bytes.len(), bytes.join(", ")))
}

/// The module's `.version`.
fn version(text: &str) -> (u32, u32) {
    let version = text.lines().find_map(|line| line.trim().strip_prefix(".version ")).unwrap_or("");
    let mut numbers = version.split('.').map(|n| n.trim().parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Built;
    use crate::output::Manifest;

    const MODULE: &str = "\
.version 8.1
.target sm_90a
.address_size 64

.visible .entry fill()
{
	// tilewright.kernel threads=128 min_ctas=1 cluster=1,1,1 shared=0 local=0
	ret;
}
";

    #[test]
    fn recorded_kernels_are_not_assembled() {
        let shared = std::env::temp_dir().join(format!("tilewright-builder-process-{}", std::process::id()));
        let (first, second) = (shared.join("first"), shared.join("second"));
        let module = shared.join("module.s");
        fs::create_dir_all(&shared).unwrap();
        fs::write(&module, MODULE).unwrap();
        let progress = Progress::new("fill", None, std::time::Duration::from_secs(1));
        let ptxas = Ptxas { path: shared.join("nowhere"), version: "release 13.0".to_owned() };
        let run = |out: &Path, ptxas: Option<&Ptxas>, record: &Record| {
            let (arch, module, shared, progress) =
                (Arch::Sm90a, module.as_path(), shared.as_path(), &progress);
            Work { arch, module, out, shared, ptxas, record, workers: 1, progress }.run()
        };
        let unchecked = run(&first, None, &Record::default()).unwrap();
        let known = |registers| Kernel {
            registers,
            spilled: registers.map(|_| [0, 0]),
            ..unchecked.kernels[0].clone()
        };
        assert_eq!(unchecked.kernels, [known(None)]);
        let error = run(&second, Some(&ptxas), &Record::default()).unwrap_err().to_string();
        assert!(error.contains("nowhere"), "{error}");

        let kernels = vec![known(Some(24))];
        let manifest = Manifest { ptxas: Some(ptxas.version.clone()), kernels, ..Manifest::default() };
        assert_eq!(Built::of(manifest, first, Vec::new()).record(&shared).unwrap(), 1);
        let record = Record::read(&shared, Some(&ptxas.version));
        assert_eq!(run(&second, Some(&ptxas), &record).unwrap().kernels, [known(Some(24))]);
        fs::write(&module, MODULE.replace("ret;", "exit;")).unwrap();
        let error = run(&second, Some(&ptxas), &record).unwrap_err().to_string();
        assert!(error.contains("nowhere"), "other PTX is not known: {error}");
        let _ = fs::remove_dir_all(&shared);
    }
}
