//! The programs of `docs/sanitizer.md`: compute-sanitizer has something to say of two of them, the emulator of none.

use std::process::ExitCode;

use tilewright::Arch;
use tilewright_differential::case::{Agreement, Argument, Case, Group, Shape};
use tilewright_differential::emulated;
use tilewright_differential::gpu::Gpu;
use tilewright_emulator::Launch;
use tilewright_support::suite::{Outcome, Suite};

/// Their names, texts and how many words they write: word i is i.
const PROGRAMS: [(&str, &str, u32); 3] = [
    ("one lane arrives", include_str!("../sanitizer/one_lane.ptx"), 32),
    ("every lane arrives", include_str!("../sanitizer/every_lane.ptx"), 32),
    ("nobody waits", include_str!("../sanitizer/no_wait.ptx"), 64),
];

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for (name, text, words) in PROGRAMS {
        suite = suite
            .test(format!("{name}: on the emulator"), move || {
                right(emulated::run(&group(text, words)), words)
            })
            .gpu(Arch::Sm90a, format!("{name}: on the GPU"), move |_| {
                right(Gpu::open()?.run(&group(text, words)), words)
            });
    }
    suite.test("one lane that arrives without its warp's barrier is a race", without_barrier).main()
}

fn group(text: &str, words: u32) -> Group {
    let case = Case {
        name: "program".into(),
        kernel: "k".into(),
        text: text.into(),
        launch: Launch { threads: [64, 1, 1], ..Launch::default() },
        arguments: vec![Argument::Memory(vec![0xcd; 4 * words as usize])],
        agreement: Agreement::Exact,
        shape: Shape::Words,
    };
    Group { ptx: text.into(), cases: vec![case], optimised: true }
}

fn right(outcomes: Vec<emulated::Outcome>, words: u32) -> Outcome {
    let expected: Vec<u8> = (0..words).flat_map(u32::to_le_bytes).collect();
    for outcome in outcomes {
        assert_eq!(outcome?, expected);
    }
    Ok(())
}

fn without_barrier() -> Outcome {
    let (_, text, words) = PROGRAMS[0];
    let text = text.replace("bar.warp.sync -1;", "");
    let reason = emulated::run(&group(&text, words)).remove(0).expect_err("a race");
    assert!(reason.contains("before which there is no bar.warp.sync"), "{reason}");
    Ok(())
}
