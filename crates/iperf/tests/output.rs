//! Prints the figures of recorded runs, and compares the lines with those of stock.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use iperf::event::{FlowFigures, FlowId, Observer, Segments, TestEvent};
use iperf::options::{Exit, Settings};
use iperf::output::Printer;
use model::{DatagramCounts, HighestNumberCounts, PathSample};

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn settings(line: &str) -> Result<Settings, Exit> {
    iperf::options::parse_iperf("iperf", line.split(' ').map(Into::into), |_| None)
}

/// Returns the printed lines for a flow's figures, without the header.
fn result_lines(line: &str, number: u32, is_starred: bool, figures: &FlowFigures) -> String {
    let sink = Sink::default();
    let settings = settings(line).unwrap();
    let printer = Printer::new(
        &settings,
        None,
        false,
        Box::new(sink.clone()),
        Box::new(io::sink()),
    );
    let id = FlowId {
        number,
        is_starred,
        key: None,
    };
    printer.observe(&TestEvent::Final(&id, figures));
    let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
    text.split_inclusive('\n').skip(1).collect()
}

fn micros(time: u64) -> Duration {
    Duration::from_micros(time)
}

#[test]
fn lines_match_stock() {
    let tcp = FlowFigures {
        end: micros(2_026_000),
        sends: true,
        bytes: 20_190_000,
        ..FlowFigures::default()
    };
    assert_eq!(
        result_lines("-c h", 1, false, &tcp),
        "[  1] 0.0000-2.0260 sec  19.3 MBytes  79.7 Mbits/sec\n"
    );
    let path = PathSample {
        smoothed_rtt: Some(micros(4506)),
        rtt_deviation: Some(micros(6883)),
        congestion_window_bytes: Some(767 << 10),
        ..PathSample::default()
    };
    let writes = FlowFigures {
        calls: 154,
        path: Some(path),
        segments: Some(Segments {
            bytes: 32_741,
            in_flight: 2,
        }),
        ..tcp.clone()
    };
    assert_eq!(
        result_lines("-c h -e --stock-version 2.1.8", 1, false, &writes),
        "[  1] 0.0000-2.0260 sec  19.3 MBytes  79.7 Mbits/sec  154/0          0      767K/4506(6883) us  2212\n"
    );
    assert_eq!(
        result_lines("-c h -e", 1, false, &writes),
        "[  1] 0.0000-2.0260 sec  19.3 MBytes  79.7 Mbits/sec  154/0         0       63K(2)/767K(23)/4506(6883) us  2212\n"
    );
    let reads = FlowFigures {
        sends: false,
        read_sizes: Some([8, 0, 1, 2, 0, 1, 0, 75]),
        ..tcp
    };
    assert_eq!(
        result_lines("-s -e", 1, true, &reads),
        "[ *1] 0.0000-2.0260 sec  19.3 MBytes  79.7 Mbits/sec  87=8:0:1:2:0:1:0:75\n"
    );
    let by_order = HighestNumberCounts {
        highest: 11,
        skipped: 2,
        out_of_order: 1,
        ..HighestNumberCounts::default()
    };
    let udp = FlowFigures {
        end: micros(46_800),
        is_udp: true,
        bytes: 2000,
        expected_datagrams: 11,
        datagrams: Some(DatagramCounts {
            jitter: Some(micros(7)),
            highest_number_counts: by_order,
            ..DatagramCounts::default()
        }),
        ..FlowFigures::default()
    };
    assert_eq!(
        result_lines("-s -u", 1, false, &udp),
        "[  1] 0.0000-0.0468 sec  1.95 KBytes   342 Kbits/sec   0.007 ms 1/11 (9.1%)\n\
         [  1] 0.0000-0.0468 sec  1 datagrams received out-of-order\n"
    );
}
