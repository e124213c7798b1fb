//! Video instructions: arithmetic on parts of registers, with a second operation. Random programs do without them.

/// All of them.
pub(super) const TABLES: [&str; 2] = [SCALAR, SIMD];

const SCALAR: &str = "
    !r=rr: {vadd,vsub,vabsdiff,vmin,vmax}.{u32,s32}.{u32,s32}.{u32,s32}{,.sat} %d, %a, %b;
    !r=rrr: {vadd,vsub,vabsdiff,vmin,vmax}.s32.u32.s32{.add,.min,.max,.sat.add,.sat.min,.sat.max} %d, %a.b0, %b.h1, %c;
    !r=rrr: {vadd,vsub,vabsdiff,vmin,vmax}.u32.u32.s32{,.sat} %d.{b0,b3,h0,h1}, %a.b3, %b.h0, %c;
    !r=rs: {vshl,vshr}.{u32,s32}.{u32,s32}.u32.{clamp,wrap} %d, %a, %b;
    !r=rrr: {vshl,vshr}.s32.s32.u32.{clamp,wrap}.add %d, %a.h1, %b.b0, %c;
    !r=rrr: {vshl,vshr}.u32.s32.u32.wrap %d.b2, %a.h1, %b.b0, %c;
    !r=rrr: vmad.{u32,s32}.{u32,s32}.{u32,s32} %d, %a, %b, %c;
    !r=rrr: vmad.s32.s32.u32{.sat,.shr7,.shr15,.sat.shr7} %d, %a.h0, %b.b1, %c;
    !r=rrr: vmad.s32.s32.s32{.sat,.shr7,.shr15,.sat.shr15} %d, %a, %b, %c;
    !r=rrr: vmad.u32.u32.u32{.sat,.shr7,.shr15,.sat.shr7} %d, %a, %b, %c;
    !r=rrr: vmad.u32.u32.u32.po{,.sat,.shr7,.shr15} %d, %a, %b, %c;
    !r=rrr: vmad.s32.u32.u32{,.sat,.shr7} %d, -%a, %b, %c;
    !r=rrr: vmad.s32.s32.u32{,.sat,.shr7} %d, %a, %b, -%c;
    !r=rrr: vmad.s32.u32.s32.shr15 %d, %a.b2, -%b.h0, %c;
    !r=rr: vset.{u32,s32}.{u32,s32}.{eq,ne,lt,le,gt,ge} %d, %a, %b;
    !r=rrr: vset.s32.u32.lt{.add,.min,.max} %d, %a.b0, %b.h1, %c;
    !r=rrr: vset.s32.u32.lt %d.h1, %a.b0, %b.h1, %c;
";

const SIMD: &str = "
    !r=rrr: {vadd2,vsub2,vavrg2,vabsdiff2,vmin2,vmax2}.{u32.u32.u32,s32.s32.s32,u32.s32.u32}{,.sat,.add} %d, %a, %b, %c;
    !r=rrr: {vadd2,vsub2,vavrg2,vabsdiff2,vmin2,vmax2}.s32.u32.s32.sat %d.h1, %a.h03, %b.h21, %c;
    !r=rrr: vset2.{u32,s32}.{u32,s32}.{eq,ne,lt,le,gt,ge}{,.add} %d, %a, %b, %c;
    !r=rrr: vset2.s32.u32.lt %d.h0, %a.h01, %b.h23, %c;
    !r=rrr: {vadd4,vsub4,vavrg4,vabsdiff4,vmin4,vmax4}.{u32.u32.u32,s32.s32.s32,u32.s32.u32}{,.sat,.add} %d, %a, %b, %c;
    !r=rrr: {vadd4,vsub4,vavrg4,vabsdiff4,vmin4,vmax4}.s32.u32.s32.sat %d.b20, %a.b0123, %b.b7531, %c;
    !r=rrr: vset4.{u32,s32}.{u32,s32}.{eq,ne,lt,le,gt,ge}{,.add} %d, %a, %b, %c;
";
