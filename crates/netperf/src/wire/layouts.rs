//! The offsets of the fields in the messages of tests: one table per message.

use codec::Field;

use super::frame::{BYTE_ORDER, PAYLOAD_START};
use super::{Flags, Frame, TestRequest, TestResponse, TestResults};

/// The fields of one message and their offsets in the payload.
pub(super) struct Layout<R: 'static> {
    /// The message's name in `docs/src/requests.md`.
    pub(super) name: &'static str,
    /// The message that this one extends, if any.
    base: &'static [&'static Self],
    /// The names of the fields.
    pub(super) fields: &'static [&'static str],
    read: fn(&mut R, &Frame),
    write: fn(&R, &mut Frame),
}

impl<R> Layout<R> {
    /// Reads the message's fields from a frame, which cannot fail. Other fields of `record` stay
    /// unchanged.
    pub(super) fn read(&self, mut record: R, frame: &Frame) -> R {
        for layout in self.base {
            (layout.read)(&mut record, frame);
        }
        (self.read)(&mut record, frame);
        record
    }

    /// Writes the message's fields into a frame.
    pub(super) fn write(&self, record: &R, frame: &mut Frame) {
        for layout in self.base {
            (layout.write)(record, frame);
        }
        (self.write)(record, frame);
    }
}

/// Declares the layouts of a record's messages. In classic messages, each flag is a separate word:
/// `flags.NO_DELAY`. Fields must ascend and must not overlap; this is checked at compile time.
macro_rules! layouts {
    (@read $record:ident $frame:ident $at:literal $field:ident) => {
        $record.$field = Field::read($frame, PAYLOAD_START + $at, BYTE_ORDER);
    };
    (@read $record:ident $frame:ident $at:literal $field:ident $flag:ident) => {
        $record.$field.set(Flags::$flag, Field::read($frame, PAYLOAD_START + $at, BYTE_ORDER));
    };
    (@write $record:ident $frame:ident $at:literal $field:ident) => {
        $record.$field.write($frame, PAYLOAD_START + $at, BYTE_ORDER);
    };
    (@write $record:ident $frame:ident $at:literal $field:ident $flag:ident) => {
        $record.$field.has_all(Flags::$flag).write($frame, PAYLOAD_START + $at, BYTE_ORDER);
    };
    ($record:ident: $(
        $layout:ident $name:ident $(extends $base:ident)? {
            $($at:literal $field:ident $(.$flag:ident)?,)+
        }
    )+) => {$(
        pub(super) static $layout: Layout<$record> = Layout {
            name: stringify!($name),
            base: &[$(&$base)?],
            fields: &[$(concat!(stringify!($field) $(, ".", stringify!($flag))?),)+],
            read: |record, frame| {
                $(layouts!(@read record frame $at $field $($flag)?);)+
            },
            write: |record, frame| {
                $(layouts!(@write record frame $at $field $($flag)?);)+
            },
        };

        const _: () = {
            let mut end = 0;
            $(
                assert!(end <= $at, "the fields overlap");
                end = $at + field_len(|record: &$record| &record.$field);
            )+
            assert!(PAYLOAD_START + end <= super::MESSAGE_BYTES, "a field exceeds the message");
        };
    )+};
}

/// Returns the length of a record's field, in bytes.
const fn field_len<R, F: Field>(_: fn(&R) -> &F) -> usize {
    F::LEN
}

layouts! { TestRequest:
    OMNI_REQUEST OmniRequest {
        0 send_buffer, 4 send_size, 8 send_alignment, 12 send_offset, 16 send_width,
        20 request_size, 24 receive_buffer, 28 receive_size, 32 receive_alignment,
        36 receive_offset, 40 receive_width, 44 response_size, 48 flags, 52 cpu_rate,
        56 test_length, 60 receive_copy_avoidance, 64 send_copy_avoidance, 68 send_dirty,
        72 receive_dirty, 76 receive_clean, 80 data_port, 84 family, 88 socket_type,
        92 protocol, 96 direction, 100 client_port, 104 interval_burst, 108 interval_us,
        112 client_address, 128 server_address, 144 priority, 148 type_of_service,
        152 congestion_control, 168 fill_file,
    }
    STREAM_REQUEST StreamRequest {
        0 send_buffer, 4 receive_buffer, 8 receive_size, 12 receive_alignment, 16 receive_offset,
        20 flags.NO_DELAY, 24 flags.MEASURE_CPU, 28 cpu_rate, 32 test_length,
        36 receive_copy_avoidance, 40 send_copy_avoidance, 52 data_port, 56 family,
    }
    TRANSACTION_REQUEST TransactionRequest {
        0 receive_buffer, 4 send_buffer, 8 receive_alignment, 12 receive_offset,
        16 send_alignment, 20 send_offset, 24 request_size, 28 response_size,
        32 flags.NO_DELAY, 36 flags.MEASURE_CPU, 40 cpu_rate, 44 test_length,
        48 receive_copy_avoidance, 52 send_copy_avoidance, 56 data_port, 60 family,
    }
    DATAGRAM_REQUEST DatagramRequest {
        0 receive_buffer, 4 receive_size, 8 connect, 12 receive_alignment, 16 receive_offset,
        20 checksum_off, 24 flags.MEASURE_CPU, 28 cpu_rate, 32 test_length,
        36 receive_copy_avoidance, 40 send_copy_avoidance, 44 data_port, 48 family,
    }
    STREAM_STREAM_REQUEST StreamStreamRequest {
        0 receive_buffer, 4 send_buffer, 8 receive_size, 12 receive_alignment, 16 receive_offset,
        20 receive_copy_avoidance, 24 send_copy_avoidance, 28 flags.MEASURE_CPU, 32 cpu_rate,
        36 test_length, 40 dirty, 44 clean, 52 path,
    }
    STREAM_RR_REQUEST StreamRrRequest {
        0 receive_buffer, 4 send_buffer, 8 receive_alignment, 12 receive_offset,
        16 send_alignment, 20 send_offset, 24 request_size, 28 response_size,
        32 receive_copy_avoidance, 36 send_copy_avoidance, 40 flags.MEASURE_CPU, 44 cpu_rate,
        48 test_length, 56 path,
    }
    DG_STREAM_REQUEST DgStreamRequest {
        0 receive_buffer, 4 receive_size, 8 receive_alignment, 12 receive_offset,
        16 flags.MEASURE_CPU, 20 cpu_rate, 24 test_length,
        28 receive_copy_avoidance, 32 send_copy_avoidance, 40 path,
    }
    DG_RR_REQUEST DgRrRequest {
        0 receive_buffer, 4 send_buffer, 8 receive_alignment, 12 receive_offset,
        16 send_alignment, 20 send_offset, 24 request_size, 28 response_size,
        32 flags.MEASURE_CPU, 36 cpu_rate, 40 test_length,
        44 receive_copy_avoidance, 48 send_copy_avoidance, 56 path,
    }
    SCTP_STREAM_REQUEST SctpStreamRequest extends STREAM_REQUEST { 60 non_blocking, }
    SCTP_TRANSACTION_REQUEST SctpTransactionRequest extends TRANSACTION_REQUEST { 64 non_blocking, }
    DLCO_STREAM_REQUEST DlcoStreamRequest {
        0 receive_window, 4 send_window, 8 receive_size, 12 receive_alignment, 16 receive_offset,
        20 flags.MEASURE_CPU, 24 cpu_rate, 28 test_length,
        32 receive_copy_avoidance, 36 send_copy_avoidance, 40 dirty, 44 clean,
        48 sap, 52 ppa, 56 device_len, 60 device,
    }
    DLCO_RR_REQUEST DlcoRrRequest {
        0 receive_window, 4 send_window, 8 receive_alignment, 12 receive_offset,
        16 send_alignment, 20 send_offset, 24 request_size, 28 response_size,
        32 flags.MEASURE_CPU, 36 cpu_rate, 40 test_length,
        44 receive_copy_avoidance, 48 send_copy_avoidance,
        52 ppa, 56 sap, 60 device_len, 64 device,
    }
    DLCL_STREAM_REQUEST DlclStreamRequest {
        0 receive_window, 4 receive_size, 8 receive_alignment, 12 receive_offset,
        16 checksum_off, 20 flags.MEASURE_CPU, 24 cpu_rate, 28 test_length,
        32 receive_copy_avoidance, 36 send_copy_avoidance,
        40 ppa, 44 sap, 48 device_len, 52 device,
    }
    DLCL_RR_REQUEST DlclRrRequest {
        0 receive_window, 4 send_window, 8 receive_alignment, 12 receive_offset,
        16 send_alignment, 20 send_offset, 24 request_size, 28 response_size,
        32 flags.NO_DELAY, 36 flags.MEASURE_CPU, 40 cpu_rate, 44 test_length,
        48 receive_copy_avoidance, 52 send_copy_avoidance,
        56 ppa, 60 sap, 64 device_len, 68 device,
    }
}

layouts! { TestResponse:
    // Stock reserves offset 32 for the test length, but neither sets nor reads it.
    OMNI_RESPONSE OmniResponse {
        0 receive_buffer, 4 receive_size, 8 receive_width, 12 send_buffer, 16 send_size,
        20 send_width, 24 flags, 28 cpu_rate, 36 receive_copy_avoidance, 40 send_copy_avoidance,
        44 data_port, 48 interval_burst, 52 interval_us, 56 cpu_mhz, 60 security, 64 priority,
        68 type_of_service, 72 system_model, 105 cpu_model, 185 security_type,
    }
    STREAM_RESPONSE StreamResponse {
        0 receive_buffer, 4 receive_size, 8 flags.NO_DELAY, 12 flags.MEASURE_CPU, 20 send_buffer,
        24 data_port, 28 cpu_rate, 32 receive_copy_avoidance, 36 send_copy_avoidance,
    }
    TRANSACTION_RESPONSE TransactionResponse {
        0 receive_buffer, 4 flags.NO_DELAY, 8 flags.MEASURE_CPU, 12 test_length, 16 send_buffer,
        20 data_port, 24 cpu_rate, 28 receive_copy_avoidance, 32 send_copy_avoidance,
    }
    DATAGRAM_RESPONSE DatagramResponse {
        0 receive_buffer, 4 send_buffer, 8 flags.MEASURE_CPU, 12 test_length, 16 data_port,
        20 cpu_rate, 24 receive_copy_avoidance, 28 send_copy_avoidance,
    }
    STREAM_STREAM_RESPONSE StreamStreamResponse {
        0 receive_buffer, 4 send_buffer, 8 receive_size,
        12 receive_copy_avoidance, 16 send_copy_avoidance,
        20 flags.MEASURE_CPU, 24 test_length, 32 cpu_rate, 40 path,
    }
    STREAM_RR_RESPONSE StreamRrResponse {
        0 receive_buffer, 4 send_buffer, 8 receive_copy_avoidance, 12 send_copy_avoidance,
        16 flags.MEASURE_CPU, 20 test_length, 24 cpu_rate, 32 path,
    }
    DG_STREAM_RESPONSE DgStreamResponse {
        0 receive_buffer, 4 send_buffer, 8 flags.MEASURE_CPU, 12 test_length, 16 cpu_rate,
        20 receive_copy_avoidance, 24 send_copy_avoidance, 32 path,
    }
    // Stock reserves offset 8 for TCP_NODELAY.
    DG_RR_RESPONSE DgRrResponse {
        0 receive_buffer, 4 send_buffer, 12 flags.MEASURE_CPU, 16 test_length, 20 cpu_rate,
        24 receive_copy_avoidance, 28 send_copy_avoidance, 36 path,
    }
    SCTP_STREAM_RESPONSE SctpStreamResponse extends STREAM_RESPONSE { 40 non_blocking, }
    SCTP_TRANSACTION_RESPONSE SctpTransactionResponse extends TRANSACTION_RESPONSE { 36 non_blocking, }
    DLCO_STREAM_RESPONSE DlcoStreamResponse {
        0 receive_buffer, 4 send_buffer, 8 receive_size, 12 flags.MEASURE_CPU, 16 test_length, 20 sap,
        24 cpu_rate, 28 receive_copy_avoidance, 32 send_copy_avoidance, 36 station_len, 40 station,
    }
    // Stock also reserves offset 12 for the requested test length, 24 and 28 for the requested copy
    // avoidance.
    DL_RESPONSE DlResponse {
        0 receive_buffer, 4 send_buffer, 8 flags.MEASURE_CPU, 16 sap, 20 cpu_rate,
        32 station_len, 36 station,
    }
    // Stock also reserves offset 8 for TCP_NODELAY, 16 for the length, 28 and 32 for copy avoidance.
    DLCL_RR_RESPONSE DlclRrResponse {
        0 receive_buffer, 4 send_buffer, 12 flags.MEASURE_CPU, 20 sap, 24 cpu_rate,
        36 station_len, 40 station,
    }
}

layouts! { TestResults:
    OMNI_RESULTS OmniResults {
        0 bytes_received, 8 receive_calls, 12 receive_buffer, 16 bytes_sent, 24 send_calls,
        28 send_buffer, 36 transactions, 40 elapsed, 44 cpu_utilisation, 48 cpu_user,
        52 cpu_system, 56 cpu_iowait, 60 cpu_irq, 64 cpu_softirq, 72 cpu_method, 76 cpus,
        80 peak_cpu, 84 peak_cpu_utilisation, 88 pci_vendor, 92 pci_device, 96 pci_subvendor,
        100 pci_subdevice, 104 retransmits, 108 interface, 124 driver, 156 driver_version,
        188 firmware, 220 bus, 252 slot, 268 congestion_control,
    }
    STREAM_RESULTS StreamResults {
        0 bytes, 8 calls, 12 elapsed, 16 cpu_utilisation, 24 cpu_method, 28 cpus,
    }
    TRANSACTION_RESULTS TransactionResults {
        0 bytes_low, 8 transactions, 12 elapsed, 16 cpu_utilisation, 24 cpu_method, 28 cpus,
    }
    DATAGRAM_RESULTS DatagramResults {
        0 calls, 4 bytes_low, 8 elapsed, 12 cpu_utilisation, 16 cpu_method, 20 cpus,
    }
    STREAM_STREAM_RESULTS StreamStreamResults {
        0 bytes_low, 4 calls, 8 elapsed, 12 cpu_utilisation, 20 cpus,
    }
    UNIX_TRANSACTION_RESULTS UnixTransactionResults {
        0 bytes_low, 8 transactions, 12 elapsed, 16 cpu_utilisation, 24 cpus,
    }
    MESSAGE_RESULTS MessageResults {
        0 calls, 4 bytes_low, 8 elapsed, 12 cpu_utilisation, 16 cpus,
    }
    DLCO_STREAM_RESULTS DlcoStreamResults {
        0 bytes_low, 4 calls, 8 elapsed, 12 cpu_utilisation, 20 cpu_method, 24 cpus,
    }
    DL_TRANSACTION_RESULTS DlTransactionResults {
        0 bytes_low, 4 calls, 8 transactions, 12 elapsed, 16 cpu_utilisation, 24 cpu_method, 28 cpus,
    }
}
