//! The peer and the stopwatch on a GPU.

use std::process::ExitCode;
use std::time::Duration;

use tilewright::{Arch, Device, Stream, Tensor, f16};
use tilewright_support::cublas::{CublasLt, Gemm};
use tilewright_support::guarded::Guarded;
use tilewright_support::random::normal;
use tilewright_support::reference::{Matrix, product, relative_error, sample};
use tilewright_support::suite::{Outcome, Suite};
use tilewright_support::timing::{Options, Variant, compare, sets};

fn main() -> ExitCode {
    Suite::new()
        .gpu(Arch::Sm80, "cuBLAS agrees with the reference", agreement)
        .gpu(Arch::Sm80, "variants are timed", timings)
        .device(Arch::Sm80, "stores outside of an output show", guards)
        .main()
}

fn agreement(device: &Device) -> Outcome {
    let library = match CublasLt::new(device) {
        Ok(library) => library,
        Err(reason) => {
            println!("not compared: {reason}");
            return Ok(());
        }
    };
    let stream = Stream::new(device)?;
    let (m, n, k) = (96, 72, 40);
    for (a_transposed, b_transposed) in [(false, false), (false, true), (true, false), (true, true)] {
        let (a, b) = (normal::<f16>(1, 2 * m * k), normal::<f16>(2, 2 * n * k));
        let (dtype, batch) = (tilewright::DType::F16, 2);
        let gemm = Gemm { input: dtype, output: dtype, m, n, k, a_transposed, b_transposed, batch };
        let plan = library.plan(&gemm, 4)?;
        let (a_d, b_d) =
            (Tensor::from_slice(device, &a, &[a.len()])?, Tensor::from_slice(device, &b, &[b.len()])?);
        let c = Tensor::filled(device, f16::NAN, &[2, m, n])?;
        // SAFETY: the tensors are as the problem says.
        unsafe { plan.run(&stream, 0, a_d.address(), b_d.address(), c.address())? };
        let c = c.to_vec_on(&stream)?;
        for i in 0..2 {
            let (a, b) = (&a[i * m * k..][..m * k], &b[i * n * k..][..n * k]);
            let a = if a_transposed { Matrix::new(a, k, m).t() } else { Matrix::new(a, m, k) };
            let b = if b_transposed { Matrix::new(b, n, k).t() } else { Matrix::new(b, k, n) };
            let error = relative_error(&c[i * m * n..][..m * n], &product(&a, &b, &sample(m, m)));
            assert!(error < 1e-3, "{gemm:?}: {error}");
        }
    }
    Ok(())
}

fn timings(device: &Device) -> Outcome {
    let bytes = 16 << 20;
    let count = sets(device, 2 * bytes);
    let data: Vec<_> = (0..count).map(|_| Tensor::<u8>::zeros(device, &[bytes])).collect::<Result<_, _>>()?;
    let outs = (0..count).map(|_| Tensor::<u8>::zeros(device, &[bytes]).map(std::cell::RefCell::new));
    let outs: Vec<_> = outs.collect::<Result<_, _>>()?;
    let copy = |times: usize| {
        let (data, outs) = (&data, &outs);
        move |stream: &Stream, set: usize| {
            (0..times).try_for_each(|_| outs[set].borrow_mut().copy_from(stream, &data[set]))
        }
    };
    let elsewhere = Variant::elsewhere("elsewhere", || Ok(7.0));
    let variants = [Variant::new("once", copy(1)), Variant::new("twice", copy(2)), elsewhere];
    for flush_l2 in [false, true] {
        let options = Options {
            sets: count,
            rounds: 9,
            burst: Duration::from_millis(1),
            flush_l2,
            ..Options::default()
        };
        let timings = compare(device, &variants, &options)?;
        for timing in &timings {
            let rate = 2.0 * bytes as f64 / timing.median() / 1e6;
            println!("flush {flush_l2}, {}: {:.4} ms, {rate:.0} GB/s", timing.name, timing.median());
        }
        let ratio = timings[1].median() / timings[0].median();
        assert!((1.1..3.0).contains(&ratio), "{ratio}");
        assert_eq!(timings[2].ms, [7.0; 9]);
    }
    Ok(())
}

fn guards(device: &Device) -> Outcome {
    let mut output = Guarded::<f16>::new(device, [2, 3, 5], 8)?;
    assert_eq!(output.view_mut()?.shape(), [2, 3, 5]);
    let (inside, written) = output.read()?;
    assert!(inside.len() == 30 && inside.iter().all(|x| x.is_nan()) && written == 0);
    let stream = device.default_stream();
    let mut row = output.view_mut()?.select(0, 1)?.select(0, 2)?;
    row.fill(&stream, f16::ONE)?;
    assert_eq!(output.read()?.1, 0);
    Ok(())
}
