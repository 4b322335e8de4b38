//! Frames between hosts are read or refused: as they come, and with the right codes put in, so that
//! what stands in them is read too.
#![no_main]

use collcost::base::secret::Key;
use collcost::run::rendezvous::{Frames, FromWorker, ToWorker};
use libfuzzer_sys::fuzz_target;

const HEAD: usize = 12;

fn read(key: &Key, bytes: &[u8]) {
    for piece in [bytes.len().max(1), 7] {
        let mut frames = Frames::new(key.clone(), "to worker");
        for part in bytes.chunks(piece) {
            frames.feed(part);
            if frames.take::<ToWorker>().is_err() {
                break;
            }
        }
    }
    let mut frames = Frames::new(key.clone(), "to worker");
    frames.feed(bytes);
    while let Ok(Some(_)) = frames.take::<FromWorker>() {}
}

fuzz_target!(|bytes: &[u8]| {
    let key = Key::derived(b"fuzz", &[]);
    read(&key, bytes);
    // The same as bodies of frames in their order.
    let mut signed = Vec::new();
    for (number, body) in (0_u64..).zip(bytes.split(|&byte| byte == b'\n')) {
        let mut frame = (body.len() as u32).to_le_bytes().to_vec();
        frame.extend(number.to_le_bytes());
        frame.extend(body);
        assert_eq!(frame.len(), HEAD + body.len());
        let code = key.code(&[b"to worker", &frame[4..]]);
        signed.extend(frame);
        signed.extend(code);
    }
    read(&key, &signed);
});
