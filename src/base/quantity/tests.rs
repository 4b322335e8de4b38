use super::*;

fn size(text: &str) -> u64 {
    text.parse::<Bytes>().unwrap_or_else(|e| panic!("{text}: {e}")).0
}

#[test]
fn sizes_are_binary_as_in_nccl_tests_unless_a_b_follows() {
    assert_eq!(size("16MiB"), 16 << 20);
    assert_eq!(size("16M"), 16 << 20);
    assert_eq!(size("16m"), 16 << 20);
    assert_eq!(size("16MB"), 16_000_000);
    assert_eq!(size("1.5 GiB"), 3 << 29);
    assert_eq!(size("4096"), 4096);
    assert_eq!(size("1e9"), 1_000_000_000);
    assert_eq!(size("7B@bf16"), 14_000_000_000);
    assert_eq!(size(" 7B @ bf16 "), 14_000_000_000);
    assert_eq!(size("70e9@fp8"), 70_000_000_000);
    assert_eq!(size("7B"), 7);
    assert_eq!((size("1EiB"), size("2PiB"), size("1PB")), (1 << 60, 1 << 51, 10_u64.pow(15)));
    assert!("8EiB".parse::<Bytes>().unwrap_err().what().contains("below 8 EiB"));
}

#[test]
fn bits_are_refused_as_a_size() {
    let e = "16 Mb".parse::<Bytes>().unwrap_err().at("--size 16 Mb");
    assert_eq!(
        e.to_string(),
        "`16 Mb` is 16 megabits, not bytes\n  --size 16 Mb\n  write 16MB (10^6 bytes) or 16MiB (2^20 bytes)"
    );
    for text in ["16mb", "8b", "1Gib", "2Kb"] {
        let e = text.parse::<Bytes>().unwrap_err();
        assert!(e.what().contains("bits, not bytes"), "{text}: {e}");
    }
    let what = |text: &str| text.parse::<Bytes>().unwrap_err().what().to_owned();
    assert_eq!(what("64Mib"), "`64Mib` is 64 mebibits, not bytes");
    assert!(what("5ib").contains("is not a size"), "no bits of anything");
    assert_eq!(what("1e300s"), "`1e300s` is not a size: unit `s` is unknown");
    assert!("1e300s".parse::<Seconds>().unwrap_err().what().contains("thirty years"));
    assert!("30h".parse::<Seconds>().is_ok());
}

#[test]
fn sizes_without_meaning_are_refused() {
    for text in [
        "",
        "x",
        "NaN",
        "inf",
        "-1",
        "1e30",
        "0.3",
        "16 elephants",
        "1e400",
        "MiB",
        "7B@bf17",
        "-4k",
    ] {
        assert!(text.parse::<Bytes>().is_err(), "{text}");
    }
}

#[test]
fn rates_know_bits_from_bytes() {
    let rate = |t: &str| t.parse::<Bandwidth>().unwrap().0;
    assert_eq!(rate("400Gb/s"), 50e9);
    assert_eq!(rate("400gbps"), 50e9);
    assert_eq!(rate("50GB/s"), 50e9);
    assert_eq!(rate("1 GiB/s"), 1_073_741_824.0);
    for text in ["100", "0GB/s", "-1GB/s", "NaN", "10GB", "10 GB/h"] {
        assert!(text.parse::<Bandwidth>().is_err(), "{text}");
    }
}

#[test]
fn times_have_units() {
    let time = |t: &str| t.parse::<Seconds>().unwrap().0;
    assert_eq!(time("5us"), 5e-6);
    assert_eq!(time("0.81us"), 8.1e-7);
    assert_eq!(time("1e3us"), 1e-3);
    assert_eq!(time("5µs"), 5e-6);
    assert_eq!(time("5 μs"), 5e-6);
    assert_eq!(time("0"), 0.0);
    assert_eq!((time("3m"), time("1.5 min"), time("2h")), (180.0, 90.0, 7200.0));
    for text in ["5", "-1us", "5 days", "nan"] {
        assert!(text.parse::<Seconds>().is_err(), "{text}");
    }
}

#[test]
fn gamma_is_time_per_byte_or_its_inverse() {
    assert_eq!("20ps/B".parse::<SecondsPerByte>().unwrap().0, 20e-12);
    assert_eq!("50GB/s".parse::<SecondsPerByte>().unwrap().0, 1.0 / 50e9);
}

#[test]
fn they_print_short() {
    assert_eq!(Bytes(16 << 20).to_string(), "16 MiB");
    assert_eq!(Bytes(1_000_000_000).to_string(), "1 GB");
    assert_eq!(Bytes(1 << 30).to_string(), "1 GiB");
    assert_eq!(Bytes(12_345_678).to_string(), "11.77 MiB");
    assert_eq!(Bytes(4096).to_string(), "4 KiB");
    assert_eq!(Bytes(100).to_string(), "100 B");
    assert_eq!(Volume(1_136_448.6).to_string(), "1.084 MiB");
    assert_eq!(Seconds(20.3175e-3).to_string(), "20.32 ms");
    assert_eq!(Seconds(5e-6).to_string(), "5 µs");
    assert_eq!(Bandwidth(4.5e11).to_string(), "450 GB/s");
    assert_eq!(Ratio(1.96875).to_string(), "1.969");
}

#[test]
fn a_time_per_byte_is_asked_for_as_one() {
    for text in ["-3ps/B", "3/B", "3"] {
        let error = text.parse::<SecondsPerByte>().unwrap_err().to_string();
        assert!(error.contains("20ps/B"), "{error}");
    }
}
