//! Runs a kernel, in one order of its warps or in several.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use tilewright_emulator::{Arch, Counters, Emulator, Fault, Kernel, Launch, Limits, Module, Schedule};
use tilewright_ptx::ast;

use crate::argument::{Argument, Buffer, Value, argument};
use crate::block::block;
use crate::compare::{Difference, with_expected, with_run};
use crate::options;
use crate::result::{Wanted, wanted, write};
use crate::wrong::{Usage, Wrong, read_text, wrong};

/// What a command asks for.
pub struct Plan {
    /// The file's name.
    pub file: String,
    /// The device.
    pub arch: Arch,
    /// The kernel.
    pub kernel: Kernel,
    entry: ast::Entry,
    /// How it is launched.
    pub launch: Launch,
    /// Its arguments, then buffers that are none.
    pub arguments: Vec<Argument>,
    /// How many arguments there are.
    count: usize,
    wanted: Vec<Wanted>,
    first: Schedule,
    /// The seeds of the orders that follow.
    seeds: Range<u64>,
    limits: Limits,
    checks: bool,
}

/// What came of a run.
pub struct Run {
    /// The order of its warps.
    pub schedule: Schedule,
    /// How long it took.
    pub time: Duration,
    /// What it counted, or what went wrong.
    pub outcome: Result<Counters, Fault>,
    /// What the kernel printed.
    pub printed: String,
    /// What it left in the buffers that are wanted; nothing after a fault.
    pub results: Vec<Found>,
    /// Where that is not what it should be.
    pub differences: Vec<Difference>,
    /// Where the buffers of the arguments were.
    addresses: Vec<Option<u64>>,
}

/// What a run left in a buffer.
pub struct Found {
    /// The number of the buffer's argument.
    pub argument: usize,
    /// Its bytes, of the first run.
    bytes: Vec<u8>,
    /// Their SHA-256, in hexadecimal digits.
    pub digest: String,
}

impl Run {
    /// Whether nothing is wrong.
    pub fn is_well(&self) -> bool {
        self.outcome.is_ok() && self.differences.is_empty()
    }
}

/// An order of warps in words.
pub fn order(schedule: Schedule) -> String {
    match schedule {
        Schedule::Fixed => "the fixed order".to_owned(),
        Schedule::Random(seed) => format!("the order of seed {seed}"),
    }
}

impl Plan {
    /// The plan of a command.
    pub fn new(options: &options::Run) -> Usage<Self> {
        let (entry, kernel) = choose(&options.file, options.kernel.as_deref())?;
        let limits = options.limits.unwrap_or_default();
        let all = options.arguments.iter().chain(&options.buffers).enumerate();
        let arguments =
            all.map(|(number, text)| argument(number, text, limits.memory)).collect::<Usage<Vec<_>>>()?;
        let count = options.arguments.len();
        for (number, argument) in arguments.iter().enumerate().skip(count) {
            if argument.name == number.to_string() || !matches!(argument.value, Value::Buffer(_)) {
                return wrong("--buffer", &argument.text, "NAME= and a buffer, as of --arg");
            }
        }
        for (number, argument) in arguments.iter().enumerate() {
            if arguments.iter().take(number).any(|other| other.name == argument.name) {
                return wrong(
                    &format!("the name of argument {number}"),
                    &argument.name,
                    "one that no other argument or buffer has",
                );
            }
        }
        let cluster = options.cluster.or(entry.cluster).unwrap_or([1; 3]);
        Ok(Self {
            file: options.file.display().to_string(),
            arch: options.arch.into(),
            kernel,
            entry,
            launch: Launch {
                grid: options.grid,
                threads: options.block,
                cluster,
                dynamic_shared: options.shared,
            },
            wanted: wanted(options, &arguments)?,
            arguments,
            count,
            first: options.schedule.map_or(Schedule::Fixed, Schedule::Random),
            seeds: options.seeds.as_deref().map_or(Ok(0..0), seeds)?,
            limits,
            checks: !options.no_checks,
        })
    }

    /// Runs in each order, up to the first run in which something is wrong, and writes what the first leaves.
    pub fn run(&self) -> Usage<Vec<Run>> {
        let mut runs: Vec<Run> = Vec::new();
        for schedule in std::iter::once(self.first).chain(self.seeds.clone().map(Schedule::Random)) {
            let mut run = self.once(schedule)?;
            run.differences = self.differences(&run, runs.first());
            match runs.is_empty() {
                true => self.write(&run)?,
                // Others are compared with the first alone.
                false => run.results.iter_mut().for_each(|found| found.bytes = Vec::new()),
            }
            let well = run.is_well();
            runs.push(run);
            if !well {
                break;
            }
        }
        Ok(runs)
    }

    /// Runs on a new device.
    fn once(&self, schedule: Schedule) -> Usage<Run> {
        let emulator = Emulator::new(self.arch)
            .with_limits(self.limits)
            .with_schedule(schedule)
            .checking_order(self.checks)
            .echoing(false);
        let addresses =
            self.arguments.iter().map(|argument| place(&emulator, argument)).collect::<Usage<Vec<_>>>()?;
        let block = block(&self.entry, &self.arguments, self.count, &addresses)?;
        let start = Instant::now();
        let outcome = emulator.launch(&self.kernel, &self.launch, &block);
        let time = start.elapsed();
        let mut results = Vec::new();
        if outcome.is_ok() {
            for wanted in &self.wanted {
                let (Some(buffer), Some(address)) =
                    (self.buffer(wanted.argument), addresses.get(wanted.argument).copied().flatten())
                else {
                    continue;
                };
                let mut bytes = vec![0; buffer.bytes as usize];
                emulator.read(address, &mut bytes).map_err(|error| Wrong(error.to_string()))?;
                let digest = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
                results.push(Found { argument: wanted.argument, bytes, digest });
            }
        }
        let printed = emulator.printed();
        Ok(Run { schedule, time, outcome, printed, results, differences: Vec::new(), addresses })
    }

    /// Where the buffers of a run were: their names, addresses and ends.
    pub fn places<'p>(&'p self, run: &'p Run) -> impl Iterator<Item = (&'p str, u64, u64)> {
        (0..).zip(&self.arguments).zip(&run.addresses).filter_map(|((number, argument), &address)| {
            let address = address?;
            Some((argument.name.as_str(), address, address + self.buffer(number)?.bytes))
        })
    }

    /// The buffer of the argument of this number.
    pub fn buffer(&self, argument: usize) -> Option<&Buffer> {
        match &self.arguments.get(argument)?.value {
            Value::Buffer(buffer) => Some(buffer),
            _ => None,
        }
    }

    fn differences(&self, run: &Run, first: Option<&Run>) -> Vec<Difference> {
        let mut differences = Vec::new();
        for (i, found) in run.results.iter().enumerate() {
            let (Some(argument), Some(buffer)) =
                (self.arguments.get(found.argument), self.buffer(found.argument))
            else {
                continue;
            };
            let wanted = self.wanted.iter().find(|wanted| wanted.argument == found.argument);
            let other = first.and_then(|first| Some((first, first.results.get(i)?)));
            let difference = match (wanted.and_then(|wanted| wanted.expected.as_ref()), other) {
                (Some(expected), _) => with_expected(&argument.name, buffer.element, &found.bytes, expected),
                (None, Some((first, other))) => {
                    let run = order(first.schedule);
                    with_run(&argument.name, buffer.element, &found.bytes, &other.bytes, &run)
                }
                (None, None) => None,
            };
            differences.extend(difference);
        }
        differences
    }

    fn write(&self, run: &Run) -> Usage<()> {
        for found in &run.results {
            let wanted = self.wanted.iter().find(|wanted| wanted.argument == found.argument);
            if let Some(path) = wanted.and_then(|wanted| wanted.out.as_ref())
                && let Some(buffer) = self.buffer(found.argument)
            {
                write(path, buffer, &found.bytes)?;
            }
        }
        Ok(())
    }
}

/// Makes an argument's buffer, if it is one: its address.
fn place(emulator: &Emulator, argument: &Argument) -> Usage<Option<u64>> {
    let Value::Buffer(buffer) = &argument.value else { return Ok(None) };
    let wrong =
        |error: tilewright_emulator::MemoryError| Wrong(format!("argument `{}`: {error}", argument.text));
    let address = emulator.allocate(buffer.bytes).map_err(wrong)?;
    if let Some(initial) = &buffer.initial {
        emulator.write(address, initial).map_err(wrong)?;
    }
    Ok(Some(address))
}

/// The kernel of this name, or the only one.
fn choose(file: &Path, name: Option<&str>) -> Usage<(ast::Entry, Kernel)> {
    let text = read_text(file)?;
    let bad = |what: &dyn std::fmt::Display| Wrong(format!("{}: {what}", file.display()));
    let module = Module::load(&text).map_err(|error| bad(&error))?;
    let mut entries = tilewright_ptx::parser::parse(&text).map_err(|error| bad(&error))?.entries;
    let names = entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>().join(", ");
    let at = match name {
        Some(name) => entries.iter().position(|entry| entry.name == name),
        None => (entries.len() == 1).then_some(0),
    };
    let found =
        at.map(|at| entries.swap_remove(at)).and_then(|entry| Some((module.kernel(&entry.name)?, entry)));
    match (found, name) {
        (Some((kernel, entry)), _) => Ok((entry, kernel)),
        (None, Some(name)) => {
            wrong("--kernel", name, &format!("one of the kernels of {}: {names}", file.display()))
        }
        (None, None) => Err(Wrong(format!("--kernel must say which kernel of {}: {names}", file.display()))),
    }
}

/// `A..B`.
fn seeds(text: &str) -> Usage<Range<u64>> {
    let range = text.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    match range.filter(|range: &Range<u64>| !range.is_empty()) {
        Some(range) => Ok(range),
        None => {
            wrong("--seeds", text, "two numbers as `0..8`, of which the second is the larger and not run")
        }
    }
}
