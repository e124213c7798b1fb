//! What a sum in one pass costs, of which the last CTA adds the parts: `cargo run --release --example single_pass -- CTAS`.
//!
//! Every CTA of 256 threads stores its part, puts a fence behind it and counts itself; the one that finds that it is the last sums
//! all parts. Prints the time with and without the checks of order, and the most memory that the process had (Linux).

use std::error::Error;
use std::time::Instant;

use tilewright_emulator::{Arch, Emulator, Launch, Module};

const THREADS: u32 = 256;

const KERNEL: &str = "
.version 8.1
.target sm_80
.address_size 64
.visible .entry sum(.param .u64 numbers, .param .u64 parts, .param .u64 count, .param .u64 total)
{
    .reg .pred %p, %last;
    .reg .b32 %t, %cta, %ctas, %i, %r, %old, %shared, %at;
    .reg .f32 %f, %g;
    .reg .b64 %numbers, %parts, %count, %total, %d;
    .shared .align 4 .b8 warps[32];
    .shared .align 4 .b32 found;
    ld.param.u64 %numbers, [numbers];
    ld.param.u64 %parts, [parts];
    ld.param.u64 %count, [count];
    ld.param.u64 %total, [total];
    mov.u32 %t, %tid.x;
    mov.u32 %cta, %ctaid.x;
    mov.u32 %ctas, %nctaid.x;
    mov.u32 %shared, warps;
    mad.lo.u32 %i, %cta, 256, %t;
    mad.wide.u32 %d, %i, 4, %numbers;
    ld.global.f32 %f, [%d];
    SUM
    setp.ne.u32 %p, %t, 0;
    @%p bra COUNTED;
    mad.wide.u32 %d, %cta, 4, %parts;
    st.global.f32 [%d], %f;
    membar.gl;
    atom.global.add.u32 %old, [%count], 1;
    membar.gl;
    st.shared.u32 [found], %old;
COUNTED:
    bar.sync 0;
    ld.shared.u32 %old, [found];
    add.u32 %old, %old, 1;
    setp.ne.u32 %last, %old, %ctas;
    @%last ret;
    mov.f32 %f, 0f00000000;
    mov.u32 %i, %t;
MORE:
    setp.ge.u32 %p, %i, %ctas;
    @%p bra ADDED;
    mad.wide.u32 %d, %i, 4, %parts;
    ld.global.f32 %g, [%d];
    add.f32 %f, %f, %g;
    add.u32 %i, %i, 256;
    bra MORE;
ADDED:
    SUM
    setp.ne.u32 %p, %t, 0;
    @%p ret;
    st.global.f32 [%total], %f;
    ret;
}
";

/// Leaves the sum of all threads' `%f` in that of each.
fn sum() -> String {
    let shuffles = |by: &[u32]| -> String {
        by.iter()
            .map(|by| format!("shfl.sync.bfly.b32 %g, %f, {by}, 31, -1;\nadd.f32 %f, %f, %g;\n"))
            .collect()
    };
    let (lanes, warps) = (shuffles(&[16, 8, 4, 2, 1]), shuffles(&[4, 2, 1]));
    format!(
        "{lanes}shr.u32 %r, %t, 5;\nmad.lo.u32 %at, %r, 4, %shared;\nand.b32 %r, %t, 31;\nsetp.eq.u32 %p, %r, 0;\n\
         @%p st.shared.f32 [%at], %f;\nbar.sync 0;\nand.b32 %r, %t, 7;\nmad.lo.u32 %at, %r, 4, %shared;\n\
         ld.shared.f32 %f, [%at];\n{warps}bar.sync 0;\n"
    )
}

fn main() -> Result<(), Box<dyn Error>> {
    let ctas: u32 = std::env::args().nth(1).map_or(Ok(100_000), |ctas| ctas.parse())?;
    let module = Module::load(&KERNEL.replace("SUM\n", &sum()))?;
    let kernel = module.kernel("sum").ok_or("the module's only kernel")?;
    for checks in [false, true] {
        let emulator = Emulator::new(Arch::Sm80).counting(false).checking_order(checks);
        let bytes = 4 * u64::from(ctas);
        let numbers = emulator.allocate(bytes * u64::from(THREADS))?;
        let [parts, count, total] = [emulator.allocate(bytes)?, emulator.allocate(4)?, emulator.allocate(4)?];
        emulator.write(numbers, &1f32.to_le_bytes().repeat((ctas * THREADS) as usize))?;
        emulator.write(count, &[0; 4])?;
        let launch = Launch { grid: [ctas, 1, 1], threads: [THREADS, 1, 1], ..Launch::default() };
        let parameters: Vec<u8> =
            [numbers, parts, count, total].iter().flat_map(|at| at.to_le_bytes()).collect();
        let start = Instant::now();
        emulator.launch(&kernel, &launch, &parameters)?;
        let time = start.elapsed().as_secs_f64();
        let mut bytes = [0; 4];
        emulator.read(total, &mut bytes)?;
        let (sum, expected) = (f32::from_le_bytes(bytes), ctas as f32 * THREADS as f32);
        if sum != expected {
            return Err(format!("the sum is {sum}, not {expected}").into());
        }
        let order = if checks { "checked" } else { "not checked" };
        println!("{ctas} CTAs, order {order}: {time:.2} s, at most {} of memory so far", most_memory()?);
    }
    Ok(())
}

/// The most memory that the process has had.
fn most_memory() -> Result<String, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    Ok(line.ok_or("no peak in /proc/self/status")?.trim().to_owned())
}
