//! Stock slaves that do what real ones do only now and then, or crash of.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

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

const LAYOUT: FlowopLayout = FlowopLayout::V1_0_8;

/// `port=` with several strands: a stock slave whose strands end crashes.
#[test]
fn strands_that_share_a_listener_wait_until_they_are_killed() {
    let profile = Profile::new("shared")
        .group("nthreads=2")
        .single_flowop("connect remotehost=127.0.0.1 protocol=tcp port=7")
        .single_flowop("disconnect")
        .text();
    let (said, commands) = run(&profile, |slave| {
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
            // All strands have come to it, and it does nothing.
            MasterCommand::NextTransaction(2),
            MasterCommand::Abort,
        ]
    );
    assert!(said.starts_with("0: ") && !said.contains("** "), "{said}");
}

/// Its clock may be ahead, and its strand closes its connection when it ends.
#[test]
fn a_slave_whose_time_is_up_first_resets_its_connection() {
    let profile = Profile::new("early")
        .group("nthreads=1")
        .single_flowop("connect remotehost=127.0.0.1 protocol=tcp")
        .transaction("duration=1s", &["write size=8k"])
        .text();
    let (said, commands) = run(&profile, |slave| {
        slave.next_command();
        let (mut data, _) = slave.data.accept().expect("a connection");
        slave.next_command();
        // With data unread.
        data.read_exact(&mut [0; 8192]).expect("it is written");
        data.set_nonblocking(true).expect("a flag");
        while data.peek(&mut [0]).is_err() {
            thread::yield_now();
        }
        drop(data);
        slave.next_command();
    });
    assert_eq!(commands.last(), Some(&MasterCommand::SendStatistics));
    assert!(said.starts_with("0: ") && !said.contains("** "), "{said}");
}

/// A stock slave that has its work.
struct Slave {
    control: TcpStream,
    /// Iterations and first flowop of each transaction.
    work: Vec<(u64, FlowopKind)>,
    data: TcpListener,
    commands: Vec<MasterCommand>,
}

impl Slave {
    fn next_command(&mut self) -> MasterCommand {
        let bytes = take(&self.control, MasterCommand::LEN);
        let bytes = bytes.first_chunk().expect("whole");
        let command = MasterCommand::decode(bytes, Endian::NATIVE).expect("a command");
        self.commands.push(command);
        command
    }
}

/// Runs the profile with a slave that does this; what the master's exit code and text were, and the commands that
/// the slave got.
fn run(profile: &str, slave: impl FnOnce(&mut Slave) + Send) -> (String, Vec<MasterCommand>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let control = listener.local_addr().expect("it is bound").port();
    thread::scope(|scope| {
        let slave = scope.spawn(move || {
            let mut served = serve(&listener);
            slave(&mut served);
            let goodbye = Goodbye {
                kind: Goodbye::INFO,
                ..Goodbye::default()
            };
            send(&served.control, &goodbye.encode(Endian::NATIVE));
            served.commands
        });
        let said = master(profile, control);
        (said, slave.join().expect("no panic"))
    })
}

/// The handshake.
fn serve(listener: &TcpListener) -> Slave {
    let (control, _) = listener.accept().expect("a master");
    greet(&control);
    let (probe, _) = listener
        .accept()
        .expect("the master's question about the layout");
    greet(&probe);
    take(&probe, 352 + 24 + 168 + LAYOUT.record_len());
    send(
        &probe,
        &Phase2Answer::Ok { slave_infos: 0 }.encode(Endian::NATIVE),
    );

    take(&control, 352);
    let group = take(&control, GroupRecord::LEN);
    let group = GroupRecord::decode(group.first_chunk().expect("whole"), Endian::NATIVE);
    let group = group.expect("a group");
    let mut work = Vec::new();
    for number in 0..group.transactions {
        let record = take(&control, TransactionRecord::LEN);
        let record = record.first_chunk().expect("whole");
        let record = TransactionRecord::decode(record, Endian::NATIVE);
        assert_eq!((record.flowops, record.number), (1, number));
        let flowop = take(&control, LAYOUT.record_len());
        let flowop = FlowopRecord::decode(&flowop, LAYOUT, Endian::NATIVE).expect("whole");
        work.push((
            record.iterations,
            FlowopKind::from_number(flowop.kind).expect("a kind"),
        ));
    }

    let data = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut info = SlaveInfo::default();
    let port = data.local_addr().expect("it is bound").port();
    info.set_port(DataProtocol::Tcp, port.into());
    let infos = Phase2Answer::Ok {
        slave_infos: group.strands,
    };
    send(&control, &infos.encode(Endian::NATIVE));
    for _ in 0..group.strands {
        send(&control, &info.encode(Endian::NATIVE));
    }
    let end = take(&control, HANDSHAKE_END.len());
    send(&control, &end);
    Slave {
        control,
        work,
        data,
        commands: Vec::new(),
    }
}

fn greet(control: &TcpStream) {
    take(control, 352);
    send(control, &Phase1Answer::Ok.encode());
}

fn take(mut control: &TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    control.read_exact(&mut bytes).expect("it comes");
    bytes
}

fn send(mut control: &TcpStream, bytes: &[u8]) {
    control.write_all(bytes).expect("it is taken");
}

/// The master's exit code, and what it printed.
fn master(profile: &str, control: u16) -> String {
    let words = ["-P", &control.to_string(), "-i", "100ms", "-m", "p"].map(Into::into);
    let settings: Settings = options::uperf("uperf", words).expect("good options");
    let Role::Master(master) = &settings.role else {
        panic!("no master: {settings:?}");
    };
    let source = ProfileSource {
        name: "p",
        bytes: profile.as_bytes(),
    };
    let context = ProfileContext {
        environment: &|_| None,
        directory: &|_| Ok(()),
    };
    let workorder = parse(&source, &context).workorder.expect("a profile");
    let (mut out, stop) = (Vec::new(), Stop::new());
    let width = Width::for_terminal(None);
    let ended = uperf::run(&settings, master, &workorder, width, &stop, &mut out);
    format!("{}: {}", ended.code, String::from_utf8_lossy(&out))
}
