//! Making a program from a seed.

use super::{DEPTH, FILES, Item, Program, Vocabulary};
use crate::instructions::Instruction;
use crate::random::Random;
use crate::values::Class;

impl Program {
    /// The program of a seed.
    pub fn new(vocabulary: &Vocabulary, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let lines = 10 + random.below(50);
        let items = (0..lines).map(|_| top(vocabulary, &mut random)).collect();
        Self { seed, items }
    }
}

/// An item that all lanes of a warp come to.
fn top(vocabulary: &Vocabulary, random: &mut Random) -> Item {
    if !vocabulary.of_warps.is_empty() && random.one_in(10) {
        let instruction = random.pick(&vocabulary.of_warps).clone();
        return Item::Line(line(&instruction, random));
    }
    item(vocabulary, random, 0)
}

fn item(vocabulary: &Vocabulary, random: &mut Random, depth: usize) -> Item {
    let several = |random: &mut Random| {
        let count = 1 + random.below(6);
        (0..count).map(|_| item(vocabulary, random, depth + 1)).collect::<Vec<_>>()
    };
    match random.below(16) {
        0 | 1 if depth < DEPTH => {
            let (predicate, then) = (register("p", random), several(random));
            let otherwise = if random.one_in(2) { several(random) } else { Vec::new() };
            Item::If { predicate, then, otherwise }
        }
        2 if depth < DEPTH => {
            Item::Loop { times: 1 + random.below(4), leave: register("p", random), body: several(random) }
        }
        _ => {
            let instruction = random.pick(&vocabulary.single).clone();
            let text = line(&instruction, random);
            // A guard is for one instruction.
            let guard = random.one_in(6) && text.matches(';').count() == 1;
            let sign = if random.one_in(2) { "" } else { "!" };
            Item::Line(if guard { format!("@{sign}{} {text}", register("p", random)) } else { text })
        }
    }
}

fn register(file: &str, random: &mut Random) -> String {
    let (name, count, _) = FILES.iter().find(|(name, ..)| *name == file).expect("a register file");
    format!("%{name}{}", random.below(*count))
}

/// The instruction with random registers, and a constant in place of some integer.
fn line(instruction: &Instruction, random: &mut Random) -> String {
    let mut results = Vec::new();
    for class in &instruction.results {
        // Results of one instruction are different registers.
        let result = loop {
            let name = register(class.file(), random);
            if !results.contains(&name) {
                break name;
            }
        };
        results.push(result);
    }
    let operands = instruction.operands.iter().map(|class| register(class.file(), random));
    let mut operands: Vec<_> = operands.collect();
    if let Some(at) = instruction.operands.iter().rposition(|class| *class == Class::Amount)
        && random.one_in(2)
    {
        operands[at] = (Class::Amount.random(random) & 0xff).to_string();
    }
    instruction.with(&results, &operands)
}
