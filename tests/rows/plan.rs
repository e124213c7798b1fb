//! Plans that run many times, of views that had no memory.

use tilewright::ops::{CrossEntropy, FloatElement, Norm, NormGradientViews, NormViews, Softmax};
use tilewright::{Device, Stream, Tensor, TensorView, f16};
use tilewright_support::Real;
use tilewright_support::planned::{nowhere, nowhere_mut, packed, random, refused, value};
use tilewright_support::suite::Outcome;

/// Rows in vectors, and others.
const SHAPES: [[usize; 3]; 2] = [[2, 3, 64], [2, 2, 37]];

fn bits<T: Real>(stream: &Stream, tensor: &Tensor<T>) -> tilewright::Result<Vec<u32>> {
    Ok(T::widen(&tensor.to_vec_on(stream)?).iter().map(|x| x.to_bits()).collect())
}

/// Two tensors of poison: for a plan, and for a call.
fn two<T: Real + FloatElement>(device: &Device, shape: &[usize]) -> tilewright::Result<[Tensor<T>; 2]> {
    Ok([Tensor::filled(device, T::POISON, shape)?, Tensor::filled(device, T::POISON, shape)?])
}

/// Plain and masked ones and gradients: the same bits as calls.
pub fn softmax(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for shape in SHAPES {
        let mask_shape = [1, shape[1], shape[2]];
        let (x, y) = (nowhere::<f16>(device, &shape)?, nowhere_mut::<f16>(device, &shape)?);
        let mask = nowhere::<f16>(device, &mask_shape)?;
        let plain = value(Softmax::new().scale(0.5).plan(&x, &y)?);
        let causal = value(Softmax::new().log().causal().plan(&x, &y)?);
        let masked = value(Softmax::new().mask(&mask).plan(&x, &y)?);
        let gradient = value(Softmax::new().plan_gradient(&x, &x, &y)?);
        assert!(plain.to_string().contains("the fastest by estimate"), "{plain}");
        for seed in 1..3 {
            let x = random::<f16>(device, seed, &shape)?;
            let mask = random::<f16>(device, seed + 7, &mask_shape)?;
            let [mut y, mut called] = two::<f16>(device, &shape)?;
            plain.run(&stream, &x.view(), &mut y.view_mut())?;
            Softmax::new().scale(0.5).run(&stream, &x.view(), &mut called.view_mut())?;
            assert_eq!(bits(&stream, &y)?, bits(&stream, &called)?);
            let [mut dx, mut called_dx] = two::<f16>(device, &shape)?;
            gradient.run(&stream, &y.view(), &x.view(), &mut dx.view_mut())?;
            Softmax::new().run_gradient(&stream, &y.view(), &x.view(), &mut called_dx.view_mut())?;
            assert_eq!(bits(&stream, &dx)?, bits(&stream, &called_dx)?);
            causal.run(&stream, &x.view(), &mut y.view_mut())?;
            Softmax::new().log().causal().run(&stream, &x.view(), &mut called.view_mut())?;
            assert_eq!(bits(&stream, &y)?, bits(&stream, &called)?);
            masked.run_masked(&stream, &x.view(), &mask.view(), &mut y.view_mut())?;
            Softmax::new().mask(&mask.view()).run(&stream, &x.view(), &mut called.view_mut())?;
            assert_eq!(bits(&stream, &y)?, bits(&stream, &called)?);
        }
    }
    Ok(())
}

/// With weights, with a residual, and gradients by all that there is: the same bits as calls.
pub fn norms(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for shape in SHAPES {
        let cols = [shape[2]];
        let (x, y) = (nowhere::<f16>(device, &shape)?, nowhere_mut::<f16>(device, &shape)?);
        let (w, none) = (nowhere::<f16>(device, &cols)?, NormViews::default());
        let (mut dw, mut db) = (nowhere_mut::<f16>(device, &cols)?, nowhere_mut::<f16>(device, &cols)?);
        let plain = value(Norm::rms().plan(&x, &y)?);
        let weighted = value(Norm::layer().weight(&w).bias(&w).plan(&x, &y)?);
        let added = value(Norm::rms().weight(&w).plan_added(&x, &x, &y, &y)?);
        let gradient = Norm::layer().weight(&w).gradient().d_sum(&x).d_weight(&mut dw).d_bias(&mut db);
        let gradient = value(gradient.plan(&x, &x, &y)?);
        let by_x = value(Norm::rms().gradient().plan(&x, &x, &y)?);
        assert_eq!(by_x.workspace_len(), 0);
        let mut room = Tensor::filled(device, f32::NAN, &[gradient.workspace_len()])?;
        for seed in 1..3 {
            let [x, r] = [random::<f16>(device, seed, &shape)?, random::<f16>(device, seed + 7, &shape)?];
            let [w, b] = [random::<f16>(device, seed + 2, &cols)?, random::<f16>(device, seed + 3, &cols)?];
            let (xv, rv, wv, bv) = (x.view(), r.view(), w.view(), b.view());
            let [mut y, mut called] = two::<f16>(device, &shape)?;
            plain.run(&stream, &xv, &mut y.view_mut(), &none)?;
            Norm::rms().run(&stream, &xv, &mut called.view_mut())?;
            assert_eq!(bits(&stream, &y)?, bits(&stream, &called)?);
            let views = NormViews { weight: Some(w.view()), bias: Some(b.view()) };
            weighted.run(&stream, &xv, &mut y.view_mut(), &views)?;
            Norm::layer().weight(&wv).bias(&bv).run(&stream, &xv, &mut called.view_mut())?;
            assert_eq!(bits(&stream, &y)?, bits(&stream, &called)?);

            let [mut sum, mut called_sum] = two::<f16>(device, &shape)?;
            let views = NormViews { bias: None, ..views };
            added.run_added(&stream, &xv, &rv, &mut sum.view_mut(), &mut y.view_mut(), &views)?;
            let (mut to_sum, mut to) = (called_sum.view_mut(), called.view_mut());
            Norm::rms().weight(&wv).run_added(&stream, &xv, &rv, &mut to_sum, &mut to)?;
            assert_eq!(bits(&stream, &y)?, bits(&stream, &called)?);
            assert_eq!(bits(&stream, &sum)?, bits(&stream, &called_sum)?);

            let [mut dw, mut called_dw] = two::<f16>(device, &cols)?;
            let [mut db, mut called_db] = two::<f16>(device, &cols)?;
            let mut views = NormGradientViews {
                weight: Some(w.view()),
                d_sum: Some(r.view()),
                d_weight: Some(dw.view_mut()),
                d_bias: Some(db.view_mut()),
                workspace: Some(room.view_mut()),
            };
            gradient.run(&stream, &xv, &rv, &mut y.view_mut(), &mut views)?;
            let (mut to_w, mut to_b) = (called_dw.view_mut(), called_db.view_mut());
            let call = Norm::layer().weight(&wv).gradient().d_sum(&rv).d_weight(&mut to_w).d_bias(&mut to_b);
            { call }.run(&stream, &xv, &rv, &mut called.view_mut())?;
            for (planned, called) in [(&y, &called), (&dw, &called_dw), (&db, &called_db)] {
                assert_eq!(bits(&stream, planned)?, bits(&stream, called)?);
            }
            by_x.run(&stream, &xv, &rv, &mut y.view_mut(), &mut NormGradientViews::default())?;
            Norm::rms().gradient().run(&stream, &xv, &rv, &mut called.view_mut())?;
            assert_eq!(bits(&stream, &y)?, bits(&stream, &called)?);
        }
    }
    Ok(())
}

/// Loss and gradient, and the loss alone: the same bits as calls.
pub fn cross_entropy(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for shape in SHAPES {
        let (x, y) = (nowhere::<f16>(device, &shape)?, nowhere_mut::<f16>(device, &shape)?);
        let labels = nowhere::<i64>(device, &shape[..2])?;
        let loss = nowhere_mut::<f32>(device, &shape[..2])?;
        let options = CrossEntropy::new().smoothing(0.125);
        let both = value(options.plan(&x, &labels, &loss, &y)?);
        let alone = value(options.plan_loss(&x, &labels, &loss)?);
        for seed in 1..3 {
            let x = random::<f16>(device, seed, &shape)?;
            let of_rows: Vec<i64> =
                (0..shape[0] * shape[1]).map(|row| row as i64 * 5 + seed as i64).collect();
            let labels = Tensor::<i64>::from_slice(device, &of_rows, &shape[..2])?;
            let [mut y, mut called] = two::<f16>(device, &shape)?;
            let [mut loss, mut called_loss] = two::<f32>(device, &shape[..2])?;
            let (xv, lv, gradient) = (x.view(), labels.view(), &mut y.view_mut());
            both.run(&stream, &xv, &lv, &mut loss.view_mut(), Some(gradient))?;
            let (mut to_loss, mut to) = (called_loss.view_mut(), called.view_mut());
            options.run_with_gradient(&stream, &xv, &lv, &mut to_loss, &mut to)?;
            assert_eq!(bits(&stream, &y)?, bits(&stream, &called)?);
            assert_eq!(bits(&stream, &loss)?, bits(&stream, &called_loss)?);
            loss.fill(&stream, f32::NAN)?;
            alone.run(&stream, &xv, &lv, &mut loss.view_mut(), None)?;
            options.run(&stream, &xv, &lv, &mut called_loss.view_mut())?;
            assert_eq!(bits(&stream, &loss)?, bits(&stream, &called_loss)?);
        }
    }
    Ok(())
}

/// A mask that repeats takes launches of its own; each reads where its rows lie, wherever the tensors lie.
pub fn launches(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    // Places of 2 bytes more or less, which suit the plan's alignment and are aligned to more.
    let (shape, strides, mask_shape) = ([3, 2, 2, 37], [2 * 2 * 41 + 1, 2 * 41, 41, 1], [3, 1, 2, 37]);
    let x = TensorView::<f16>::without_memory(device, &shape, &strides, 2)?;
    let (mask, y) = (nowhere::<f16>(device, &mask_shape)?, nowhere_mut::<f16>(device, &shape)?);
    let plan = value(Softmax::new().mask(&mask).plan(&x, &y)?);
    let mask = random::<f16>(device, 3, &mask_shape)?;
    for at in [0, 1, 4] {
        let memory = random::<f16>(device, 4, &[1000])?;
        let address = memory.address() + 2 * at;
        // SAFETY: it reaches up to element 522, and the memory lives on.
        let x = unsafe { TensorView::<f16>::from_raw_parts(device, address, &shape, &strides)? };
        let [mut y, mut called] = two::<f16>(device, &shape)?;
        plan.run_masked(&stream, &x, &mask.view(), &mut y.view_mut())?;
        Softmax::new().mask(&mask.view()).run(&stream, &x, &mut called.view_mut())?;
        let (y, called) = (y.to_vec_on(&stream)?, called.to_vec_on(&stream)?);
        // The call may have a kernel that reads more at a time, and adds in another order.
        let near = |(a, b): (&f16, &f16)| (a.to_f32() - b.to_f32()).abs() < 1e-3;
        assert!(y.iter().zip(&called).all(near), "{at}: {y:?} {called:?}");
    }
    Ok(())
}

/// What runs with a plan is what it was made for; the error names what is not.
pub fn refuses(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let shape = [4, 64];
    let (nowhere_x, to) = (nowhere::<f16>(device, &shape)?, nowhere_mut::<f16>(device, &shape)?);
    let plan = Softmax::new().plan(&nowhere_x, &to)?;
    let x = random::<f16>(device, 1, &[1000])?;
    let of = |at: usize, shape: [usize; 2]| x.view().narrow(0, at, shape[0] * shape[1])?.reshape(&shape);
    let there = Device::emulator_with_seed(5);
    let far = Tensor::<f16>::zeros(&there, &shape)?;
    let mut y = Tensor::filled(device, f16::NAN, &shape)?;
    for (x, what) in [
        (of(0, [3, 64])?, "rows"),
        (of(0, [64, 4])?.transpose(0, 1)?, "strides"),
        (of(1, shape)?, "alignment"),
        (nowhere_x.clone(), "no memory"),
        (far.view(), "another device"),
    ] {
        assert_eq!(refused(plan.run(&stream, &x, &mut y.view_mut())), "x", "{what}");
    }
    let wide = Tensor::<f32>::zeros(device, &shape)?;
    let mut narrow = Tensor::<f32>::zeros(device, &shape)?;
    assert_eq!(refused(plan.run(&stream, &wide.view(), &mut narrow.view_mut())), "x");
    let xv = of(0, shape)?;
    let one = Tensor::<f16>::zeros(device, &[64])?;
    assert_eq!(refused(plan.run_masked(&stream, &xv, &one.view(), &mut y.view_mut())), "mask");
    let one_nowhere = nowhere::<f16>(device, &[64])?;
    let masked = Softmax::new().mask(&one_nowhere).plan(&nowhere_x, &to)?;
    assert_eq!(refused(masked.run(&stream, &xv, &mut y.view_mut())), "mask");
    let ones = Tensor::<f32>::zeros(device, &[64])?;
    assert_eq!(refused(masked.run_masked(&stream, &xv, &ones.view(), &mut y.view_mut())), "mask");
    // SAFETY: nothing runs.
    let inside = unsafe { TensorView::<f16>::from_raw_parts(device, y.address(), &shape, &packed(&shape))? };
    assert_eq!(refused(plan.run(&stream, &inside, &mut y.view_mut())), "y");
    assert_eq!(refused(plan.run(&Stream::new(&there)?, &xv, &mut y.view_mut())), "stream");

    let norm = Norm::rms().weight(&one_nowhere).plan(&nowhere_x, &to)?;
    assert_eq!(refused(norm.run(&stream, &xv, &mut y.view_mut(), &NormViews::default())), "weight");
    let views = NormViews { weight: Some(one.view()), bias: Some(one.view()) };
    assert_eq!(refused(norm.run(&stream, &xv, &mut y.view_mut(), &views)), "bias");
    let views = NormViews { bias: None, ..views };
    let mut sum = Tensor::<f16>::zeros(device, &shape)?;
    let added = norm.run_added(&stream, &xv, &xv, &mut sum.view_mut(), &mut y.view_mut(), &views);
    assert_eq!(refused(added), "residual");

    let mut dw = nowhere_mut::<f16>(device, &[64])?;
    let gradient = Norm::rms().gradient().d_weight(&mut dw).plan(&nowhere_x, &nowhere_x, &to)?;
    let (mut dw, len) = (Tensor::<f16>::zeros(device, &[64])?, gradient.workspace_len());
    let mut views = NormGradientViews { d_weight: Some(dw.view_mut()), ..NormGradientViews::default() };
    assert_eq!(refused(gradient.run(&stream, &xv, &xv, &mut y.view_mut(), &mut views)), "workspace");
    let mut room = Tensor::<f32>::zeros(device, &[len - 1])?;
    views.workspace = Some(room.view_mut());
    assert_eq!(refused(gradient.run(&stream, &xv, &xv, &mut y.view_mut(), &mut views)), "workspace");

    let (labels, loss) = (nowhere::<i32>(device, &[4])?, nowhere_mut::<f32>(device, &[4])?);
    let plan = CrossEntropy::new().plan(&nowhere_x, &labels, &loss, &to)?;
    let (labels, mut loss) = (Tensor::<i32>::zeros(device, &[4])?, Tensor::<f32>::zeros(device, &[4])?);
    let alone = plan.run(&stream, &xv, &labels.view(), &mut loss.view_mut(), None);
    assert_eq!(refused(alone), "gradient");
    let other = Tensor::<i64>::zeros(device, &[4])?;
    let of_others = plan.run(&stream, &xv, &other.view(), &mut loss.view_mut(), Some(&mut y.view_mut()));
    assert_eq!(refused(of_others), "labels");
    assert!(y.to_vec_on(&stream)?.iter().all(|y| y.is_nan()), "something ran");
    Ok(())
}
