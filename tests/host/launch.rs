use tilewright::{Device, Error, Launch, Stream, Tensor, TensorViewMut, f16};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::kernels::{Boxes, Fetch, FetchArgs, Mark, Output, Rank, entry, set};

pub fn runs(device: &Device) -> Outcome {
    let kernel = device.kernel::<Mark>(set())?;
    let stream = Stream::new(device)?;
    let mut out = Tensor::<u32>::zeros(device, &[200])?;
    // The memory of a part, so that stores beyond the grid would show.
    let part: TensorViewMut<'_, u32> = out.view_mut().narrow(0, 8, 192)?;
    let args = Output { address: part.address(), value: 1000 };
    // SAFETY: three CTAs of 64 threads write one element each.
    unsafe { kernel.launch_block(&stream, &Launch::grid([3, 1, 1]), &args)? };
    let expected: Vec<u32> = (0..200).map(|i| if i < 8 { 0 } else { 1000 + i - 8 }).collect();
    assert_eq!(out.to_vec_on(&stream)?, expected);
    assert!(kernel.local_bytes() == 0 && kernel.ctas_per_sm() > 0);
    assert_eq!(kernel.registers() > 0, !device.is_emulator());
    assert_eq!(kernel.ptx()?, include_str!("mark.ptx"));
    assert_eq!(
        set().named("ark").map(tilewright::ptx).collect::<tilewright::Result<Vec<_>>>()?,
        [kernel.ptx()?]
    );
    assert_eq!(kernel.entry().to_string(), "as the builder says");
    Ok(())
}

pub fn bad_ptx(device: &Device) -> Outcome {
    let ptx = include_str!("mark.ptx").replace("mad.lo.u32", "mad.low.u32");
    let entries = vec![entry::<Mark>(&ptx)].leak();
    // SAFETY: the text is that of this kernel, or none.
    let set = Box::leak(Box::new(unsafe { tilewright::KernelSet::new(entries) }));
    match device.kernel::<Mark>(set) {
        Err(Error::KernelLoad { kernel: "mark", reason }) => assert!(reason.contains("line 16"), "{reason}"),
        other => return Err(format!("{other:?}").into()),
    }
    Ok(())
}

pub fn threads(device: &Device) -> Outcome {
    let set = set();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8u32)
            .map(|thread| {
                scope.spawn(move || -> tilewright::Result<()> {
                    let stream = Stream::new(device)?;
                    let kernel = device.kernel::<Mark>(set)?;
                    let out = Tensor::<u32>::zeros(device, &[64])?;
                    let args = Output { address: out.address(), value: thread };
                    for _ in 0..100 {
                        // SAFETY: one CTA of 64 threads writes one element each.
                        unsafe { kernel.launch_block(&stream, &Launch::grid([1, 1, 1]), &args)? };
                    }
                    assert_eq!(out.to_vec_on(&stream)?, (thread..thread + 64).collect::<Vec<_>>());
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    Ok(())
}

pub fn clusters(device: &Device) -> Outcome {
    let kernel = device.kernel::<Rank>(set())?;
    assert!(kernel.resident_ctas() >= 2 && kernel.resident_ctas().is_multiple_of(2));
    let stream = Stream::new(device)?;
    let mut out = Tensor::<u32>::zeros(device, &[4])?;
    for pdl in [false, true] {
        out.fill(&stream, 0)?;
        for value in [10, 20, 30] {
            let launch = Launch::grid([4, 1, 1]).pdl(pdl);
            // SAFETY: each CTA writes its own element, after the preceding grid.
            unsafe { kernel.launch_block(&stream, &launch, &Output { address: out.address(), value })? };
        }
        // value + rank, doubled by each of the kernels behind.
        assert_eq!(out.to_vec_on(&stream)?, [110, 117, 110, 117]);
    }
    Ok(())
}

/// Where an element of a row lies within its 128 bytes of shared memory.
fn swizzled(row: usize, col: usize) -> usize {
    row * 64 + ((col / 8) ^ (row % 8)) * 8 + col % 8
}

pub fn tensor_maps(device: &Device) -> Outcome {
    let kernel = device.kernel::<Fetch>(set())?;
    let stream = Stream::new(device)?;
    let (batch, rows, cols) = (3, 100, 88);
    let data = normal::<f16>(3, batch * rows * cols);
    let x = Tensor::from_slice(device, &data, &[batch, rows, cols])?;
    let out = Tensor::<f16>::uninit(device, &[64 * 64])?;
    let fetch = |tensor, coordinates| {
        let args = FetchArgs { tensor, out: out.address(), coordinates };
        // SAFETY: the kernel reads what the map allows and writes 64 x 64 elements.
        unsafe { kernel.launch_block(&stream, &Launch::grid([1, 1, 1]), &args)? };
        out.to_vec_on(&stream)
    };
    let at = |b: usize, row: usize, col: usize| {
        let inside = b < batch && row < rows && col < cols;
        if inside { data[(b * rows + row) * cols + col] } else { f16::ZERO }
    };

    // Box coordinates go from the contiguous dimension outwards; outside of the tensor there are zeros.
    for [col, row, b] in [[0, 0, 0], [0, 64, 2], [64, 40, 1], [0, 0, 3]] {
        let arg = x.view().arg::<3, Boxes<true>>()?;
        assert_eq!((arg.tma, arg.align), (1, 16));
        let found = fetch(arg, [col as u32, row as u32, b as u32])?;
        for (r, c) in (0..64).flat_map(|r| (0..64).map(move |c| (r, c))) {
            assert_eq!(found[swizzled(r, c)], at(b, row + r, col + c), "({b}, {row}+{r}, {col}+{c})");
        }
    }
    // A transposed window of a matrix: fewer dimensions, a pitch, another order.
    let window = x.view().select(0, 1)?.narrow(1, 8, 72)?.transpose(0, 1)?;
    let found = fetch(window.arg::<3, Boxes<false>>()?, [0, 0, 0])?;
    assert!((0..64 * 64).all(|i| found[swizzled(i / 64, i % 64)] == at(1, i / 64, 8 + i % 64)));

    // A matrix that repeats along the batch: the driver may refuse the stride of zero.
    let repeated = x.view().narrow(0, 1, 1)?.broadcast(&[5, rows, cols])?.arg::<3, Boxes<true>>()?;
    println!("a stride of zero has a tensor map: {}", repeated.tma == 1);
    if repeated.tma == 1 {
        assert_eq!(fetch(repeated, [0, 0, 4])?[swizzled(1, 2)], at(1, 1, 2));
    }
    // Rows that are not a multiple of 16 bytes.
    let odd = x.view().reshape(&[1, batch * rows * 8, 11])?.arg::<3, Boxes<true>>()?;
    assert_eq!((odd.tma, odd.align), (0, 2));
    Ok(())
}
