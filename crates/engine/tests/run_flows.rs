//! Several flows of one test, with samples of all of them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use engine::{
    Buffers, Counters, DataSocket, Finish, FlowToRun, FlowWatch, GroupEnd, GroupSettings,
    GroupTimes, IntervalEnd, Memory, Reason, Stop, run_flows,
};
use model::{
    BufferPlan, DatagramFormat, Ended, FlowPlan, Half, Limit, Pacing, Sample, SocketFacts,
    Transport, Workload,
};
use sys::Socket;

/// More than a busy machine needs.
const LONG: Duration = Duration::from_secs(30);

/// One end of a flow.
struct End {
    plan: FlowPlan,
    data: DataSocket,
    buffers: Buffers,
    finish: Option<Finish>,
}

fn end(workload: Workload, transport: Transport, socket: impl Into<Socket>) -> End {
    let plan = FlowPlan::of(transport, workload).with_buffers(BufferPlan::message(1000));
    let facts = SocketFacts::default();
    let memory = Memory::new(1 << 20, 1 << 20);
    let (half, workload) = (&plan.here, &plan.workload);
    let buffers = Buffers::new(half, workload, transport, &facts, None, b"x", &memory).unwrap();
    let finish = match plan.workload.sends() {
        true if transport == Transport::Tcp => Some(Finish::HalfClose),
        true => None,
        false => Some(Finish::EndOfStream),
    };
    End {
        data: DataSocket {
            socket: socket.into(),
            transport,
            facts,
            refused: Vec::new(),
        },
        buffers,
        finish,
        plan,
    }
}

fn streams() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

fn settings<'a>(cancel: &'a Stop, here: &'a Half, times: GroupTimes) -> GroupSettings<'a> {
    GroupSettings {
        cancel,
        control: None,
        times,
        idle: Some(LONG),
        patience: LONG,
        drained: None,
        here,
    }
}

fn ran(ends: &mut [End], settings: &GroupSettings<'_>, watch: &mut dyn FlowWatch) -> GroupEnd {
    fn flow(end: &mut End) -> FlowToRun<'_> {
        let End {
            plan,
            data,
            buffers,
            finish,
        } = end;
        FlowToRun {
            plan,
            data,
            buffers,
            counters: Arc::new(Counters::default()),
            finish: *finish,
            first: Vec::new(),
        }
    }
    run_flows(ends.iter_mut().map(flow).collect(), settings, watch).unwrap()
}

/// Each flow's samples; whether it was in the warm-up, and the last one.
type Interval = (Vec<(Sample, Sample)>, bool, bool);

/// What has been reported.
#[derive(Default)]
struct Seen {
    intervals: Vec<Interval>,
    failed: Vec<usize>,
    measured: u32,
    control: Option<(UnixStream, Stop)>,
}

impl FlowWatch for Seen {
    fn on_interval(&mut self, interval: &IntervalEnd<'_>) {
        let flags = (interval.is_warm_up, interval.is_last);
        self.intervals
            .push((interval.flows.to_vec(), flags.0, flags.1));
    }

    fn on_control(&mut self) -> bool {
        let (control, stop) = self.control.as_mut().unwrap();
        let read = control.read(&mut [0; 8]).unwrap();
        if read > 0 {
            stop.pull(Reason::Deadline);
        }
        read > 0
    }

    fn on_failed(&mut self, flow: usize, why: &Ended) {
        assert!(matches!(why, Ended::Failed(_)), "{why:?}");
        self.failed.push(flow);
    }

    fn on_measured(&mut self) {
        self.measured += 1;
    }
}

#[test]
fn flows_of_both_directions_leave_the_warm_up_out() {
    let (out, out_far) = streams();
    let (back, back_far) = streams();
    let mut near = [
        end(Workload::send(), Transport::Tcp, out),
        end(Workload::receive(), Transport::Tcp, back),
    ];
    let mut far = [
        end(Workload::receive(), Transport::Tcp, out_far),
        end(Workload::send(), Transport::Tcp, back_far),
    ];
    let ms = Duration::from_millis;
    let times = GroupTimes {
        warm_up: ms(50),
        time: Some(ms(100)),
        interval: Some(ms(20)),
        looks_at_rtt: true,
        together: None,
    };
    let peer = std::thread::spawn(move || {
        // A receiver reads to the end.
        far[1].plan.limit = Limit::Time(ms(100));
        let (stop, half, times) = (Stop::new(), Half::default(), GroupTimes::default());
        ran(&mut far, &settings(&stop, &half, times), &mut ())
    });
    let (stop, half, mut seen) = (Stop::new(), Half::default(), Seen::default());
    let group = ran(&mut near, &settings(&stop, &half, times), &mut seen);
    let peer = peer.join().unwrap();
    assert_eq!(peer.flows[1].ended, Ended::Deadline);
    assert_eq!(seen.measured, 1);
    let (last, others) = seen.intervals.split_last().unwrap();
    assert!(last.2 && !others.iter().any(|interval| interval.2));
    assert!(seen.intervals.iter().any(|interval| interval.1));
    for (number, flow) in group.flows.iter().enumerate() {
        for pair in seen.intervals.windows(2) {
            assert_eq!(
                pair[0].0[number].1, pair[1].0[number].0,
                "one begins where one ends"
            );
        }
        let samples = &flow.series.samples;
        assert!(samples.is_sorted_by_key(|sample| (sample.at, sample.bytes().0)));
        assert!(samples.contains(&flow.warm_up) && flow.warm_up.at >= ms(50));
        let end = samples.last().unwrap();
        let (counts, elapsed) = (flow.side.counts, flow.side.elapsed.unwrap());
        // The reading of a sample and of the base are a moment apart.
        assert!(counts.bytes() > 0 && counts.bytes() <= end.bytes().0 - flow.warm_up.bytes().0);
        assert!(
            elapsed <= end.at.saturating_sub(ms(50)),
            "{elapsed:?} {end:?}"
        );
        assert_eq!(flow.side.thread_cpu, None);
        let path = end.path.unwrap();
        assert!(path.congestion_window_bytes > Some(1000) && path.path_mtu_bytes > Some(1000));
    }
    assert_eq!(group.flows[0].ended, Ended::Deadline);
    assert!(
        group.flows[0]
            .side
            .smoothed_rtt
            .as_ref()
            .is_some_and(|rtt| rtt.len() > 1)
    );
    let sent = group.flows[0].series.samples.last().unwrap().sent;
    assert_eq!(peer.flows[0].side.counts.received, sent, "all was read");
}

#[test]
fn a_message_ends_flows_and_receivers_drain() {
    let (near, mut far) = streams();
    let (control, mut peer) = UnixStream::pair().unwrap();
    let (stop, half, drained) = (Stop::new(), Half::default(), Stop::new());
    let mut seen = Seen {
        control: Some((control.try_clone().unwrap(), stop.clone())),
        ..Seen::default()
    };
    let times = GroupTimes::default();
    let settings = GroupSettings {
        control: Some(control.as_fd()),
        drained: Some(&drained),
        ..settings(&stop, &half, times)
    };
    far.write_all(&[1; 500]).unwrap();
    peer.write_all(b"end").unwrap();
    let group = ran(
        &mut [end(Workload::receive(), Transport::Tcp, near)],
        &settings,
        &mut seen,
    );
    assert_eq!(
        (&group.flows[0].ended, seen.measured),
        (&Ended::Deadline, 1)
    );
    assert!(drained.is_set());
}

#[test]
fn flows_end_together() {
    let (one, one_far) = streams();
    let (two, two_far) = streams();
    let readers = [one_far, two_far].map(|mut far| {
        std::thread::spawn(move || std::io::copy(&mut far, &mut std::io::sink()).unwrap())
    });
    let mut ends = [one, two].map(|near| end(Workload::send(), Transport::Tcp, near));
    let (stop, half) = (Stop::new(), Half::default());
    let times = GroupTimes {
        together: Some(100_000),
        ..GroupTimes::default()
    };
    let group = ran(&mut ends, &settings(&stop, &half, times), &mut ());
    let sent: u64 = group.flows.iter().map(|flow| flow.side.counts.sent.0).sum();
    assert!(sent >= 100_000);
    assert!(group.flows.iter().all(|flow| flow.ended == Ended::Count));
    drop(ends);
    assert_eq!(
        readers
            .map(|reader| reader.join().unwrap())
            .iter()
            .sum::<u64>(),
        sent
    );
}

#[test]
fn a_flow_that_fails_is_reported_at_once() {
    let near = UdpSocket::bind("127.0.0.1:0").unwrap();
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    near.connect(nobody.local_addr().unwrap()).unwrap();
    drop(nobody);
    let (far, mut peer) = streams();
    let mut ends = [
        end(Workload::receive(), Transport::Tcp, far),
        end(Workload::send(), Transport::Udp, near),
    ];
    ends[1].plan.here.pacing = Pacing::of_packets(1000, 1);
    ends[1].plan.datagrams = Some(DatagramFormat {
        number_at: 0,
        high_word_at: None,
        first: 1,
        stamp: None,
        ends_negative: false,
    });
    let (stop, half) = (Stop::new(), Half::default());
    let mut seen = Failing(stop.clone(), Vec::new());
    peer.write_all(b"data").unwrap();
    let group = ran(
        &mut ends,
        &settings(&stop, &half, GroupTimes::default()),
        &mut seen,
    );
    assert_eq!(seen.1, [1]);
    assert_eq!(group.flows[0].ended, Ended::Cancelled);
    assert_eq!(group.flows[1].failure.map(|(call, _)| call), Some("send"));
    assert_eq!(group.flows[1].side.datagrams, None);
}

/// Ends all when one fails.
struct Failing(Stop, Vec<usize>);

impl FlowWatch for Failing {
    fn on_failed(&mut self, flow: usize, _: &Ended) {
        self.1.push(flow);
        self.0.pull(Reason::Cancelled);
    }
}
