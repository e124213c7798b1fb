//! What a GPU computed, kept, so that the emulator is compared with it where there is none.
//!
//! A line for each case: a hash of what was run and a hash of the results, both 16 hexadecimal digits.

use std::collections::HashMap;
use std::fmt::Write;

use crate::case::{Argument, Case};

/// Results by what was run.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    results: HashMap<u64, u64>,
}

impl Recording {
    /// The one that this crate has, of an H200.
    pub fn of_h200() -> Self {
        let parse = |text: &str| u64::from_str_radix(text, 16).expect("hexadecimal digits");
        let lines = include_str!("../h200.txt").lines().filter_map(|line| line.split_once(' '));
        Self { results: lines.map(|(key, result)| (parse(key), parse(result))).collect() }
    }

    /// Whether the result is the recorded one; `None` if there is none of the case.
    pub fn agrees(&self, case: &Case, result: &[u8]) -> Option<bool> {
        self.results.get(&key(case)).map(|&recorded| recorded == hash(SEED, result))
    }

    /// Whether the case is recorded.
    pub fn has(&self, case: &Case) -> bool {
        self.results.contains_key(&key(case))
    }

    /// Adds a result.
    pub fn add(&mut self, case: &Case, result: &[u8]) {
        self.results.insert(key(case), hash(SEED, result));
    }

    /// The lines of the file.
    pub fn lines(&self) -> String {
        let mut lines: Vec<_> = self.results.iter().collect();
        lines.sort();
        lines.iter().fold(String::new(), |mut text, (key, result)| {
            let _ = writeln!(text, "{key:016x} {result:016x}");
            text
        })
    }
}

/// FNV-1a.
const SEED: u64 = 0xcbf2_9ce4_8422_2325;

fn hash(from: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(from, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Of all that is run.
fn key(case: &Case) -> u64 {
    let hash_of = |hash_so_far, argument: &Argument| match argument {
        Argument::Memory(bytes) => hash(hash_so_far, bytes),
        Argument::Map(map, _) => hash(hash_so_far, format!("{map:?}").as_bytes()),
    };
    let start = hash(hash(SEED, case.name.as_bytes()), format!("{:?}", case.launch).as_bytes());
    case.arguments.iter().fold(hash(start, case.text.as_bytes()), hash_of)
}
