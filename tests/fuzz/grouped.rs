//! Products of groups of rows, and gated units of them.

use tilewright::ops::{Activation, GroupRows, GroupedGemm, HalfElement};
use tilewright::{Device, Error, Stream, bf16, f16};
use tilewright_support::Real;
use tilewright_support::activation::{STEEPEST, exact};
use tilewright_support::random::normal;

use crate::place::{Number, Place, Placed};
use crate::random::Random;
use crate::{Call, Outcome};

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    match random.below(2) {
        0 => of::<f16>(random, device, call),
        _ => of::<bf16>(random, device, call),
    }
}

/// Rows of a matrix that holds all groups', or of each group's; and the numbers that say whose they are: some groups have none, and some numbers name rows that there are not.
fn rows(random: &mut Random, groups: usize, apart: bool) -> (usize, Vec<i32>) {
    let counts: Vec<_> =
        (0..groups).map(|_| if random.one_in(3) { 0 } else { random.size(90) }).map(|n| n as i32).collect();
    let odd = random.one_in(4);
    if apart {
        let rows = counts.iter().max().map_or(0, |most| *most as usize) + random.below(4);
        let mut numbers = counts;
        if odd && groups > 0 {
            let at = random.below(groups);
            numbers[at] = random.pick(&[-1, i32::MIN, i32::MAX, rows as i32 + 1]);
        }
        return (rows, numbers);
    }
    let first = if random.one_in(3) { random.below(5) as i32 } else { 0 };
    let mut numbers = vec![first];
    for count in counts {
        numbers.push(numbers[numbers.len() - 1] + count);
    }
    let rows = numbers[groups] as usize + random.below(5);
    if odd {
        let last = rows as i32 + random.pick(&[1, 64, 1 << 20]);
        match random.below(3) {
            0 => numbers[groups] = last,
            // The first group's rows end before they begin.
            1 => numbers[0] = last,
            _ => numbers[0] = random.pick(&[-1, i32::MIN]),
        }
    }
    (rows, numbers)
}

/// The group of each row of all matrices.
fn owners(groups: usize, rows: usize, apart: bool, numbers: &[i32]) -> Vec<Option<usize>> {
    let at = |i: usize| (numbers[i].max(0) as usize).min(rows);
    let mut owners = vec![None; if apart { groups * rows } else { rows }];
    for group in 0..groups {
        let own = if apart { group * rows..group * rows + at(group) } else { at(group)..at(group + 1) };
        own.for_each(|row| owners[row] = Some(group));
    }
    owners
}

/// Of an input \[.., lines, of\]: mostly in lines that fast kernels read.
fn lines(random: &mut Random, shape: &[usize]) -> Place {
    if random.one_in(6) { Place::any(random, shape) } else { Place::lines(random, shape, 0) }
}

fn of<T: Real + Number + HalfElement>(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let (groups, apart) = (random.pick(&[0, 1, 2, 3, 5, 9, 20]), random.one_in(3));
    let (n, k) = (random.size(150), random.size(200));
    let gated = (!random.one_in(4)).then(|| random.pick(&Activation::ALL));
    let columns = if gated.is_some() { 2 * n } else { n };
    let (rows, numbers) = rows(random, groups, apart);
    let matrices = |columns: &[usize]| -> Vec<usize> {
        let of = if apart { vec![groups, rows] } else { vec![rows] };
        [&of, columns].concat()
    };
    let a_place = lines(random, &matrices(&[k]));
    // [groups, K, columns], mostly as transposed views of [groups, columns, K].
    let b_place = if gated.is_none() && random.one_in(3) {
        lines(random, &[groups, k, columns])
    } else {
        let mut place = lines(random, &[groups, columns, k]);
        place.shape.swap(1, 2);
        place.strides.swap(1, 2);
        place
    };
    let c_place = Place::any(random, &matrices(&[n]));
    let scales_place = Place::any(random, &matrices(&[]));
    let scales_place = if random.one_in(4) { scales_place.repeating(0) } else { scales_place };
    let scaled = random.one_in(2);
    let expected = random.one_in(3).then(|| random.pick(&[0, 1, 16, 100, usize::MAX]));
    let (overlap, forced) = (random.one_in(2), random.next());
    call.set(format!(
        "GroupedGemm<{}>: {groups} groups, apart {apart}, numbers {numbers:?}, A {a_place:?}, B {b_place:?}, C {c_place:?}, scales {scaled} \
         {scales_place:?}, gated {gated:?}, expected {expected:?}, overlap {overlap}",
        T::DTYPE
    ));

    let a = Placed::new(device, a_place.clone(), &normal::<T>(forced, a_place.count()))?;
    let b = Placed::new(device, b_place.clone(), &normal::<T>(forced.wrapping_add(1), b_place.count()))?;
    let scales = Placed::<f32>::new(device, scales_place.clone(), &normal(forced, scales_place.count()))?;
    let mut c = Placed::<T>::poisoned(device, c_place)?;
    let numbers_there = Placed::new(device, Place::packed(&[numbers.len()]), &numbers)?;
    let stream = Stream::new(device)?;
    {
        let (a, b, mut c, scales) = (a.view()?, b.view()?, c.view_mut()?, scales.view()?);
        let numbers = numbers_there.view()?;
        let by = if apart { GroupRows::counts(numbers) } else { GroupRows::offsets(numbers) };
        let gemm = GroupedGemm::new().overlap(overlap);
        let gemm = gated.into_iter().fold(gemm, GroupedGemm::gated);
        let gemm = if scaled { gemm.scales(&scales) } else { gemm };
        let gemm = expected.into_iter().fold(gemm, GroupedGemm::expected_rows);
        let all = gemm.candidates(&a, &b, &by, &c)?;
        let names: Vec<_> =
            all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name()).collect();
        if names.is_empty() {
            assert!(gated.is_some(), "no kernel for products");
            let refused = gemm.run(&stream, &a, &b, &by, &mut c).err().ok_or("no kernel, and no error")?;
            assert!(matches!(refused, Error::UnsupportedGpu { .. }), "{refused}");
            return call.refused(refused);
        }
        let gemm = if forced.is_multiple_of(2) {
            let name = names[(forced / 2) as usize % names.len()];
            call.add(format!(", kernel {name}"));
            gemm.kernel(name)
        } else {
            gemm
        };
        gemm.run(&stream, &a, &b, &by, &mut c)?;
        stream.synchronize()?;
    }

    let out = T::widen(&c.read()?);
    let (a, b, scales) = (T::widen(&a.values()?), T::widen(&b.values()?), scales.values()?);
    for (row, owner) in owners(groups, rows, apart, &numbers).into_iter().enumerate() {
        let out = &out[row * n..][..n];
        let Some(group) = owner else {
            if out.iter().any(|x| !x.is_nan()) {
                return Err(format!("row {row}, which no group has, was written").into());
            }
            continue;
        };
        let mut sums = vec![[0.0f64; 2]; columns];
        for (inner, &x) in a[row * k..][..k].iter().enumerate() {
            for ([sum, size], &y) in sums.iter_mut().zip(&b[(group * k + inner) * columns..][..columns]) {
                let product = f64::from(x) * f64::from(y);
                (*sum, *size) = (*sum + product, *size + product.abs());
            }
        }
        let scale = if scaled { f64::from(scales[row]) } else { 1.0 };
        for (column, &got) in out.iter().enumerate() {
            let [sum, size] = sums[column];
            let [of, size] = match gated {
                None => [sum, size],
                Some(activation) => {
                    let ([up, ups], activated) = (sums[n + column], exact(activation, sum));
                    [activated * up, (STEEPEST + 1.0) * size * up.abs() + 2.0 * activated.abs() * ups]
                }
            };
            let (want, size) = (of * scale, size * scale.abs());
            let bound = T::ROUNDING * want.abs() + T::LEAST + 1e-6 * size;
            let off = (f64::from(got) - want).abs();
            if off.is_nan() || off > bound {
                return Err(format!("C[{row}, {column}] is {got}, must be {want} within {bound:.2e}").into());
            }
        }
    }
    Ok(())
}
