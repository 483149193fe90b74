//! Test options of the Unix domain, SCTP and DLPI tests: the help lists each option, and each option
//! reaches the settings.

use model::{EndpointPlan, Limit, SizeRule};
use netperf::options::{
    DlpiInterface, Exit, Family, FamilySettings, Settings, manual, parse_netperf,
};

/// A test of each family, and part of the title of its chapter in the manual.
const FAMILIES: [(&str, &str); 3] = [
    ("DG_RR", "STREAM_STREAM"),
    ("SCTP_RR", "SCTP_STREAM"),
    ("DLCL_RR", "DLCO_STREAM"),
];

#[test]
fn help_lists_every_option() {
    for (test, title) in FAMILIES {
        let exit = try_parse(&format!("-t {test} -- -h")).unwrap_err();
        assert_eq!((exit.code, exit.stderr.as_str()), (1, ""), "{test}");
        let chapters = manual::client();
        let chapter = chapters
            .iter()
            .find(|chapter| chapter.title.contains(title))
            .expect("the manual has the chapter");
        for option in &chapter.options {
            let letter = &option.synopsis[..2];
            // Stock accepts these options but does not list them.
            let is_unlisted = test == "SCTP_RR" && ["-V", "-I"].contains(&letter);
            let is_listed = exit.stdout.contains(&format!("\n    {letter} "));
            assert_eq!(is_listed, !is_unlisted, "{test} {letter}: {}", exit.stdout);
        }
    }
}

#[test]
fn unix_domain() {
    let settings = parse("-t STREAM_STREAM -- -m 1000 -M 2000 -p /run -s 3K,4K -S 5K,6K");
    let EndpointPlan { socket, send, .. } = &settings.flow.local;
    assert_eq!(send.size, SizeRule::Bytes(1000));
    assert_eq!(socket_buffers(socket), (Some(3 << 10), Some(4 << 10)));
    let EndpointPlan {
        socket, receive, ..
    } = &settings.flow.remote;
    assert_eq!(receive.size, SizeRule::Bytes(2000));
    assert_eq!(socket_buffers(socket), (Some(5 << 10), Some(6 << 10)));
    let directory = Some("/run".into());
    assert_eq!(settings.family_settings, FamilySettings::Unix { directory });

    assert_request_sizes("-t DG_RR -- -r 7,8");
}

#[test]
fn sctp() {
    let settings = parse(
        "-t SCTP_STREAM_MANY -- -m 1000 -M 2000 -s 3K,4K -S 5K,6K -D -B -N 300 -T 5 -I text \
         -H there,4 -L here,4 -P 7001,7002",
    );
    for endpoint in [&settings.flow.local, &settings.flow.remote] {
        assert!(endpoint.socket.no_delay && endpoint.socket.non_blocking);
    }
    let EndpointPlan { socket, send, .. } = &settings.flow.local;
    assert_eq!(send.size, SizeRule::Bytes(1000));
    assert_eq!(socket_buffers(socket), (Some(3 << 10), Some(4 << 10)));
    let EndpointPlan {
        socket, receive, ..
    } = &settings.flow.remote;
    assert_eq!(receive.size, SizeRule::Bytes(2000));
    assert_eq!(socket_buffers(socket), (Some(5 << 10), Some(6 << 10)));
    assert_eq!(
        settings.family_settings,
        FamilySettings::Sctp { associations: 5 }
    );
    assert!(!matches!(settings.flow.limit, Limit::Time(_)));
    let data = &settings.data;
    assert_eq!(data.host.as_deref(), Some("there"));
    assert_eq!(data.local_host.as_deref(), Some("here"));
    assert_eq!((&*data.local_port, &*data.port), ("7001", "7002"));
    assert_eq!((data.family, data.local_family), (Family::V4, Family::V4));

    assert_request_sizes("-t SCTP_RR -- -r 7,8");
    for (option, family) in [("-4", Family::V4), ("-6", Family::V6)] {
        let settings = parse(&format!("-t SCTP_RR -- {option}"));
        assert_eq!(settings.data.family, family);
    }
    // Stock prints these notices and continues.
    let notices = parse("-t SCTP_RR -- -V").notices;
    assert_eq!(
        notices,
        ["send", "recv"]
            .map(|direction| format!("Local {direction} copy avoidance not available."))
    );
}

#[test]
fn dlpi() {
    let settings =
        parse("-t DLCO_STREAM -- -m 1000 -M 1200 -D /dev/near,far -p 3,4 -s 72 -w 16,17 -W 18,19");
    assert_eq!(settings.flow.local.send.size, SizeRule::Bytes(1000));
    assert_eq!(settings.flow.remote.receive.size, SizeRule::Bytes(1200));
    let windows = [&settings.flow.local, &settings.flow.remote].map(|endpoint| {
        let socket = &endpoint.socket;
        (socket.send_window_frames, socket.receive_window_frames)
    });
    assert_eq!(windows, [(Some(16), Some(17)), (Some(18), Some(19))]);
    let interface = |device: &str, ppa| DlpiInterface {
        device: Some(device.to_owned()),
        ppa: Some(ppa),
    };
    let expected = FamilySettings::Dlpi {
        local: interface("near", 3),
        remote: interface("far", 4),
        sap: 72,
    };
    assert_eq!(settings.family_settings, expected);

    assert_request_sizes("-t DLCL_RR -- -D lo -r 7,8");
}

#[track_caller]
fn assert_request_sizes(line: &str) {
    let settings = parse(line);
    let sizes = |endpoint: &EndpointPlan| (endpoint.send.size, endpoint.receive.size);
    let (seven, eight) = (SizeRule::Bytes(7), SizeRule::Bytes(8));
    assert_eq!(sizes(&settings.flow.local), (seven, eight), "{line}");
    assert_eq!(sizes(&settings.flow.remote), (eight, seven), "{line}");
}

fn socket_buffers(socket: &model::SocketOptions) -> (Option<u32>, Option<u32>) {
    (socket.send_buffer_bytes, socket.receive_buffer_bytes)
}

#[track_caller]
fn parse(line: &str) -> Settings {
    try_parse(line).unwrap_or_else(|exit| panic!("{line}: {exit:?}"))
}

fn try_parse(line: &str) -> Result<Settings, Exit> {
    parse_netperf("netperf", line.split_whitespace().map(Into::into))
}
