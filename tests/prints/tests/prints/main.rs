//! What kernels print and assert, on the emulator and on a GPU, with the author's own lines; and that it is no code where it is turned
//! off.

use std::error::Error;
use std::process::ExitCode;

use tilewright::{Arch, Device, Tensor};
use tilewright_print_tests::{KERNELS, SILENT};
use tilewright_print_tests_device::{COLS, stops, talks, values};
use tilewright_support::suite::{Outcome, Suite};

mod gpu;

fn main() -> ExitCode {
    if let Some(code) = gpu::child() {
        return code;
    }
    Suite::new()
        .test("lines are printed", lines_are_printed)
        .test("assertions stop the kernel", assertions_stop_the_kernel)
        .test("values of all types", values_of_all_types)
        .test("traps name the lines that led there", traps_name_the_lines_that_led_there)
        .test("silence costs nothing", silence_costs_nothing)
        .gpu(Arch::Sm80, "a GPU prints what the emulator does", gpu::prints)
        .gpu(Arch::Sm80, "a GPU prints what an assertion says, and stops", gpu::asserts)
        .main()
}

/// The line of the device crate that has this text.
fn line(text: &str) -> usize {
    let source = include_str!("../../device/src/lib.rs");
    1 + source.lines().position(|line| line.contains(text)).expect("it is there")
}

/// Runs `talks` over two rows of so many columns.
fn run_talks(device: &Device, cols: usize, scale: f32) -> tilewright::Result<()> {
    let x = Tensor::filled(device, 3.0, &[2, cols])?;
    let mut y = Tensor::zeros(device, &[2, cols])?;
    let kernel = device.kernel::<talks>(&KERNELS)?;
    kernel.launch(&device.default_stream(), [2, 1, 1], (x.view(), y.view_mut(), scale))?;
    assert_eq!(y.to_vec()?, vec![3.0 * scale; 2 * cols]);
    Ok(())
}

/// Runs `values`.
fn run_values(device: &Device) -> tilewright::Result<()> {
    let arguments = (1_u64 << 40, -3_i8, 1.5_f32);
    device.kernel::<values>(&KERNELS)?.launch(&device.default_stream(), [1, 1, 1], arguments)?;
    device.synchronize()
}

/// Runs `talks` on an emulator that no other test has; what it printed, and what went wrong.
fn talk(seed: u64, cols: usize, scale: f32) -> (String, Option<String>) {
    let device = Device::emulator_with_seed(seed);
    let ran = run_talks(&device, cols, scale);
    (device.printed().unwrap_or_default(), ran.err().map(|error| error.to_string()))
}

fn lines_are_printed() -> Outcome {
    let (printed, fault) = talk(1, COLS, 2.0);
    assert_eq!(fault, None);
    let place = format!("tests/prints/device/src/lib.rs:{}", line("columns in row"));
    let line = |cta, thread| {
        format!(
            "{place}, kernel talks, CTA ({cta}, 0, 0), thread {thread}: 256 columns in row {cta}, 100% of ffffffff\n"
        )
    };
    assert_eq!(printed, [line(0, 0), line(0, 1), line(1, 0), line(1, 1)].concat());
    Ok(())
}

fn assertions_stop_the_kernel() -> Outcome {
    let (printed, fault) = talk(2, COLS + 1, 2.0);
    let fault = fault.ok_or("there are too many columns")?;
    let (line_of, said) = (line("x.cols() <="), "assertion failed: x.cols() <= COLS as u32");
    let place = format!("tests/prints/device/src/lib.rs:{line_of}, kernel talks, CTA (0, 0, 0), thread 0");
    assert!(printed.contains(&format!("{place}: {said}\n")), "{printed}");
    assert!(fault.contains(&format!("after it said `{place}: {said}`")), "{fault}");
    // The trap is in a function that prints: the report says who called it.
    assert!(
        fault.contains(", called at /") && fault.contains(&format!("/device/src/lib.rs:{line_of}")),
        "{fault}"
    );
    let (_, fault) = talk(3, COLS, -1.5);
    let fault = fault.ok_or("the scale is negative")?;
    assert!(fault.contains("assertion failed: scale > 0.0: the scale is -1.5, not 1`"), "{fault}");
    Ok(())
}

fn values_of_all_types() -> Outcome {
    let device = Device::emulator_with_seed(4);
    run_values(&device)?;
    let printed = device.printed().unwrap_or_default();
    let lines: Vec<_> = printed.lines().filter_map(|line| Some(line.split_once("thread 0: ")?.1)).collect();
    let expected =
        ["1099511627776 -3 fd    -3|1.5 1.500000e+00 0001.500|3fc00000", "1 1 -3 1.5", "{} 0x1000 0x1000"];
    assert_eq!(lines, expected);
    Ok(())
}

fn traps_name_the_lines_that_led_there() -> Outcome {
    let device = Device::emulator_with_seed(5);
    let fault = |x: f32, y: f32| -> Result<String, Box<dyn Error>> {
        let kernel = device.kernel::<stops>(&KERNELS)?;
        let launched = kernel.launch(&device.default_stream(), [1, 1, 1], (x, y));
        Ok(launched.err().ok_or("it should stop")?.to_string())
    };
    // One of the two calls alone: the compiler may make one trap of both.
    for (fault, call) in
        [(fault(-1.0, 1.0)?, "refuse_negative(x);"), (fault(1.0, -1.0)?, "refuse_negative(y);")]
    {
        let inside = format!("prints/device/src/lib.rs:{}, called at ", line("        trap()"));
        assert!(fault.contains(&inside), "{fault}");
        let own = ["refuse_negative(x);", "refuse_negative(y);"]
            .map(|call| format!("prints/device/src/lib.rs:{}", line(call)));
        assert!(
            own.iter().any(|own| fault.ends_with(own.as_str()) || fault.contains(&format!("{own},"))),
            "{call}: {fault}"
        );
    }
    Ok(())
}

fn silence_costs_nothing() -> Outcome {
    // Names and labels, which have the function's number in its module, are all that differs.
    let ptx = |name: &str| -> Result<String, Box<dyn Error>> {
        let kernel = SILENT.get(name, Arch::Sm80).ok_or("it is built")?;
        let text = tilewright::ptx(kernel)?.replace(name, "NAME");
        Ok((0..10).fold(text, |text, number| text.replace(&format!("$L__BB{number}_"), "$L_")))
    };
    assert_eq!(ptx("talks")?, ptx("stays")?);
    assert!(!ptx("values")?.contains("call"), "{}", ptx("values")?);
    let loud = KERNELS.named("talks").next().ok_or("it is built")?;
    assert!(tilewright::ptx(loud)?.contains("vprintf"));
    Ok(())
}
