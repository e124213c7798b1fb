//! Every level at sizes that do not fit its tiles, and what it refuses.

use std::process::ExitCode;

use ladder::{KERNELS, LEVELS, Level, Sizes, gemm_pipelined, row_softmax};
use tilewright::{Arch, Device, Tensor};
use tilewright_support::suite::{Outcome, Suite};

fn main() -> ExitCode {
    let mut suite = Suite::new().test("every kernel has a level", complete);
    for level in LEVELS {
        suite = suite.device(level.arch, level.name, move |device| odd_sizes(device, &level));
    }
    suite.device(Arch::Sm80, "arguments that do not fit are named", refusals).main()
}

fn complete() -> Outcome {
    let mut compiled: Vec<_> = KERNELS.entries().iter().map(|entry| (entry.arch, entry.name)).collect();
    let mut levels: Vec<_> = LEVELS.iter().map(|level| (level.arch, level.name)).collect();
    compiled.sort();
    levels.sort();
    assert_eq!(compiled, levels);
    Ok(())
}

fn odd_sizes(device: &Device, level: &Level) -> Outcome {
    let sizes = [
        Sizes { vector: 1, softmax: [1, 1], gemm: [1, 1, 1], attention: [1, 1, 1] },
        Sizes { vector: 1023, softmax: [7, 33], gemm: [33, 31, 65], attention: [1, 65, 63] },
        Sizes { vector: 1025, softmax: [4, 1000], gemm: [129, 130, 67], attention: [2, 129, 130] },
        Sizes { vector: 4096, softmax: [5, 2047], gemm: [64, 257, 200], attention: [1, 64, 257] },
    ];
    for sizes in sizes {
        let [m, n, k] = sizes.gemm;
        let sizes =
            Sizes { gemm: [m, n.next_multiple_of(level.lines), k.next_multiple_of(level.lines)], ..sizes };
        let outcome = level.run(device, &sizes)?;
        assert!(outcome.error <= outcome.tolerance, "{sizes:?}: error {:e}", outcome.error);
    }
    Ok(())
}

fn refusals(device: &Device) -> Outcome {
    let stream = device.default_stream();
    let zeros = |shape: [usize; 2]| Tensor::<f32>::zeros(device, &shape);
    let (a, b, mut c) = (zeros([4, 6])?, zeros([6, 8])?, zeros([4, 8])?);
    let error = gemm_pipelined(&stream, &a.view(), &b.view(), &mut c.view_mut()).unwrap_err().to_string();
    assert!(error.contains("`gemm_pipelined` cannot read `a`") && error.contains("16 bytes"), "{error}");
    let a = zeros([4, 8])?;
    let error = gemm_pipelined(&stream, &a.view(), &a.view(), &mut c.view_mut()).unwrap_err().to_string();
    assert!(error.contains("a.cols() == b.rows()") && error.contains("[4, 8]"), "{error}");
    let (x, mut y) = (zeros([1, 2049])?, zeros([1, 2049])?);
    let error = row_softmax(&stream, &x.view(), &mut y.view_mut()).unwrap_err().to_string();
    assert!(error.contains("x.cols() <= COLS") && error.contains("[1, 2049]"), "{error}");
    Ok(())
}
