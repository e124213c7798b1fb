//! Instructions of all lanes together.

pub(super) const TABLE: &str = "
    r=rss: shfl.sync.{up,down,bfly,idx}.b32 %d, %a, %b, %c, -1;
    rp=rss: shfl.sync.{up,down,bfly,idx}.b32 %d|%e, %a, %b, %c, -1;
    rp=rs: shfl.sync.up.b32 %d|%e, %a, %b, {0,0x1800,0x1c05}, -1;
    rp=rs: shfl.sync.{down,bfly,idx}.b32 %d|%e, %a, %b, {0x1f,0x181f,0x1e0e}, -1;
    p=p: vote.sync.{any,all,uni}.pred %d, %a, -1;
    p=p: vote.sync.{any,all,uni}.pred %d, !%a, -1;
    r=p: vote.sync.ballot.b32 %d, %a, -1;
    r=r: match.any.sync.b32 %d, %a, -1;
    r=r: and.b32 %d, %a, 3; match.any.sync.b32 %d, %d, -1;
    r=d: match.any.sync.b64 %d, %a, -1;
    rp=r: match.all.sync.b32 %d|%e, %a, -1;
    rp=d: match.all.sync.b64 %d|%e, %a, -1;
    r=r: redux.sync.{add,min,max}.{u32,s32} %d, %a, -1;
    r=r: redux.sync.{and,or,xor}.b32 %d, %a, -1;
    rp=: elect.sync %d|%e, -1;
";
