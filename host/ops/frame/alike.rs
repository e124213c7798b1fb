//! Tiles beside each other that have as many lines each.

/// The most tiles beside each other that have equal lines: of more, the last one's hardly count.
pub(in crate::ops) const MOST_ALIKE: usize = 8;

/// Lines of each of the tiles that so many columns are divided among: the `room` that a tile has for them, or where at most `most` tiles lie beside each other as many for each,
/// rounded up to multiples of `least`. What TMA finds outside of a tensor takes it longer than what is inside.
pub(in crate::ops) fn alike(columns: usize, room: u32, least: u32, most: usize) -> u32 {
    let across = columns.div_ceil((room as usize).max(1)).max(1);
    if across > most {
        return room;
    }
    (columns.div_ceil(across).max(1) as u32).next_multiple_of(least.max(1)).min(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_have_as_many_lines_each() {
        let lines = |columns| alike(columns, 112, 8, MOST_ALIKE);
        assert_eq!([1, 96, 112, 113, 200, 260, 896].map(lines), [8, 96, 112, 64, 104, 88, 112]);
        assert_eq!([alike(897, 112, 8, MOST_ALIKE), alike(0, 112, 8, MOST_ALIKE)], [112, 8]);
        assert_eq!([alike(200, 112, 8, 1), alike(72, 112, 8, 1), alike(72, 112, 8, 0)], [112, 72, 112]);
        for columns in 0..1000usize {
            assert!(columns.div_ceil(lines(columns) as usize) <= columns.div_ceil(112), "{columns}");
        }
    }
}
