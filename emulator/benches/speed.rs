//! The emulator's speed on one core: lane-instructions of scalar code, and operations of the tensor cores.
//!
//! Each launch is a single CTA, which one core runs. `cargo bench -p tilewright-emulator --bench speed`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tilewright_emulator::{Arch, Counters, Emulator, Kernel, Launch, Module};

/// Turns of every kernel's loop.
const TURNS: u32 = 200;

/// A kernel that initialises shared memory and then repeats `body`.
fn kernel(declarations: &str, before: &str, body: &str) -> Kernel {
    let text = format!(
        "
.version 8.1
.target sm_90a
.address_size 64
.visible .entry bench() {{
    .reg .pred %p, %more;
    .reg .b32 %i, %lane, %at;
    {declarations}
    .shared .align 1024 .b8 tile[49152];
    mov.u32 %lane, %tid.x;
    mov.u32 %at, tile;
    mad.lo.u32 %at, %lane, 4, %at;
    mov.u32 %i, 0;
FILL:
    st.shared.b32 [%at], 0x3c003c00;
    add.u32 %at, %at, 512;
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, 96;
    @%p bra FILL;
    fence.proxy.async;
    bar.sync 0;
    {before}
    mov.u32 %i, 0;
LOOP:
    {body}
    add.u32 %i, %i, 1;
    setp.lt.u32 %more, %i, {TURNS};
    @%more bra LOOP;
    ret;
}}
"
    );
    let module = Module::load(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    module.kernel("bench").expect("the module's only kernel")
}

fn launch(emulator: &Emulator, kernel: &Kernel) -> Counters {
    let launch = Launch { threads: [128, 1, 1], ..Launch::default() };
    emulator.launch(kernel, &launch, &[]).unwrap_or_else(|fault| panic!("{fault}"))
}

/// Measures launches of the kernel by what `count` counts, as they are and without checks and counters.
fn measure(c: &mut Criterion, group: &str, name: &str, kernel: &Kernel, count: fn(&Counters) -> u64) {
    let mut group = c.benchmark_group(group);
    let unwatched = Emulator::new(Arch::Sm90a).counting(false).checking_order(false);
    for (name, emulator) in [(name, Emulator::new(Arch::Sm90a)), (&format!("{name}, unwatched"), unwatched)] {
        group.throughput(Throughput::Elements(count(&launch(&emulator, kernel))));
        group.bench_function(name, |bencher| bencher.iter(|| launch(&emulator, kernel)));
    }
}

fn scalar(c: &mut Criterion) {
    let sixteen = |instruction: &dyn Fn(usize) -> String| (0..16).map(instruction).collect::<String>();
    let float = sixteen(&|i| format!("fma.rn.f32 %f{}, %f{}, %f16, %f17;\n", i % 8, i % 8));
    let float = kernel(".reg .f32 %f<18>;", &set_floats(), &float);
    let integer = sixteen(&|i| match i % 4 {
        0 => format!("mad.lo.u32 %r{i}, %r{i}, 3, %lane;\n"),
        1 => format!("xor.b32 %r{i}, %r{i}, %lane;\n"),
        2 => format!("shl.b32 %r{i}, %lane, 3;\n"),
        _ => format!("add.u32 %r{i}, %r{i}, %i;\n"),
    });
    let zeros: String = (0..16).map(|i| format!("mov.u32 %r{i}, 0;\n")).collect();
    let integer = kernel(".reg .b32 %r<16>;", &zeros, &integer);
    let loads = sixteen(&|i| format!("ld.shared.b32 %r{i}, [%at+{}];\n", 512 * i));
    let address = "mov.u32 %at, tile;\nmad.lo.u32 %at, %lane, 4, %at;\n";
    let loads = kernel(".reg .b32 %r<16>;", address, &loads);
    for (name, kernel) in [("f32 fma", float), ("integer", integer), ("shared loads", loads)] {
        measure(c, "lane-instructions", name, &kernel, |counters| counters.lane_instructions);
    }
}

/// Values of f32 registers.
fn set_floats() -> String {
    (0..18).map(|i| format!("mov.f32 %f{i}, 0f3F000000;\n")).collect()
}

fn products(c: &mut Criterion) {
    for (n, depth, types, constants) in [
        (256, 16, "f32.f16.f16", ", 1, 1, 0, 0"),
        (128, 16, "f32.bf16.bf16", ", 1, 1, 0, 0"),
        (128, 16, "f32.f16.f16", ", 1, 1, 1, 1"),
        (256, 32, "f32.e4m3.e4m3", ", 1, 1"),
        (256, 32, "s32.s8.s8", ""),
    ] {
        let registers = (0..n / 2).map(|i| format!("%d{i}")).collect::<Vec<_>>().join(", ");
        let zeros: String = (0..n / 2).map(|i| format!("mov.b32 %d{i}, 0;\n")).collect();
        // A swizzle of 128 bytes, eight lines 1024 bytes apart; B lies 16 KiB after A.
        let before = format!(
            "{zeros}
            setp.eq.u32 %p, %i, %i;
            mov.u32 %at, tile;
            shr.u32 %at, %at, 4;
            cvt.u64.u32 %a, %at;
            or.b64 %a, %a, 0x4000004002000000;
            add.u64 %b, %a, 1024;"
        );
        let product = format!(
            "wgmma.fence.sync.aligned;
            wgmma.mma_async.sync.aligned.m64n{n}k{depth}.{types} {{{registers}}}, %a, %b, %p{constants};
            wgmma.commit_group.sync.aligned;
            wgmma.wait_group.sync.aligned 0;"
        );
        let kernel = kernel(&format!(".reg .b32 %d<{}>; .reg .b64 %a, %b;", n / 2), &before, &product);
        let name = format!("m64n{n}k{depth}.{types}{constants}");
        measure(c, "wgmma", &name, &kernel, |counters| counters.tensor_operations);
    }
    let product = (0..8).map(|i| {
        format!(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f{0}, %f{1}, %f{2}, %f{3}}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {{%f{0}, %f{1}, %f{2}, %f{3}}};\n",
            4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3
        )
    });
    let zeros: String =
        (0..32).map(|i| format!("mov.b32 %f{i}, 0;\nmov.b32 %r{}, 0x3c003c00;\n", i % 6)).collect();
    let kernel = kernel(".reg .b32 %f<32>, %r<6>;", &zeros, &product.collect::<String>());
    measure(c, "mma", "m16n8k16.f32.f16", &kernel, |counters| counters.tensor_operations);
}

criterion_group!(benches, scalar, products);
criterion_main!(benches);
