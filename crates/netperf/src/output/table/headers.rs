//! Column headers that tests of several families share.

/// Of a stream without CPU time. A socket's room is a buffer, or a window of frames.
#[rustfmt::skip]
pub(super) fn stream(room: &str, amount: &str, unit: &str) -> String {
    format!("\
Recv   Send    Send                          
{room} {room}  Message  Elapsed              
Size   Size    Size     Time     Throughput  
{amount} {amount}  bytes    secs.    {unit}/sec  

")
}

/// Of datagrams without CPU time.
#[rustfmt::skip]
pub(super) fn datagrams(unit: &str) -> String {
    format!("\
Socket  Message  Elapsed      Messages                
Size    Size     Time         Okay Errors   Throughput
bytes   bytes    secs            #      #   {unit}/sec

")
}

/// Of transactions without CPU time.
#[rustfmt::skip]
pub(super) fn transactions(room: &str, [first, second]: [&str; 2]) -> String {
    format!("\
Local /Remote
{room} Size   Request  Resp.   Elapsed  Trans.
Send   Recv   Size     Size    Time     Rate         
{first} {second} bytes    bytes   secs.    per sec   

")
}

/// Of the block below a stream: what this end does and what the other one does, "Send" or "Recv".
#[rustfmt::skip]
pub(super) fn extra(here: &str, there: &str) -> String {
    format!("
Alignment      Offset         Bytes    Bytes       {here}s   Bytes    {there}s
Local  Remote  Local  Remote  Xfered   Per                 Per
{here}   {there}    {here}   {there}             {here} (avg)          {there} (avg)
")
}
