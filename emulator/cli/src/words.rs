//! Numbers, sizes and extents in the words of a command.

use std::time::Duration;

/// `X[,Y,Z]`, from 1.
pub fn extents(text: &str) -> Result<[u32; 3], String> {
    let mut extents = [1; 3];
    let parts: Vec<&str> = text.split(',').collect();
    let wrong = || "it must be one to three numbers from 1, as `X`, `X,Y` or `X,Y,Z`".to_owned();
    if parts.len() > extents.len() {
        return Err(wrong());
    }
    for (extent, part) in extents.iter_mut().zip(parts) {
        *extent = part.parse().ok().filter(|&extent| extent > 0).ok_or_else(wrong)?;
    }
    Ok(extents)
}

/// `4096` or `32x128`: how many in each dimension, and all together.
pub fn shape(text: &str) -> Option<(Vec<u64>, u64)> {
    let shape: Vec<u64> = text.split('x').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let count = shape.iter().try_fold(1u64, |all, &extent| all.checked_mul(extent))?;
    Some((shape, count))
}

/// A number with one of these units behind it; without one, the first.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.get(digits.len()..)?;
    let (_, factor) = units.iter().find(|(name, _)| *name == unit || unit.is_empty())?;
    digits.parse::<u64>().ok()?.checked_mul(*factor)
}

/// `4096`, `64KiB`, `2GiB`.
pub fn bytes(text: &str) -> Option<u64> {
    with_unit(text, &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)])
}

/// `90`, `90s`, `500ms`, `10m`, `2h`.
pub fn time(text: &str) -> Option<Duration> {
    with_unit(text, &[("s", 1000), ("ms", 1), ("m", 60_000), ("h", 3_600_000)]).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::{bytes, extents, shape, time};
    use std::time::Duration;

    #[test]
    fn extents_are_one_to_three() {
        assert_eq!(extents("7"), Ok([7, 1, 1]));
        assert_eq!(extents("7,8,9"), Ok([7, 8, 9]));
        for wrong in ["", "0", "1,2,3,4", "1,", "-1", "1x2", "4294967296"] {
            assert!(extents(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shapes_have_a_size() {
        assert_eq!(shape("32x128"), Some((vec![32, 128], 4096)));
        assert_eq!(shape("0"), Some((vec![0], 0)));
        for wrong in ["", "x", "3x", "-1", "4294967296x4294967296"] {
            assert_eq!(shape(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn units_multiply() {
        assert_eq!((bytes("5"), bytes("2KiB"), bytes("1B")), (Some(5), Some(2048), Some(1)));
        assert_eq!(time("90"), Some(Duration::from_secs(90)));
        assert_eq!(
            (time("500ms"), time("2h")),
            (Some(Duration::from_millis(500)), Some(Duration::from_secs(7200)))
        );
        for wrong in ["", "s", "5y", "5 s", "1.5s", "99999999999999999999"] {
            assert_eq!(time(wrong), None, "{wrong}");
        }
        assert_eq!(bytes("18446744073709551615KiB"), None);
    }
}
