//! Random programs of the exact instructions.
//!
//! A program is straight lines, branches and bounded loops over a few registers of each width, which its threads load at
//! the start and store at the end, and over memory: the thread's own, and what threads add to and hand to each other. Lanes
//! diverge, end early, and talk to those that go the same way. It is given by its seed: the same seed is the same program
//! as long as the tables of instructions are. A program has one result, in whatever order its warps run.
//!
//! The driver compiles them without optimisation: its optimiser (580.159) was found to run loops too few times and to lose the
//! `.ftz` of a comparison, in programs that agree without it.

use tilewright_emulator::Launch;

use crate::case::{Agreement, Argument, Case, Group, Shape};
use crate::instructions::{HEADER, Instruction, exact, of_warps};
use crate::random::Random;
use crate::values::Class;
use memory::{AREA, SLOT, SUMS};

mod generate;
mod memory;
mod shrink;
mod text;
mod warps;

pub use shrink::shrink;

/// Threads of a CTA: two warps, one not full.
const CTA: usize = 48;
/// Threads of a program.
const THREADS: usize = 2 * CTA;
/// Programs of a module.
pub const PER_MODULE: usize = 20;
/// The first programs, whose results are kept.
pub const KEPT: u64 = 400;

/// Names, numbers and types of registers: see [`Class::file`].
pub(crate) const FILES: [(&str, usize, &str); 7] = [
    ("r", 7, "b32"),
    ("f", 5, "f32"),
    ("d", 5, "b64"),
    ("v", 3, "f64"),
    ("h", 4, "b16"),
    ("e", 4, "b16"),
    ("p", 4, "pred"),
];
/// Loops within each other at most.
pub(crate) const DEPTH: usize = 3;

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    seed: u64,
    items: Vec<Item>,
}

/// A part of a program.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// Instructions; see [`text`] for what is filled in.
    Line(String),
    /// Some lanes go one way, the others the other.
    If { condition: Condition, then: Vec<Item>, otherwise: Vec<Item> },
    /// Several turns; lanes with the predicate leave before.
    Loop { trips: Trips, leave: Option<String>, body: Vec<Item> },
    /// Of these lanes those with the predicate end.
    End { predicate: String, lanes: u32 },
}

/// Who goes the first way.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    /// Lanes with the predicate.
    Register(String),
    /// These.
    Lanes(u32),
}

/// How often a loop is run through.
#[derive(Clone, Debug)]
pub(crate) enum Trips {
    /// By all lanes as often.
    All(usize),
    /// As a register of the lane says: once to three times.
    Lane(String),
}

/// What programs are made of.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    single: Vec<Instruction>,
    of_warps: Vec<Instruction>,
}

impl Vocabulary {
    /// The instructions with a name that this holds for.
    pub fn only(mut self, holds: impl Fn(&str) -> bool) -> Self {
        self.single.retain(|instruction| holds(&instruction.name()));
        self.of_warps.retain(|instruction| holds(&instruction.name()));
        self
    }
}

impl Default for Vocabulary {
    fn default() -> Self {
        let single = exact().into_iter().filter(|instruction| instruction.random).collect();
        // Shuffles are made with regard to the lanes that take part.
        let of_warps = of_warps().into_iter().filter(|instruction| !instruction.text.contains("shfl"));
        Self { single, of_warps: of_warps.collect() }
    }
}

/// The programs of these seeds, in modules.
pub fn groups(vocabulary: &Vocabulary, seeds: &[u64]) -> Vec<Group> {
    let programs: Vec<_> = seeds.iter().map(|&seed| Program::new(vocabulary, seed)).collect();
    programs.chunks(PER_MODULE).map(group).collect()
}

/// A module of these programs.
pub fn group(programs: &[Program]) -> Group {
    let mut ptx = HEADER.to_owned();
    for (number, program) in programs.iter().enumerate() {
        ptx += &program.kernel(number);
    }
    let cases = programs.iter().enumerate().map(|(number, program)| program.case(number)).collect();
    Group { ptx, cases, optimised: false }
}

/// All registers' names, with the classes of the values that they begin with.
fn registers() -> Vec<(String, Class)> {
    const CLASSES: [&[Class]; 7] = [
        &[Class::Int32, Class::Amount, Class::F16x2, Class::Bf16x2],
        &[Class::F32],
        &[Class::Int64],
        &[Class::F64],
        &[Class::Int16],
        &[Class::F16, Class::Bf16],
        &[Class::Predicate],
    ];
    let files = FILES.iter().zip(CLASSES);
    files
        .flat_map(|((name, count, _), classes)| {
            (0..*count).map(move |i| (format!("%{name}{i}"), classes[i % classes.len()]))
        })
        .collect()
}

impl Program {
    /// How many lines it has.
    pub fn lines(&self) -> usize {
        fn count(items: &[Item]) -> usize {
            let of = |item: &Item| match item {
                Item::Line(_) | Item::End { .. } => 1,
                Item::If { then, otherwise, .. } => 1 + count(then) + count(otherwise),
                Item::Loop { body, .. } => 1 + count(body),
            };
            items.iter().map(of).sum()
        }
        count(&self.items)
    }

    /// Its instructions as text.
    pub fn text(&self) -> String {
        text::of(&self.items)
    }

    fn kernel(&self, number: usize) -> String {
        let row = THREADS * 8;
        let (mut load, mut store) = (String::new(), String::new());
        for (at, (name, class)) in registers().iter().enumerate() {
            let offset = at * row;
            match class.bits() {
                1 => {
                    load += &format!("ld.global.b32 %word, [%in+{offset}];\nsetp.ne.b32 {name}, %word, 0;\n");
                    store +=
                        &format!("selp.b32 %word, 1, 0, {name};\nst.global.b32 [%out+{offset}], %word;\n");
                }
                bits => {
                    load += &format!("ld.global.b{bits} {name}, [%in+{offset}];\n");
                    store += &format!("st.global.b{bits} [%out+{offset}], {name};\n");
                }
            }
        }
        let mut words = registers().len();
        for (place, count) in [("%own", AREA / 8), ("%lown", AREA / 8), ("%sums", SUMS.len())] {
            let space = if place == "%lown" { "local" } else { "shared" };
            for word in 0..count {
                store += &format!(
                    "ld.{space}.b64 %y, [{place}+{}];\nst.global.b64 [%out+{}], %y;\n",
                    word * 8,
                    words * row
                );
                words += 1;
            }
        }
        let declare = |(name, count, ty): &(&str, usize, &str)| format!(".reg .{ty} %{name}<{count}>;\n");
        let files: String = FILES.iter().map(declare).collect();
        format!(
            ".visible .entry k{number}(.param .u64 in, .param .u64 out, .param .u64 memory)\n{{\n{files}{}{load}{}\
             barrier.sync 0;\n{store}ret;\n}}\n",
            prologue(),
            self.text()
        )
    }

    fn case(&self, number: usize) -> Case {
        let mut random = Random::new(!self.seed);
        let registers = registers();
        let mut inputs = Vec::new();
        for (_, class) in &registers {
            for _ in 0..THREADS {
                inputs.extend(class.random(&mut random).to_le_bytes());
            }
        }
        let outputs = vec![0xcd; inputs.len() + THREADS * (2 * AREA + 8 * SUMS.len())];
        // What belongs to threads, the slots, the sums, and what the sums begin with.
        let own = THREADS * (AREA + SLOT);
        let mut memory: Vec<u8> = (0..own).map(|_| random.bits() as u8).collect();
        for sum in SUMS.iter().chain(&SUMS) {
            memory.extend(sum.first.to_le_bytes());
        }
        Case {
            name: format!("program {}", self.seed),
            kernel: format!("k{number}"),
            text: self.text(),
            launch: Launch {
                grid: [(THREADS / CTA) as u32, 1, 1],
                threads: [CTA as u32, 1, 1],
                ..Launch::default()
            },
            arguments: [inputs, outputs, memory].map(Argument::Memory).into(),
            agreement: Agreement::Exact,
            shape: Shape::Lanes { threads: THREADS },
        }
    }
}

/// Registers and memory that programs use.
fn prologue() -> String {
    let (masks, sums) = (DEPTH + 1, SUMS.len() * SLOT);
    let (slots, own, slot) = (THREADS * AREA, CTA * AREA, CTA * SLOT);
    let mut fill = String::new();
    for at in (0..AREA).step_by(8) {
        fill += &format!(
            "ld.global.b64 %y, [%gown+{at}];\nst.shared.b64 [%own+{at}], %y;\nst.local.b64 [%lown+{at}], %y;\n"
        );
    }
    format!(
        ".reg .b32 %n<{DEPTH}>, %c<{DEPTH}>, %m<{masks}>;\n.reg .pred %q, %z, %always;\n\
         .reg .b32 %t, %thread, %lane, %bit, %word, %mine, %w, %x, %j, %low, %was;\n\
         .reg .b32 %own, %slots, %slot, %wslots, %wslot, %sums;\n.reg .f32 %addend;\n.reg .b64 %in, %out, %at, %y, %wide;\n\
         .reg .b64 %gown, %lown, %gslots, %gslot, %gsums, %sgeneric, %lgeneric, %sumsgeneric;\n\
         .shared .align 16 .b8 scratch[{}];\n.shared .align 16 .b8 own[{own}];\n.shared .align 16 .b8 slots[{slot}];\n\
         .shared .align 16 .b8 wslots[{slot}];\n\
         .shared .align 16 .b8 sums[{sums}];\n.local .align 16 .b8 local[{AREA}];\n\
         mov.u32 %t, %tid.x;\nmov.u32 %lane, %laneid;\nmov.u32 %bit, %lanemask_eq;\nsetp.eq.u32 %always, %t, %t;\n\
         setp.lt.u32 %q, %t, 32;\nselp.b32 %m0, 0xffffffff, {:#x}, %q;\n\
         mov.u32 %thread, %ctaid.x;\nmad.lo.u32 %thread, %thread, {CTA}, %t;\n\
         mov.u32 %mine, scratch;\nmad.lo.u32 %mine, %t, 16, %mine;\nmov.u32 %own, own;\nmad.lo.u32 %own, %t, {AREA}, %own;\n\
         mov.u32 %slots, slots;\nmad.lo.u32 %slot, %t, {SLOT}, %slots;\nmov.u32 %wslots, wslots;\n\
         mad.lo.u32 %wslot, %t, {SLOT}, %wslots;\nsub.u32 %w, %t, %lane;\nmad.lo.u32 %wslots, %w, {SLOT}, %wslots;\nmov.u32 %sums, sums;\nmov.u64 %lown, local;\n\
         cvt.u64.u32 %sgeneric, %own;\ncvta.shared.u64 %sgeneric, %sgeneric;\ncvta.local.u64 %lgeneric, %lown;\n\
         cvt.u64.u32 %sumsgeneric, %sums;\ncvta.shared.u64 %sumsgeneric, %sumsgeneric;\n\
         ld.param.u64 %gown, [memory];\nadd.u64 %gslots, %gown, {slots};\nmad.wide.u32 %gslot, %thread, {SLOT}, %gslots;\n\
         sub.u32 %w, %thread, %t;\nmad.wide.u32 %gslots, %w, {SLOT}, %gslots;\nadd.u64 %gsums, %gown, {};\n\
         mad.wide.u32 %gown, %thread, {AREA}, %gown;\nmul.wide.u32 %at, %thread, 8;\nld.param.u64 %in, [in];\n\
         ld.param.u64 %out, [out];\nadd.u64 %in, %in, %at;\nadd.u64 %out, %out, %at;\n{fill}\
         ld.global.b64 %y, [%gslot];\nst.shared.b64 [%slot], %y;\nst.shared.b64 [%wslot], %y;\nsetp.lt.u32 %q, %t, {};\n\
         mad.wide.u32 %at, %t, {SLOT}, %gsums;\n@%q ld.global.b64 %y, [%at+{sums}];\nmad.lo.u32 %w, %t, {SLOT}, %sums;\n\
         @%q st.shared.b64 [%w], %y;\nbar.sync 0;\n",
        CTA * 16,
        (1u64 << (CTA - 32)) - 1,
        slots + THREADS * SLOT,
        SUMS.len(),
    )
}
