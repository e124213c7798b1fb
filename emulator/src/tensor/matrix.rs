//! `ldmatrix`, `stmatrix` and `movmatrix`: 8 x 8 matrices of 16-bit elements between shared memory and registers.
//!
//! Lane `8·m + r` gives the address of row `r` of matrix `m`; lane `l` holds elements `2·(l % 4)` and the next of row `l / 4`.
//! PTX ISA, "Warp-level matrix load instruction: ldmatrix", "… store instruction: stmatrix", "… transpose instruction: movmatrix".

use super::Register;
use super::memory::Memory;
use crate::program::register::lanes_of;

/// A matrix, row by row.
type Matrix = [[u16; 8]; 8];

fn transpose(matrix: &Matrix) -> Matrix {
    let mut transposed = [[0; 8]; 8];
    for (row, values) in transposed.iter_mut().enumerate() {
        for (value, line) in values.iter_mut().zip(matrix) {
            *value = line[row];
        }
    }
    transposed
}

fn to_register(matrix: &Matrix) -> Register {
    lanes_of(|lane| {
        let (row, pair) = (&matrix[lane / 4], lane % 4 * 2);
        u32::from(row[pair]) | u32::from(row[pair + 1]) << 16
    })
}

fn from_register(register: &Register) -> Matrix {
    std::array::from_fn(|row| {
        std::array::from_fn(|column| (register[row * 4 + column / 2] >> (column % 2 * 16)) as u16)
    })
}

/// `ldmatrix`: loads `count` matrices (1, 2 or 4) to as many registers; those after them are zero.
///
/// Only the addresses of the first `8·count` lanes are used, each in one read of 16 bytes.
pub(crate) fn ldmatrix<M: Memory<u32>>(
    addresses: &Register,
    count: usize,
    trans: bool,
    shared: &mut M,
) -> Result<[Register; 4], M::Fault> {
    let mut registers = [[0; 32]; 4];
    for (register, rows) in registers[..count].iter_mut().zip(addresses.as_chunks::<8>().0) {
        if !trans {
            // A lane's pair of elements is a word of its row.
            for (words, address) in register.as_chunks_mut::<4>().0.iter_mut().zip(rows) {
                let mut bytes = [0; 16];
                shared.read(*address, &mut bytes)?;
                for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
                    *word = u32::from_le_bytes(*bytes);
                }
            }
            continue;
        }
        let mut matrix: Matrix = [[0; 8]; 8];
        for (row, address) in matrix.iter_mut().zip(rows) {
            let mut bytes = [0; 16];
            shared.read(*address, &mut bytes)?;
            for (element, bytes) in row.iter_mut().zip(bytes.as_chunks().0) {
                *element = u16::from_le_bytes(*bytes);
            }
        }
        *register = to_register(&transpose(&matrix));
    }
    Ok(registers)
}

/// `stmatrix`: stores a matrix for each register of `values` (1, 2 or 4), each row in one write of 16 bytes.
pub(crate) fn stmatrix<M: Memory<u32>>(
    addresses: &Register,
    values: &[Register],
    trans: bool,
    shared: &mut M,
) -> Result<(), M::Fault> {
    for (register, rows) in values.iter().zip(addresses.as_chunks::<8>().0) {
        let matrix = from_register(register);
        for (row, address) in if trans { transpose(&matrix) } else { matrix }.iter().zip(rows) {
            let mut bytes = [0; 16];
            for (bytes, element) in bytes.as_chunks_mut().0.iter_mut().zip(row) {
                *bytes = element.to_le_bytes();
            }
            shared.write(*address, &bytes)?;
        }
    }
    Ok(())
}

/// `movmatrix.trans`: the transposed matrix.
pub(crate) fn movmatrix(register: &Register) -> Register {
    to_register(&transpose(&from_register(register)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::memory::flat::Flat;

    /// Four matrices; element (r, c) of matrix m is 100·m + 8·r + c. Row r of matrix m is at 16·(3·r + m) + 64.
    fn memory() -> (Flat, Register) {
        let mut bytes = vec![0; 1024];
        let addresses = std::array::from_fn(|lane| 16 * (3 * (lane as u32 % 8) + lane as u32 / 8 * 24) + 64);
        for (lane, address) in (0u32..).zip(addresses) {
            for column in 0..8u32 {
                let element = (100 * (lane / 8) + lane % 8 * 8 + column) as u16;
                let at = (address + 2 * column) as usize;
                bytes.resize(bytes.len().max(at + 2), 0);
                bytes[at..at + 2].copy_from_slice(&element.to_le_bytes());
            }
        }
        (Flat::new(0, bytes), addresses)
    }

    #[test]
    fn lanes_receive_pairs_of_a_row_or_of_a_column() {
        for count in [1, 2, 4] {
            for trans in [false, true] {
                let (mut shared, addresses) = memory();
                let registers = ldmatrix(&addresses, count, trans, &mut shared).expect("inside");
                for (m, register) in registers.iter().enumerate() {
                    for (lane, value) in register.iter().enumerate() {
                        let (row, pair) = (lane / 4, lane % 4 * 2);
                        let element =
                            |i| if trans { (pair + i) * 8 + row } else { row * 8 + pair + i } + 100 * m;
                        let expected = if m < count { element(0) | element(1) << 16 } else { 0 };
                        assert_eq!(
                            *value as usize, expected,
                            "x{count} trans {trans} matrix {m} lane {lane}"
                        );
                    }
                }
                assert_eq!(shared.accesses.len(), 8 * count, "unused addresses are not looked at");
                assert!(shared.accesses.iter().all(|(_, len, wrote)| *len == 16 && !wrote));
            }
        }
    }

    #[test]
    fn stores_put_back_what_loads_took() {
        for count in [1, 2, 4] {
            for trans in [false, true] {
                let (mut shared, addresses) = memory();
                let registers = ldmatrix(&addresses, count, trans, &mut shared).expect("inside");
                let mut copy = Flat::new(0, vec![0; shared.bytes.len()]);
                stmatrix(&addresses, &registers[..count], trans, &mut copy).expect("inside");
                for address in &addresses[..8 * count] {
                    let at = *address as usize;
                    assert_eq!(copy.bytes[at..at + 16], shared.bytes[at..at + 16]);
                }
                assert_eq!(copy.accesses.len(), 8 * count);
            }
        }
    }

    #[test]
    fn movmatrix_is_a_transposed_load() {
        let (mut shared, addresses) = memory();
        let plain = ldmatrix(&addresses, 1, false, &mut shared).expect("inside")[0];
        let transposed = ldmatrix(&addresses, 1, true, &mut shared).expect("inside")[0];
        assert_eq!(movmatrix(&plain), transposed);
    }

    #[test]
    fn a_fault_stops_the_load() {
        let mut addresses = [0; 32];
        addresses[9] = 4096;
        let mut shared = Flat::new(0, vec![0; 64]);
        assert_eq!(ldmatrix(&addresses, 2, false, &mut shared), Err(4096));
        assert!(ldmatrix(&addresses, 1, false, &mut shared).is_ok());
    }
}
