//! Versions of PTX and the drivers that read them.

/// The newest version of PTX that drivers of each version of CUDA read (PTX ISA, "Release Notes").
const NEWEST: [((u32, u32), (u32, u32)); 12] = [
    ((12, 0), (8, 0)),
    ((12, 1), (8, 1)),
    ((12, 2), (8, 2)),
    ((12, 3), (8, 3)),
    ((12, 4), (8, 4)),
    ((12, 5), (8, 5)),
    ((12, 7), (8, 6)),
    ((12, 8), (8, 7)),
    ((12, 9), (8, 8)),
    ((13, 0), (9, 0)),
    ((13, 1), (9, 1)),
    ((13, 2), (9, 2)),
];

/// The `.version` of a PTX module.
pub(super) fn of(ptx: &[u8]) -> Option<(u32, u32)> {
    let line =
        ptx.split(|&byte| byte == b'\n').find_map(|line| line.trim_ascii().strip_prefix(b".version"))?;
    let (major, minor) = std::str::from_utf8(line).ok()?.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Why a driver that supports this version of CUDA does not read PTX of this version.
pub(super) fn too_new(ptx: (u32, u32), driver: (u32, u32)) -> String {
    let text = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    let reads = NEWEST.iter().rev().find(|(cuda, _)| *cuda <= driver);
    let reads = reads.map_or(String::new(), |(_, newest)| format!(", and reads PTX up to {}", text(*newest)));
    let needs = NEWEST.iter().find(|(_, newest)| *newest >= ptx);
    let needs =
        needs.map_or("a newer one".to_owned(), |(cuda, _)| format!("one for CUDA {} or later", text(*cuda)));
    let (ptx, driver) = (text(ptx), text(driver));
    format!("its PTX is of version {ptx}, and the driver supports CUDA {driver}{reads}: install {needs}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read() {
        assert_eq!(of(b"// comment\n.version 8.1\n.target sm_90a\n"), Some((8, 1)));
        assert_eq!(of(b"\t.version   7.8\r\n"), Some((7, 8)));
        assert_eq!((of(b""), of(b".version next\n")), (None, None));
    }

    #[test]
    fn both_versions_are_named() {
        assert_eq!(
            too_new((8, 1), (12, 0)),
            "its PTX is of version 8.1, and the driver supports CUDA 12.0, and reads PTX up to 8.0: install one for CUDA 12.1 or later"
        );
        // CUDA 12.6 reads what 12.5 does.
        assert!(too_new((8, 7), (12, 6)).contains("up to 8.5: install one for CUDA 12.8"));
        assert!(too_new((99, 0), (13, 0)).ends_with("install a newer one"));
    }
}
