//! All that a decoding step may be: lengths, pages, heads, positions, parts.

use tilewright::ops::Mla;
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::cache::Layout;
use crate::case::Case;

/// Lengths around those of blocks and pages; longer ones where they take no minutes.
pub fn mixed(device: &Device) -> Vec<u32> {
    let long: &[u32] = if device.is_emulator() { &[130] } else { &[1000, 8191] };
    [&[64, 0, 1, 65, 63][..], long].concat()
}

/// Every kernel, both element types, both pairs of columns.
pub fn kernels(device: &Device) -> Outcome {
    for columns in [[576, 512], [320, 256]] {
        let case = Case { columns, ..Case::new(64, &mixed(device)) };
        case.check_all::<f16>(device)?;
        case.check_all::<bf16>(device)?;
    }
    Ok(())
}

/// More items of work than CTAs: of every kernel.
pub fn several_items_a_cta(device: &Device) -> Outcome {
    let batch = 3 * device.sm_count() as usize;
    for columns in [[576, 512], [320, 256]] {
        let case = Case { columns, ..Case::new(64, &vec![9; batch]) };
        case.check_all::<f16>(device)?;
        case.check_all::<bf16>(device)?;
    }
    Ok(())
}

/// NaN in a key that only the last position sees: in a column that is no value it stays in that position's rows; in a value it
/// reaches its column of the others, whose weights of 0 it is multiplied by.
pub fn behind_the_mask(device: &Device) -> Outcome {
    for column in [7, 570] {
        let case = Case { nan: Some(column), ..Case::new(16, &[70, 200]).causal(4) };
        case.check_all::<f16>(device)?;
        case.splits(2).check_all::<f16>(device)?;
    }
    Ok(())
}

/// 1 to 128 heads, which fill tiles or do not.
pub fn heads(device: &Device) -> Outcome {
    for heads in [1, 5, 16, 128] {
        Case::new(heads, &mixed(device)).check::<f16>(device)?;
    }
    Ok(())
}

/// Batches of 1 to 130, of equal and unequal lengths.
pub fn batches(device: &Device) -> Outcome {
    let (most, step) = if device.is_emulator() { (7, 11) } else { (130, 57) };
    for batch in [1, 2, most] {
        let lengths: Vec<u32> = (0..batch).map(|i| i * step % 3000).collect();
        Case::new(16, &lengths).check::<bf16>(device)?;
        Case::new(128, &vec![100; batch as usize]).layout(Layout::Dense).check::<f16>(device)?;
    }
    Ok(())
}

/// Pages of all sizes, named by the device or by the host, and none.
pub fn pages(device: &Device) -> Outcome {
    for rows in [16, 32, 64, 128, 256] {
        Case::new(64, &mixed(device)).layout(Layout::Pages(rows)).check_all::<f16>(device)?;
        Case::new(20, &mixed(device)).layout(Layout::HostPages(rows)).check::<bf16>(device)?;
    }
    Case::new(64, &mixed(device)).layout(Layout::Dense).check_all::<f16>(device)
}

/// 1 to 4 positions and more, which see all keys or those up to their own.
pub fn positions(device: &Device) -> Outcome {
    for (positions, heads) in [(2, 64), (3, 5), (4, 16), (64, 1)] {
        let case = Case::new(heads, &mixed(device)).causal(positions);
        Case { causal: false, ..case.clone() }.check::<f16>(device)?;
        case.check_all::<f16>(device)?;
        case.splits(2).check::<bf16>(device)?;
    }
    Ok(())
}

/// Prompts: more positions than share their keys, whose last ones fill no tile; of sequences with fewer keys than positions, too.
pub fn prompts(device: &Device) -> Outcome {
    let all: &[_] = if device.is_emulator() {
        &[(67, 16)]
    } else {
        &[(67, 16), (70, 20), (66, 128), (130, 1), (1000, 64)]
    };
    for &(positions, heads) in all {
        let case = Case::new(heads, &[130, 10, 0]).causal(positions);
        case.check_all::<bf16>(device)?;
        Case { causal: false, ..case.clone() }.check::<f16>(device)?;
        case.splits(2).check::<f16>(device)?;
    }
    Ok(())
}

/// One part or many, more than there are blocks of keys.
pub fn splits(device: &Device) -> Outcome {
    let most: &[usize] = if device.is_emulator() { &[1, 2, 32] } else { &[1, 2, 3, 4, 7, 16, 17, 32] };
    for &splits in most {
        Case::new(64, &mixed(device)).splits(splits).check_all::<f16>(device)?;
    }
    Ok(())
}

/// Where nothing is rounded, parts give the very same: weights of 1, small integers, and as many keys as a power of two.
pub fn exact_splits(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let (heads, keys) = (70, 512);
    let q = Tensor::<f16>::zeros(device, &[1, 1, heads, 576])?;
    let numbers: Vec<f16> = (0..keys * 576).map(|i| f16::from_f32((i * 7 % 31) as f32 - 15.0)).collect();
    let cache = Tensor::from_slice(device, &numbers, &[1, keys, 1, 576])?;
    let sums = (0..512).map(|col| (0..keys).map(|key| numbers[key * 576 + col].to_f32()).sum::<f32>());
    let means: Vec<f16> = sums.map(|sum| f16::from_f32(sum / keys as f32)).collect();
    let mut o = Tensor::<f16>::zeros(device, &[1, 1, heads, 512])?;
    let all = Mla::new().candidates(&q.view(), &cache.view(), &o.view_mut())?;
    for kernel in all.iter().filter(|kernel| kernel.rejection().is_none()) {
        for splits in [1, 2, 4, 8] {
            o.write(&vec![f16::NAN; heads * 512])?;
            let mut mla = Mla::new().kernel(kernel.name()).splits(splits);
            mla.run(&stream, &q.view(), &cache.view(), &mut o.view_mut())?;
            let equal = o.to_vec_on(&stream)?.chunks(512).all(|row| row == means);
            assert!(equal, "{}, {splits} parts", kernel.name());
        }
    }
    Ok(())
}

/// Scores so far apart that references of exponentials have to move.
pub fn heat(device: &Device) -> Outcome {
    for heat in [4.0, 40.0] {
        Case { heat, ..Case::new(64, &mixed(device)) }.check_all::<f16>(device)?;
        Case { heat, ..Case::new(16, &mixed(device)).causal(4).splits(2) }.check::<bf16>(device)?;
    }
    Ok(())
}

/// Numbers of pages that are negative or too large, in a table that the host does not see: zeros.
pub fn missing_pages(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let q = Tensor::from_slice(device, &normal::<f16>(1, 576), &[1, 1, 1, 576])?;
    let cache = Tensor::filled(device, f16::ONE, &[2, 64, 1, 576])?;
    let zeros = Tensor::<f16>::zeros(device, &[1, 1, 1, 576])?;
    for (pages, q, mean) in [([-1, i32::MAX], &q, 0.0), ([2, 0], &zeros, 0.5)] {
        let table = Tensor::from_slice(device, &pages, &[1, 2])?;
        let mut o = Tensor::filled(device, f16::NAN, &[1, 1, 1, 512])?;
        Mla::new().block_table(table.view()).run(&stream, &q.view(), &cache.view(), &mut o.view_mut())?;
        assert!(o.to_vec_on(&stream)?.iter().all(|x| x.to_f32() == mean), "{pages:?}");
    }
    Ok(())
}

/// One operator for steps of other lengths: the plan follows them.
pub fn steps(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let q = Tensor::<f16>::zeros(device, &[2, 1, 16, 576])?;
    // Keys are their numbers, whose mean is seen by queries of zeros.
    let keys: Vec<f16> = (0..2 * 300 * 576).map(|i| f16::from_f32((i / 576 % 300) as f32)).collect();
    let cache = Tensor::from_slice(device, &keys, &[2, 300, 1, 576])?;
    let mut mla = Mla::new();
    for lengths in [[3, 101], [3, 101], [201, 1], [300, 299]] {
        let mut o = Tensor::filled(device, f16::NAN, &[2, 1, 16, 512])?;
        mla.set_lengths(&lengths);
        mla.run(&stream, &q.view(), &cache.view(), &mut o.view_mut())?;
        let out = o.to_vec_on(&stream)?;
        for (out, length) in out.chunks(16 * 512).zip(lengths) {
            let mean = (length - 1) as f32 / 2.0;
            assert!(out.iter().all(|x| (x.to_f32() - mean).abs() <= 0.1), "{lengths:?}: {}", out[0]);
        }
    }
    Ok(())
}
