//! Grids that begin before preceding ones end.

use tilewright_emulator::{Arch, Emulator, Fault, Kernel, Launch, Module, Preceding};

use super::kernel::contains;

/// Bytes of memory that kernels use.
const BYTES: usize = 4096;

/// Kernels of two warps over memory at `%out`, where thread `%t` has the word at `%mine`.
struct Grids {
    emulator: Emulator,
    out: u64,
    preceding: Preceding,
}

impl Grids {
    fn new() -> Self {
        let emulator = Emulator::new(Arch::Sm90a);
        let out = emulator.allocate(BYTES as u64).expect("it is little");
        emulator.write(out, &[0; BYTES]).expect("just allocated");
        Self { emulator, out, preceding: Preceding::default() }
    }

    fn kernel(name: &str, body: &str) -> Kernel {
        let text = format!(
            ".version 8.3\n.target sm_90a\n.address_size 64\n.visible .entry {name}(.param .u64 out)\n{{\n\
             .reg .pred %p<4>;\n.reg .b32 %r<4>;\n.reg .b32 %t, %cta;\n.reg .b64 %out, %mine;\n\
             .shared .align 1024 .b8 buffer[1024];\n.shared .align 8 .b64 bar;\n\
             ld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\nmov.u32 %cta, %ctaid.x;\n\
             setp.eq.u32 %p0, %t, 0;\nmad.wide.u32 %mine, %t, 4, %out;\n{body}\nret;\n}}\n"
        );
        let module = Module::load(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        module.kernel(name).expect("it is called so")
    }

    /// One more, in so many CTAs.
    fn next(&mut self, ctas: u32, name: &str, body: &str) -> Result<(), Fault> {
        let launch = Launch { grid: [ctas, 1, 1], threads: [64, 1, 1], ..Launch::default() };
        let (kernel, parameters) = (Self::kernel(name, body), self.out.to_le_bytes());
        self.emulator.launch_behind(&kernel, &launch, &parameters, &mut self.preceding).map(|_| ())
    }
}

const WRITE: &str = "st.global.u32 [%mine], 7;";
const READ: &str = "ld.global.u32 %r1, [%mine];";
const WAIT: &str = "griddepcontrol.wait;";
const LET: &str = "griddepcontrol.launch_dependents;";

/// The second kernel behind the first one: what it is accused of.
fn behind(first: &str, second: &str) -> Option<Fault> {
    let mut grids = Grids::new();
    grids.next(1, "first", first).expect("nothing precedes it");
    grids.next(1, "second", second).err()
}

#[test]
fn what_a_preceding_grid_accessed_is_waited_for() {
    let part = "st.global.u32 [%mine+1024], 7;";
    for (first, second, words) in [
        (WRITE, READ, Some(["write them", "this read"])),
        (WRITE, WRITE, Some(["write them", "this write"])),
        (READ, WRITE, Some(["read them", "this write"])),
        (READ, READ, None),
        (WRITE, part, None),
        // What is there is what was written: whoever comes first, something else may come between.
        ("st.global.u32 [%mine], 0;", READ, Some(["write them", "this read"])),
        (
            "red.global.add.u32 [%out], 1;",
            "red.global.add.u32 [%out], 1;",
            Some(["write them", "this write"]),
        ),
    ] {
        match (behind(first, second), words) {
            (Some(fault), Some(words)) => {
                let all =
                    ["race", "of global memory", "kernel first", "no griddepcontrol.wait", "kernel second"];
                contains(&fault.to_string(), &all);
                contains(&fault.to_string(), &words);
            }
            (None, None) => {}
            (fault, _) => panic!("{first} then {second}: {fault:?}"),
        }
        let waits = behind(first, &format!("{WAIT}\n{second}"));
        assert!(waits.is_none(), "{first} then {second}: {waits:?}");
        let late = behind(first, &format!("{second}\n{WAIT}"));
        assert_eq!(late.is_some(), words.is_some(), "{first} then {second}, and wait");
    }
}

#[test]
fn others_wait_by_a_barrier() {
    let one = |barrier: &str| format!("@%p0 griddepcontrol.wait;\n{barrier}\n{READ}");
    assert!(behind(WRITE, &one("bar.sync 0;")).is_none());
    // Another lane, and another warp.
    let alone = format!("@%p0 griddepcontrol.wait;\n@!%p0 bra END;\n{READ}\nEND:");
    assert!(behind(WRITE, &alone).is_none());
    let fault = behind(WRITE, &one("bar.warp.sync -1;")).expect("a warp has not waited");
    assert!(fault.thread.is_some_and(|thread| thread >= 32), "{fault}");
    let fault = behind(WRITE, &one("")).expect("lanes have not waited");
    assert!(fault.thread.is_some_and(|thread| thread > 0), "{fault}");
}

#[test]
fn copies_read_when_they_are_issued() {
    let copy = |wait: &str| {
        format!(
            "mov.u32 %r1, bar;\nmov.u32 %r2, buffer;\n@!%p0 bra END;\nmbarrier.init.shared.b64 [%r1], 1;\n\
             fence.proxy.async.shared::cta;\n{wait}\nmbarrier.arrive.expect_tx.shared.b64 _, [%r1], 256;\n\
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%out], 256, [%r1];\n\
             AGAIN: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;\n@!%p1 bra AGAIN;\nEND: bar.sync 0;\n{WAIT}"
        )
    };
    assert!(behind(WRITE, &copy(WAIT)).is_none());
    let fault = behind(WRITE, &copy("")).expect("it has not waited");
    contains(&fault.to_string(), &["256 bytes of global memory", "this read"]);
}

#[test]
fn a_cta_tells_the_others() {
    let body = |wait: &str| {
        format!(
            "setp.ne.u32 %p1, %cta, 0;\n@%p1 bra LOOK;\n{wait}\nbar.sync 0;\n@!%p0 exit;\n\
             st.release.gpu.global.u32 [%out+2048], 1;\nexit;\n\
             LOOK: ld.acquire.gpu.global.u32 %r1, [%out+2048];\nsetp.eq.u32 %p2, %r1, 0;\n@%p2 bra LOOK;\n{READ}"
        )
    };
    for (wait, guilty) in [(WAIT, false), ("", true)] {
        let mut grids = Grids::new();
        grids.next(1, "first", WRITE).expect("nothing precedes it");
        assert_eq!(grids.next(2, "second", &body(wait)).is_err(), guilty, "{wait}");
    }
}

#[test]
fn which_grids_may_still_run() {
    // The second one touches nothing of the first. Where it lets the third one begin before it has waited, the first may still run.
    let third = |second: &str| {
        let mut grids = Grids::new();
        grids.next(1, "first", WRITE).expect("nothing precedes it");
        grids.next(1, "second", second).expect("it touches nothing");
        grids.next(1, "third", READ).is_err()
    };
    assert!(third(&format!("{LET}\n{WAIT}")));
    assert!(third(LET));
    assert!(!third(&format!("{WAIT}\n{LET}")));
    assert!(!third(WAIT));
    // Behind a launch that waits for all that precede it.
    let mut grids = Grids::new();
    grids.next(1, "first", WRITE).expect("nothing precedes it");
    grids.preceding = Preceding::default();
    grids.next(1, "second", READ).expect("the first has ended");
}

#[test]
fn after_a_fault_nothing_precedes() {
    let mut grids = Grids::new();
    grids.next(1, "first", WRITE).expect("nothing precedes it");
    assert!(grids.next(1, "second", READ).is_err());
    grids.next(1, "third", READ).expect("nothing precedes it");
}
