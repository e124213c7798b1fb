//! The same launch with other numbers, on other tensors, in other orders.

use tilewright::ops::{GroupRows, GroupedGemm, GroupedGemmViews};
use tilewright::{Device, Stream, Tensor, bf16};
use tilewright_support::planned::{nowhere, nowhere_mut, refused};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::{Case, Lies};

/// The emulator takes warps in another order for each seed.
pub fn seeds(device: &Device) -> Outcome {
    if !device.is_emulator() {
        return Ok(());
    }
    for seed in 1..4 {
        let device = Device::emulator_with_seed(seed);
        Case { b: Lies::Columns, ..Case::new(&[40, 0, 1, 130], 264, 128) }.check::<bf16>(&device)?;
    }
    Ok(())
}

const N: usize = 136;
const K: usize = 64;
const ROWS: usize = 100;

fn case(rows: &[usize]) -> Case {
    Case { more: ROWS - rows.iter().sum::<usize>(), b: Lies::Rows, ..Case::new(rows, N, K) }
}

pub fn replayed(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let (a, b) = (normal::<bf16>(1, ROWS * K), normal::<bf16>(2, 4 * K * N));
    let on_a = Tensor::from_slice(device, &a, &[ROWS, K])?;
    let on_b = Tensor::from_slice(device, &b, &[4, K, N])?;
    let mut offsets = Tensor::<i32>::zeros(device, &[5])?;
    let mut c = Tensor::<bf16>::zeros(device, &[ROWS, N])?;
    let graph = {
        let (a, b, mut c) = (on_a.view(), on_b.view(), c.view_mut());
        let rows = GroupRows::offsets(offsets.view());
        let mut call = |stream: &Stream| GroupedGemm::new().run(stream, &a, &b, &rows, &mut c);
        // The kernel's loading is not to be recorded.
        call(&stream)?;
        stream.synchronize()?;
        stream.capture(|stream| call(stream))?
    };
    assert_eq!(graph.nodes(), 1);
    for rows in [[25; 4], [0, 100, 0, 0], [1, 0, 98, 1], [0; 4]] {
        let case = case(&rows);
        offsets.write(&case.numbers())?;
        c.write(&vec![bf16::NAN; ROWS * N])?;
        // SAFETY: the tensors are alive.
        unsafe { graph.launch(&stream)? };
        assert_eq!(case.compare(&c.to_vec_on(&stream)?, &case.reference(&a, &b)), None, "{rows:?}");
    }
    Ok(())
}

pub fn planned(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let offsets = nowhere::<i32>(device, &[5])?;
    let plan = GroupedGemm::new().plan(
        &nowhere::<bf16>(device, &[ROWS, K])?,
        &nowhere::<bf16>(device, &[4, K, N])?,
        &GroupRows::offsets(offsets),
        &nowhere_mut::<bf16>(device, &[ROWS, N])?,
    )?;
    let views = GroupedGemmViews::default();
    for seed in [3, 5] {
        let case = case(&[30, 0, seed, 7]);
        let (a, b) = (normal::<bf16>(1, ROWS * K), normal::<bf16>(seed as u64, 4 * K * N));
        let on_a = Tensor::from_slice(device, &a, &[ROWS, K])?;
        let on_b = Tensor::from_slice(device, &b, &[4, K, N])?;
        let offsets = Tensor::from_slice(device, &case.numbers(), &[5])?;
        let mut c = Tensor::filled(device, bf16::NAN, &[ROWS, N])?;
        let rows = GroupRows::offsets(offsets.view());
        plan.run(&stream, &on_a.view(), &on_b.view(), &rows, &mut c.view_mut(), &views)?;
        assert_eq!(case.compare(&c.to_vec_on(&stream)?, &case.reference(&a, &b)), None);
        let wide = Tensor::<i64>::zeros(device, &[5])?;
        let rows = GroupRows::offsets(wide.view());
        let error = refused(plan.run(&stream, &on_a.view(), &on_b.view(), &rows, &mut c.view_mut(), &views));
        assert_eq!(error, "offsets");
    }
    Ok(())
}
