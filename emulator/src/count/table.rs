//! Counters as a table for people.

use std::fmt::{self, Display, Formatter};

use super::banks::SharedTraffic;
use super::executed::Executed;
use super::traffic::GlobalTraffic;
use super::{Counters, Waits};
use crate::program::class::Class;

/// Lines with a name and numbers of which one is not zero, under a heading if there are any.
fn section<const N: usize>(
    f: &mut Formatter<'_>,
    heading: [&str; N],
    name: &str,
    lines: &[(&str, [u64; N])],
) -> fmt::Result {
    let mut lines = lines.iter().filter(|(_, numbers)| numbers.iter().any(|&number| number > 0)).peekable();
    if lines.peek().is_none() {
        return Ok(());
    }
    write!(f, "  {name:<28}")?;
    heading.iter().try_for_each(|column| write!(f, "{column:>18}"))?;
    for (name, numbers) in lines {
        write!(f, "\n    {name:<26}")?;
        numbers.iter().try_for_each(|&number| write!(f, "{:>18}", grouped(number)))?;
    }
    writeln!(f)
}

/// Digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('\'');
        }
        text.push(digit);
    }
    text
}

impl Display for Counters {
    /// Lines that are all zero are left out.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { classes, tensor_operations, contested_stores, global, shared, waits, live_stages, .. } =
            *self;
        let executed = |Executed { warps, lanes }| [warps, lanes];
        let mut lines: Vec<_> =
            Class::ALL.iter().map(|&class| (class.name(), executed(classes[class]))).collect();
        lines.push(("all", executed(classes.total())));
        section(f, ["of warps", "of lanes"], "instructions", &lines)?;
        section(f, ["operations"], "tensor cores", &[("multiplications, additions", [tensor_operations])])?;
        let contested = [("of lanes to one place", [contested_stores])];
        section(f, ["stores"], "different values", &contested)?;

        let line = |name, GlobalTraffic { requests, bytes, sectors }| (name, [requests, bytes, sectors]);
        let lines = [
            line("ld", global.loads),
            line("st", global.stores),
            line("atom, red", global.atomics),
            line("cp.async", global.copies),
            line("bulk and TMA loads", global.bulk_loads),
            line("bulk and TMA stores", global.bulk_stores),
        ];
        section(f, ["requests", "bytes", "32-byte sectors"], "global memory", &lines)?;

        let line = |name, SharedTraffic { requests, bytes, wavefronts, conflicts }| {
            (name, [requests, bytes, wavefronts, conflicts])
        };
        let lines = [
            line("ld", shared.loads),
            line("st", shared.stores),
            line("atom, red", shared.atomics),
            line("ldmatrix", shared.ldmatrix),
            line("stmatrix", shared.stmatrix),
            line("wgmma operands", shared.wgmma),
            line("cp.async", shared.copies),
            line("bulk and TMA writes", shared.bulk_writes),
            line("bulk and TMA reads", shared.bulk_reads),
        ];
        section(f, ["requests", "bytes", "wavefronts", "bank conflicts"], "shared memory", &lines)?;

        let line = |name, Waits { times, turns }| (name, [times, turns]);
        let lines = [
            line("barriers", waits.barriers),
            line("barriers of clusters", waits.clusters),
            line("mbarriers", waits.mbarriers),
        ];
        section(f, ["times", "turns"], "waits of warps", &lines)?;
        section(f, ["at most"], "pipelines", &[("live stages", [live_stages])])
    }
}

#[cfg(test)]
mod tests {
    use super::super::Counters;
    use super::super::traffic::GlobalTraffic;
    use super::grouped;
    use crate::program::class::Class;

    #[test]
    fn numbers_are_read_in_groups() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1'000", "1'234'567"]);
    }

    #[test]
    fn tables_have_the_lines_that_count_something() {
        let mut counters = Counters { live_stages: 4, ..Counters::default() };
        counters.classes.count(Class::Float, 0b111);
        counters.global.loads = GlobalTraffic { requests: 1, bytes: 64, sectors: 2 };
        let text = counters.to_string();
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            words,
            [
                vec!["instructions", "of", "warps", "of", "lanes"],
                vec!["float", "1", "3"],
                vec!["all", "1", "3"],
                vec!["global", "memory", "requests", "bytes", "32-byte", "sectors"],
                vec!["ld", "1", "64", "2"],
                vec!["pipelines", "at", "most"],
                vec!["live", "stages", "4"],
            ]
        );
    }
}
