//! Extents and shapes in the words of a command.

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

#[cfg(test)]
mod tests {
    use super::{extents, shape};

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
}
