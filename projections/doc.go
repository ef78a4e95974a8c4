// Package projections says what is so: the views, each a pure fold of the book
// with its queries beside it.
//
// Start with [Apply], which folds one recorded event into every view and moves
// the checkpoint, and with the queries of a view (agents.go, rounds.go, audit.go,
// receipts.go, due.go, tree.go, state.go). [Store] is where rows live.
//
// What the package promises:
//
//   - One fold, any time: views built again from the book ([Fold]) equal the live
//     ones byte for byte ([Fingerprint]). A fold sees the event and the rows,
//     nothing else.
//   - Rows and checkpoint change in one transaction. An event at or below the
//     checkpoint changes nothing; one that is not the next is [ErrOrder].
//   - An event that cannot be folded stops the fold ([EventError]); it is never
//     skipped, and changes nothing. The engine folds before it appends, so that
//     such an event does not get into the book.
//   - Lists page with a sequence as the cursor and read one consistent state; the
//     sequence it is true at is in the page.
//
// Keys are a view byte, then ids and big-endian sequences (keys.go). Sequences
// are not inverted: calls are listed in both directions, so a [Reader] scans in
// both. Rows are CBOR arrays in the deterministic encoding of RFC 8949.
//
// Dependencies: fxamacker/cbor, because JSON rows cost a rebuild most of its
// speed and a codec of our own would be one more format to prove;
// golang.org/x/mod/sumdb/tlog, the Merkle tree of the Go checksum database.
package projections
