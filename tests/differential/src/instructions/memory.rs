//! Loads, stores and atomics on memory of the thread's own.

pub(super) const TABLES: [&str; 2] = [MOVES, ATOMICS];

const MOVES: &str = "
    r=d: st.shared.b64 [%mine], %a; ld.shared.{u8,s8,b8,u16,s16,b16,u32,s32,b32} %d, [%mine+4];
    h=d: st.shared.b64 [%mine], %a; ld.shared.{u8,s8,b8,u16,s16,b16} %d, [%mine+2];
    d=d: st.shared.b64 [%mine], %a; ld.shared.{u8,s8,b8,u16,s16,b16,u32,s32,b32,u64} %d, [%mine];
    F=d: st.shared.b64 [%mine], %a; ld.shared.f64 %d, [%mine];
    f=d: st.shared.b64 [%mine], %a; ld.shared.f32 %d, [%mine+4];
    r=dr: st.shared.b64 [%mine], %a; st.shared.{u8,s8,b8,u16,s16,u32} [%mine+4], %b; ld.shared.b32 %d, [%mine+4];
    d=dh: st.shared.b64 [%mine], %a; st.shared.{u8,s8,b8,u16,s16} [%mine+6], %b; ld.shared.b64 %d, [%mine];
    d=dd: st.shared.b64 [%mine], %a; st.shared.{u8,u16,u32,u64} [%mine], %b; ld.shared.b64 %d, [%mine];
    rr=dd: st.shared.v2.b64 [%mine], {%a, %b}; ld.shared.v2.b32 {%d, %e}, [%mine+8];
    dd=rrrr: st.shared.v4.b32 [%mine], {%a, %b, %c, %g}; ld.shared.v2.u64 {%d, %e}, [%mine];
    rr=d: st.shared.b64 [%mine], %a; ld.shared.v2.{u8,s8,u16,s16} {%d, %e}, [%mine+4];
    hh=d: st.shared.b64 [%mine], %a; ld.shared.v2.{b8,s8,b16} {%d, %e}, [%mine];
    !d=hhhh: st.shared.v4.{u8,b16} [%mine], {%a, %b, %c, %g}; ld.shared.b32 %d, [%mine];
    r=d: st.global.b64 [%out], %a; ld.global.{u8,s8,u16,s16,u32,s32} %d, [%out+4];
    d=d: st.global.b64 [%out], %a; ld.global.{u8,s8,u16,s16,u32,s32} %d, [%out];
    f=F: st.global.f64 [%out], %a; ld.global.f32 %d, [%out];
    F=ff: st.global.v2.f32 [%out], {%a, %b}; ld.global.f64 %d, [%out];
    d=dr: st.global.b64 [%out], %a; st.global.{u8,u16,u32} [%out+4], %b; ld.volatile.global.b64 %d, [%out];
    rr=d: st.b64 [%out], %a; ld.v2.b32 {%d, %e}, [%out];
";

const ATOMICS: &str = "
    rr=rr: st.shared.b32 [%mine], %a; atom.shared.{add,min,max}.{u32,s32} %d, [%mine], %b; ld.shared.b32 %e, [%mine];
    rr=rr: st.shared.b32 [%mine], %a; atom.shared.{inc,dec}.u32 %d, [%mine], %b; ld.shared.b32 %e, [%mine];
    rr=rr: st.shared.b32 [%mine], %a; atom.shared.{and,or,xor,exch}.b32 %d, [%mine], %b; ld.shared.b32 %e, [%mine];
    rr=rrr: st.shared.b32 [%mine], %a; atom.shared.cas.b32 %d, [%mine], %b, %c; ld.shared.b32 %e, [%mine];
    rr=rr: st.shared.b32 [%mine], %a; atom.shared.cas.b32 %d, [%mine], %a, %b; ld.shared.b32 %e, [%mine];
    hh=hh: st.shared.b16 [%mine], %a; atom.shared.cas.b16 %d, [%mine], %a, %b; ld.shared.b16 %e, [%mine];
    dd=dd: st.shared.b64 [%mine], %a; atom.shared.{add,min,max}.u64 %d, [%mine], %b; ld.shared.b64 %e, [%mine];
    dd=dd: st.shared.b64 [%mine], %a; atom.shared.{min,max}.s64 %d, [%mine], %b; ld.shared.b64 %e, [%mine];
    dd=dd: st.shared.b64 [%mine], %a; atom.shared.{and,or,xor,exch}.b64 %d, [%mine], %b; ld.shared.b64 %e, [%mine];
    dd=dd: st.shared.b64 [%mine], %a; atom.shared.cas.b64 %d, [%mine], %a, %b; ld.shared.b64 %e, [%mine];
    ff=ff: st.shared.b32 [%mine], %a; atom.shared.add.f32 %d, [%mine], %b; ld.shared.b32 %e, [%mine];
    !FF=FF: st.shared.b64 [%mine], %a; atom.shared.add.f64 %d, [%mine], %b; ld.shared.b64 %e, [%mine];
    xx=xx: st.shared.b32 [%mine], %a; atom.shared.add.noftz.f16x2 %d, [%mine], %b; ld.shared.b32 %e, [%mine];
    yy=yy: st.shared.b32 [%mine], %a; atom.shared.add.noftz.bf16x2 %d, [%mine], %b; ld.shared.b32 %e, [%mine];
    ee=ee: st.shared.b16 [%mine], %a; atom.shared.add.noftz.f16 %d, [%mine], %b; ld.shared.b16 %e, [%mine];
    rr=rr: st.global.b32 [%out], %a; atom.global.{add,min,max}.{u32,s32} %d, [%out], %b; ld.global.b32 %e, [%out];
    rr=rr: st.global.b32 [%out], %a; atom.global.{inc,dec}.u32 %d, [%out], %b; ld.global.b32 %e, [%out];
    rr=rr: st.global.b32 [%out], %a; atom.global.{and,or,xor,exch}.b32 %d, [%out], %b; ld.global.b32 %e, [%out];
    rr=rr: st.global.b32 [%out], %a; atom.global.cas.b32 %d, [%out], %a, %b; ld.global.b32 %e, [%out];
    dd=dd: st.global.b64 [%out], %a; atom.global.{add,min,max}.u64 %d, [%out], %b; ld.global.b64 %e, [%out];
    dd=dd: st.global.b64 [%out], %a; atom.global.{and,or,xor,exch}.b64 %d, [%out], %b; ld.global.b64 %e, [%out];
    dd=dd: st.global.b64 [%out], %a; atom.global.cas.b64 %d, [%out], %a, %b; ld.global.b64 %e, [%out];
    ff=ff: st.global.b32 [%out], %a; atom.global.add.f32 %d, [%out], %b; ld.global.b32 %e, [%out];
    !FF=FF: st.global.b64 [%out], %a; atom.global.add.f64 %d, [%out], %b; ld.global.b64 %e, [%out];
    xx=xx: st.global.b32 [%out], %a; atom.global.add.noftz.f16x2 %d, [%out], %b; ld.global.b32 %e, [%out];
    yy=yy: st.global.b32 [%out], %a; atom.global.add.noftz.bf16x2 %d, [%out], %b; ld.global.b32 %e, [%out];
    r=rr: st.global.b32 [%out], %a; red.global.{add,min,max}.{u32,s32} [%out], %b; ld.global.b32 %d, [%out];
    r=rr: st.shared.b32 [%mine], %a; red.shared.{and,or,xor}.b32 [%mine], %b; ld.shared.b32 %d, [%mine];
    f=ff: st.global.b32 [%out], %a; red.global.add.f32 [%out], %b; ld.global.b32 %d, [%out];
    f=ff: st.shared.b32 [%mine], %a; red.shared.add.f32 [%mine], %b; ld.shared.b32 %d, [%mine];
    x=xx: st.global.b32 [%out], %a; red.global.add.noftz.f16x2 [%out], %b; ld.global.b32 %d, [%out];
";
