//! Tests without a GPU: what is accepted, which kernel is chosen, what it is launched with.

use super::*;
use crate::backend::fake::{self, VAST};
use crate::{Device, Element, bf16, f16};

/// Addresses so far apart that no tensor reaches the next one.
const fn far(number: u64) -> u64 {
    VAST + (number << 56)
}

fn packed(shape: &[usize]) -> Vec<usize> {
    (1..=shape.len()).map(|dim| shape[dim..].iter().product::<usize>().max(1)).collect()
}

/// Of `T`, with these strides.
fn strided<T: Element>(
    device: &Device,
    at: u64,
    shape: &[usize],
    strides: &[usize],
) -> TensorView<'static, T> {
    // SAFETY: nothing reads the memory of a fake device.
    unsafe { TensorView::from_raw_parts(device, at, shape, strides) }.unwrap()
}

/// Of `T`, packed.
fn view<T: Element>(device: &Device, at: u64, shape: &[usize]) -> TensorView<'static, T> {
    strided(device, at, shape, &packed(shape))
}

fn view_mut<T: Element>(device: &Device, at: u64, shape: &[usize]) -> TensorViewMut<'static, T> {
    // SAFETY: as above.
    unsafe { TensorViewMut::from_raw_parts(device, at, shape, &packed(shape)) }.unwrap()
}

/// The views of a step.
struct Views {
    q: TensorView<'static, f16>,
    cache: TensorView<'static, f16>,
    o: TensorViewMut<'static, f16>,
}

impl Views {
    fn new(device: &Device, [q, cache, o]: [&[usize]; 3]) -> Self {
        let o = view_mut(device, far(2), o);
        Views { q: view(device, far(0), q), cache: view(device, far(1), cache), o }
    }

    /// Four sequences of one position, over pages of so many rows.
    fn pages(device: &Device, heads: usize, rows: usize) -> Self {
        Self::new(device, [&[4, 1, heads, 576], &[100, rows, 1, 576], &[4, 1, heads, 512]])
    }

    fn plan(&self, mla: &Mla<'_>) -> Result<MlaPlan> {
        mla.plan(&self.q, &self.cache, &self.o)
    }
    fn name(&self, mla: &Mla<'_>) -> &'static str {
        self.plan(mla).unwrap().kernel().name()
    }
    /// Of a plan, or of a run of it.
    fn message(&self, mla: &Mla<'_>) -> String {
        let run = |plan: MlaPlan| {
            let tensors = named(&self.q, &self.cache, &self.o, mla.lse.as_ref(), mla.table.device());
            plan.places(&self.o.device().default_stream(), tensors, mla.workspace.named())
        };
        self.plan(mla).and_then(run).unwrap_err().to_string()
    }
}

#[test]
fn shapes_must_fit_together() {
    let (device, _) = fake::h200();
    let good: [&[usize]; 3] = [&[4, 2, 16, 576], &[4, 90, 1, 576], &[4, 2, 16, 512]];
    assert!(Views::new(&device, good).plan(&Mla::new()).is_ok());
    for (at, shape, message) in [
        (
            0,
            &[4, 16, 576][..],
            "`q` was of shape [4, 16, 576]; it must be of 4 dimensions: batch, positions, heads, columns",
        ),
        (0, &[4, 2, 16, 512], "`q` was of shape [4, 2, 16, 512]; it must be of 576 or 320 columns"),
        (
            1,
            &[4, 90, 2, 576],
            "`cache` was of shape [4, 90, 2, 576]; it must be of shape [pages or batch, rows of a page or keys, 1, 576], not empty",
        ),
        (
            1,
            &[5, 90, 1, 576],
            "`cache` was of shape [5, 90, 1, 576]; it must be of shape [4, keys, 1, 576]: the batch of `q`, without a table",
        ),
        (
            2,
            &[4, 2, 16, 576],
            "`o` was of shape [4, 2, 16, 576]; it must be of shape [4, 2, 16, 512]: that of `q` with 512 columns",
        ),
    ] {
        let mut shapes = good;
        shapes[at] = shape;
        assert_eq!(Views::new(&device, shapes).message(&Mla::new()), message);
    }
}

#[test]
fn rows_are_evenly_spaced_and_aligned() {
    let (device, _) = fake::h200();
    let mut views = Views::pages(&device, 16, 64);
    let table = [0; 4];
    let mla = Mla::new().host_block_table(&table);
    // The heads of a projection that has more of them.
    views.q = strided(&device, far(0), &[4, 1, 16, 576], &[32 * 576, 1, 576, 1]);
    assert!(views.plan(&mla).is_ok());
    views.q = strided(&device, far(0) + 2, &[4, 1, 16, 576], &[32 * 576, 1, 576, 1]);
    let message = views.message(&mla);
    assert!(message.starts_with("`q` was at ") && message.ends_with("aligned to 16 bytes"), "{message}");
    views = Views::new(&device, [&[4, 2, 16, 576], &[100, 64, 1, 576], &[4, 2, 16, 512]]);
    views.q = strided(&device, far(0), &[4, 2, 16, 576], &[64 * 576, 32 * 576, 576, 1]);
    let message = views.message(&mla);
    assert!(message.starts_with("`q` was of strides [36864, 18432, 576, 1]"), "{message}");
    views = Views::pages(&device, 16, 64);
    views.cache = strided(&device, far(1), &[100, 64, 1, 576], &[64 * 577, 577, 577, 1]);
    let message = views.message(&mla);
    assert!(message.starts_with("`cache` was at "), "{message}");
}

#[test]
fn tables_name_pages_that_exist() {
    let (device, _) = fake::h200();
    let views = Views::pages(&device, 16, 64);
    let of = |table: &[i32], lengths: &[u32]| Mla::new().host_block_table(table).lengths(lengths);
    assert!(views.plan(&of(&[0, 99, 1, 2, 3, 4, 5, -1], &[128, 65, 0, 64])).is_ok());
    for (table, message) in [
        ([0, 100, 1, 2, 3, 4, 5, -1], "`block_table` was 100 at [0, 1]; it must be a number from 0 to 99"),
        ([0, 1, 1, -2, 3, 4, 5, -1], "`block_table` was -2 at [1, 1]; it must be a number from 0 to 99"),
    ] {
        assert_eq!(views.message(&of(&table, &[128, 65, 0, 64])), message);
    }
    assert_eq!(
        views.message(&of(&[0; 8], &[128, 65, 0, 129])),
        "`lengths` was 129 for sequence 3; it must be at most 128, for which there is room"
    );
    assert_eq!(
        views.message(&of(&[0; 8], &[1, 2, 3])),
        "`lengths` was 3 numbers; it must be 4: one for each sequence of `q`"
    );
    let table = view::<i32>(&device, far(3), &[3, 2]);
    let message = views.message(&Mla::new().block_table(&table));
    assert!(message.starts_with("`block_table` was of shape [3, 2] and strides [2, 1]"), "{message}");
    for rows in [8, 48] {
        let message = Views::pages(&device, 16, rows).message(&of(&[0; 8], &[1; 4]));
        assert!(message.ends_with("of pages with a power of two of rows, from 16 on"), "{message}");
    }
}

#[test]
fn outputs_must_lie_apart() {
    let (device, _) = fake::h200();
    let mut views = Views::pages(&device, 16, 64);
    views.o = view_mut(&device, far(1), &[4, 1, 16, 512]);
    let message = "`o` overlaps `cache`; what a call writes must lie apart from all else that it uses";
    assert_eq!(views.message(&Mla::new().host_block_table(&[0; 4])), message);

    let views = Views::pages(&device, 16, 64);
    for (at, name) in [(0, "q"), (1, "cache"), (2, "o")] {
        let mut lse = view_mut(&device, far(at), &[4, 1, 16]);
        let message = views.message(&Mla::new().host_block_table(&[0; 4]).lse(&mut lse));
        assert!(message.starts_with(&format!("`lse` overlaps `{name}`; ")), "{message}");
    }
}

#[test]
fn tables_are_looked_through_again_where_something_changed() {
    let (device, _) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let mut views = Views::pages(&device, 16, 64);
    let mut mla = Mla::new().host_block_table(&[0, 99, 1, 2, 3, 4, 5, -1]).lengths(&[128, 65, 0, 64]);
    let mut run = |views: &mut Views, change: fn(&mut Mla<'_>)| {
        change(&mut mla);
        mla.run(&stream, &views.q, &views.cache, &mut views.o).map_err(|error| error.to_string())
    };
    for _ in 0..2 {
        assert_eq!(run(&mut views, |_| ()), Ok(()));
    }
    let message = run(&mut views, |mla| mla.set_lengths(&[128, 65, 0, 65])).unwrap_err();
    assert_eq!(message, "`block_table` was -1 at [3, 1]; it must be a number from 0 to 99");
    assert_eq!(run(&mut views, |mla| mla.set_lengths(&[128, 65, 0, 64])), Ok(()));
    let mut fewer = Views::new(&device, [&[4, 1, 16, 576], &[99, 64, 1, 576], &[4, 1, 16, 512]]);
    let message = run(&mut fewer, |_| ()).unwrap_err();
    assert_eq!(message, "`block_table` was 99 at [0, 1]; it must be a number from 0 to 98");
    let message = run(&mut views, |mla| mla.set_host_block_table(&[0, 100, 1, 2, 3, 4, 5, 6])).unwrap_err();
    assert_eq!(message, "`block_table` was 100 at [0, 1]; it must be a number from 0 to 99");
}

#[test]
fn parts_are_launched_with_what_merges_them() {
    let (device, journal) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let mut views = Views::new(&device, [&[3, 1, 128, 576], &[3, 640, 1, 576], &[3, 1, 128, 512]]);
    let mut memory = view_mut(&device, far(5), &[1 << 20]);
    let mut mla = Mla::new().lengths(&[640, 1, 100]).splits(2).workspace(&mut memory);
    mla.run(&stream, &views.q, &views.cache, &mut views.o).unwrap();
    let launches = journal.launches.lock().unwrap();
    let grids: Vec<_> = launches.iter().map(|(launch, _)| (launch.grid, launch.overlap_previous)).collect();
    // Groups of two tiles, as many as the device holds; four rows a CTA of each sequence that was cut.
    assert_eq!(grids, [([2, 3, 1], true), ([32, 2, 1], true)]);
}

#[test]
fn workspaces_lie_apart() {
    let (device, _) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let mut views = Views::pages(&device, 16, 64);
    let table = view::<i32>(&device, far(3), &[4, 10]);
    for (at, name) in [(0, "q"), (1, "cache"), (2, "o"), (3, "block_table"), (4, "lse")] {
        let mut memory = view_mut(&device, far(at), &[1 << 20]);
        let mut lse = view_mut(&device, far(4), &[4, 1, 16]);
        let mla = Mla::new().block_table(&table).lse(&mut lse).splits(2);
        let message = mla
            .workspace(&mut memory)
            .run(&stream, &views.q, &views.cache, &mut views.o)
            .unwrap_err()
            .to_string();
        assert!(message.starts_with(&format!("`workspace` overlaps `{name}`; ")), "{message}");
    }
}

#[test]
fn scales_are_those_that_f32_holds() {
    let (device, _) = fake::h200();
    let views = Views::pages(&device, 16, 64);
    let of = |scale| Mla::new().host_block_table(&[0; 4]).scale(scale);
    for (x, text) in [(0.0, "0.0"), (f32::NAN, "NaN"), (1e18, "1e18"), (3e38, "3e38")] {
        let message = format!("`scale` was {text}; it must be above 0 and at most 1e17");
        assert_eq!(views.message(&of(x)), message);
    }
    assert!(views.plan(&of(1e17)).is_ok());
}

#[test]
fn an_operator_moves_to_another_device() {
    let ((first, ones), (second, others)) = (fake::h200(), fake::h200());
    let mut mla = Mla::new().lengths(&[640, 1, 100]).splits(2);
    for (device, journal) in [(&first, &ones), (&second, &others), (&first, &ones)] {
        let mut views = Views::new(device, [&[3, 1, 16, 576], &[3, 640, 1, 576], &[3, 1, 16, 512]]);
        mla.run(&device.default_stream(), &views.q, &views.cache, &mut views.o).unwrap();
        // The plan and the parts' results are in this device's memory, and no longer in the other one's.
        assert_eq!(journal.memory.lock().unwrap().len(), 2);
        assert_eq!(ones.memory.lock().unwrap().len() + others.memory.lock().unwrap().len(), 2);
    }
}

#[test]
fn plans_are_made_and_memory_is_given_before_a_capture() {
    let (device, _) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let views = || Views::new(&device, [&[3, 1, 16, 576], &[3, 640, 1, 576], &[3, 1, 16, 512]]);
    let capture = |mla: &mut Mla<'_>| {
        let mut views = views();
        let run = |stream: &Stream| mla.run(stream, &views.q, &views.cache, &mut views.o);
        stream.capture(run).map(drop).map_err(|error| error.to_string())
    };
    let no_plan = "`self` was an `Mla` whose last run had other lengths, pages or options; it must be one that ran with the \
                   same before the call is captured: then its plan is made";
    let no_memory = "`workspace` was not given; it must be given to a call that is captured: the operator's own memory \
                     goes with the operator, and a graph would go on using it";
    let mut whole = Mla::new().lengths(&[640, 1, 100]).splits(1);
    assert_eq!(capture(&mut whole), Err(no_plan.to_owned()));
    let mut views = views();
    whole.run(&stream, &views.q, &views.cache, &mut views.o).unwrap();
    assert_eq!(capture(&mut whole), Ok(()));
    whole.set_lengths(&[640, 2, 100]);
    assert_eq!(capture(&mut whole), Err(no_plan.to_owned()));
    let mut cut = Mla::new().lengths(&[640, 1, 100]).splits(2);
    cut.run(&stream, &views.q, &views.cache, &mut views.o).unwrap();
    assert_eq!(capture(&mut cut), Err(no_memory.to_owned()));
}

#[test]
fn the_largest_copies_that_divide_a_page_are_taken() {
    let (device, _) = fake::h200();
    let mla = Mla::new().host_block_table(&[0; 4]);
    for (rows, name) in [
        (16, "mla_sm_90_f16_d576x512_p16"),
        (32, "mla_sm_90_f16_d576x512_p32"),
        (64, "mla_sm_90_f16_d576x512_p64"),
        (256, "mla_sm_90_f16_d576x512_p64"),
    ] {
        assert_eq!(Views::pages(&device, 128, rows).name(&mla), name);
    }
    let dense = Views::new(&device, [&[4, 1, 16, 320], &[4, 7, 1, 320], &[4, 1, 16, 256]]);
    assert_eq!(dense.name(&Mla::new()), "mla_sm_90_f16_d320x256_p64");
    let forced = Mla::new().kernel("mla_sm_80_f16_d320x256");
    assert_eq!(dense.name(&forced), "mla_sm_80_f16_d320x256");
    let message = dense.message(&Mla::new().kernel("none"));
    assert!(
        message.starts_with("`kernel` was \"none\", not a kernel for f16, keys of 320 columns and values of 256; it must be one of mla_sm"),
        "{message}"
    );
}

#[test]
fn sequences_are_cut_where_asked() {
    let (device, _) = fake::h200();
    let views = Views::pages(&device, 128, 64);
    let table = [0; 40];
    let mla = || Mla::new().host_block_table(&table).lengths(&[640, 100, 1, 0]);
    let plan = views.plan(&mla().splits(4)).unwrap();
    assert_eq!((plan.cut(), plan.parts()), (2, 4));
    // Four parts and two, of two tiles each.
    let len = mla().splits(4).workspace_len(&views.q, &views.cache, &views.o).unwrap();
    assert_eq!(len, 6 * 2 * 64 * 513);
    assert_eq!(mla().splits(1).workspace_len(&views.q, &views.cache, &views.o).unwrap(), 0);
    for splits in [0, 1025] {
        let message = views.message(&mla().splits(splits));
        assert_eq!(message, format!("`splits` was {splits}; it must be from 1 to 1024"));
    }
}

/// A plan over records of 8 bits, in pages of so many rows, for positions of so many heads.
fn of_records(device: &Device, [positions, heads, rows]: [usize; 3]) -> Result<MlaPlan> {
    let q = view::<bf16>(device, far(0), &[4, positions, heads, 576]);
    let cache = view::<u8>(device, far(1), &[100, rows, 1, 656]);
    let o = view_mut::<bf16>(device, far(2), &[4, positions, heads, 512]);
    Mla::new().host_block_table(&[0; 4]).plan(&q, &cache, &o)
}

#[test]
fn records_of_any_page_are_read_by_one_tile_or_by_two() {
    let (device, _) = fake::h200();
    for (shape, kernel) in [
        ([1, 16, 64], "mla_sm_90_codes"),
        ([1, 128, 1], "mla_sm_90_codes_c2"),
        ([1, 129, 2], "mla_sm_90_codes"),
        ([3, 64, 16], "mla_sm_90_codes"),
        ([4, 64, 64], "mla_sm_90_codes_c2"),
    ] {
        assert_eq!(of_records(&device, shape).unwrap().kernel().name(), kernel, "{shape:?}");
    }
    let message = of_records(&device, [1, 16, 3]).unwrap_err().to_string();
    assert!(message.ends_with("of pages with a power of two of rows, from 1 on"), "{message}");
}

#[test]
fn records_are_for_hopper() {
    let (device, _) = fake::device((8, 0));
    let message = of_records(&device, [1, 16, 64]).unwrap_err().to_string();
    assert!(message.contains("no kernel for bf16, a cache of u8, keys of 576 columns"), "{message}");
}

#[test]
fn prompts_of_many_positions_are_not_cut_by_hand() {
    let (device, _) = fake::h200();
    let views = Views::new(&device, [&[1, 65536, 64, 576], &[1, 90, 1, 576], &[1, 65536, 64, 512]]);
    assert!(views.plan(&Mla::new()).is_ok());
    assert!(views.plan(&Mla::new().splits(1)).is_ok());
    let message = views.message(&Mla::new().splits(2));
    assert!(message.starts_with("`splits` was 2; it must be 1 for more than 65535 "), "{message}");
}
