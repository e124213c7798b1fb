//! Making a program from a seed.

use super::{Condition, DEPTH, FILES, Item, Program, Trips, Vocabulary, memory, warps};
use crate::instructions::Instruction;
use crate::random::Random;
use crate::values::Class;

impl Program {
    /// The program of a seed.
    pub fn new(vocabulary: &Vocabulary, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let lines = 10 + random.below(50);
        // In most programs all lanes stay to the end.
        let maker = Maker { vocabulary, ends: random.one_in(4) };
        let items = (0..lines).map(|_| maker.top(&mut random)).collect();
        Self { seed, items }
    }
}

struct Maker<'v> {
    vocabulary: &'v Vocabulary,
    /// Whether lanes may end before the others.
    ends: bool,
}

impl Maker<'_> {
    /// An item that all threads of a CTA come to.
    fn top(&self, random: &mut Random) -> Item {
        match random.one_in(8) {
            true => Item::Line(memory::of_cta(random)),
            false => self.item(random, 0),
        }
    }

    fn item(&self, random: &mut Random, depth: usize) -> Item {
        let several = |random: &mut Random| {
            let count = 1 + random.below(6);
            (0..count).map(|_| self.item(random, depth + 1)).collect::<Vec<_>>()
        };
        match random.below(24) {
            0..3 if depth < DEPTH => {
                let condition = match random.one_in(3) {
                    true => Condition::Lanes(lanes(random)),
                    false => Condition::Register(register("p", random)),
                };
                let then = several(random);
                let otherwise = if random.one_in(2) { several(random) } else { Vec::new() };
                Item::If { condition, then, otherwise }
            }
            3 if depth < DEPTH => {
                let trips = match random.one_in(2) {
                    true => Trips::Lane(register("r", random)),
                    false => Trips::All(1 + random.below(4)),
                };
                let leave = random.one_in(2).then(|| register("p", random));
                Item::Loop { trips, leave, body: several(random) }
            }
            4 if self.ends && random.one_in(2) => {
                Item::End { predicate: register("p", random), lanes: lanes(random) }
            }
            5..8 => Item::Line(memory::access(random)),
            8 => Item::Line(memory::add(random, !self.ends)),
            9 => Item::Line(warps::shuffle(random)),
            10 => match random.below(4) {
                0 => Item::Line(warps::exchange(random, None)),
                1 => Item::Line(warps::count(random, !self.ends)),
                _ => Item::Line(warps::both_sides(random)),
            },
            11 if !self.vocabulary.of_warps.is_empty() => {
                Item::Line(line(&warps::of_table(random.pick(&self.vocabulary.of_warps)), random))
            }
            _ => {
                let text = line(random.pick(&self.vocabulary.single), random);
                // A guard is for one instruction.
                let guard = random.one_in(6) && text.matches(';').count() == 1;
                let sign = if random.one_in(2) { "" } else { "!" };
                Item::Line(if guard { format!("@{sign}{} {text}", register("p", random)) } else { text })
            }
        }
    }
}

/// Some lanes: many, few, or parts of the warp.
fn lanes(random: &mut Random) -> u32 {
    let bits = random.bits();
    let (low, high) = (bits as u32, (bits >> 32) as u32);
    match random.below(4) {
        0 => low,
        1 => low & high,
        2 => 1 << (low % 32),
        _ => *random.pick(&[0xffff, 0xffff_0000, 0x5555_5555, 0xff00_ff00, 0x7fff_ffff]),
    }
}

pub(super) fn register(file: &str, random: &mut Random) -> String {
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
