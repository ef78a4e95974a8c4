// Package projections says what is so: the views, each a pure fold of the book
// with its queries beside it.
//
// Start with [Apply], which folds one recorded event into every view and moves
// the checkpoint, and with the queries of a view (agents.go, rounds.go, audit.go,
// receipts.go, due.go, tree.go, state.go). [Store] is where rows live.
//
// What the package promises:
//
//   - One fold, any time: views built again from the book equal the live ones
//     byte for byte. A fold sees the event and the rows, nothing else.
//   - Rows and checkpoint change in one transaction. An event at or below the
//     checkpoint changes nothing; one that is not the next is [ErrOrder].
//   - An event that cannot be folded stops the fold; it is never skipped.
//   - Queries page with cursors and read one consistent state; the sequence it
//     is true at is [Checkpoint].
//
// Keys are a view byte, then big-endian integers and ids, with the sequence
// inverted where newest comes first. Rows are CBOR arrays in the deterministic
// encoding of RFC 8949: fxamacker/cbor, because JSON rows cost a rebuild most of
// its speed and a codec of our own would be one more format to prove.
package projections
