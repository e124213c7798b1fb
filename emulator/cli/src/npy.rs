//! NumPy's files of one array, `.npy`: "numpy.lib.format" of NumPy's manual.

use crate::element::Element;

/// What a file begins with.
const MAGIC: &[u8] = b"\x93NUMPY";
/// Where the data begins is a multiple of this.
const ALIGN: usize = 64;

/// An array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// The type of its elements.
    pub element: Element,
    /// How many there are in each dimension.
    pub shape: Vec<u64>,
    /// The elements' bytes, the last dimension contiguous.
    pub bytes: Vec<u8>,
}

/// Whether these are the bytes of such a file.
pub fn is_npy(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The array of a file; why it has none that is known here.
pub fn decode(file: &[u8]) -> Result<Array, String> {
    let cut = || "it ends within its header".to_owned();
    let rest = file.strip_prefix(MAGIC).ok_or("it is no .npy file")?;
    let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
    let (length, rest) = match version[0] {
        1 => rest.split_first_chunk().map(|(length, rest)| (u16::from_le_bytes(*length).into(), rest)),
        2 | 3 => rest.split_first_chunk().map(|(length, rest)| (u32::from_le_bytes(*length) as usize, rest)),
        other => return Err(format!("it is of version {other} of the format; 1 to 3 are known")),
    }
    .ok_or_else(cut)?;
    let (header, data) = rest.split_at_checked(length).ok_or_else(cut)?;
    let header = std::str::from_utf8(header).map_err(|_| "its header is no text")?;

    let descr = quoted(after(header, "descr")?).ok_or("its elements are structures")?;
    let element = Element::ALL.iter().find(|element| element.descr() == descr);
    let element = *element.ok_or_else(|| {
        format!("its elements are `{descr}`; it must be one of {}, little-endian", Element::names())
    })?;
    if after(header, "fortran_order")?.starts_with("True") {
        return Err("its first dimension is contiguous (fortran_order); the last must be".into());
    }
    let shape = after(header, "shape")?;
    let shape = shape.strip_prefix('(').and_then(|shape| shape.split_once(')')).ok_or("it has no shape")?.0;
    let shape: Option<Vec<u64>> = shape
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().ok())
        .collect();
    let shape = shape.ok_or("its shape has what is no number")?;
    let bytes = shape.iter().try_fold(element.bytes() as u64, |all, &extent| all.checked_mul(extent));
    if bytes != Some(data.len() as u64) {
        return Err(format!("it has {} bytes of data, and its shape is {shape:?}", data.len()));
    }
    Ok(Array { element, shape, bytes: data.to_vec() })
}

/// What stands behind a key of the header's dictionary.
fn after<'h>(header: &'h str, key: &str) -> Result<&'h str, String> {
    let missing = || format!("its header has no `{key}`");
    let at = header.find(&format!("'{key}'")).ok_or_else(missing)? + key.len() + 2;
    let rest = header.get(at..).and_then(|rest| rest.trim_start().strip_prefix(':')).ok_or_else(missing)?;
    Ok(rest.trim_start())
}

/// What stands between a pair of quotes, `'` as Python has it.
fn quoted(text: &str) -> Option<&str> {
    Some(text.strip_prefix('\'')?.split_once('\'')?.0)
}

/// The file of an array.
pub fn encode(element: Element, shape: &[u64], bytes: &[u8]) -> Vec<u8> {
    let extents: String = shape.iter().map(|extent| format!("{extent},")).collect();
    let mut header =
        format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({extents}), }}", element.descr());
    // Magic, version, length, and a newline at the end.
    let before = MAGIC.len() + 4;
    let length = (before + header.len() + 1).next_multiple_of(ALIGN) - before;
    header.extend(std::iter::repeat_n(' ', length - header.len() - 1));
    header.push('\n');
    // A shape has few dimensions, so that its text has few bytes.
    let length = u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes();
    [MAGIC, &[1, 0], &length, header.as_bytes(), bytes].concat()
}

#[cfg(test)]
mod tests {
    use super::{Array, decode, encode};
    use crate::element::Element;

    #[test]
    fn arrays_come_back() {
        for (element, shape, bytes) in [
            (Element::F32, vec![2, 3], 24),
            (Element::Bf16, vec![5], 10),
            (Element::I64, vec![], 8),
            (Element::U8, vec![0, 7], 0),
        ] {
            let bytes: Vec<u8> = (0..bytes).collect();
            let file = encode(element, &shape, &bytes);
            assert_eq!((file.len() - bytes.len()) % 64, 0);
            assert_eq!(decode(&file), Ok(Array { element, shape, bytes }));
        }
    }

    #[test]
    fn what_numpy_writes_is_read() {
        // numpy.save of numpy.arange(3, dtype='<i2').
        let mut file =
            b"\x93NUMPY\x01\x00v\x00{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }".to_vec();
        file.resize(127, b' ');
        file.push(b'\n');
        file.extend([0, 0, 1, 0, 2, 0]);
        let array = Array { element: Element::I16, shape: vec![3], bytes: vec![0, 0, 1, 0, 2, 0] };
        assert_eq!(decode(&file), Ok(array));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let good = encode(Element::F32, &[2], &[0; 8]);
        let with = |from: &str, to: &str| {
            let at = good.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
            [&good[..at], to.as_bytes(), &good[at + from.len()..]].concat()
        };
        for (file, words) in [
            (good[..7].to_vec(), "within its header"),
            (good[..40].to_vec(), "within its header"),
            (good[..good.len() - 1].to_vec(), "7 bytes of data"),
            (with("<f4", ">f4"), "`>f4`"),
            (with("False", "True "), "fortran_order"),
            (with("'shape'", "'shape."), "no `shape`"),
            (with("(2,)", "(x,)"), "no number"),
            (with("(2,)", "(99999999999999999999,)"), "no number"),
            (b"PK\x03\x04".to_vec(), "no .npy file"),
        ] {
            let what = decode(&file).unwrap_err();
            assert!(what.contains(words), "{what}");
        }
    }
}
