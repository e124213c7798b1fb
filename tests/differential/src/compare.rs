//! Whether two results agree, and how they differ.

use std::fmt::Write;

use half::{bf16, f16};

use crate::case::{Agreement, Case, Shape};

/// Differences that a report shows.
const SHOWN: usize = 4;

/// What differs between the emulator's result and the GPU's; `None` if they agree.
pub fn difference(case: &Case, ours: &[u8], theirs: &[u8]) -> Option<String> {
    let unit = match case.shape {
        Shape::Words => 4,
        Shape::Lanes { .. } => 8,
    };
    let pairs = ours.chunks(unit).zip(theirs.chunks(unit)).enumerate();
    let wrong: Vec<_> = pairs.filter(|(_, (a, b))| !agree(case.agreement, a, b)).collect();
    let (first, ..) = wrong.first()?;
    let all = ours.len() / unit;
    let mut text = format!("{}: {} of {all} differ, from {first} on", case.name, wrong.len());
    // From different places, since neighbours often differ alike.
    let step = wrong.len().div_ceil(SHOWN);
    for (at, (ours, theirs)) in wrong.iter().step_by(step) {
        let _ = write!(text, "\n  {}: emulator {}, GPU {}", place(case, *at), hex(ours), hex(theirs));
    }
    Some(text)
}

/// How many elements differ in their bits.
pub fn unequal(ours: &[u8], theirs: &[u8]) -> usize {
    ours.chunks(4).zip(theirs.chunks(4)).filter(|(a, b)| a != b).count()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().rev().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

/// Where the element lies, or what it was computed from.
fn place(case: &Case, at: usize) -> String {
    let Shape::Lanes { threads } = case.shape else { return format!("word {at}") };
    let mut memories = case.memories();
    let (inputs, results) = (memories.next().unwrap_or(&[]), memories.next().unwrap_or(&[]));
    let rows = inputs.len() / 8 / threads;
    let Some(result) = at.checked_sub(rows * threads) else { return format!("input {at}") };
    if let Some(word) = result.checked_sub(results.len() / 8) {
        return format!("word {word} of the memory");
    }
    let thread = result % threads;
    let values = (0..rows).map(|row| hex(&inputs[(row * threads + thread) * 8..][..8]));
    format!("result {} of ({})", result / threads, values.collect::<Vec<_>>().join(", "))
}

fn agree(agreement: Agreement, ours: &[u8], theirs: &[u8]) -> bool {
    if ours == theirs {
        return true;
    }
    let near = |a: f64, b: f64, relative: f64, absolute: f64| {
        a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= absolute.max(relative * a.abs().max(b.abs()))
    };
    let halves = |of: fn(u16) -> f64, relative, absolute| {
        let pairs = ours.as_chunks().0.iter().zip(theirs.as_chunks().0);
        pairs
            .clone()
            .all(|(a, b)| near(of(u16::from_le_bytes(*a)), of(u16::from_le_bytes(*b)), relative, absolute))
    };
    match agreement {
        Agreement::Exact => false,
        Agreement::F32 { relative, absolute } => {
            let pairs = ours.as_chunks().0.iter().zip(theirs.as_chunks().0);
            pairs.clone().all(|(a, b)| {
                let (a, b) = (f32::from_le_bytes(*a), f32::from_le_bytes(*b));
                near(a.into(), b.into(), relative, absolute)
            })
        }
        Agreement::F16 { relative, absolute } => {
            halves(|bits| f16::from_bits(bits).into(), relative, absolute)
        }
        Agreement::Bf16 { relative, absolute } => {
            halves(|bits| bf16::from_bits(bits).into(), relative, absolute)
        }
    }
}
