//! A flowop's options as a profile says them.

use std::time::Duration;

use crate::workorder::{Endpoint, Flowop, Sctp, Size};

use super::options::FLAGS;

/// The options that are not uperf's defaults, as `options=` takes them.
pub(super) fn options(flowop: &Flowop) -> String {
    let mut words = Words(Vec::new());
    words.endpoint(&flowop.endpoint);
    words.number("conn", flowop.connection, 0);
    words.number("count", flowop.count, 1);
    words.number("repeat", flowop.repeat, 1);
    words.number("batch_size", flowop.batch_size, 1);
    match flowop.size {
        Size::Fixed(size) => words.bytes("size", size.into()),
        Size::Random { min, max } => {
            let word = format!("size=rand({},{})", bytes(min.into()), bytes(max.into()));
            words.0.push(word);
        }
    }
    words.bytes("rsize", flowop.slave_size.into());
    words.number("nfiles", flowop.files, 0);
    words.text("dir", &flowop.directory);
    if let Some(timeout) = flowop.timeout {
        words.text("timeout", &time(timeout));
    }
    if !flowop.duration.is_zero() {
        words.text("duration", &time(flowop.duration));
    }
    for (name, flag) in FLAGS {
        if flowop.flags.has(flag) {
            words.0.push(name.to_owned());
        }
    }
    words.0.join(" ")
}

struct Words(Vec<String>);

impl Words {
    fn endpoint(&mut self, endpoint: &Endpoint) {
        self.text("remotehost", &endpoint.remote_host);
        self.text("localhost", &endpoint.local_host);
        if let Some(protocol) = endpoint.protocol {
            self.text("protocol", protocol.name());
        }
        self.number("port", endpoint.port, 0);
        self.bytes("wndsz", endpoint.window);
        self.text("cc", &endpoint.congestion_control);
        self.text("stack", &endpoint.stack);
        self.number("bblog", endpoint.black_box_log, 0);
        self.number("encaps", endpoint.encapsulation_port, 0);
        self.text("engine", &endpoint.engine);
        self.text("cipher", &endpoint.cipher);
        self.text("method", &endpoint.method);
        self.sctp(&endpoint.sctp);
    }

    fn sctp(&mut self, sctp: &Sctp) {
        self.number("sctp_rto_min", sctp.rto_min_ms, 0);
        self.number("sctp_rto_max", sctp.rto_max_ms, 0);
        self.number("sctp_rto_initial", sctp.rto_initial_ms, 0);
        self.number("sctp_sack_delay", sctp.sack_delay_ms, 0);
        self.number("sctp_sack_frequency", sctp.sack_frequency, 0);
        self.number("sctp_max_burst_size", sctp.max_burst, 0);
        self.number("sctp_max_fragment_size", sctp.max_fragment_bytes, 0);
        self.number("sctp_hb_interval", sctp.heartbeat_ms, 0);
        self.number("sctp_path_mtu", sctp.path_mtu_bytes, 0);
        self.number("sctp_in_streams", sctp.in_streams, 0);
        self.number("sctp_out_streams", sctp.out_streams, 0);
        self.number("sctp_stream_id", sctp.stream, 0);
        self.text("sctp_pr_policy", &sctp.partial_reliability);
        self.number("sctp_pr_value", sctp.partial_reliability_value, 0);
    }

    fn number<T: Into<u64>>(&mut self, key: &str, value: T, default: u64) {
        let value = value.into();
        if value != default {
            self.0.push(format!("{key}={value}"));
        }
    }

    fn bytes(&mut self, key: &str, value: u64) {
        if value != 0 {
            self.0.push(format!("{key}={}", bytes(value)));
        }
    }

    fn text(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.0.push(format!("{key}={value}"));
        }
    }
}

/// In the largest unit that divides it.
fn bytes(value: u64) -> String {
    [(1 << 20, "m"), (1 << 10, "k")]
        .into_iter()
        .find(|(unit, _)| value.is_multiple_of(*unit) && value > 0)
        .map_or_else(
            || value.to_string(),
            |(unit, letter)| format!("{}{letter}", value / unit),
        )
}

/// In the largest unit that divides it.
pub(super) fn time(value: Duration) -> String {
    let nanoseconds = value.as_nanos();
    [
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1000, "us"),
        (1, "ns"),
    ]
    .into_iter()
    .find(|(unit, _)| nanoseconds.is_multiple_of(*unit))
    .map_or_else(String::new, |(unit, name)| {
        format!("{}{name}", nanoseconds / unit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{number, options};
    use crate::workorder::{Flags, Kind};

    #[test]
    fn what_is_printed_is_read_again() {
        let all = "remotehost=a localhost=b protocol=sctp port=5000 wndsz=96k cc=reno stack=s bblog=3 \
                   encaps=9899 engine=e cipher=c method=m sctp_rto_min=1 sctp_rto_max=2 \
                   sctp_rto_initial=3 sctp_sack_delay=4 sctp_sack_frequency=5 sctp_max_burst_size=6 \
                   sctp_max_fragment_size=7 sctp_hb_interval=8 sctp_path_mtu=9 sctp_in_streams=10 \
                   sctp_out_streams=11 sctp_stream_id=12 sctp_pr_policy=ttl sctp_pr_value=13 conn=9 \
                   count=12 repeat=5 batch_size=6 size=rand(100,3k) rsize=4m nfiles=7 dir=/tmp \
                   timeout=1500us duration=30000001024ns tcp_nodelay canfail non_blocking idle busy \
                   sctp_unordered sctp_nodelay";
        let mut flowop = Flowop::new(Kind::Write);
        for word in all.split(' ') {
            if let Some((key, value)) = word.split_once('=') {
                let doubt = options::set(&mut flowop, key, value);
                assert_eq!(doubt, Ok(None), "{word}");
            } else {
                let flag = options::flag(word).expect("a flag");
                flowop.flags = flowop.flags.with(flag);
            }
        }
        assert_eq!(super::options(&flowop), all);
        assert_eq!(super::options(&Flowop::new(Kind::Nop)), "");
        assert!(flowop.flags.has(Flags::RANDOM));
    }

    #[test]
    fn times_keep_their_value() {
        for text in ["2s", "100ms", "1500us", "7ns", "30s", "3600s"] {
            let value = number::time(text).expect("a time").value;
            let again = number::time(&time(value)).expect("a time").value;
            assert_eq!(again, value, "{text}");
        }
    }
}
