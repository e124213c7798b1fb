//! Texts that were valid PTX until something happened to them.
//!
//! What a mutant does is of no interest: it must be loaded or refused, and run or be stopped, and the process must live. The texts are those of
//! [`all`](crate::all), with their launches, and those of nvcc and Triton, launched with whatever.

use std::path::Path;
use std::time::Duration;

use tilewright_emulator::{Arch, Emulator, Launch, Limits, Module, Schedule};

use crate::case::Case;
use crate::random::Random;

/// Numbers that are often wrong.
const NUMBERS: [&str; 22] = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "8",
    "15",
    "16",
    "31",
    "32",
    "33",
    "63",
    "64",
    "127",
    "255",
    "256",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "9223372036854775808",
    "18446744073709551615",
];
/// Marks that PTX has.
const MARKS: [&str; 16] = ["{", "}", "(", ")", "[", "]", "<", ">", ",", ";", ":", "@", "!", "|", "+", "-"];

/// A valid text.
#[derive(Clone, Debug)]
pub struct Source {
    /// The module.
    pub text: String,
    /// How its kernel is launched; `None` for the modules of compilers.
    case: Option<Case>,
}

/// Each kernel of the tables in a module of its own, then the modules of compilers in this folder.
pub fn sources(folder: &Path) -> std::io::Result<Vec<Source>> {
    const ENTRY: &str = ".visible .entry ";
    let mut sources = Vec::new();
    for group in crate::all() {
        let head = group.ptx.find(ENTRY).unwrap_or(0);
        for case in group.cases {
            let first = format!("{ENTRY}{}(", case.kernel);
            let Some(start) = group.ptx.find(&first) else { continue };
            let rest = &group.ptx[start..];
            let end = rest[ENTRY.len()..].find(ENTRY).map_or(rest.len(), |end| ENTRY.len() + end);
            let text = format!("{}{}", &group.ptx[..head], &rest[..end]);
            sources.push(Source { text, case: Some(case) });
        }
    }
    let mut files = Vec::new();
    for of in std::fs::read_dir(folder)? {
        let path = of?.path();
        if path.is_dir() {
            files.extend(std::fs::read_dir(path)?.flatten().map(|file| file.path()));
        }
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "ptx"));
    files.sort();
    for file in files {
        sources.push(Source { text: std::fs::read_to_string(file)?, case: None });
    }
    Ok(sources)
}

/// What became of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was not loaded.
    Refused,
    /// It was loaded, and a kernel of it was stopped.
    Stopped,
    /// It ran.
    Ran,
}

/// A mutant of one of these, which is the same for the same number of the same seed; where it came from, and what it is.
pub fn mutant(sources: &[Source], seed: u64, number: u64) -> (usize, String, Random) {
    let mut random = Random::new(Random::new(seed).bits() ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let compiled = sources.iter().position(|source| source.case.is_none()).unwrap_or(sources.len());
    let of = match random.one_in(8) && compiled < sources.len() {
        true => compiled + random.below(sources.len() - compiled),
        false => random.below(compiled),
    };
    let mut pieces = split(&sources[of].text);
    let others = split(&sources[random.below(compiled)].text);
    let changes = if random.one_in(3) { 2 + random.below(4) } else { 1 };
    for _ in 0..changes {
        change(&mut random, &mut pieces, &others);
    }
    (of, pieces.concat(), random)
}

/// Words, modifiers, numbers, space and marks.
fn split(text: &str) -> Vec<String> {
    let kind = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '$' | '%' | '.' => 0,
        '\n' => 1,
        c if c.is_whitespace() => 2,
        _ => 3,
    };
    let mut pieces: Vec<String> = Vec::new();
    let mut last = None;
    for c in text.chars() {
        let joins = last == Some(kind(c)) && matches!(kind(c), 0 | 2) && c != '.';
        match pieces.last_mut() {
            Some(piece) if joins => piece.push(c),
            _ => pieces.push(c.into()),
        }
        last = Some(kind(c));
    }
    pieces
}

fn is_word(piece: &str) -> bool {
    piece.starts_with(|c: char| c.is_ascii_alphanumeric() || "%._$".contains(c))
}

fn is_number(piece: &str) -> bool {
    piece.starts_with(|c: char| c.is_ascii_digit())
}

/// The first place from a random one on that this holds for.
fn place(random: &mut Random, pieces: &[String], holds: impl Fn(&str) -> bool) -> Option<usize> {
    let start = random.below(pieces.len().max(1));
    (start..pieces.len()).chain(0..start).find(|&at| holds(&pieces[at]))
}

/// The pieces of a random line.
fn line(random: &mut Random, pieces: &[String]) -> std::ops::Range<usize> {
    let at = random.below(pieces.len().max(1)).min(pieces.len());
    let start = pieces[..at].iter().rposition(|piece| piece == "\n").map_or(0, |before| before + 1);
    let end = pieces[at..].iter().position(|piece| piece == "\n").map_or(pieces.len(), |end| at + end + 1);
    start..end
}

/// Does something to a text; `others` is another one, from which things come.
fn change(random: &mut Random, pieces: &mut Vec<String>, others: &[String]) {
    if pieces.is_empty() {
        return;
    }
    let any = |_: &str| true;
    let modifier = |piece: &str| piece.starts_with('.') && piece.len() > 1;
    match random.below(14) {
        // A word becomes another of the same text, or of the other one.
        0..=2 => {
            let (to, from) = (place(random, pieces, is_word), place(random, pieces, is_word));
            if let (Some(to), Some(from)) = (to, from) {
                pieces[to] = pieces[from].clone();
            }
        }
        3 => {
            let (to, from) = (place(random, pieces, is_word), place(random, others, is_word));
            if let (Some(to), Some(from)) = (to, from) {
                pieces[to] = others[from].clone();
            }
        }
        4 | 5 => {
            let from = if random.one_in(2) { others } else { &*pieces };
            if let (Some(to), Some(at)) = (place(random, pieces, modifier), place(random, from, modifier)) {
                pieces[to] = from[at].clone();
            }
        }
        6 | 7 => {
            let to = if random.one_in(3) {
                place(random, pieces, is_word)
            } else {
                place(random, pieces, is_number)
            };
            if let Some(to) = to {
                let sign = if random.one_in(6) { "-" } else { "" };
                pieces[to] = format!("{sign}{}", random.pick(&NUMBERS));
            }
        }
        8 => {
            if let Some(at) = place(random, pieces, any) {
                pieces.remove(at);
            }
        }
        9 => {
            if let Some(at) = place(random, pieces, any) {
                let times = if random.one_in(20) { 2000 } else { 1 };
                let again = vec![pieces[at].clone(); times];
                pieces.splice(at..at, again);
            }
        }
        10 => {
            if let Some(at) = place(random, pieces, any) {
                pieces.insert(at, (*random.pick(&MARKS)).to_owned());
            }
        }
        11 => {
            let line = line(random, pieces);
            let times = random.below(3);
            let again = vec![pieces[line.clone()].concat(); times];
            pieces.splice(line, again);
        }
        12 => {
            let (from, to) = (line(random, others), line(random, pieces).start);
            pieces.splice(to..to, others[from].to_vec());
        }
        _ => {
            let from = line(random, pieces);
            let moved: Vec<String> = pieces.drain(from).collect();
            if random.one_in(8) {
                return;
            }
            let to = line(random, pieces).start;
            pieces.splice(to..to, moved);
        }
    }
}

/// Loads a mutant, and launches what it has.
pub fn run(source: &Source, text: &str, random: &mut Random) -> Fate {
    let Ok(module) = Module::load(text) else { return Fate::Refused };
    let limits = Limits { instructions: 100_000, time: Duration::from_secs(5), memory: 1 << 28 };
    let schedule = if random.one_in(4) { Schedule::Random(random.bits()) } else { Schedule::Fixed };
    let emulator = Emulator::new(Arch::Sm90a)
        .with_limits(limits)
        .with_schedule(schedule)
        .counting(!random.one_in(4))
        .checking_order(!random.one_in(4))
        .echoing(false);
    let names: Vec<String> = module.kernels().take(4).map(str::to_owned).collect();
    let mut fate = Fate::Ran;
    for name in names {
        let Some(kernel) = module.kernel(&name) else { continue };
        let (mut launch, block) = match &source.case {
            Some(case) => (case.launch, arguments(&emulator, case)),
            None => (any_launch(random), None),
        };
        if random.one_in(8) {
            launch = any_launch(random);
        }
        launch.grid[0] = launch.grid[0].min(4 * launch.cluster[0]);
        let bytes = kernel.parameter_bytes() as usize;
        let mut block = block.unwrap_or_else(|| anything(&emulator, random, bytes.min(1 << 16)));
        if !random.one_in(16) {
            block.resize(bytes.min(1 << 16), 0);
        }
        if emulator.launch(&kernel, &launch, &block).is_err() {
            fate = Fate::Stopped;
        }
    }
    fate
}

/// The parameters of a case, with memory for them.
fn arguments(emulator: &Emulator, case: &Case) -> Option<Vec<u8>> {
    let mut addresses = Vec::new();
    for bytes in case.memories() {
        let address = emulator.allocate(bytes.len() as u64).ok()?;
        emulator.write(address, bytes).ok()?;
        addresses.push(address);
    }
    case.parameters(&addresses, |map| map.encode().map_err(|error| error.to_string())).ok()
}

/// Parameters that may be addresses or small numbers.
fn anything(emulator: &Emulator, random: &mut Random, bytes: usize) -> Vec<u8> {
    const MEMORY: usize = 1 << 16;
    let mut block = Vec::new();
    while block.len() < bytes {
        let word = match random.below(4) {
            0 => u64::from(*random.pick(&[0u32, 1, 3, 64, 128, 1000])) * 0x1_0000_0001,
            _ => emulator.allocate(MEMORY as u64).unwrap_or(0),
        };
        // Not all memory has something in it.
        if word > 1 << 35 && !random.one_in(8) {
            let _ = emulator.write(word, &vec![random.bits() as u8; MEMORY]);
        }
        block.extend(word.to_le_bytes());
    }
    block.truncate(bytes);
    block
}

fn any_launch(random: &mut Random) -> Launch {
    let cluster = if random.one_in(6) { *random.pick(&[2, 4, 16, 17]) } else { 1 };
    Launch {
        grid: [cluster * (1 + random.below(3) as u32), 1 + u32::from(random.one_in(6)), 1],
        threads: [*random.pick(&[1, 31, 32, 64, 128, 256, 1024]), 1 + u32::from(random.one_in(8)), 1],
        cluster: [cluster, 1, 1],
        dynamic_shared: *random.pick(&[0, 16, 1000, 65536, 100_000]),
    }
}
