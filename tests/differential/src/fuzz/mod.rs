//! Random programs of the exact instructions.
//!
//! A program is straight lines, branches and bounded loops over a few registers of each width, which its threads load at
//! the start and store at the end. It is given by its seed: the same seed is the same program as long as the tables of
//! instructions are.
//!
//! The driver compiles them without optimisation: its optimiser (580.159) was found to run loops too few times and to lose the
//! `.ftz` of a comparison, in programs that agree without it.

use tilewright_emulator::Launch;

use crate::case::{Agreement, Argument, Case, Group, Shape};
use crate::instructions::{HEADER, Instruction, exact, of_warps};
use crate::random::Random;
use crate::values::Class;

mod generate;
mod shrink;

pub use shrink::shrink;

/// Threads of a program: two warps, one not full.
const THREADS: usize = 64;
/// Programs of a module.
pub const PER_MODULE: usize = 20;
/// The first programs, whose results are kept.
pub const KEPT: u64 = 200;

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
    /// Instructions.
    Line(String),
    /// Some lanes go one way, the others the other.
    If { predicate: String, then: Vec<Item>, otherwise: Vec<Item> },
    /// So many times; lanes with the predicate leave before.
    Loop { times: usize, leave: String, body: Vec<Item> },
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
        Self { single, of_warps: of_warps() }
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
                Item::Line(_) => 1,
                Item::If { then, otherwise, .. } => 1 + count(then) + count(otherwise),
                Item::Loop { body, .. } => 1 + count(body),
            };
            items.iter().map(of).sum()
        }
        count(&self.items)
    }

    /// Its instructions as text.
    pub fn text(&self) -> String {
        let (mut text, mut labels) = (String::new(), 0);
        write(&self.items, 0, &mut labels, &mut text);
        text
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
        let declare = |(name, count, ty): &(&str, usize, &str)| format!(".reg .{ty} %{name}<{count}>;\n");
        let files: String = FILES.iter().map(declare).collect();
        format!(
            ".visible .entry k{number}(.param .u64 in, .param .u64 out)\n{{\n{files}\
             .reg .b32 %n<{DEPTH}>;\n.reg .pred %q;\n.reg .b32 %t, %word, %mine;\n\
             .reg .b64 %in, %out, %at;\n.shared .align 16 .b8 scratch[{}];\nmov.u32 %t, %tid.x;\nmov.u32 %mine, scratch;\n\
             mad.lo.u32 %mine, %t, 16, %mine;\nmul.wide.u32 %at, %t, 8;\nld.param.u64 %in, [in];\n\
             ld.param.u64 %out, [out];\nadd.u64 %in, %in, %at;\nadd.u64 %out, %out, %at;\n{load}{}{store}ret;\n}}\n",
            THREADS * 16,
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
        let outputs = vec![0xcd; inputs.len()];
        Case {
            name: format!("program {}", self.seed),
            kernel: format!("k{number}"),
            text: self.text(),
            launch: Launch { threads: [THREADS as u32, 1, 1], ..Launch::default() },
            arguments: vec![Argument::Memory(inputs), Argument::Memory(outputs)],
            agreement: Agreement::Exact,
            shape: Shape::Lanes { threads: THREADS },
        }
    }
}

fn write(items: &[Item], depth: usize, labels: &mut usize, text: &mut String) {
    for item in items {
        match item {
            Item::Line(line) => text.extend([line.as_str(), "\n"]),
            Item::If { predicate, then, otherwise } => {
                let label = next(labels);
                *text += &format!("@!{predicate} bra ELSE{label};\n");
                write(then, depth, labels, text);
                *text += &format!("bra END{label};\nELSE{label}:\n");
                write(otherwise, depth, labels, text);
                *text += &format!("END{label}:\n");
            }
            Item::Loop { times, leave, body } => {
                let label = next(labels);
                *text += &format!("mov.u32 %n{depth}, 0;\nLOOP{label}:\n");
                write(body, depth + 1, labels, text);
                *text += &format!(
                    "@{leave} bra END{label};\nadd.u32 %n{depth}, %n{depth}, 1;\n\
                     setp.lt.u32 %q, %n{depth}, {times};\n@%q bra LOOP{label};\nEND{label}:\n"
                );
            }
        }
    }
}

fn next(labels: &mut usize) -> usize {
    *labels += 1;
    *labels
}
