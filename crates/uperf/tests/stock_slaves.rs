//! Scripted stock slaves with behaviour that real slaves show rarely or only in a crash.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use engine::Stop;
use testkit::Profile;
use uperf::options::{self, Role, Settings};
use uperf::output::Width;
use uperf::profile::{ProfileContext, ProfileSource, parse};
use uperf::wire::{
    Endian, FlowopLayout, FlowopRecord, Goodbye, GroupRecord, HANDSHAKE_END, MasterCommand,
    Phase1Answer, Phase2Answer, SlaveInfo, TransactionRecord,
};
use uperf::{DataProtocol, FlowopKind};

/// Longest wait for the master's next message or connection.
const TIMEOUT: Duration = Duration::from_secs(60);

const LAYOUT: FlowopLayout = FlowopLayout::V1_0_8;

/// Tests `port=` with several strands. A stock slave crashes if its strands end on their own.
#[test]
fn parks_strands_that_share_a_listener() {
    let profile = Profile::new("shared")
        .group("nthreads=2")
        .single_flowop("connect remotehost=127.0.0.1 protocol=tcp port=7")
        .single_flowop("disconnect")
        .text();
    let (result, commands) = run(&profile, |slave| {
        let expected = [
            (1, FlowopKind::Accept),
            (1, FlowopKind::Disconnect),
            (0, FlowopKind::Nop),
            (0, FlowopKind::Nop),
        ];
        assert_eq!(slave.work, expected);
        while slave.next_command() != MasterCommand::Abort {}
    });
    assert_eq!(
        commands,
        [
            MasterCommand::NextTransaction(0),
            MasterCommand::NextTransaction(1),
            // All strands have reached this transaction, which does nothing.
            MasterCommand::NextTransaction(2),
            MasterCommand::Abort,
        ]
    );
    assert!(
        result.starts_with("0: ") && !result.contains("** "),
        "{result}"
    );
}

/// The slave's clock may be ahead. Its strand then closes the connection first.
#[test]
fn tolerates_reset_by_slave_that_ends_first() {
    let profile = Profile::new("early")
        .group("nthreads=1")
        .single_flowop("connect remotehost=127.0.0.1 protocol=tcp")
        .transaction("duration=1s", &["write size=8k"])
        .text();
    let (result, commands) = run(&profile, |slave| {
        slave.next_command();
        let mut data = accept(&slave.data);
        slave.next_command();
        // Close the connection with unread data.
        data.read_exact(&mut [0; 8192]).expect("the master sends");
        data.set_nonblocking(true).expect("the socket is open");
        let end = Instant::now() + TIMEOUT;
        while data.peek(&mut [0]).is_err() {
            assert!(Instant::now() < end, "the master sends no more");
            thread::yield_now();
        }
        drop(data);
        slave.next_command();
    });
    assert_eq!(commands.last(), Some(&MasterCommand::SendStatistics));
    assert!(
        result.starts_with("0: ") && !result.contains("** "),
        "{result}"
    );
}

/// A stock slave after the handshake.
struct Slave {
    control: TcpStream,
    /// Iterations and only flowop of each transaction.
    work: Vec<(u64, FlowopKind)>,
    data: TcpListener,
    commands: Vec<MasterCommand>,
}

impl Slave {
    fn next_command(&mut self) -> MasterCommand {
        let bytes = receive(&self.control, MasterCommand::LEN);
        let bytes = bytes.first_chunk().expect("the record is complete");
        let command = MasterCommand::decode(bytes, Endian::NATIVE).expect("the command is valid");
        self.commands.push(command);
        command
    }
}

/// Runs the profile with a slave that calls `act` after the handshake. Returns the master's exit
/// code and output, and the commands that the slave received.
fn run(profile: &str, act: impl FnOnce(&mut Slave) + Send) -> (String, Vec<MasterCommand>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let control = listener.local_addr().expect("the listener is bound").port();
    thread::scope(|scope| {
        let slave = scope.spawn(move || {
            let mut slave = accept_master(&listener);
            act(&mut slave);
            let goodbye = Goodbye {
                kind: Goodbye::INFO,
                ..Goodbye::default()
            };
            send(&slave.control, &goodbye.encode(Endian::NATIVE));
            slave.commands
        });
        let result = run_master(profile, control);
        (result, slave.join().expect("no panic"))
    })
}

/// Accepts a master and does the handshake.
fn accept_master(listener: &TcpListener) -> Slave {
    let control = accept(listener);
    answer_phase_1(&control);
    let probe = accept(listener);
    answer_phase_1(&probe);
    receive(&probe, 352 + 24 + 168 + LAYOUT.record_len());
    send(
        &probe,
        &Phase2Answer::Ok { slave_infos: 0 }.encode(Endian::NATIVE),
    );

    receive(&control, 352);
    let group = receive(&control, GroupRecord::LEN);
    let group = GroupRecord::decode(
        group.first_chunk().expect("the record is complete"),
        Endian::NATIVE,
    );
    let group = group.expect("the group is valid");
    let mut work = Vec::new();
    for number in 0..group.transactions {
        let record = receive(&control, TransactionRecord::LEN);
        let record = record.first_chunk().expect("the record is complete");
        let record = TransactionRecord::decode(record, Endian::NATIVE);
        assert_eq!((record.flowops, record.number), (1, number));
        let flowop = receive(&control, LAYOUT.record_len());
        let flowop =
            FlowopRecord::decode(&flowop, LAYOUT, Endian::NATIVE).expect("the record is complete");
        work.push((
            record.iterations,
            FlowopKind::from_number(flowop.kind).expect("the kind is known"),
        ));
    }

    let data = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let mut info = SlaveInfo::default();
    let port = data.local_addr().expect("the listener is bound").port();
    info.set_port(DataProtocol::Tcp, port.into());
    let infos = Phase2Answer::Ok {
        slave_infos: group.strands,
    };
    send(&control, &infos.encode(Endian::NATIVE));
    for _ in 0..group.strands {
        send(&control, &info.encode(Endian::NATIVE));
    }
    let end = receive(&control, HANDSHAKE_END.len());
    send(&control, &end);
    Slave {
        control,
        work,
        data,
        commands: Vec::new(),
    }
}

/// Accepts a connection of the master, whose reads have a timeout.
fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("the socket is open");
    let end = Instant::now() + TIMEOUT;
    let stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(_) if Instant::now() < end => thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("the master does not connect: {error}"),
        }
    };
    stream.set_nonblocking(false).expect("the socket is open");
    let timeout = stream.set_read_timeout(Some(TIMEOUT));
    timeout.expect("the timeout is valid");
    stream
}

fn answer_phase_1(control: &TcpStream) {
    receive(control, 352);
    send(control, &Phase1Answer::Ok.encode());
}

fn receive(mut control: &TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    control.read_exact(&mut bytes).expect("the master sends");
    bytes
}

fn send(mut control: &TcpStream, bytes: &[u8]) {
    control.write_all(bytes).expect("the master receives");
}

/// Runs the master. Returns its exit code and output.
fn run_master(profile: &str, control: u16) -> String {
    let arguments = ["-P", &control.to_string(), "-i", "100ms", "-m", "p"].map(Into::into);
    let settings: Settings = options::uperf("uperf", arguments).expect("the options are valid");
    let Role::Master(master) = &settings.role else {
        panic!("not a master: {settings:?}");
    };
    let source = ProfileSource {
        name: "p",
        bytes: profile.as_bytes(),
    };
    let context = ProfileContext {
        environment: &|_| None,
        directory: &|_| Ok(()),
    };
    let workorder = parse(&source, &context)
        .workorder
        .expect("the profile is valid");
    let (mut output, stop) = (Vec::new(), Stop::new());
    let width = Width::for_terminal(None);
    let finished = uperf::run(&settings, master, &workorder, width, &stop, &mut output);
    format!("{}: {}", finished.code, String::from_utf8_lossy(&output))
}
