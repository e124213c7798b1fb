//! Tests without a GPU: what is accepted, which kernel is chosen, what it is launched with.

use super::*;
use crate::backend::fake::{self, VAST};
use crate::{Arch, Device, Element, bf16, f16};

mod lists;
mod memory;
mod selected;
mod terms;

/// Addresses so far apart that no tensor reaches the next one.
const fn far(number: u64) -> u64 {
    VAST + (number << 56)
}

/// Of `T`, packed.
fn view<T: Element>(device: &Device, at: u64, shape: &[usize]) -> TensorView<'static, T> {
    let strides = packed(shape);
    // SAFETY: nothing reads the memory of a fake device.
    unsafe { TensorView::from_raw_parts(device, at, shape, &strides) }.unwrap()
}

fn view_mut<T: Element>(device: &Device, at: u64, shape: &[usize]) -> TensorViewMut<'static, T> {
    let strides = packed(shape);
    // SAFETY: as above.
    unsafe { TensorViewMut::from_raw_parts(device, at, shape, &strides) }.unwrap()
}

fn packed(shape: &[usize]) -> Vec<usize> {
    (1..=shape.len()).map(|dim| shape[dim..].iter().product::<usize>().max(1)).collect()
}

/// The views of an attention.
struct Views {
    q: TensorView<'static, f16>,
    k: TensorView<'static, f16>,
    v: TensorView<'static, f16>,
    o: TensorViewMut<'static, f16>,
}

impl Views {
    fn new(device: &Device, shapes: [&[usize]; 4]) -> Self {
        let [q, k, v, o] = shapes;
        Views {
            q: view(device, far(0), q),
            k: view(device, far(1), k),
            v: view(device, far(2), v),
            o: view_mut(device, far(3), o),
        }
    }

    /// One sequence of two heads.
    fn of(device: &Device, queries: usize, keys: usize, [d, dv]: [usize; 2]) -> Self {
        Self::new(device, [&[1, 2, queries, d], &[1, 2, keys, d], &[1, 2, keys, dv], &[1, 2, queries, dv]])
    }

    /// That of a run, which divides the keys of many queries only in memory that it is given.
    fn plan(&self, attention: &Attention<'_>) -> Result<AttentionPlan> {
        let given = matches!(attention.workspace, Workspace::Given(_));
        AttentionPlan::new(attention, &self.q, &self.k, &self.v, &self.o, given)
    }
    fn kernel(&self, attention: &Attention<'_>) -> AttentionCandidate {
        *self.plan(attention).unwrap().kernel()
    }
    /// Of a plan, or of a run of it.
    fn message(&self, attention: &Attention<'_>) -> String {
        let run = |plan: AttentionPlan| {
            let tensors = named(&self.q, [&self.k, &self.v], &self.o, &attention.others());
            plan.places(&self.o.device().default_stream(), tensors, attention.workspace.named())
        };
        self.plan(attention).and_then(run).unwrap_err().to_string()
    }
}

#[test]
fn shapes_must_fit_together() {
    let (device, _) = fake::h200();
    let good: [&[usize]; 4] = [&[2, 6, 70, 64], &[2, 3, 90, 64], &[2, 3, 90, 32], &[2, 6, 70, 32]];
    assert!(Views::new(&device, good).plan(&Attention::new()).is_ok());
    let of_four = "of 4 dimensions: batch, heads, length, head dimension";
    for (at, shape, message) in [
        (0, &[6, 70, 64][..], format!("`q` was of shape [6, 70, 64]; it must be {of_four}")),
        (3, &[70, 32], format!("`o` was of shape [70, 32]; it must be {of_four}")),
        (
            1,
            &[1, 3, 90, 64],
            "`k` was of shape [1, 3, 90, 64]; it must be of shape [2, 3, 90, 64]: the batch and the head dimension of `q`"
                .to_owned(),
        ),
        (
            2,
            &[2, 3, 91, 32],
            "`v` was of shape [2, 3, 91, 32]; it must be of shape [2, 3, 90, 32]: the batch, the heads and the length of `k`"
                .to_owned(),
        ),
        (
            3,
            &[2, 6, 70, 64],
            "`o` was of shape [2, 6, 70, 64]; it must be of shape [2, 6, 70, 32]: that of `q` with the head dimension of `v`"
                .to_owned(),
        ),
    ] {
        let mut shapes = good;
        shapes[at] = shape;
        assert_eq!(Views::new(&device, shapes).message(&Attention::new()), message);
    }
    let heads: [&[usize]; 4] = [&[1, 6, 70, 64], &[1, 4, 90, 64], &[1, 4, 90, 64], &[1, 6, 70, 64]];
    let message =
        "`k` was of shape [1, 4, 90, 64]; it must be of a number of heads that divides the 6 of `q`";
    assert_eq!(Views::new(&device, heads).message(&Attention::new()), message);
    for (columns, name) in [([513, 64], "q"), ([0, 64], "q"), ([64, 600], "v")] {
        let message = Views::of(&device, 70, 90, columns).message(&Attention::new());
        assert!(message.starts_with(&format!("`{name}` was of shape [1, 2, ")), "{message}");
        assert!(message.ends_with("; it must be of a head dimension from 1 to 512"), "{message}");
    }
}

#[test]
fn scales_and_caps_are_those_that_f32_holds() {
    let (device, _) = fake::h200();
    let views = Views::of(&device, 70, 70, [64, 64]);
    for (x, text) in [(0.0, "0.0"), (-1.0, "-1.0"), (f32::NAN, "NaN"), (f32::INFINITY, "inf"), (3e38, "3e38")]
    {
        let message = format!("`scale` was {text}; it must be above 0 and at most 1e17");
        assert_eq!(views.message(&Attention::new().scale(x)), message);
        let message = format!(
            "`softcap` was {text}; it must be from 1e-20 to 1024.0: f32 is too coarse to cap scores at more"
        );
        assert_eq!(views.message(&Attention::new().softcap(x)), message);
    }
    for x in [1e-45, 1e17] {
        assert!(views.plan(&Attention::new().scale(x)).is_ok());
        for cap in [1e-20, 1024.0] {
            let attention = Attention::new().scale(x).softcap(cap);
            let problem = problem(&attention, &views.q, &views.k, &views.v, &views.o, true).unwrap();
            assert!(problem.scales.iter().all(|scale| scale.is_finite()), "{x} {cap}: {:?}", problem.scales);
        }
    }
    for cap in [1e-21, 1025.0, 1e6, 3e38] {
        assert!(views.message(&Attention::new().softcap(cap)).starts_with("`softcap` was "), "{cap}");
    }
}

#[test]
fn widths_get_the_kernels_that_were_made_for_them() {
    let (device, _) = fake::h200();
    for (columns, best) in [
        ([64, 64], [64, 64]),
        ([40, 8], [64, 64]),
        ([96, 96], [128, 128]),
        ([128, 128], [128, 128]),
        ([64, 128], [128, 128]),
        ([192, 128], [192, 128]),
        ([160, 160], [192, 192]),
        ([192, 192], [192, 192]),
        ([256, 256], [256, 256]),
        ([128, 256], [256, 256]),
    ] {
        for (queries, keys) in [(4096, 4096), (100, 1000), (1, 500)] {
            for attention in [Attention::new(), Attention::new().causal()] {
                let kernel = Views::of(&device, queries, keys, columns).kernel(&attention);
                // Flash-decoding has no kernel for 192 columns of V.
                let best = if queries == 1 && best == [192, 192] { [256, 256] } else { best };
                assert_eq!(
                    (kernel.columns(), kernel.kernel.arch, kernel.splits() > 1),
                    (best, Arch::Sm90a, queries == 1),
                    "{columns:?} {queries}"
                );
            }
        }
    }
    // Of Ampere's kernels none has room for so many columns of V.
    let views = Views::of(&device, 1000, 1000, [256, 256]);
    let all = Attention::new().candidates(&views.q, &views.k, &views.v, &views.o).unwrap();
    let twice = all.iter().find(|kernel| kernel.columns() == [256, 128]).unwrap();
    assert!(twice.to_string().contains(", 2 times for parts of V, about "), "{twice}");
    // Capped scores have fewer kernels.
    for (columns, best) in [([64, 64], [64, 64]), ([192, 128], [256, 256])] {
        let capped = Views::of(&device, 100, 100, columns).kernel(&Attention::new().softcap(30.0));
        assert_eq!((capped.columns(), capped.kernel.arch), (best, Arch::Sm90a));
        assert!(capped.name().contains("_capped_"));
    }
    // Before Hopper plain scores take them too, and so do some forms alone.
    let plain = Attention::new().candidates(&views.q, &views.k, &views.v, &views.o).unwrap();
    let names = |arch| plain.iter().filter(move |of| of.kernel.arch == arch).map(Candidate::name);
    assert!(names(Arch::Sm90a).all(|name| name.contains("_plain_")));
    assert!(names(Arch::Sm80).any(|name| name == "attention_sm_80_f16_capped_64x32d256x128s2"));
}

#[test]
fn what_tma_cannot_address_is_read_element_by_element() {
    let (device, _) = fake::h200();
    let views = || Views::of(&device, 100, 100, [64, 64]);
    let by_elements = |views: &Views| views.kernel(&Attention::new()).kernel.any_strides;
    assert!(!by_elements(&views()));
    let mut shifted = views();
    shifted.k = view(&device, far(1) + 2, &[1, 2, 100, 64]);
    assert!(by_elements(&shifted));
    // Lines of 7 elements; with one line and one head there is no stride to be odd.
    assert!(by_elements(&Views::of(&device, 100, 100, [7, 64])));
    let mut one = Views::of(&device, 1, 1, [7, 64]);
    [one.q, one.k] = [0, 1].map(|at| view(&device, far(at), &[1, 1, 1, 7]));
    one.v = view(&device, far(2), &[1, 1, 1, 64]);
    one.o = view_mut(&device, far(3), &[1, 1, 1, 64]);
    assert!(!by_elements(&one));
    let mut scattered = views();
    scattered.v = view(&device, far(2), &[1, 2, 64, 100]).transpose(2, 3).unwrap();
    assert!(by_elements(&scattered));
    // O is written at any stride by every kernel.
    let mut odd = views();
    odd.o = view_mut(&device, far(3) + 2, &[1, 2, 64, 100]).transpose(2, 3).unwrap();
    assert!(!by_elements(&odd));
    // Without keys nothing is read.
    assert!(!by_elements(&Views::of(&device, 100, 0, [7, 64])));
}

#[test]
fn candidates_and_plans_explain_themselves() {
    let (device, _) = fake::h200();
    let views = Views::of(&device, 1000, 1000, [128, 128]);
    let all = Attention::new().causal().candidates(&views.q, &views.k, &views.v, &views.o).unwrap();
    assert!(all.windows(2).all(|pair| {
        let [a, b] = [&pair[0], &pair[1]].map(|kernel| kernel.cycles().unwrap_or(u64::MAX));
        a <= b
    }));
    let narrow = all.iter().find(|kernel| kernel.columns() == [64, 64]).unwrap();
    let why = "it takes a head dimension of Q and K up to 64";
    assert_eq!(narrow.rejection().as_deref(), Some(why));
    assert_eq!(narrow.to_string(), format!("{}: not possible, {why}", narrow.name()));

    let plan = views.plan(&Attention::new().kernel(all[1].name())).unwrap();
    assert!(plan.kernel().name() == all[1].name() && plan.reason() == "asked for by name");
    let text = views.plan(&Attention::new()).unwrap().to_string();
    assert!(text.contains("16 tiles in 1 waves") && text.ends_with(": the fastest by estimate"), "{text}");

    let message = views.message(&Attention::new().kernel(narrow.name()));
    assert!(
        message.starts_with(&format!("`kernel` was {:?}, {why}; it must be one of ", narrow.name())),
        "{message}"
    );
    let message = views.message(&Attention::new().kernel("attention"));
    assert!(message.contains("\"attention\", not a kernel for f16 and plain scores"), "{message}");

    let (old, _) = fake::device((8, 6));
    let message = Views::of(&old, 100, 100, [256, 256]).message(&Attention::new());
    assert!(message.contains("no kernel for f16 and plain scores runs on it: "), "{message}");
}

#[test]
fn launches_are_of_as_many_ctas_as_there_is_work_for() {
    let (device, journal) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let run = |mut views: Views, mut attention: Attention<'_>| {
        let before = journal.launches.lock().unwrap().len();
        attention.run(&stream, &views.q, &views.k, &views.v, &mut views.o).unwrap();
        let launches = journal.launches.lock().unwrap();
        launches[before..]
            .iter()
            .map(|(launch, _)| (launch.grid, launch.overlap_previous))
            .collect::<Vec<_>>()
    };
    let few = Views::of(&device, 300, 300, [64, 64]);
    assert_eq!(run(few, Attention::new()), [([6, 1, 1], true)]);
    let few = Views::of(&device, 300, 300, [64, 64]);
    assert_eq!(run(few, Attention::new().overlap(false)), [([6, 1, 1], false)]);
    let no_keys = Views::of(&device, 300, 0, [64, 64]);
    assert_eq!(run(no_keys, Attention::new()).len(), 1);
    let wide = Views::of(&device, 300, 300, [64, 200]);
    let twice = Attention::new().candidates(&wide.q, &wide.k, &wide.v, &wide.o).unwrap();
    let twice = twice.iter().find(|kernel| kernel.columns() == [256, 128]).unwrap().name();
    assert_eq!(run(wide, Attention::new().kernel(twice)).len(), 2);
    for nothing in [
        Views::of(&device, 0, 300, [64, 64]),
        Views::new(&device, [&[0, 2, 9, 64], &[0, 2, 9, 64], &[0, 2, 9, 64], &[0, 2, 9, 64]]),
        Views::new(&device, [&[1, 0, 9, 64], &[1, 0, 9, 64], &[1, 0, 9, 64], &[1, 0, 9, 64]]),
    ] {
        assert!(run(nothing, Attention::new()).is_empty());
    }
}

#[test]
fn keys_are_divided_so_that_all_sms_have_work() {
    let (device, _) = fake::h200();
    // Sequences, keys, the kernel's block of keys, and how many parts: 8 heads of keys on 132 SMs. Of blocks of 64 an SM has two
    // CTAs.
    for (batch, keys, block, splits) in
        [(1, 8192, 64, 32), (1, 32768, 128, 16), (4, 8192, 128, 4), (16, 8192, 128, 1), (64, 8192, 128, 1)]
    {
        let shapes: [&[usize]; 4] =
            [&[batch, 32, 1, 128], &[batch, 8, keys, 128], &[batch, 8, keys, 128], &[batch, 32, 1, 128]];
        let views = Views::new(&device, shapes);
        let kernel = views.kernel(&Attention::new());
        assert_eq!(
            (kernel.name(), kernel.splits()),
            (format!("decode_sm_90_f16_plain_64x{block}d128x128s3").as_str(), splits),
            "{batch} {keys}"
        );
        let len = Attention::new().workspace_len(&views.q, &views.k, &views.v, &views.o).unwrap();
        assert_eq!(len, if splits == 1 { 0 } else { batch * 32 * 129 * splits as usize });
    }
    // Many queries are divided if there is memory for it.
    let views = Views::of(&device, 64, 65536, [128, 128]);
    assert_eq!(views.kernel(&Attention::new()).splits(), 1);
    let mut memory = view_mut(&device, far(5), &[1 << 24]);
    assert!(views.kernel(&Attention::new().workspace(&mut memory)).splits() > 16);
    assert_eq!(views.kernel(&Attention::new().splits(5)).splits(), 5);
    for splits in [0, 1025, usize::MAX] {
        let message = format!("`splits` was {splits}; it must be from 1 to 1024");
        assert_eq!(views.message(&Attention::new().splits(splits)), message);
    }
}

#[test]
fn parts_are_launched_with_what_merges_them() {
    let (device, journal) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let mut views = Views::of(&device, 3, 3000, [64, 64]);
    let mut memory = view_mut(&device, far(5), &[1 << 16]);
    Attention::new()
        .splits(2)
        .workspace(&mut memory)
        .run(&stream, &views.q, &views.k, &views.v, &mut views.o)
        .unwrap();
    let launches = journal.launches.lock().unwrap();
    let grids: Vec<_> = launches.iter().map(|(launch, _)| (launch.grid, launch.overlap_previous)).collect();
    assert_eq!(grids, [([4, 1, 1], true), ([12, 1, 1], true)]);
}

#[test]
fn caches_must_fit() {
    let (device, _) = fake::h200();
    let shapes: [&[usize]; 4] = [&[3, 4, 1, 64], &[9, 2, 16, 64], &[9, 2, 16, 64], &[3, 4, 1, 64]];
    let views = Views::new(&device, shapes);
    let table = view::<i32>(&device, far(5), &[3, 7]);
    let lengths = view::<i32>(&device, far(6), &[3]);
    assert!(views.plan(&Attention::new().block_table(&table).lengths(&lengths)).is_ok());
    let message = "`k` was of shape [9, 2, 16, 64]; it must be of shape [3, 2, 16, 64]: the batch and the head dimension of `q`";
    assert_eq!(views.message(&Attention::new().lengths(&lengths)), message);
    let short = view::<i32>(&device, far(6), &[2]);
    let message =
        "`lengths` was of shape [2]; it must be of shape [3]: a number of keys for each sequence, contiguous";
    assert_eq!(views.message(&Attention::new().block_table(&table).lengths(&short)), message);
    for (shape, was) in [(&[7][..], "[7]"), (&[3, 2, 2], "[3, 2, 2]")] {
        let table = view::<i32>(&device, far(5), shape);
        let message = format!(
            "`block_table` was of shape {was}; it must be of 2 dimensions: batch, pages of a sequence"
        );
        assert_eq!(views.message(&Attention::new().block_table(&table)), message);
    }
    let few = view::<i32>(&device, far(5), &[2, 7]);
    let message = views.message(&Attention::new().block_table(&few));
    assert!(
        message.starts_with("`block_table` was of shape [2, 7]; it must be of shape [3, 7]: "),
        "{message}"
    );
    let across = view::<i32>(&device, far(5), &[7, 3]).transpose(0, 1).unwrap();
    let message = views.message(&Attention::new().block_table(&across));
    assert!(
        message.starts_with("`block_table` was of strides [1, 3]; it must be of shape [3, 7]: "),
        "{message}"
    );
    for rows in [4, 24] {
        let shapes: [&[usize]; 4] = [&[3, 4, 1, 64], &[9, 2, rows, 64], &[9, 2, rows, 64], &[3, 4, 1, 64]];
        let message = Views::new(&device, shapes).message(&Attention::new().block_table(&table));
        assert!(message.contains("it must be of pages with a power of two of rows, from 8 on"), "{message}");
    }
    let shapes: [&[usize]; 4] = [&[3, 4, 1, 64], &[0, 2, 16, 64], &[0, 2, 16, 64], &[3, 4, 1, 64]];
    let message = Views::new(&device, shapes).message(&Attention::new().block_table(&table));
    assert_eq!(message, "`k` was of shape [0, 2, 16, 64]; it must be of one page or more");
    // Kernels whose tiles walk over all keys of a query take no cache.
    let tiles = Views::of(&device, 4096, 4096, [64, 64]).kernel(&Attention::new()).name();
    let message = views.message(&Attention::new().block_table(&table).kernel(tiles));
    assert!(message.contains("it reads keys of a tensor's rows, not of a cache"), "{message}");
}
