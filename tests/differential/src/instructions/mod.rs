//! Tables of instructions, each tried on many inputs.
//!
//! A line is `results = operands: instruction`: a letter for each register (see [`Class`]), which the text names `%d`, `%e`
//! for results and `%a`, `%b`, `%c`, `%g` for operands; `[%mine]` is 16 bytes of shared memory and `[%out]` 8 of global
//! memory of the thread's own. Braces list variants: `add.{u32,s32}` is two instructions. A line
//! may be several instructions.
//!
//! A line that begins with `!` is not for random programs: what it computes, where the manual leaves that open, changes with
//! the instructions around it (the bits of a NaN when the driver's compiler drops a `neg`, a division by zero), or the
//! compiler was seen to get it wrong under a guard (`set`, `testp`, `setp` of pairs).

use tilewright_emulator::{Launch, Module};

use crate::case::{Agreement, Argument, Case, Group, Shape};
use crate::random::Random;
use crate::values::Class;

mod approximate;
mod exact;
mod memory;
mod video;
mod warp;

/// Threads that try an instruction, each on inputs of its own.
const THREADS: usize = 4096;
const CTA: u32 = 128;
/// Kernels of a module.
const PER_MODULE: usize = 40;

/// What a module begins with.
pub const HEADER: &str = ".version 8.4\n.target sm_90a\n.address_size 64\n";

/// The registers' names, in order.
const RESULTS: [&str; 2] = ["d", "e"];
const OPERANDS: [&str; 4] = ["a", "b", "c", "g"];

/// An instruction with the classes of its registers.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// Of its results.
    pub results: Vec<Class>,
    /// Of its operands.
    pub operands: Vec<Class>,
    /// The letters of both, as in the table.
    pub registers: String,
    /// With the registers' names of the table.
    pub text: String,
    /// Whether random programs may have it.
    pub random: bool,
}

impl Instruction {
    /// What messages call it: its line of the table.
    pub fn name(&self) -> String {
        format!("{}: {}", self.registers, self.text)
    }

    /// The instruction with these registers in place of the table's.
    pub fn with(&self, results: &[String], operands: &[String]) -> String {
        let names = RESULTS.iter().zip(results).chain(OPERANDS.iter().zip(operands));
        let mut pieces = self.text.split('%');
        let mut text = pieces.next().unwrap_or("").to_owned();
        for piece in pieces {
            let end = piece.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(piece.len());
            let (name, rest) = piece.split_at(end);
            match names.clone().find(|(known, _)| **known == name) {
                Some((_, register)) => text.push_str(register),
                None => text.extend(["%", name]),
            }
            text.push_str(rest);
        }
        text
    }
}

/// The instructions of one thread that are exact.
pub fn exact() -> Vec<Instruction> {
    let tables = exact::TABLES.iter().chain(&memory::TABLES).chain(&video::TABLES);
    tables.flat_map(|table| parse(table)).filter(supported).collect()
}

/// Those that all lanes of a warp execute together.
pub fn of_warps() -> Vec<Instruction> {
    parse(warp::TABLE).into_iter().filter(supported).collect()
}

/// Whether the emulator has the instruction.
fn supported(instruction: &Instruction) -> bool {
    Module::load(&(HEADER.to_owned() + &kernel(0, instruction))).is_ok()
}

fn parse(table: &str) -> Vec<Instruction> {
    let lines = table.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.flat_map(line).collect()
}

fn line(line: &str) -> Vec<Instruction> {
    let (random, line) = line.strip_prefix('!').map_or((true, line), |line| (false, line));
    let (letters, text) = line.split_once(": ").unwrap_or_else(|| panic!("no table line: {line}"));
    let (results, operands) = letters.split_once('=').unwrap_or_else(|| panic!("no table line: {line}"));
    let classes = |letters: &str| -> Vec<Class> {
        letters.trim().chars().map(|c| Class::of(c).expect("a letter of a class")).collect()
    };
    let (results, operands) = (classes(results), classes(operands));
    let instruction = |text| Instruction {
        registers: letters.to_owned(),
        results: results.clone(),
        operands: operands.clone(),
        text,
        random,
    };
    variants(text).into_iter().map(instruction).collect()
}

/// All choices of the braces.
fn variants(text: &str) -> Vec<String> {
    let braces = text.find('{').and_then(|open| Some((open, open + text[open..].find('}')?)));
    // Braces with a register inside are PTX's own.
    match braces {
        Some((open, close)) if !text[open..close].contains('%') => {
            let (before, list, after) = (&text[..open], &text[open + 1..close], variants(&text[close + 1..]));
            let choices = list.split(',');
            choices
                .flat_map(|choice| after.iter().map(move |after| format!("{before}{choice}{after}")))
                .collect()
        }
        Some((_, close)) => {
            let (before, after) = text.split_at(close + 1);
            variants(after).into_iter().map(|after| format!("{before}{after}")).collect()
        }
        None => vec![text.to_owned()],
    }
}

/// All instructions of the tables, in modules.
pub fn groups() -> Vec<Group> {
    let exact = exact().into_iter().chain(of_warps()).map(|instruction| (instruction, Agreement::Exact));
    let approximate = approximate::table().into_iter().filter(|(instruction, _)| supported(instruction));
    let all: Vec<_> = exact.chain(approximate).collect();
    all.chunks(PER_MODULE).map(module).collect()
}

fn module(instructions: &[(Instruction, Agreement)]) -> Group {
    let mut ptx = HEADER.to_owned();
    let mut cases = Vec::new();
    for (number, (instruction, agreement)) in instructions.iter().enumerate() {
        ptx += &kernel(number, instruction);
        cases.push(case(number, instruction, *agreement));
    }
    Group { ptx, cases, optimised: true }
}

/// The type by which a register of the class is loaded and stored, in slots of 8 bytes.
fn memory_type(class: Class) -> &'static str {
    match class.bits() {
        16 => "b16",
        64 => "b64",
        _ => "b32",
    }
}

fn kernel(number: usize, instruction: &Instruction) -> String {
    let mut body = String::new();
    let row = THREADS * 8;
    let registers = |names: &[&str], classes: &[Class]| -> Vec<(String, Class)> {
        names.iter().zip(classes).map(|(name, class)| (format!("%{name}"), *class)).collect()
    };
    let results = registers(&RESULTS, &instruction.results);
    let operands = registers(&OPERANDS, &instruction.operands);
    for (name, class) in results.iter().chain(&operands) {
        let ty = if *class == Class::Predicate { "pred" } else { memory_type(*class) };
        body += &format!(".reg .{ty} {name};\n");
    }
    for (at, (name, class)) in operands.iter().enumerate() {
        let from = at * row;
        if *class == Class::Predicate {
            body += &format!("ld.global.b32 %word, [%in+{from}];\nsetp.ne.b32 {name}, %word, 0;\n");
        } else {
            body += &format!("ld.global.{} {name}, [%in+{from}];\n", memory_type(*class));
        }
    }
    body += &instruction.text;
    body += "\n";
    for (at, (name, class)) in results.iter().enumerate() {
        let to = at * row;
        if *class == Class::Predicate {
            body += &format!("selp.b32 %word, 1, 0, {name};\nst.global.b32 [%out+{to}], %word;\n");
        } else {
            body += &format!("st.global.{} [%out+{to}], {name};\n", memory_type(*class));
        }
    }
    format!(
        ".visible .entry k{number}(.param .u64 in, .param .u64 out)\n{{\n.reg .b32 %t<3>;\n.reg .b32 %word;\n\
         .reg .b64 %in, %out, %at;\n.shared .align 16 .b8 scratch[{}];\n.reg .b32 %mine;\nmov.u32 %t0, %ctaid.x;\nmov.u32 %t1, %tid.x;\n\
         mov.u32 %mine, scratch;\nmad.lo.u32 %mine, %t1, 16, %mine;\nmad.lo.u32 %t2, %t0, {CTA}, %t1;\nmul.wide.u32 %at, %t2, 8;\nld.param.u64 %in, [in];\n\
         ld.param.u64 %out, [out];\nadd.u64 %in, %in, %at;\nadd.u64 %out, %out, %at;\n{body}ret;\n}}\n",
        CTA * 16
    )
}

fn case(number: usize, instruction: &Instruction, agreement: Agreement) -> Case {
    let mut random = Random::new(
        instruction
            .text
            .bytes()
            .fold(1, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)),
    );
    let mut inputs = vec![0; instruction.operands.len() * THREADS * 8];
    let mut put = |row: usize, thread: usize, value: u64| {
        inputs[(row * THREADS + thread) * 8..][..8].copy_from_slice(&value.to_le_bytes());
    };
    let counts: Vec<_> = instruction.operands.iter().map(|class| class.special_count()).collect();
    let combinations: usize = counts.iter().product();
    for thread in 0..THREADS {
        // All combinations of special values where there are threads enough, some of them where not.
        let specials = match combinations {
            few if few <= THREADS => (thread < few).then_some(thread),
            many if thread.is_multiple_of(2) => Some(random.below(many)),
            _ => None,
        };
        let mut rest = specials;
        for (row, class) in instruction.operands.iter().enumerate() {
            let value = match &mut rest {
                Some(rest) => {
                    let number = *rest % counts[row];
                    *rest /= counts[row];
                    class.value(number, &mut random)
                }
                None => class.random(&mut random),
            };
            put(row, thread, value);
        }
    }
    let outputs = vec![0xcd; instruction.results.len() * THREADS * 8];
    Case {
        name: instruction.name(),
        kernel: format!("k{number}"),
        text: instruction.text.clone(),
        launch: Launch { grid: [THREADS as u32 / CTA, 1, 1], threads: [CTA, 1, 1], ..Launch::default() },
        arguments: vec![Argument::Memory(inputs), Argument::Memory(outputs)],
        agreement,
        shape: Shape::Lanes { threads: THREADS },
    }
}
