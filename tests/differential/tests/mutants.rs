//! Mutants of valid PTX are loaded or refused, run or stopped: no panic, no abort, no hang.
//!
//! The seed is new each time and printed; `TILEWRIGHT_FUZZ_SEED` sets it, `TILEWRIGHT_FUZZ_SECONDS` how long it takes (5), and
//! `TILEWRIGHT_FUZZ_CASE` runs one mutant alone, as a failure says, and shows its text. Mutants run in a process of their own, which may die.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tilewright_differential::mutation::{Fate, mutant, run, sources};
use tilewright_support::suite::{Outcome, Suite};

/// The variable that makes a process one that runs mutants: the file to which it writes how far it is.
const CHILD: &str = "TILEWRIGHT_MUTANTS";
/// How long a mutant may take. Loading and launches end much sooner by themselves.
const HANGS: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    match std::env::var_os(CHILD) {
        Some(file) => match breed(Path::new(&file)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(what) => {
                eprintln!("{what:?}");
                ExitCode::FAILURE
            }
        },
        None => Suite::new().test("mutants of valid PTX are loaded or refused, run or stopped", watch).main(),
    }
}

/// An environment variable's number.
fn number<T: FromStr>(name: &str) -> Result<Option<T>, String> {
    let Ok(text) = std::env::var(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| format!("`{name}` was {text:?}; it must be a number"))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../emulator/tests/corpus")
}

/// Runs mutants for a time, and says before each which it is.
fn breed(file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let seed = number("TILEWRIGHT_FUZZ_SEED")?.ok_or("no seed")?;
    let most = Duration::from_secs(number("TILEWRIGHT_FUZZ_SECONDS")?.unwrap_or(5));
    let (mut file, sources) = (File::create(file)?, sources(&folder())?);
    let (start, mut fates) = (Instant::now(), [0u64; 3]);
    for number in 0.. {
        let mut state = [0; 32];
        for (bytes, value) in state.as_chunks_mut::<8>().0.iter_mut().zip([number].iter().chain(&fates)) {
            *bytes = value.to_le_bytes();
        }
        file.rewind()?;
        file.write_all(&state)?;
        if start.elapsed() > most {
            break;
        }
        let (of, text, mut random) = mutant(&sources, seed, number);
        let fate = match run(&sources[of], &text, &mut random) {
            Fate::Refused => 0,
            Fate::Stopped => 1,
            Fate::Ran => 2,
        };
        fates[fate] += 1;
    }
    Ok(())
}

/// How many mutants another process has begun, and what became of those before.
fn state(file: &Path) -> [u64; 4] {
    let bytes = fs::read(file).unwrap_or_default();
    let mut state = [0; 4];
    for (value, bytes) in state.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *value = u64::from_le_bytes(*bytes);
    }
    state
}

/// Lets another process run mutants, and looks whether it lives.
fn watch() -> Outcome {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos() as u64;
    let seed: u64 = number("TILEWRIGHT_FUZZ_SEED")?.unwrap_or(now % 1_000_000_000);
    println!("TILEWRIGHT_FUZZ_SEED={seed}");
    if let Some(number) = number("TILEWRIGHT_FUZZ_CASE")? {
        let sources = sources(&folder())?;
        let (of, text, mut random) = mutant(&sources, seed, number);
        println!("{text}");
        println!("{:?}", run(&sources[of], &text, &mut random));
        return Ok(());
    }
    let file = std::env::temp_dir().join(format!("tilewright-mutants-{}-{seed}", std::process::id()));
    let mut child = Command::new(std::env::current_exe()?)
        .env(CHILD, &file)
        .env("TILEWRIGHT_FUZZ_SEED", seed.to_string())
        .stderr(Stdio::piped())
        .spawn()?;
    let stderr = child.stderr.take();
    let report = thread::spawn(move || {
        let mut report = String::new();
        stderr.map(|mut stderr| stderr.read_to_string(&mut report));
        report
    });
    let (mut last, mut since) = (state(&file), Instant::now());
    let end = loop {
        if let Some(status) = child.try_wait()? {
            break status.to_string();
        }
        let now = state(&file);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if since.elapsed() > HANGS {
            child.kill()?;
            child.wait()?;
            break format!("a hang of {HANGS:?}");
        }
        thread::sleep(Duration::from_millis(20));
    };
    let [number, refused, stopped, ran] = state(&file);
    fs::remove_file(&file)?;
    let report = report.join().unwrap_or_default();
    if end != "exit status: 0" {
        let again = format!("TILEWRIGHT_FUZZ_SEED={seed} TILEWRIGHT_FUZZ_CASE={number}");
        return Err(format!("mutant {number}: {end}\n{report}\nto run it alone: {again}").into());
    }
    println!("{refused} were refused, {stopped} stopped, {ran} ran");
    assert!(refused > 0 && stopped > 0 && ran > 0, "too few mutants for all fates");
    Ok(())
}
