//! `DUMP_TCP_INFO` in the environment: prints the TCP_INFO of the data connection to stderr after
//! each omni test.

use std::fmt::{self, Display, Formatter};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;

use sys::Socket;
use sys::option::{TcpInfo, tcp_info};

/// TCP_INFO figures, formatted as the stock tool's three lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpInfoDump(TcpInfo);

impl TcpInfoDump {
    /// Reads the figures of a connection if the environment requests them.
    pub(crate) fn read_if_requested(socket: &Socket) -> Option<Self> {
        static IS_REQUESTED: OnceLock<bool> = OnceLock::new();
        IS_REQUESTED
            .get_or_init(|| std::env::var_os("DUMP_TCP_INFO").is_some())
            .then(|| tcp_info(socket.as_fd()).ok())
            .flatten()
            .map(Self)
    }

    /// Writes the lines to stderr in one write. Write errors are ignored.
    pub(crate) fn print(self) {
        let _ = io::stderr().write_all(self.to_string().as_bytes());
    }
}

impl Display for TcpInfoDump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let TcpInfo {
            retransmit_timeout_us,
            ack_timeout_us,
            path_mtu_bytes,
            receive_threshold_bytes,
            rtt_us,
            rtt_variation_us,
            send_threshold,
            congestion_window,
            reordering,
            total_retransmits,
            ..
        } = self.0;
        writeln!(
            f,
            "tcpi_rto {retransmit_timeout_us} tcpi_ato {ack_timeout_us} tcpi_pmtu {path_mtu_bytes} \
             tcpi_rcv_ssthresh {receive_threshold_bytes}"
        )?;
        // The last name is a typing error of the stock tool. flent reads these exact names.
        writeln!(
            f,
            "tcpi_rtt {rtt_us} tcpi_rttvar {rtt_variation_us} tcpi_snd_ssthresh {send_threshold} \
             tpci_snd_cwnd {congestion_window}"
        )?;
        writeln!(
            f,
            "tcpi_reordering {reordering} tcpi_total_retrans {total_retransmits}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of Debian's netperf.
    #[test]
    fn lines_match_the_stock_tool() {
        let dump = TcpInfoDump(TcpInfo {
            retransmit_timeout_us: 204_000,
            ack_timeout_us: 40_000,
            segment_bytes: 65_483,
            unacknowledged: 0,
            path_mtu_bytes: 65_535,
            receive_threshold_bytes: 65_495,
            rtt_us: 43,
            rtt_variation_us: 18,
            send_threshold: 2_147_483_647,
            congestion_window: 18,
            reordering: 3,
            total_retransmits: 0,
            acknowledged_bytes: None,
            send_window_bytes: None,
            reorder_events: None,
            is_syn_data_acknowledged: false,
        });
        assert_eq!(
            dump.to_string(),
            "tcpi_rto 204000 tcpi_ato 40000 tcpi_pmtu 65535 tcpi_rcv_ssthresh 65495\n\
             tcpi_rtt 43 tcpi_rttvar 18 tcpi_snd_ssthresh 2147483647 tpci_snd_cwnd 18\n\
             tcpi_reordering 3 tcpi_total_retrans 0\n"
        );
    }
}
