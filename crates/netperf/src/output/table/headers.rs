//! Column headers shared by tests of several families.

/// Formats the headers of a stream without CPU time. `buffer` is "Socket" for a socket buffer or
/// "Window" for a window of frames.
#[rustfmt::skip]
pub(super) fn stream(buffer: &str, unit_of_buffer: &str, unit: &str) -> String {
    format!("\
Recv   Send    Send                          
{buffer} {buffer}  Message  Elapsed              
Size   Size    Size     Time     Throughput  
{unit_of_buffer} {unit_of_buffer}  bytes    secs.    {unit}/sec  

")
}

/// Formats the headers of datagrams without CPU time.
#[rustfmt::skip]
pub(super) fn datagrams(unit: &str) -> String {
    format!("\
Socket  Message  Elapsed      Messages                
Size    Size     Time         Okay Errors   Throughput
bytes   bytes    secs            #      #   {unit}/sec

")
}

/// Formats the headers of transactions without CPU time; `buffer` as in [`stream`]. The units are
/// those of the columns "Send" and "Recv".
#[rustfmt::skip]
pub(super) fn transactions(buffer: &str, [send_unit, receive_unit]: [&str; 2]) -> String {
    format!("\
Local /Remote
{buffer} Size   Request  Resp.   Elapsed  Trans.
Send   Recv   Size     Size    Time     Rate         
{send_unit} {receive_unit} bytes    bytes   secs.    per sec   

")
}

/// Formats the headers of the extra block below a stream. `local` and `remote` are the roles of the
/// hosts, "Send" or "Recv".
#[rustfmt::skip]
pub(super) fn extra(local: &str, remote: &str) -> String {
    format!("
Alignment      Offset         Bytes    Bytes       {local}s   Bytes    {remote}s
Local  Remote  Local  Remote  Xfered   Per                 Per
{local}   {remote}    {local}   {remote}             {local} (avg)          {remote} (avg)
")
}
