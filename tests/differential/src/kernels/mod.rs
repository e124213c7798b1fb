//! Kernels of what threads do together: matrices, copies, clusters.
//!
//! They are written as a body between what all have: shared memory filled from the first memory argument, registers, and
//! the address of the results.

use tilewright_emulator::{Launch, TensorMap};

use crate::case::{Agreement, Argument, Case, Group, Shape};
use crate::instructions::HEADER;

mod clusters;
mod collectives;
mod copies;
mod doubles;
mod elements;
mod outside;
mod pixels;
mod products;
mod rows;
mod sparse;
mod tensors;
mod warpgroups;

/// Cases of a module at most.
const PER_MODULE: usize = 20;

/// A kernel to be written.
///
/// In its body, `%in` and `%out` are the addresses of its input and output, `%id` the thread's number in the CTA, `%cta`
/// the CTA's in the grid, `%thread` the thread's in the grid and `%mine` the address of its first word of results.
/// `%shared` is the address of shared memory, of which the first words are the input's. `%r`, `%d`, `%h`, `%p` are
/// registers with numbers.
#[derive(Clone, Debug)]
struct Kernel {
    name: String,
    body: String,
    launch: Launch,
    input: Vec<u8>,
    /// Bytes of the input that are put into shared memory of each CTA.
    filled: usize,
    /// Words of results of each thread.
    words: usize,
    tensor: Option<(TensorMap, Vec<u8>)>,
    agreement: Agreement,
}

impl Kernel {
    /// One CTA of a warp, without input.
    fn new(name: impl Into<String>, words: usize, body: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            body: body.into(),
            launch: Launch::default(),
            input: vec![0; 16],
            filled: 0,
            words,
            tensor: None,
            agreement: Agreement::Exact,
        }
    }

    fn threads(mut self, threads: u32) -> Self {
        self.launch.threads[0] = threads;
        self
    }

    fn input(mut self, input: Vec<u8>) -> Self {
        self.input = input;
        self
    }

    /// With all of this input in shared memory.
    fn shared(mut self, input: Vec<u8>) -> Self {
        self.filled = input.len();
        self.launch.dynamic_shared = input.len() as u32;
        self.input = input;
        self
    }

    fn all_threads(&self) -> usize {
        (self.launch.threads[0] * self.launch.grid[0]) as usize
    }

    fn text(&self, number: usize) -> String {
        let (words, bytes) = (self.filled / 4, self.words * 4);
        let map =
            if self.tensor.is_some() { ".param .align 64 .b8 map[128], .param .u64 tensor, " } else { "" };
        let fill = format!(
            "mov.u32 %n, %id;\nFILL:\nsetp.ge.u32 %q, %n, {words};\n@%q bra FILLED;\nmul.wide.u32 %at, %n, 4;\n\
             add.u64 %at, %in, %at;\nld.global.b32 %word, [%at];\nmad.lo.u32 %to, %n, 4, %shared;\n\
             st.shared.b32 [%to], %word;\nadd.u32 %n, %n, %threads;\nbra FILL;\nFILLED:\nbar.sync 0;\n"
        );
        format!(
            ".visible .entry k{number}({map}.param .u64 in, .param .u64 out)\n{{\n.reg .b32 %id, %cta, %threads, %thread;\n\
             .reg .b32 %shared, %n, %word, %to;\n.reg .b64 %in, %out, %mine, %at;\n.reg .pred %q;\n.reg .b32 %r<300>;\n\
             .reg .b64 %d<20>;\n.reg .b16 %h<20>;\n.reg .pred %p<10>;\nmov.u32 %id, %tid.x;\nmov.u32 %cta, %ctaid.x;\n\
             mov.u32 %threads, %ntid.x;\nmad.lo.u32 %thread, %cta, %threads, %id;\nld.param.u64 %in, [in];\n\
             ld.param.u64 %out, [out];\nmad.wide.u32 %mine, %thread, {bytes}, %out;\nmov.u32 %shared, shared;\n{}{}ret;\n}}\n",
            if words > 0 { fill } else { String::new() },
            self.body,
        )
    }

    fn case(&self, number: usize) -> Case {
        let output = vec![0xcd; (self.all_threads() * self.words * 4).max(16)];
        let mut arguments = vec![Argument::Memory(self.input.clone()), Argument::Memory(output)];
        if let Some((map, tensor)) = &self.tensor {
            arguments.splice(0..0, [Argument::Map(*map, 0), Argument::Memory(tensor.clone())]);
        }
        Case {
            name: self.name.clone(),
            kernel: format!("k{number}"),
            text: self.body.clone(),
            launch: self.launch,
            arguments,
            agreement: self.agreement,
            shape: Shape::Words,
        }
    }
}

/// All kernels, in modules.
pub fn groups() -> Vec<Group> {
    let parts: [fn() -> Vec<Kernel>; 11] = [
        collectives::kernels,
        rows::kernels,
        products::kernels,
        sparse::kernels,
        doubles::kernels,
        outside::kernels,
        warpgroups::kernels,
        copies::kernels,
        clusters::kernels,
        tensors::kernels,
        pixels::kernels,
    ];
    let modules =
        parts.into_iter().flat_map(|kernels| kernels().chunks(PER_MODULE).map(module).collect::<Vec<_>>());
    modules.collect()
}

fn module(kernels: &[Kernel]) -> Group {
    let texts = kernels.iter().enumerate().map(|(number, kernel)| kernel.text(number));
    Group {
        ptx: HEADER.to_owned() + ".extern .shared .align 1024 .b8 shared[];\n" + &texts.collect::<String>(),
        cases: kernels.iter().enumerate().map(|(number, kernel)| kernel.case(number)).collect(),
        optimised: true,
    }
}

/// `%r4, %r5, …`: so many registers from the first on.
fn registers(first: usize, count: usize) -> String {
    (first..first + count).map(|i| format!("%r{i}")).collect::<Vec<_>>().join(", ")
}

/// Stores registers as the thread's results, from one of its words on.
fn store(first: usize, count: usize, word: usize) -> String {
    let store = |i| format!("st.global.b32 [%mine+{}], %r{};\n", (word + i) * 4, first + i);
    (0..count).map(store).collect()
}

/// Loads registers from the input, which has a row of words of all threads for each of them, from some row on.
fn load(first: usize, count: usize, row: usize, threads: usize) -> String {
    let load = |i| format!("ld.global.b32 %r{}, [%at+{}];\n", first + i, (row + i) * threads * 4);
    "mad.wide.u32 %at, %thread, 4, %in;\n".to_owned() + &(0..count).map(load).collect::<String>()
}

/// Waits for a phase of the mbarrier whose address is in a register, not for ever: missing results show if it does not come.
fn wait(bar: &str, phase: u32, label: &str) -> String {
    format!(
        "mov.u32 %n, 0;\nWAIT{label}:\nmbarrier.try_wait.parity.shared::cta.b64 %q, [{bar}], {phase};\n\
         @%q bra DONE{label};\nadd.u32 %n, %n, 1;\nsetp.lt.u32 %q, %n, 1000000;\n@%q bra WAIT{label};\nexit;\nDONE{label}:\n"
    )
}

/// Words as bytes.
fn bytes(words: impl IntoIterator<Item = u32>) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}
