//! Head dimensions beyond 256: keys in two chunks of columns, and results of two launches or of CTAs that divide the columns.

use tilewright::ops::Attention;
use tilewright::{Device, Error, Stream, Tensor, bf16, f16};
use tilewright_support::attention::Scores;
use tilewright_support::suite::Outcome;

use crate::case::{Case, Input, Sizes};
use crate::terms::Terms;
use crate::{chunks, packed};

/// All columns, fewer in the second chunk, and none there of Q and K or of V.
const COLUMNS: [[usize; 2]; 5] = [[512, 512], [264, 400], [512, 128], [128, 512], [300, 300]];

fn of<T: Input>(case: Case<T>, causal: bool) -> Case<T> {
    let scores = Scores { causal, ..case.scores };
    case.scores(scores)
}

/// Tiles of queries, of one block of keys and of several.
pub fn lengths(device: &Device) -> Outcome {
    let sizes =
        |queries, keys, columns| Sizes { heads: 4, kv_heads: 2, ..Sizes::new(queries, keys, columns) };
    for columns in COLUMNS {
        for (queries, keys, causal) in [(70, 200, false), (130, 300, true), (200, 40, true), (64, 1, false)] {
            let case = Case::<f16>::new(sizes(queries, keys, columns));
            of(case, causal).check(device)?;
        }
    }
    let case = Case::<bf16>::new(sizes(70, 201, [512, 512]));
    case.check_all(device)?;
    let plain = case.scores;
    let case = case.scores(Scores { window: Some([40, 3]), ..plain });
    case.check_all(device)?;
    let case = case.scores(Scores { causal: true, softcap: Some(1.5), ..plain });
    case.check_all(device)?;
    let all = Terms { sinks: true, slopes: Some(true), bias: Some([true; 4]) };
    case.terms(all).check_all(device)?;
    // More tiles than CTAs, some of which see no key.
    let heads = 3 * device.sm_count() as usize;
    let many = Sizes { heads, kv_heads: heads, ..Sizes::new(140, 9, [512, 512]) };
    let case = Case::<f16>::new(many);
    of(case, true).check_all(device)?;
    Case::<f16>::new(Sizes::new(70, 0, [512, 512])).check_all(device)
}

/// Few queries over caches, whole and in parts.
pub fn decode(device: &Device) -> Outcome {
    for columns in COLUMNS {
        let sizes = Sizes { batch: 3, heads: 4, kv_heads: 2, ..Sizes::new(1, 320, columns) };
        Case::<f16>::new(sizes).cache(Some(vec![320, 0, 65]), None).splits(1).check(device)?;
        let case = Case::<bf16>::new(Sizes { queries: 3, ..sizes });
        let case = case.cache(Some(vec![200, 33, 1]), Some(16)).splits(3);
        of(case, true).check_all(device)?;
    }
    let sizes = Sizes { batch: 2, heads: 70, kv_heads: 1, ..Sizes::new(2, 256, [512, 512]) };
    let terms = Terms { sinks: true, slopes: Some(false), bias: None };
    Case::<f16>::new(sizes).cache(Some(vec![256, 100]), Some(64)).terms(terms).splits(2).check_all(device)
}

/// Packed sequences, with keys of their own and in pages.
pub fn sequences(device: &Device) -> Outcome {
    let few: packed::Lengths = &[[70, 70], [0, 0], [1, 129], [0, 5], [9, 0], [65, 257]];
    for columns in [[512, 512], [300, 264]] {
        packed::each::<f16>(device, few, columns, |scores| Scores { causal: true, ..scores })?;
        let scores = Scores { causal: true, softcap: Some(2.0), ..Scores::new(columns[0]) };
        chunks::check::<bf16>(device, columns, scores, Some(16), Terms::default())?;
    }
    Ok(())
}

/// Forms that have no kernels for so many columns say so.
pub fn errors(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let x = Tensor::<f16>::zeros(device, &[1, 1, 64, 512])?;
    let codes = Tensor::<i8>::zeros(device, &[1, 1, 64, 512])?;
    let wide = Tensor::<f16>::zeros(device, &[1, 1, 64, 513])?;
    let mut o = Tensor::<f16>::zeros(device, &[1, 1, 64, 512])?;
    let message = |outcome: Result<(), Error>| outcome.err().map_or(String::new(), |error| error.to_string());
    let of_codes = Attention::new().run(&stream, &x.view(), &codes.view(), &codes.view(), &mut o.view_mut());
    let numbers = Tensor::<i32>::zeros(device, &[1, 1, 1, 1])?;
    let counts = Tensor::<i32>::zeros(device, &[1, 1, 1])?;
    let listed = Attention::new().block_lists(numbers.view(), counts.view(), [64, 64]).run(
        &stream,
        &x.view(),
        &x.view(),
        &x.view(),
        &mut o.view_mut(),
    );
    let wider = Attention::new().run(&stream, &wide.view(), &wide.view(), &x.view(), &mut o.view_mut());
    for (outcome, shape, most) in [(of_codes, 512, 256), (listed, 512, 256), (wider, 513, 512)] {
        let what =
            format!("`q` was of shape [1, 1, 64, {shape}]; it must be of a head dimension from 1 to {most}");
        let message = message(outcome);
        assert!(message.contains(&what), "{message}");
    }
    Ok(())
}
