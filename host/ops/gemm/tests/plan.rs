//! Plans: made of shapes, run on views like those.

use super::*;

/// Shape, strides and alignment.
type Lies<'a> = (&'a [usize], &'a [usize], u64);

fn without<T: Element>(device: &Device, (shape, strides, align): Lies<'_>) -> TensorView<'static, T> {
    TensorView::without_memory(device, shape, strides, align).unwrap()
}

fn plan(device: &Device, [a, b, c]: [Lies<'_>; 3]) -> GemmPlan {
    let c = TensorViewMut::<f32>::without_memory(device, c.0, c.1, c.2).unwrap();
    Gemm::new().alpha(0.5).plan(&without::<f16>(device, a), &without(device, b), &c).unwrap()
}

const WHOLE: [Lies<'static>; 3] =
    [(&[64, 96], &[96, 1], 16), (&[96, 32], &[1, 96], 16), (&[64, 32], &[32, 1], 16)];

#[test]
fn plans_are_values() {
    fn value<T: Send + Sync + Clone + 'static>() {}
    value::<GemmPlan>();
}

#[test]
fn a_run_of_a_plan_launches_what_a_call_does() {
    let (device, journal) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let odd: [Lies<'_>; 3] = [(&[64, 96], &[97, 1], 2), (&[96, 32], &[1, 96], 16), (&[64, 32], &[32, 1], 4)];
    let batches: [Lies<'_>; 3] = [
        (&[2, 7, 5, 64], &[2561, 320, 64, 1], 16),
        (&[2, 7, 64, 32], &[20480, 2048, 32, 1], 16),
        (&[2, 7, 5, 32], &[1120, 160, 32, 1], 16),
    ];
    for lies in [WHOLE, odd, batches] {
        let plan = plan(&device, lies);
        for offset in [0, 4096] {
            let at = |base: u64, align: u64| base + offset + align % 16;
            let [a, b, c] = lies;
            let (a, b) = (view::<f16>(&device, at(A, a.2), a.0, a.1), view(&device, at(B, b.2), b.0, b.1));
            let mut c = view_mut::<f32>(&device, at(C, c.2), c.0, c.1);
            plan.run(&stream, &a, &b, &mut c, &GemmViews::default()).unwrap();
            let planned = std::mem::take(&mut *journal.launches.lock().unwrap());
            let maps = std::mem::take(&mut *journal.maps.lock().unwrap());
            Gemm::new().alpha(0.5).run(&stream, &a, &b, &mut c).unwrap();
            let called = std::mem::take(&mut *journal.launches.lock().unwrap());
            assert_eq!(maps, std::mem::take(&mut *journal.maps.lock().unwrap()));
            assert_eq!(planned.len(), called.len());
            for ((one, args), (other, others)) in planned.iter().zip(&called) {
                assert_eq!(format!("{one:?}"), format!("{other:?}"));
                assert!(args.len() == others.len() && args.len() >= size_of::<GlobalAbi<f16, 3>>());
                // SAFETY: the block begins with A.
                let [one, other] = [args, others]
                    .map(|args| unsafe { args.as_ptr().cast::<GlobalAbi<f16, 3>>().read_unaligned() });
                assert_eq!(
                    (one.address, one.align, one.strides),
                    (other.address, other.align, other.strides)
                );
            }
        }
    }
    // Of a product whose matrices begin at odd places from the second launch on, those are read by another kernel.
    let functions: Vec<_> = {
        let [a, b, c] = batches;
        let (a, b) = (view::<f16>(&device, A, a.0, a.1), view(&device, B, b.0, b.1));
        let mut c = view_mut::<f32>(&device, C, c.0, c.1);
        Gemm::new().run(&stream, &a, &b, &mut c).unwrap();
        journal.launches.lock().unwrap().iter().map(|(config, _)| config.function).collect()
    };
    assert!(functions.len() == 2 && functions[0] != functions[1], "{functions:?}");
}

#[test]
fn what_runs_is_what_was_planned() {
    let (device, journal) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let plan = plan(&device, WHOLE);
    let a = |at: u64, shape: &[usize], strides: &[usize]| view::<f16>(&device, A + at, shape, strides);
    let b = view(&device, B, WHOLE[1].0, WHOLE[1].1);
    let run = |a: &TensorView<'_, f16>, views: &GemmViews<'_, f32>, at: u64| {
        let mut c = view_mut::<f32>(&device, at, WHOLE[2].0, WHOLE[2].1);
        plan.run(&stream, a, &b, &mut c, views)
    };
    let none = GemmViews::default();
    let refused = |a: &TensorView<'_, f16>| message(run(a, &none, C));
    let made = "for which the plan was made";
    assert_eq!(
        refused(&a(0, &[63, 96], &[96, 1])),
        format!("`a` was of shape [63, 96]; it must be of shape [64, 96], {made}")
    );
    assert_eq!(
        refused(&a(0, &[64, 96], &[128, 1])),
        format!("`a` was of strides [128, 1]; it must be of strides [96, 1], {made}")
    );
    let at = A + 2;
    assert_eq!(
        refused(&a(2, &[64, 96], &[96, 1])),
        format!("`a` was at {at:#x}; it must be aligned to 16 bytes, {made}")
    );
    let nowhere = without(&device, WHOLE[0]);
    let text = "`a` was a view without memory; it must be memory of the device: plans alone are made without";
    assert_eq!(refused(&nowhere), text);
    assert_eq!(
        message(Gemm::new().run(
            &stream,
            &nowhere,
            &b,
            &mut view_mut::<f32>(&device, C, &[64, 32], &[32, 1])
        )),
        text
    );
    let whole = a(0, &[64, 96], &[96, 1]);
    let bias = GemmViews { bias: Some(view::<f32>(&device, BIAS, &[32], &[1])) };
    let text = "`bias` was given; it must be left out: the plan was made without it";
    assert_eq!(message(run(&whole, &bias, C)), text);
    let text = "`c` overlaps `a`; what a call writes must lie apart from all else that it uses";
    assert_eq!(message(run(&whole, &none, A)), text);
    let mut half = view_mut::<f16>(&device, C, WHOLE[2].0, WHOLE[2].1);
    let text = format!("`c` was of f16; it must be of f32, {made}");
    assert_eq!(message(plan.run(&stream, &whole, &b, &mut half, &GemmViews::default())), text);
    let (other, _) = fake::device((9, 0));
    let elsewhere = view::<f16>(&other, A, WHOLE[0].0, WHOLE[0].1);
    let text = "`a` was on fake:0; it must be on fake:1, the device of this call";
    assert_eq!(refused(&elsewhere), text);
    assert!(journal.launches.lock().unwrap().is_empty());
    // More alignment than planned, and another stride where there is a single line, are fine.
    run(&whole, &none, C).unwrap();
    let row: [Lies<'_>; 3] = [(&[1, 96], &[7, 1], 2), WHOLE[1], (&[1, 32], &[32, 1], 4)];
    let plan = super::plan::plan(&device, row);
    let mut c = view_mut::<f32>(&device, C, &[1, 32], &[5, 1]);
    plan.run(&stream, &a(0, &[1, 96], &[96, 1]), &b, &mut c, &none).unwrap();
}

#[test]
fn a_bias_is_given_where_it_was_planned() {
    let (device, journal) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let mut views = Views::<f16, f16>::new(&device, "nt", [16, 4096, 4096]);
    let planned = TensorView::without_memory(&device, &[4096], &[1], 2).unwrap();
    let plan = Gemm::new().bias(&planned).plan(&views.a, &views.b, &views.c).unwrap();
    let text = "`bias` was not given; it must be given: the plan was made with it";
    let run = plan.run(&stream, &views.a, &views.b, &mut views.c, &GemmViews::default());
    assert_eq!(message(run), text);
    let given = GemmViews { bias: Some(view(&device, BIAS + 6, &[4096], &[1])) };
    plan.run(&stream, &views.a, &views.b, &mut views.c, &given).unwrap();
    assert_eq!(journal.launches.lock().unwrap().len(), 1);
}

#[test]
fn alignments_are_powers_of_two() {
    let (device, _) = fake::h200();
    for align in [0, 1, 3, 4096] {
        let text = message(TensorView::<f16>::without_memory(&device, &[4], &[1], align));
        let allowed = "a power of two from 2, the size of f16, to 2048";
        assert_eq!(text, format!("`align` was {align}; it must be {allowed}"));
    }
}

#[test]
fn a_tuner_measures_what_may_be_the_fastest_once() {
    let (device, journal) = fake::h200();
    let stream = device.default_stream();
    let mut views = Views::<f16>::new(&device, "nt", [300, 4096, 1024]);
    let candidates = views.candidates();
    let (first, most) = (candidates[0].name(), candidates[0].cycles().unwrap() * 2);
    let launches = || std::mem::take(&mut *journal.launches.lock().unwrap()).len();
    let tuner = Tuner::in_memory();
    let mut tuned = |gemm: &Gemm<'_, f16>| {
        let plan = gemm.tuned_plan(&tuner, &stream, &views.a, &views.b, &mut views.c).unwrap();
        (plan.kernel().name(), launches() > 0)
    };
    // All of them take as long here, so that the estimate's choice stays.
    assert_eq!(tuned(&Gemm::new()), (first, true));
    assert_eq!(tuned(&Gemm::new()), (first, false));
    let mut loaded: Vec<_> = journal.loads.lock().unwrap().iter().map(|(name, _)| *name).collect();
    let hopeful =
        candidates.iter().filter(|candidate| candidate.cycles().is_some_and(|cycles| cycles <= most));
    let mut hopeful: Vec<_> = hopeful.map(|candidate| candidate.name()).collect();
    loaded.sort_unstable();
    hopeful.sort_unstable();
    assert!(loaded.len() > 1 && loaded.len() < candidates.len(), "{loaded:?}");
    assert_eq!(loaded, hopeful);
    // Another call; and nothing to choose.
    assert_eq!(tuned(&Gemm::new().beta(1.0)), (first, true));
    assert_eq!(tuned(&Gemm::new().kernel(hopeful[0])), (hopeful[0], false));
}

#[test]
fn ctas_divide_tiles_that_fill_no_wave_where_they_have_a_workspace() {
    let (device, journal) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let mut views = Views::<f16, f16>::new(&device, "nt", [200, 5120, 8192]);
    let plan = views.plan();
    assert!(plan.kernel().kernel.stream && plan.workspace_len() > 0, "{plan}");
    let run = |plan: &GemmPlan, views: &mut Views, stream: &Stream| {
        plan.run(stream, &views.a, &views.b, &mut views.c, &GemmViews::default())
    };
    run(&plan, &mut views, &stream).unwrap();
    // By the device's own memory, which is kept.
    let free = device.free_memory().unwrap();
    run(&plan, &mut views, &stream).unwrap();
    assert_eq!(device.free_memory().unwrap(), free);
    // A captured one finds none.
    let loaded = journal.loads.lock().unwrap().len();
    stream.capture(|stream| run(&plan, &mut views, stream)).unwrap();
    assert_eq!(journal.loads.lock().unwrap().len(), loaded, "what is captured is loaded by the plan");
    let forced = Gemm::new().kernel(plan.kernel().name()).plan(&views.a, &views.b, &views.c).unwrap();
    let text = message(stream.capture(|stream| run(&forced, &mut views, stream)));
    assert!(text.starts_with("`workspace` was not given; it must be given: "), "{text}");
}

#[test]
fn workspaces_that_do_not_do() {
    let (device, _) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let mut views = Views::<f16, f16>::new(&device, "nt", [200, 5120, 8192]);
    let plan = views.plan();
    let len = plan.workspace_len();
    let mut run = |address, shape: &[usize], strides: &[usize]| {
        let mut workspace = view_mut::<f32>(&device, address, shape, strides);
        let none = GemmViews::default();
        plan.run_in(&stream, &views.a, &views.b, &mut views.c, &none, &mut workspace)
    };
    run(BIAS, &[len], &[1]).unwrap();
    let text = message(run(BIAS, &[len - 1], &[1]));
    assert!(text.starts_with("`workspace` was of shape "), "{text}");
    let text = message(run(BIAS + 4, &[len], &[1]));
    assert!(text.ends_with("it must be aligned to 16 bytes"), "{text}");
    let text = message(run(C, &[len], &[1]));
    assert!(text.starts_with("`workspace` overlaps `c`"), "{text}");
}

#[test]
fn a_tuned_plan_can_be_captured_without_a_workspace() {
    let (device, _) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let mut views = Views::<f16>::new(&device, "nt", [200, 5120, 8192]);
    let tuner = Tuner::in_memory();
    let plan = Gemm::new().tuned_plan(&tuner, &stream, &views.a, &views.b, &mut views.c).unwrap();
    assert!(plan.workspace_len() > 0, "{plan}");
    let graph =
        stream.capture(|stream| plan.run(stream, &views.a, &views.b, &mut views.c, &GemmViews::default()));
    graph.unwrap();
}

#[test]
fn copies_that_memory_has_no_room_for_are_not_made() {
    let (device, journal) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    // 280 GB.
    let mut views = Views::<f16, f16>::new(&device, "nt", [1_000_000, 120, 140_001]);
    let plan = views.plan();
    assert!(plan.to_string().contains("of copies of A and B"), "{plan}");
    let loaded = || journal.loads.lock().unwrap().last().unwrap().0;
    Gemm::new().run(&stream, &views.a, &views.b, &mut views.c).unwrap();
    assert!(loaded().ends_with("_nt_none_64x64x32s3k1"), "{}", loaded());
    let launches = || journal.launches.lock().unwrap().len();
    assert_eq!(launches(), 1, "a product, no copy");
    plan.run(&stream, &views.a, &views.b, &mut views.c, &GemmViews::default()).unwrap();
    assert_eq!(launches(), 2);
}
