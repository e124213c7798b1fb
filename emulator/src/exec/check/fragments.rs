//! What a product of a warp makes of operands without a value: the rows and columns that are sums of them.

use crate::exec::warp::{Warp, lanes};
use crate::program::Program;
use crate::program::operand::{Source, WarpProductOp};
use crate::program::register::Register;
use crate::tensor::fragment::Fragment;

/// By the registers of D, the lanes in which it has no value.
pub(super) fn multiplied(warp: &Warp, program: &Program, op: &WarpProductOp, mask: u32) -> Vec<u32> {
    let form = &op.form;
    let missing = |register: Register| warp.missing(program, register) & mask;
    // All places of elements whose register has none.
    let places = |fragment: Fragment, registers: &[Source]| {
        let per = fragment.number.per_register();
        let mut all = Vec::new();
        for (i, register) in registers.iter().enumerate() {
            for lane in lanes(missing(register.register())) {
                all.extend((i * per..(i + 1) * per).map(|i| fragment.place(lane, i)));
            }
        }
        all
    };
    let [rows, columns] = form.d.extents();
    let mut lacks = vec![false; rows * columns];
    let unknown = op.metadata.is_some_and(|metadata| missing(Register::R(metadata)) != 0);
    lacks.fill(unknown);
    for [row, _] in places(form.a, &op.a) {
        lacks[row * columns..][..columns].fill(true);
    }
    for [_, column] in places(form.b, &op.b) {
        (0..rows).for_each(|row| lacks[row * columns + column] = true);
    }
    for [row, column] in places(form.c, &op.c) {
        lacks[row * columns + column] = true;
    }
    let per = form.d.number.per_register();
    let of_lane = |register: usize, lane: usize| {
        (0..per).any(|part| {
            let [row, column] = form.d.place(lane, register * per + part);
            lacks[row * columns + column]
        })
    };
    let of_register =
        |register| (0..32).filter(|&lane| of_lane(register, lane)).fold(0, |all, lane| all | 1 << lane);
    (0..op.d.len()).map(of_register).collect()
}
