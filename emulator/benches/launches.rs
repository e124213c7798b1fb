//! The emulator's speed on all cores: lane-instructions of launches of many CTAs, as other compilers make them.
//!
//! Triton's matrix product, by `mma.sync` and by `wgmma`, and its softmax are those of `tests/corpus/triton`; the sum of
//! vectors is written as nvcc writes it. `cargo bench -p tilewright-emulator --bench launches`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tilewright_emulator::{Arch, Counters, Emulator, Kernel, Launch, Module};

/// `z[i] = x[i] + y[i]` for `i < n`.
const ADD: &str = "
.version 8.1
.target sm_90a
.address_size 64
.visible .entry add(.param .u64 x, .param .u64 y, .param .u64 z, .param .u32 n) {
    .reg .pred %p<2>;
    .reg .f32 %f<4>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<11>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    ld.param.u64 %rd3, [z];
    ld.param.u32 %r2, [n];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.s32 %r1, %r3, %r4, %r5;
    setp.ge.s32 %p1, %r1, %r2;
    @%p1 bra END;
    cvta.to.global.u64 %rd4, %rd1;
    mul.wide.s32 %rd5, %r1, 4;
    add.s64 %rd6, %rd4, %rd5;
    cvta.to.global.u64 %rd7, %rd2;
    add.s64 %rd8, %rd7, %rd5;
    ld.global.f32 %f1, [%rd8];
    ld.global.f32 %f2, [%rd6];
    add.f32 %f3, %f2, %f1;
    cvta.to.global.u64 %rd9, %rd3;
    add.s64 %rd10, %rd9, %rd5;
    st.global.f32 [%rd10], %f3;
END:
    ret;
}
";

/// A launch and what it takes.
struct Case {
    name: &'static str,
    kernel: Kernel,
    launch: Launch,
    /// Bytes of its buffers, whose addresses are the first arguments.
    buffers: Vec<usize>,
    /// The other arguments.
    numbers: Vec<u32>,
    /// Pointers of no use behind them.
    scratch: usize,
}

impl Case {
    fn new(name: &'static str, text: &str, kernel: &str, grid: [u32; 3], threads: u32) -> Self {
        let module = Module::load(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let kernel = module.kernel(kernel).unwrap_or_else(|| panic!("{name} has no kernel {kernel}"));
        let launch = Launch { grid, threads: [threads, 1, 1], ..Launch::default() };
        Self { name, kernel, launch, buffers: Vec::new(), numbers: Vec::new(), scratch: 0 }
    }

    /// A kernel of Triton's, with its shared memory.
    fn triton(name: &'static str, file: &str, kernel: &str, grid: [u32; 3]) -> Self {
        let path = format!("{}/tests/corpus/triton/{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let case = Self::new(name, &text, kernel, grid, 128);
        Self { launch: Launch { dynamic_shared: 64 * 1024, ..case.launch }, scratch: 2, ..case }
    }

    /// Memory that looks like small numbers, of 16 bits or of 32, and the block of parameters.
    fn parameters(&self, emulator: &Emulator) -> Vec<u8> {
        let mut block = Vec::new();
        for &bytes in &self.buffers {
            let at = emulator.allocate(bytes as u64).expect("there is memory");
            let values: Vec<u8> = (0..bytes).map(|i| if i % 2 == 0 { i as u8 } else { 0x38 }).collect();
            emulator.write(at, &values).expect("it was allocated");
            block.extend(at.to_le_bytes());
        }
        self.numbers.iter().for_each(|number| block.extend(number.to_le_bytes()));
        block.resize(block.len().next_multiple_of(8) + 8 * self.scratch, 0);
        block.truncate(self.kernel.parameter_bytes() as usize);
        block
    }

    fn run(&self, emulator: &Emulator, parameters: &[u8]) -> Counters {
        emulator
            .launch(&self.kernel, &self.launch, parameters)
            .unwrap_or_else(|fault| panic!("{}: {fault}", self.name))
    }
}

fn cases() -> Vec<Case> {
    let (size, width, elements) = (256, 512, 1 << 18);
    let product = |name, file| Case {
        buffers: vec![2 * size * size; 3],
        numbers: vec![size as u32; 3],
        ..Case::triton(name, file, "matmul", [4, 4, 1])
    };
    vec![
        product("matmul, mma", "matmul.80.ptx"),
        product("matmul, wgmma", "matmul.90.ptx"),
        Case {
            buffers: vec![4 * elements; 3],
            numbers: vec![elements as u32],
            ..Case::new("add", ADD, "add", [elements as u32 / 256, 1, 1], 256)
        },
        Case {
            buffers: vec![4 * width * 512; 2],
            numbers: vec![width as u32],
            ..Case::triton("softmax", "softmax.90.ptx", "softmax", [512, 1, 1])
        },
    ]
}

/// Measures lane-instructions with all checks and counters, and without.
fn launches(c: &mut Criterion) {
    for case in cases() {
        let mut group = c.benchmark_group(case.name);
        let unwatched = Emulator::new(Arch::Sm90a).counting(false).checking_order(false);
        for (name, emulator) in [("checked", Emulator::new(Arch::Sm90a)), ("unwatched", unwatched)] {
            let parameters = case.parameters(&emulator);
            let counters = case.run(&emulator, &parameters);
            group.throughput(Throughput::Elements(counters.lane_instructions));
            group.bench_function(name, |bencher| bencher.iter(|| case.run(&emulator, &parameters)));
        }
    }
}

criterion_group!(benches, launches);
criterion_main!(benches);
