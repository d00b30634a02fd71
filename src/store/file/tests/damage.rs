//! States that something has happened to.

use std::os::unix::fs::symlink;

use super::header::ROOM;
use super::*;

/// A state of which three of four are used, and its header's length.
fn used() -> (Stage, Vec<u8>, usize) {
    let stage = Stage::new();
    slots(&mut stage.open(), 3);
    let bytes = stage.bytes();
    let length = Header::length(&bytes).expect("a header");
    (stage, bytes, length)
}

#[expect(clippy::cast_possible_truncation)]
const SECOND_COPY: usize = ROOM as usize;

#[test]
fn a_copy_of_the_header_can_be_done_without_and_heals() {
    let (stage, bytes, length) = used();
    for copy in [0, SECOND_COPY] {
        for byte in 0..length {
            let mut changed = bytes.clone();
            changed[copy + byte] ^= 0x40;
            stage.write(&changed);
            let mut store = stage.open();
            assert!(
                warning(&mut store)
                    .expect("told")
                    .contains("one of the two copies of its header was damaged")
            );
            assert_eq!(slots(&mut store, 1), [10], "byte {byte} of the copy at {copy}");
            assert_eq!(warning(&mut stage.open()), None);
        }
    }
}

/// Wherever a process is killed while it books, nobody has got the slots, or they are noted.
#[test]
fn a_booking_that_is_cut_short_was_either_made_or_not() {
    let (stage, before, _) = used();
    assert_eq!(slots(&mut stage.open(), 2), [0, 10]);
    let after = stage.bytes();
    // Marks, the first copy, the second one: these are written in this order.
    let parts = [2 * SECOND_COPY..after.len(), 0..SECOND_COPY, SECOND_COPY..2 * SECOND_COPY];
    for (written, expected) in [[0, 10], [0, 10], [10, 10], [10, 10]].into_iter().enumerate() {
        let mut bytes = before.clone();
        parts.iter().take(written).for_each(|part| bytes[part.clone()].copy_from_slice(&after[part.clone()]));
        stage.write(&bytes);
        let mut store = stage.open();
        let answer = store.book(&order(2)).expect("booked");
        let seconds: Vec<_> = answer.slots.iter().map(|slot| slot.at.0 / SECOND - 1000).collect();
        assert_eq!((&seconds[..], answer.warning), (&expected[..], None), "{written} parts");
    }
}

#[test]
fn with_no_copy_it_is_left_as_it_is_until_it_is_reset() {
    let (stage, bytes, length) = used();
    for byte in 8..length {
        let mut changed = bytes.clone();
        changed[byte] ^= 0x40;
        changed[SECOND_COPY + byte] ^= 0x01;
        stage.write(&changed);
        stage.refuses(
            Exit::BadState,
            "is damaged, and is left as it is: begin a new one by 'throttle --reset-state -s",
        );
    }
    assert!(stage.reset().expect("reset"));
    assert_eq!(slots(&mut stage.open(), 5), [0, 0, 0, 0, 10]);
}

#[test]
fn the_first_bytes_may_be_damaged_too() {
    let (stage, mut bytes, _) = used();
    bytes[3] ^= 1;
    bytes[SECOND_COPY] ^= 1;
    stage.write(&bytes);
    stage.refuses(Exit::BadState, "is damaged");
    assert_eq!(stage.bytes(), bytes);
    assert!(stage.reset().expect("reset"));
    assert_eq!(slots(&mut stage.open(), 5), [0, 0, 0, 0, 10]);
}

#[test]
fn what_never_was_a_state_is_not_even_reset() {
    let (stage, ..) = used();
    for bytes in [&b"x"[..], b"precious\n", &vec![0; 100_001]] {
        stage.write(bytes);
        stage.refuses(Exit::BadState, "this is no state of throttle");
        assert_eq!(stage.reset().unwrap_err().exit, Exit::BadState);
        assert_eq!(stage.bytes(), bytes);
    }
}

#[test]
fn a_file_that_is_too_short_or_too_long_is_damaged() {
    let (stage, bytes, length) = used();
    let in_copies = (0..=length).chain(SECOND_COPY - 1..=SECOND_COPY + length);
    for length in in_copies.chain(bytes.len() - 20..bytes.len()) {
        stage.write(&bytes[..length]);
        stage.refuses(Exit::BadState, "is damaged");
        assert!(stage.reset().expect("reset"));
        assert_eq!(slots(&mut stage.open(), 5), [0, 0, 0, 0, 10], "{length} bytes");
    }
    stage.write(&[&bytes[..], b"\0"].concat());
    stage.refuses(Exit::BadState, "is damaged");
}

#[test]
fn a_mark_that_cannot_be_is_taken_for_the_worst() {
    let (stage, bytes, _) = used();
    stage.wait(5 * SECOND);
    for garbage in [0, u64::MAX, 2000 * SECOND] {
        let mut changed = bytes.clone();
        changed[2 * SECOND_COPY..][..8].copy_from_slice(&garbage.to_le_bytes());
        stage.write(&changed);
        assert_eq!(slots(&mut stage.open(), 2), [0, 10], "{garbage}");
    }
}

#[test]
fn a_state_that_is_not_ours_alone_is_refused() {
    let stage = Stage::new();
    stage.open();
    fs::rename(stage.path(), stage.directory.path().join("other")).expect("renamed");
    symlink("other", stage.path()).expect("a link");
    stage.refuses(Exit::BadStore, "is a symbolic link");
    assert_eq!(stage.reset().unwrap_err().exit, Exit::BadStore);
}

#[test]
fn what_is_not_there_cannot_be_reset_nor_can_a_state_be_where_there_is_no_directory() {
    let stage = Stage::new();
    assert!(!stage.reset().expect("nothing"));
    let path = stage.directory.path().join("none/state");
    let error = FileStore::open_in(stage.setting, &path, policy(), stage.clock()).err().expect("refused");
    assert_eq!(error.exit, Exit::Error);
}
