//! The chapters of the manual pages, generated from the rows of [`super::table`].

use getopt::manual::{Chapter, chapter};

use super::table::{BW_MON, RECV, REQ, RESP, SEND};

/// Each program's name with the chapter of its options.
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
    use getopt::manual::gaps;

    use super::*;

    #[test]
    fn every_option_has_its_paragraph() {
        for section in [&BW_MON, &REQ, &RESP, &SEND, &RECV] {
            assert_eq!(gaps(section), [""; 0]);
        }
    }
}
