//! Few queries over many keys: caches, and keys in parts.

use tilewright::ops::Attention;
use tilewright::{Device, Error, Stream, Tensor, bf16, f16};
use tilewright_support::attention::Scores;
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::{Case, Input, Sizes};

/// Sequences with keys of lengths of their own, some without any.
pub fn lengths(device: &Device) -> Outcome {
    for columns in [[64, 64], [128, 128], [192, 128], [256, 256], [100, 36]] {
        let sizes = Sizes { batch: 5, ..Sizes::new(1, 300, columns) };
        let lengths = vec![300, 0, 1, 128, 257];
        Case::<f16>::new(sizes).cache(Some(lengths.clone()), None).check_all(device)?;
        let case = Case::<bf16>::new(Sizes { queries: 3, ..sizes }).cache(Some(lengths), None).splits(3);
        let scores = Scores { causal: true, ..case.scores };
        case.scores(scores).check_all(device)?;
    }
    Ok(())
}

/// Pages of all sizes, with and without lengths.
pub fn pages(device: &Device) -> Outcome {
    for page in [8, 16, 64, 256] {
        let sizes = Sizes { batch: 3, heads: 4, kv_heads: 2, ..Sizes::new(2, 512, [128, 128]) };
        Case::<f16>::new(sizes).cache(None, Some(page)).check_all(device)?;
        let case = Case::<f16>::new(sizes).cache(Some(vec![500, 33, 256]), Some(page));
        let scores = Scores { window: Some([70, 5]), softcap: Some(2.0), ..case.scores };
        case.scores(scores).splits(2).check_all(device)?;
    }
    // Tables may be longer than sequences, and other layouts of the cache are read by elements.
    let sizes = Sizes { batch: 2, ..Sizes::new(1, 128, [60, 60]) };
    Case::<bf16>::new(sizes).cache(Some(vec![3, 100]), Some(32)).check_all(device)
}

/// Heads that share keys, of several queries: rows of one tile or of several.
pub fn queries(device: &Device) -> Outcome {
    for (heads, kv_heads, queries) in [(4, 4, 1), (8, 1, 16), (12, 4, 5), (7, 1, 13), (128, 1, 1)] {
        let sizes = Sizes { batch: 2, heads, kv_heads, queries, ..Sizes::new(1, 140, [64, 64]) };
        for causal in [false, true] {
            each_kernel::<f16>(device, sizes, causal)?;
        }
    }
    Ok(())
}

fn each_kernel<T: Input>(device: &Device, sizes: Sizes, causal: bool) -> Outcome {
    let case = Case::<T>::new(sizes).splits(2);
    let scores = Scores { causal, ..case.scores };
    case.scores(scores).check_all(device)
}

/// One part or many, more than there are blocks of keys: the same result.
pub fn splits(device: &Device) -> Outcome {
    let keys = if device.is_emulator() { 700 } else { 5000 };
    let sizes = Sizes { batch: 2, heads: 8, kv_heads: 2, ..Sizes::new(1, keys, [128, 128]) };
    for splits in [1, 2, 3, 4, 7, 16, 17, 32] {
        Case::<f16>::new(sizes).splits(splits).check(device)?;
    }
    let lengths = Some(vec![keys, 100]);
    Case::<bf16>::new(sizes).cache(lengths, Some(64)).splits(32).check(device)?;
    // Queries that see no key in any part.
    let case = Case::<f16>::new(Sizes { queries: 9, ..Sizes::new(1, 4, [64, 64]) }).splits(2);
    let scores = Scores { causal: true, ..case.scores };
    case.scores(scores).check_all(device)
}

/// Numbers of pages that are negative or too large.
pub fn missing_pages(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let q = Tensor::from_slice(device, &normal::<f16>(1, 64), &[1, 1, 1, 64])?;
    let pages = Tensor::filled(device, f16::ONE, &[2, 1, 64, 64])?;
    let zeros = Tensor::<f16>::zeros(device, &[1, 1, 64, 64])?;
    let table = Tensor::from_slice(device, &[-1, i32::MAX], &[1, 2])?;
    let mut o = Tensor::filled(device, f16::NAN, &[1, 1, 1, 64])?;
    let (table, pages) = (table.view(), pages.view());
    let mut attention = Attention::new().block_table(&table);
    attention.run(&stream, &q.view(), &pages, &pages, &mut o.view_mut())?;
    assert!(o.to_vec_on(&stream)?.iter().all(|x| x.to_f32() == 0.0));
    // Beside them a page that exists: its keys weigh as much as scores of 0 let them.
    let table = Tensor::from_slice(device, &[2, 0], &[1, 2])?;
    let (table, q) = (table.view(), zeros.view().narrow(2, 0, 1)?);
    Attention::new().block_table(&table).run(&stream, &q, &pages, &pages, &mut o.view_mut())?;
    assert!(o.to_vec_on(&stream)?.iter().all(|x| x.to_f32() == 0.5));
    Ok(())
}

/// The workspace is as large as it says, and nothing else is written.
pub fn workspace(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let x = Tensor::from_slice(device, &normal::<f16>(1, 2 * 300 * 64), &[1, 2, 300, 64])?;
    let (x, q) = (x.view(), x.view().narrow(2, 7, 1)?);
    let mut o = Tensor::filled(device, f16::NAN, &[1, 2, 1, 64])?;
    let mut owned = Attention::new().splits(3);
    let len = owned.workspace_len(&q, &x, &x, &o.view_mut())?;
    assert_eq!(len, 3 * 2 * 65);
    for _ in 0..2 {
        owned.run(&stream, &q, &x, &x, &mut o.view_mut())?;
    }
    let expected = o.to_vec_on(&stream)?;
    let mut memory = Tensor::filled(device, f32::NAN, &[len + 8])?;
    {
        let mut view = memory.view_mut();
        let mut all = view.reborrow().narrow(0, 4, len)?;
        let mut given = Attention::new().splits(3).workspace(&mut all);
        given.run(&stream, &q, &x, &x, &mut o.view_mut())?;
    }
    assert_eq!(o.to_vec_on(&stream)?, expected);
    let words = memory.to_vec_on(&stream)?;
    let written = words.iter().filter(|x| !x.is_nan()).count();
    assert!(written == len && words[3].is_nan() && words[len + 4].is_nan(), "{written} of {len}");
    let mut view = memory.view_mut();
    for (first, len, why) in [(0, len - 1, "elements or more"), (1, len, "aligned to 16 bytes")] {
        let mut bad = view.reborrow().narrow(0, first, len)?;
        let refused =
            Attention::new().splits(3).workspace(&mut bad).run(&stream, &q, &x, &x, &mut o.view_mut());
        match refused {
            Err(Error::Argument { argument, allowed, .. })
                if argument == "workspace" && allowed.contains(why) => {}
            other => return Err(format!("not an error about the workspace: {other:?}").into()),
        }
    }
    Ok(())
}
