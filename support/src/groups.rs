//! Rows of groups, as tests of products of groups have them.

/// Matrices of A and C, and rows of each: all groups' rows and `more` behind them, or, `apart`, a matrix for each group with `more` than the largest one's.
pub fn matrices(rows: &[usize], more: usize, apart: bool) -> [usize; 2] {
    if apart {
        [rows.len(), rows.iter().max().map_or(0, |most| most + more)]
    } else {
        [1, rows.iter().sum::<usize>() + more]
    }
}

/// The group of each row, of all matrices.
pub fn of_rows(rows: &[usize], more: usize, apart: bool) -> Vec<Option<usize>> {
    let [_, each] = matrices(rows, more, apart);
    let of = |(group, &count): (usize, &usize)| (0..count).map(move |_| Some(group));
    if apart {
        let all = rows.iter().enumerate();
        return all.flat_map(|one| of(one).chain(std::iter::repeat(None)).take(each)).collect();
    }
    rows.iter().enumerate().flat_map(of).chain(std::iter::repeat_n(None, more)).collect()
}

/// What groups' rows are told by: counts where they are `apart`, else offsets.
pub fn numbers(rows: &[usize], apart: bool) -> Vec<i32> {
    if apart {
        return rows.iter().map(|&rows| rows as i32).collect();
    }
    let mut at = 0;
    let ends = rows.iter().map(|&rows| {
        at += rows as i32;
        at
    });
    std::iter::once(0).chain(ends).collect()
}
