//! Plans give what calls do, bit by bit, for tensors wherever they lie, and refuse tensors that are not like theirs.

use tilewright::ops::{Activation, Gated, Pairs, Rope, RopeViews};
use tilewright::{Device, Element, Stream, Tensor, TensorView, TensorViewMut, bf16, f16};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

#[track_caller]
fn says(result: tilewright::Result<()>, message: &str) {
    assert_eq!(result.expect_err(message).to_string(), message);
}

fn bits<T: Element>(x: &Tensor<T>) -> tilewright::Result<Vec<u8>> {
    let values = x.to_vec()?;
    // SAFETY: elements have no padding, and any bytes are u8.
    Ok(unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(&values[..])) }.to_vec())
}

pub fn gated(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let gated = Gated::new(Activation::Silu);
    let (wide, half) = ([5, 48], [5, 24]);
    let plan = gated.plan_packed(
        &TensorView::<f16>::without_memory(device, &wide, &[48, 1], 16)?,
        &TensorViewMut::<f16>::without_memory(device, &half, &[24, 1], 16)?,
    )?;
    let backward = gated.plan_gradient(
        &TensorView::<f16>::without_memory(device, &half, &[48, 1], 16)?,
        &TensorView::<f16>::without_memory(device, &half, &[48, 1], 16)?,
        &TensorView::<f16>::without_memory(device, &half, &[24, 1], 16)?,
        &TensorViewMut::<f16>::without_memory(device, &half, &[24, 1], 16)?,
        &TensorViewMut::<f16>::without_memory(device, &half, &[24, 1], 16)?,
    )?;
    for seed in [1, 2] {
        let x = Tensor::from_slice(device, &normal::<f16>(seed, 240), &wide)?;
        let dy = Tensor::from_slice(device, &normal::<f16>(seed + 7, 120), &half)?;
        let (gate, up) = (x.view().narrow(1, 0, 24)?, x.view().narrow(1, 24, 24)?);
        let poison = || Tensor::filled(device, f16::NAN, &half);
        let [mut y, mut want] = [poison()?, poison()?];
        plan.run_packed(&stream, &x.view(), &mut y.view_mut())?;
        gated.run(&stream, &gate, &up, &mut want.view_mut())?;
        assert_eq!(bits(&y)?, bits(&want)?);
        y = poison()?;
        plan.run(&stream, &gate, &up, &mut y.view_mut())?;
        assert_eq!(bits(&y)?, bits(&want)?);
        let [mut d_gate, mut d_up, mut want_gate, mut want_up] = [poison()?, poison()?, poison()?, poison()?];
        let dy = dy.view();
        backward.run(&stream, [&gate, &up, &dy], &mut d_gate.view_mut(), &mut d_up.view_mut())?;
        gated.run_gradient(&stream, &gate, &up, &dy, &mut want_gate.view_mut(), &mut want_up.view_mut())?;
        assert_eq!([bits(&d_gate)?, bits(&d_up)?], [bits(&want_gate)?, bits(&want_up)?]);
    }
    let (x, mut y) = (Tensor::<f16>::zeros(device, &wide)?, Tensor::<f16>::zeros(device, &[5, 25])?);
    let of = "it must be that of `y`, [5, 25], with twice the columns";
    says(plan.run_packed(&stream, &x.view(), &mut y.view_mut()), &format!("`x` was of shape [5, 48]; {of}"));
    let short = x.view().narrow(1, 0, 20)?;
    let mut y = Tensor::<f16>::zeros(device, &[5, 20])?;
    let of = "it must be of shape [5, 24], for which the plan was made";
    says(plan.run(&stream, &short, &short, &mut y.view_mut()), &format!("`gate` was of shape [5, 20]; {of}"));
    let none = TensorView::<f16>::without_memory(device, &half, &[48, 1], 16)?;
    let mut y = Tensor::<f16>::zeros(device, &half)?;
    says(
        plan.run(&stream, &none, &none, &mut y.view_mut()),
        "`gate` was a view without memory; it must be memory of the device: plans alone are made without",
    );
    Ok(())
}

pub fn rope(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let (shape, strides, table) = ([3, 4, 32], [128, 32, 1], [40, 16]);
    let planned = TensorView::<i64>::without_memory(device, &[3], &[1], 8)?;
    let x = TensorView::<f32>::without_memory(device, &shape, &strides, 16)?;
    let y = TensorViewMut::<f32>::without_memory(device, &shape, &strides, 16)?;
    let angles = TensorView::<f32>::without_memory(device, &table, &[16, 1], 16)?;
    let rope = Rope::new(Pairs::Halves).positions(&planned);
    let (plain, by_table) = (rope.plan(&x, &y)?, rope.clone().table(&angles, &angles).plan(&x, &y)?);
    let [both, in_place] = [rope.plan_both([&x, &x], [&y, &y])?, rope.plan_both_in_place([&y, &y])?];
    for seed in [1, 2] {
        let x = Tensor::from_slice(device, &normal::<f32>(seed, 384), &shape)?;
        let k = Tensor::from_slice(device, &normal::<f32>(seed + 3, 384), &shape)?;
        let [cos, sin] = [9, 10].map(|of| Tensor::from_slice(device, &normal::<f32>(seed + of, 640), &table));
        let (cos, sin) = (cos?, sin?);
        let positions = Tensor::<i64>::from_slice(device, &[i64::try_from(seed)?, 39, 7], &[3])?;
        let views = RopeViews { positions: Some(positions.view().into()), ..Default::default() };
        let poison = || Tensor::filled(device, f32::NAN, &shape);
        let rope = Rope::new(Pairs::Halves).positions(positions.view());
        let [mut y, mut z, mut want, mut other] = [poison()?, poison()?, poison()?, poison()?];
        rope.run_both(&stream, [&x.view(), &k.view()], [&mut want.view_mut(), &mut other.view_mut()])?;
        plain.run(&stream, &x.view(), &mut y.view_mut(), &views)?;
        assert_eq!(bits(&y)?, bits(&want)?);
        y = poison()?;
        let heads = [&x.view(), &k.view()];
        both.run_both(&stream, heads, [&mut y.view_mut(), &mut z.view_mut()], &views)?;
        assert_eq!([bits(&y)?, bits(&z)?], [bits(&want)?, bits(&other)?]);
        let (mut x2, mut k2) = (
            Tensor::from_slice(device, &x.to_vec()?, &shape)?,
            Tensor::from_slice(device, &k.to_vec()?, &shape)?,
        );
        in_place.run_both_in_place(&stream, [&mut x2.view_mut(), &mut k2.view_mut()], &views)?;
        assert_eq!([bits(&x2)?, bits(&k2)?], [bits(&want)?, bits(&other)?]);

        let (cos, sin) = (cos.view(), sin.view());
        rope.table(&cos, &sin).run(&stream, &x.view(), &mut want.view_mut())?;
        let views = RopeViews { table: Some([&cos, &sin]), ..views };
        y = poison()?;
        by_table.run(&stream, &x.view(), &mut y.view_mut(), &views)?;
        assert_eq!(bits(&y)?, bits(&want)?);
        let left_out = "`cos` was given; it must be left out: the plan was made without it";
        says(plain.run(&stream, &x.view(), &mut y.view_mut(), &views), left_out);
        let needed = "`positions` was not given; it must be given: the plan was made with it";
        says(plain.run(&stream, &x.view(), &mut y.view_mut(), &RopeViews::default()), needed);
        let needed = "`k` was not given; it must be given: the plan was made with it";
        says(both.run(&stream, &x.view(), &mut y.view_mut(), &RopeViews::default()), needed);
    }
    Ok(())
}

pub fn append(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let (q_shape, kv_shape, pages) = ([3, 4, 64], [3, 2, 64], [2, 8, 2, 64]);
    let view =
        |shape: &[usize; 3]| TensorView::<bf16>::without_memory(device, shape, &[shape[1] * 64, 64, 1], 16);
    let (q, kv) = (view(&q_shape)?, view(&kv_shape)?);
    let to = TensorViewMut::<bf16>::without_memory(device, &q_shape, &[256, 64, 1], 16)?;
    let [k_cache, v_cache] =
        [0, 1].map(|_| TensorViewMut::<i8>::without_memory(device, &pages, &[1024, 128, 64, 1], 16));
    let numbers = TensorView::<i32>::without_memory(device, &[3], &[1], 4)?;
    let scale = TensorView::<f32>::without_memory(device, &[2], &[1], 4)?;
    let rope = Rope::new(Pairs::Interleaved).positions(&numbers).cache_scales(&scale, &scale);
    let plan = rope.plan_append([&q, &kv, &kv], &to, [&k_cache?, &v_cache?], &numbers)?;
    for seed in [1, 2] {
        let random = |of: u64, shape: &[usize]| {
            Tensor::from_slice(device, &normal::<bf16>(seed + of, shape.iter().product()), shape)
        };
        let (q, k, v) = (random(0, &q_shape)?, random(5, &kv_shape)?, random(9, &kv_shape)?);
        let heads = [&q.view(), &k.view(), &v.view()];
        let positions = Tensor::<i32>::from_slice(device, &[i32::try_from(seed)?, 3, 11], &[3])?;
        let slots = Tensor::<i32>::from_slice(device, &[2, 9, 14], &[3])?;
        let scale = Tensor::<f32>::from_slice(device, &[0.03, 0.02], &[2])?;
        let (slots, scale) = (slots.view(), scale.view());
        let views = RopeViews {
            positions: Some(positions.view().into()),
            cache_scales: Some([&scale, &scale]),
            ..Default::default()
        };
        let results = || -> tilewright::Result<_> {
            let caches = [Tensor::<i8>::zeros(device, &pages)?, Tensor::<i8>::zeros(device, &pages)?];
            Ok((Tensor::filled(device, bf16::NAN, &q_shape)?, caches))
        };
        let (mut y, [mut k_to, mut v_to]) = results()?;
        let caches = [&mut k_to.view_mut(), &mut v_to.view_mut()];
        plan.run_append(&stream, heads, &mut y.view_mut(), caches, &slots, &views)?;
        let (mut want, [mut k_want, mut v_want]) = results()?;
        let caches = [&mut k_want.view_mut(), &mut v_want.view_mut()];
        let rope = Rope::new(Pairs::Interleaved).positions(positions.view()).cache_scales(&scale, &scale);
        rope.run_append(&stream, heads, &mut want.view_mut(), caches, &slots)?;
        assert_eq!([bits(&y)?, bits(&k_to)?, bits(&v_to)?], [bits(&want)?, bits(&k_want)?, bits(&v_want)?]);
        assert!(k_to.to_vec()?.iter().any(|&code| code != 0));
    }
    Ok(())
}
