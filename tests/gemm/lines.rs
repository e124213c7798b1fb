//! Products of operands that are copied into aligned lines first.

use tilewright::ops::{Gemm, GemmPlan, GemmViews};
use tilewright::{Device, Stream, Tensor, TensorView, bf16};
use tilewright_support::guarded::Guarded;
use tilewright_support::random::normal;
use tilewright_support::reference::{Matrix, product, relative_error};
use tilewright_support::suite::Outcome;
use tilewright_support::watched;

/// A product, \[batch, M, K\] by \[batch, K, N\].
#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    sizes: [usize; 3],
    /// A and B lie in memory as their transposes.
    transposed: [bool; 2],
    /// Elements in front of A and B.
    shift: [usize; 2],
    /// One B serves the batch.
    shared: bool,
    /// What the plan says of it.
    copies: &'static str,
}

const CASE: Case = Case {
    batch: 1,
    sizes: [130, 120, 2001],
    transposed: [false, true],
    shift: [0; 2],
    shared: false,
    copies: "of copies of A and B",
};

fn cases(device: &Device) -> Vec<Case> {
    let mut cases = vec![
        CASE,
        Case { sizes: [129, 201, 2000], transposed: [true, false], ..CASE },
        Case { sizes: [40, 135, 2008], transposed: [false, false], copies: "of a copy of B", ..CASE },
        Case { sizes: [136, 128, 2008], shift: [3, 0], copies: "of a copy of A", ..CASE },
        Case { batch: 3, sizes: [70, 72, 2002], transposed: [true, true], shared: true, ..CASE },
    ];
    if !device.is_emulator() && !watched::is_watched() {
        for sizes in [[1500, 1500, 1500], [999, 1001, 1003], [64, 4097, 4095], [4097, 2047, 511]] {
            cases.extend([[false, true], [false, false]].map(|transposed| Case {
                sizes,
                transposed,
                ..CASE
            }));
        }
    }
    cases
}

impl Case {
    /// A matrix of each of the batch, of so many rows and columns, in the memory of `tensor`.
    fn view<'m>(
        tensor: &'m Tensor<bf16>,
        [batch, rows, columns]: [usize; 3],
        transposed: bool,
        shift: usize,
    ) -> tilewright::Result<TensorView<'m, bf16>> {
        let lines = if transposed { [batch, columns, rows] } else { [batch, rows, columns] };
        let len = lines.iter().product();
        let view = tensor.view().narrow(0, shift, len)?.reshape(&lines)?;
        if transposed { view.transpose(1, 2) } else { Ok(view) }
    }

    fn check(&self, device: &Device) -> Outcome {
        let &Case { batch, sizes: [m, n, k], transposed, shift, shared, copies } = self;
        let of_b = if shared { 1 } else { batch };
        let a = normal::<bf16>(1, shift[0] + batch * m * k);
        let b = normal::<bf16>(2, shift[1] + of_b * k * n);
        let [in_a, in_b] = [&a, &b].map(|data| Tensor::from_slice(device, data, &[data.len()]));
        let (in_a, in_b) = (in_a?, in_b?);
        let left = Self::view(&in_a, [batch, m, k], transposed[0], shift[0])?;
        let right = Self::view(&in_b, [of_b, k, n], transposed[1], shift[1])?;
        let right = if shared { right.select(0, 0)? } else { right };
        let mut c = Guarded::<bf16>::new(device, [batch, m, n], n)?;
        let plan = Gemm::new().plan(&left, &right, &c.view_mut()?)?;
        assert!(plan.to_string().contains(copies), "{self:?}: {plan}");
        let mut memory = Tensor::filled(device, f32::NAN, &[plan.workspace_len()])?;
        let stream = Stream::new(device)?;
        let run = |plan: &GemmPlan, c: &mut Guarded<bf16>| {
            plan.run(&stream, &left, &right, &mut c.view_mut()?, &GemmViews::default())
        };
        let mut captured = |plan: &GemmPlan, c: &mut Guarded<bf16>| {
            let graph = stream.capture(|stream| {
                let (c, views) = (&mut c.view_mut()?, GemmViews::default());
                plan.run_in(stream, &left, &right, c, &views, &mut memory.view_mut())
            })?;
            // SAFETY: the tensors are alive.
            unsafe { graph.launch(&stream) }
        };
        let without = |plan: &GemmPlan, c: &mut Guarded<bf16>| {
            // Nothing is there to copy to: another kernel runs.
            let graph = stream.capture(|_| run(plan, c))?;
            // SAFETY: as above.
            unsafe { graph.launch(&stream) }
        };
        let rows: Vec<usize> = (0..m).step_by(m.div_ceil(16)).collect();
        let matrix = |data: &[bf16], [rows, columns]: [usize; 2], transposed: bool| {
            let at = |i: usize| match transposed {
                true => data[i % columns * rows + i / columns],
                false => data[i],
            };
            Matrix::new(&(0..rows * columns).map(at).collect::<Vec<_>>(), rows, columns)
        };
        let expected: Vec<_> = (0..batch)
            .map(|i| {
                let of_b = if shared { 0 } else { i };
                let a = matrix(&a[shift[0] + i * m * k..][..m * k], [m, k], transposed[0]);
                product(&a, &matrix(&b[shift[1] + of_b * k * n..][..k * n], [k, n], transposed[1]), &rows)
            })
            .collect();
        for way in ["run", "captured", "run again", "captured without memory"] {
            c.write(&vec![bf16::NAN; batch * m * n])?;
            match way {
                "captured" => captured(&plan, &mut c)?,
                "captured without memory" => without(&plan, &mut c)?,
                _ => run(&plan, &mut c)?,
            }
            stream.synchronize()?;
            let (out, outside) = c.read()?;
            for (i, expected) in expected.iter().enumerate() {
                let row = |row: &usize| out[(i * m + row) * n..][..n].iter().copied();
                let error = relative_error(&rows.iter().flat_map(row).collect::<Vec<_>>(), expected);
                assert!(error < 3e-3 && outside == 0, "{self:?} {way} {i}: {error}, {outside} outside");
            }
        }
        Ok(())
    }
}

/// Of A, of B and of both; in all orders, off the alignment of their memory; of batches; in graphs, with memory for them and without.
pub fn copied(device: &Device) -> Outcome {
    cases(device).iter().try_for_each(|case| case.check(device))
}
