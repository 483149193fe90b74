//! The option chapters of the manual pages, generated from `super::table`.

use getopt::manual::{Chapter, chapter};

use super::table::{BW_MON, RECV, REQ, RESP, SEND};

/// Returns each program's name and the chapter of its options.
pub fn chapters() -> Vec<(&'static str, Chapter)> {
    vec![
        ("udpmon_bw_mon", chapter(&BW_MON)),
        ("udpmon_req", chapter(&REQ)),
        ("udpmon_resp", chapter(&RESP)),
        ("udpmon_send", chapter(&SEND)),
        ("udpmon_recv", chapter(&RECV)),
    ]
}

#[cfg(test)]
mod tests {
    use getopt::manual::find_gaps;

    use super::*;

    #[test]
    fn every_option_has_its_paragraph() {
        for section in [&BW_MON, &REQ, &RESP, &SEND, &RECV] {
            assert_eq!(find_gaps(section), [""; 0]);
        }
    }
}
