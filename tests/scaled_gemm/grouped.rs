//! `ops::grouped_scaled_gemm`: products of groups of rows with scales of blocks, on every kernel that can compute them.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tilewright::ops::{BlockScaled, GroupRows, GroupedScaledGemm, HalfElement, grouped_scaled_gemm, kernels};
use tilewright::{Device, Error, F8E4M3, Stream, Tensor, bf16, f16};
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;
use tilewright_support::{Real, groups};

use crate::case::Value;

/// Kernels that ran.
static SEEN: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());

/// Rows that no group has: behind all groups, or in each of their matrices.
const MORE: usize = 3;

/// Products of groups of so many rows each.
#[derive(Clone, Debug)]
struct Products {
    rows: Vec<usize>,
    apart: bool,
    n: usize,
    k: usize,
}

/// Codes and scales of A and of B.
struct Values {
    codes: [Vec<F8E4M3>; 2],
    scales: [Vec<f32>; 2],
}

impl Products {
    fn new(rows: &[usize], [n, k]: [usize; 2]) -> Self {
        Products { rows: rows.to_vec(), apart: false, n, k }
    }

    fn blocks(&self) -> usize {
        self.k.div_ceil(128)
    }

    /// The group of each row of A.
    fn groups(&self) -> Vec<Option<usize>> {
        groups::of_rows(&self.rows, MORE, self.apart)
    }

    /// Random ones; of rows that no group has everything is NaN.
    fn values(&self) -> Values {
        let Products { rows, n, k, .. } = self;
        let (of, blocks) = (self.groups(), self.blocks());
        let scales =
            |seed, len| -> Vec<f32> { normal::<f32>(seed, len).into_iter().map(f32::exp2).collect() };
        let (mut a, mut scales_a) = (F8E4M3::some(1, of.len() * k), scales(3, of.len() * blocks));
        for (row, _) in of.iter().enumerate().filter(|(_, group)| group.is_none()) {
            a[row * k..][..*k].fill(F8E4M3::from_f32(f32::NAN));
            scales_a[row * blocks..][..blocks].fill(f32::NAN);
        }
        let b = F8E4M3::some(2, rows.len() * n * k);
        Values { codes: [a, b], scales: [scales_a, scales(4, rows.len() * n.div_ceil(128) * blocks)] }
    }

    /// Each element with the sum of its products' magnitudes; none where it is no group's.
    fn reference(&self, values: &Values) -> Vec<Option<[f64; 2]>> {
        let (Products { n, k, .. }, blocks) = (self, self.blocks());
        let Values { codes: [a, b], scales: [of_a, of_b] } = values;
        let element = |row: usize, group: usize, column: usize| {
            let (mut sum, mut magnitude) = (0.0, 0.0);
            for i in 0..*k {
                let scale = f64::from(of_a[row * blocks + i / 128])
                    * f64::from(of_b[(group * n.div_ceil(128) + column / 128) * blocks + i / 128]);
                let product = a[row * k + i].value() * b[(group * n + column) * k + i].value() * scale;
                (sum, magnitude) = (sum + product, magnitude + product.abs());
            }
            [sum, magnitude]
        };
        let row = |(row, group): (usize, Option<usize>)| {
            (0..*n).map(move |column| group.map(|group| element(row, group, column)))
        };
        self.groups().into_iter().enumerate().flat_map(row).collect()
    }

    fn check<U: Real + HalfElement>(&self, device: &Device) -> Outcome {
        let (Products { rows, apart, n, k }, blocks, values) = (self, self.blocks(), self.values());
        let ([matrices, each], exact) = (groups::matrices(rows, MORE, *apart), self.reference(&values));
        let Values { codes: [a, b], scales: [of_a, of_b] } = &values;
        let (a, b) = (
            Tensor::from_slice(device, a, &[matrices, each, *k])?,
            Tensor::from_slice(device, b, &[rows.len(), *n, *k])?,
        );
        let of_a = Tensor::from_slice(device, of_a, &[matrices, each, blocks])?;
        let of_b = Tensor::from_slice(device, of_b, &[rows.len(), n.div_ceil(128), blocks])?;
        let numbers = groups::numbers(rows, *apart);
        let numbers = Tensor::from_slice(device, &numbers, &[numbers.len()])?;
        let by = if *apart { GroupRows::counts(numbers.view()) } else { GroupRows::offsets(numbers.view()) };
        let (mut a, mut of_a) = (a.view(), of_a.view());
        if !apart {
            (a, of_a) = (a.select(0, 0)?, of_a.select(0, 0)?);
        }
        let a = BlockScaled { codes: a, scales: of_a };
        let b = BlockScaled { codes: b.view(), scales: of_b.view() };
        let place = Place::by_rows([matrices, each, *n], n.next_multiple_of(8) + 8);
        let mut c = Guarded::<U>::at(device, place)?;
        let of_c = |c: &mut Guarded<U>, run: &mut dyn FnMut(tilewright::TensorViewMut<'_, U>) -> Outcome| {
            let c = c.view_mut()?;
            run(if *apart { c } else { c.select(0, 0)? })
        };
        let mut names = Vec::new();
        of_c(&mut c, &mut |c| {
            let all = GroupedScaledGemm::new().candidates(&a, &b, &by, &c)?;
            names = all.iter().filter(|one| one.rejection().is_none()).map(|one| one.name()).collect();
            Ok(())
        })?;
        assert!(!names.is_empty(), "no kernel for {self:?}");
        for name in names {
            let (mut c, stream) = (Guarded::<U>::at(device, place)?, Stream::new(device)?);
            of_c(&mut c, &mut |mut c| {
                GroupedScaledGemm::new().kernel(name).run(&stream, &a, &b, &by, &mut c)?;
                Ok(stream.synchronize()?)
            })?;
            SEEN.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
            let (out, outside) = c.read()?;
            assert_eq!(outside, 0, "{name}: elements outside of C; {self:?}");
            for (i, (&out, exact)) in U::widen(&out).iter().zip(&exact).enumerate() {
                let right = match *exact {
                    None => out.is_nan(),
                    Some([exact, magnitude]) => {
                        let bound = U::ROUNDING * exact.abs() + U::LEAST + F8E4M3::LOSES * magnitude;
                        (f64::from(out) - exact).abs() <= bound
                    }
                };
                assert!(right, "{name}: row {}, column {}: {out} and not {exact:?}; {self:?}", i / n, i % n);
            }
        }
        Ok(())
    }
}

/// Rows of groups: none, one, few, a tile and a row more.
const ROWS: [usize; 7] = [5, 0, 129, 1, 40, 0, 33];

pub fn sizes(device: &Device) -> Outcome {
    for (size, apart) in [([264, 384], false), ([136, 144], true), ([8, 16], false), ([129, 272], false)] {
        let products = Products { apart, ..Products::new(&ROWS, size) };
        products.check::<bf16>(device)?;
        if size[0] > 129 {
            products.check::<f16>(device)?;
        }
    }
    let seen = SEEN.lock().map_err(|_| "another test failed")?;
    let ours = kernels()
        .filter(|kernel| kernel.name.starts_with("grouped_scaled_gemm_") && device.runs(kernel.arch));
    let left: Vec<_> = ours.map(|kernel| kernel.name).filter(|name| !seen.contains(name)).collect();
    assert!(left.is_empty(), "not run: {left:?}");
    Ok(())
}

pub fn groups(device: &Device) -> Outcome {
    Products::new(&[70], [128, 128]).check::<bf16>(device)?;
    // Nobody chose most of them.
    let rows: Vec<_> = (0..64).map(|group| usize::from(group % 9 == 4) * (group % 5 + 1)).collect();
    Products::new(&rows, [40, 128]).check::<bf16>(device)?;
    Products::new(&[0, 0, 0], [64, 128]).check::<f16>(device)?;
    // Products of zero.
    Products::new(&[3, 0, 40], [72, 0]).check::<f16>(device)?;
    if !device.is_emulator() {
        let rows: Vec<_> = (0..16).map(|group| group * 37 % 411).collect();
        Products::new(&rows, [264, 528]).check::<bf16>(device)?;
        // More rows of tiles than are taken together.
        Products::new(&[192 * 17 + 5, 10, 192 * 3], [136, 256]).check::<bf16>(device)?;
    }
    Ok(())
}

/// The emulator takes warps in another order for each seed.
pub fn seeds(device: &Device) -> Outcome {
    if !device.is_emulator() {
        return Ok(());
    }
    for seed in 1..4 {
        Products::new(&[40, 0, 1, 130], [136, 256]).check::<bf16>(&Device::emulator_with_seed(seed))?;
    }
    Ok(())
}

pub fn replayed(device: &Device) -> Outcome {
    let (stream, [n, k], total) = (Stream::new(device)?, [72, 256], 100);
    let of = |rows: &[usize]| Products::new(rows, [n, k]);
    let values = of(&[25; 4]).values();
    let codes = [
        Tensor::from_slice(device, &values.codes[0][..total * k], &[total, k])?,
        Tensor::from_slice(device, &values.codes[1], &[4, n, k])?,
    ];
    let scales = [
        Tensor::from_slice(device, &values.scales[0][..total * 2], &[total, 2])?,
        Tensor::from_slice(device, &values.scales[1], &[4, 1, 2])?,
    ];
    let [a, b] = [0, 1].map(|i| BlockScaled { codes: codes[i].view(), scales: scales[i].view() });
    let mut offsets = Tensor::<i32>::zeros(device, &[5])?;
    let mut c = Tensor::<bf16>::zeros(device, &[total, n])?;
    let graph = {
        let (rows, mut c) = (GroupRows::offsets(offsets.view()), c.view_mut());
        let mut call = |stream: &Stream| grouped_scaled_gemm(stream, &a, &b, &rows, &mut c);
        // The kernel's loading is not to be recorded.
        call(&stream)?;
        stream.synchronize()?;
        stream.capture(|stream| call(stream))?
    };
    assert_eq!(graph.nodes(), 1);
    for rows in [[25; 4], [0, 100, 0, 0], [1, 0, 98, 1]] {
        offsets.write(&groups::numbers(&rows, false))?;
        c.write(&vec![bf16::NAN; total * n])?;
        // SAFETY: the tensors are alive.
        unsafe { graph.launch(&stream)? };
        let out = bf16::widen(&c.to_vec_on(&stream)?);
        for (&out, exact) in out.iter().zip(of(&rows).reference(&values)) {
            let Some([exact, magnitude]) = exact else { continue };
            let bound = bf16::ROUNDING * exact.abs() + F8E4M3::LOSES * magnitude;
            assert!((f64::from(out) - exact).abs() <= bound, "{out} and not {exact}: {rows:?}");
        }
    }
    Ok(())
}

pub fn refused(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let codes = |shape: &[usize]| Tensor::<F8E4M3>::zeros(device, shape);
    let scales = |shape: &[usize]| Tensor::<f32>::zeros(device, shape);
    let (a, b, of_a, of_b) =
        (codes(&[24, 256])?, codes(&[3, 136, 256])?, scales(&[24, 2])?, scales(&[3, 2, 2])?);
    let (odd_a, odd_b) = (codes(&[24, 200])?, codes(&[3, 136, 200])?);
    let offsets = Tensor::<i32>::zeros(device, &[4])?;
    let mut c = Tensor::filled(device, bf16::NAN, &[24, 136])?;
    let rows = GroupRows::offsets(offsets.view());
    let short = GroupRows::offsets(offsets.view().narrow(0, 0, 3)?);
    let (av, bv, sa, sb) = (a.view(), b.view(), of_a.view(), of_b.view());
    for (name, a, b, of_a, of_b, rows) in [
        ("b", av.clone(), av.clone(), sa.clone(), sb.clone(), &rows),
        ("a", av.clone().narrow(1, 0, 128)?, bv.clone(), sa.clone(), sb.clone(), &rows),
        ("c", av.clone().narrow(0, 0, 23)?, bv.clone(), sa.clone(), sb.clone(), &rows),
        ("scale_a", av.clone(), bv.clone(), sa.clone().narrow(1, 0, 1)?, sb.clone(), &rows),
        ("scale_b", av.clone(), bv.clone(), sa.clone(), sb.clone().narrow(1, 0, 1)?, &rows),
        ("offsets", av.clone(), bv.clone(), sa.clone(), sb.clone(), &short),
        // Of no multiple of 16 columns.
        ("a", odd_a.view(), odd_b.view(), sa.clone(), sb.clone(), &rows),
    ] {
        let (a, b) = (BlockScaled { codes: a, scales: of_a }, BlockScaled { codes: b, scales: of_b });
        match grouped_scaled_gemm(&stream, &a, &b, rows, &mut c.view_mut()) {
            Err(Error::Argument { argument, .. }) if argument == name => (),
            other => return Err(format!("not an error about `{name}`: {other:?}").into()),
        }
    }
    assert!(c.to_vec_on(&stream)?.iter().all(|x| x.is_nan()));
    Ok(())
}
