//! Products whose depth all CTAs divide, with the sums of parts in a workspace.

use tilewright::ops::{Gemm, GemmPlan, GemmViews};
use tilewright::{Device, Stream, Tensor, TensorView, TensorViewMut, bf16};
use tilewright_support::guarded::Guarded;
use tilewright_support::random::normal;
use tilewright_support::reference::{Matrix, product, relative_error};
use tilewright_support::suite::Outcome;
use tilewright_support::watched;

/// Rows, columns and depth: one tile of few rows, of a part of a tile, several tiles of rows beside each other, and more of them than CTAs run at a time.
fn shapes(device: &Device) -> Vec<[usize; 3]> {
    let mut shapes = vec![[5, 520, 1096], [72, 512, 704], [200, 640, 840]];
    if !device.is_emulator() && !watched::is_watched() {
        let large =
            [[136, 5120, 8192], [333, 3584, 3584], [700, 1536, 8960], [300, 18944, 640], [1100, 3000, 1000]];
        shapes.extend(large);
    }
    shapes
}

/// The kernels that divide tiles, of products x wᵀ.
fn names(
    x: &TensorView<'_, bf16>,
    w: &TensorView<'_, bf16>,
    y: &TensorViewMut<'_, bf16>,
) -> tilewright::Result<Vec<&'static str>> {
    let all = Gemm::new().candidates(x, w, y)?;
    let able = all.iter().filter(|kernel| kernel.rejection().is_none());
    Ok(able.map(|kernel| kernel.name()).filter(|name| name.ends_with("sk") && watched::runs(name)).collect())
}

/// Who runs a plan.
type Run = fn(
    &GemmPlan,
    &Stream,
    [&TensorView<'_, bf16>; 2],
    &mut TensorViewMut<'_, bf16>,
    &mut Tensor<f32>,
) -> tilewright::Result<()>;

/// Workspaces of any values, that of the launch before among them; by the device's memory; and in a graph that is launched twice.
pub fn workspaces(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let given: Run = |plan, stream, [x, w], y, memory| {
        plan.run_in(stream, x, w, y, &GemmViews::default(), &mut memory.view_mut())
    };
    let own: Run = |plan, stream, [x, w], y, _| plan.run(stream, x, w, y, &GemmViews::default());
    let replayed: Run = |plan, stream, [x, w], y, memory| {
        let graph = stream
            .capture(|stream| plan.run_in(stream, x, w, y, &GemmViews::default(), &mut memory.view_mut()))?;
        // SAFETY: the tensors are alive.
        unsafe { graph.launch(stream)? };
        // SAFETY: as above.
        unsafe { graph.launch(stream) }?;
        stream.synchronize()
    };
    let mut divided = 0;
    for [m, n, k] in shapes(device) {
        let (left, right) = (normal::<bf16>(3, m * k), normal::<bf16>(4, n * k));
        let x = Tensor::from_slice(device, &left, &[m, k])?;
        let w = Tensor::from_slice(device, &right, &[n, k])?;
        let (x, w) = (x.view(), w.view().transpose(0, 1)?);
        let mut y = Guarded::<bf16>::new(device, [1, m, n], n)?;
        let rows: Vec<_> = (0..m).step_by(m.div_ceil(24)).collect();
        let across: Vec<_> = (0..k * n).map(|i| right[i % n * k + i / n]).collect();
        let expected = product(&Matrix::new(&left, m, k), &Matrix::new(&across, k, n), &rows);
        for name in names(&x, &w, &y.view_mut()?.select(0, 0)?)? {
            let plan = Gemm::new().kernel(name).plan(&x, &w, &y.view_mut()?.select(0, 0)?)?;
            divided += usize::from(plan.workspace_len() > 0);
            let mut memory = Tensor::filled(device, f32::NAN, &[plan.workspace_len().max(1)])?;
            for run in [given, own, given, replayed] {
                y.write(&vec![bf16::NAN; m * n])?;
                run(&plan, &stream, [&x, &w], &mut y.view_mut()?.select(0, 0)?, &mut memory)?;
                stream.synchronize()?;
                let (out, outside) = y.read()?;
                let some: Vec<_> = rows.iter().flat_map(|row| out[row * n..][..n].iter().copied()).collect();
                let error = relative_error(&some, &expected);
                assert!(error < 3e-3 && outside == 0, "{name} {m}x{n}x{k}: {error}, {outside} outside");
            }
        }
    }
    assert!(divided > 0, "{divided} plans divide tiles");
    Ok(())
}

/// A captured call finds no workspace, and takes another kernel; one that is forced is refused.
pub fn captured(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let x = Tensor::filled(device, bf16::ONE, &[72, 2048])?;
    let w = Tensor::filled(device, bf16::ONE, &[640, 2048])?;
    let mut y = Tensor::<bf16>::zeros(device, &[72, 640])?;
    let (x, w) = (x.view(), w.view().transpose(0, 1)?);
    let names = names(&x, &w, &y.view_mut())?;
    let plans = names.iter().map(|name| Gemm::new().kernel(name).plan(&x, &w, &y.view_mut()));
    let plans = plans.collect::<tilewright::Result<Vec<_>>>()?;
    let plan = plans.iter().find(|plan| plan.workspace_len() > 0).ok_or("no kernel divides tiles")?;
    let forced = Gemm::new().kernel(plan.kernel().name());
    let error = stream
        .capture(|stream| plan.run(stream, &x, &w, &mut y.view_mut(), &GemmViews::default()))
        .expect_err("no workspace")
        .to_string();
    assert!(error.contains("`workspace` was not given"), "{error}");
    let error =
        stream.capture(|stream| forced.run(stream, &x, &w, &mut y.view_mut())).expect_err("no workspace");
    assert!(error.to_string().contains("it needs a workspace"), "{error}");
    let graph = stream.capture(|stream| Gemm::new().run(stream, &x, &w, &mut y.view_mut()))?;
    // SAFETY: the tensors are alive.
    unsafe { graph.launch(&stream)? };
    assert!(y.to_vec_on(&stream)?.iter().all(|y| y.to_f32() == 2048.0));
    Ok(())
}
