// Package blobs keeps large arguments and results as files named by the SHA-256
// of their bytes.
//
// Start with [Open]. [Store.Put] comes before the event that names the digest,
// [Store.Get] after it; [Store.Hold] is Put where it is not decided yet whether an
// event will.
//
// What the package promises:
//
//   - After Put returned nil the bytes are on the disk under their digest.
//   - Get gives the bytes of the digest or an error, never other bytes.
//   - Equal bytes are one file: whoever removes one removes it for all who name
//     it, so clean-up asks who names it and spares what was put in the meantime,
//     and a holder who lets go removes nothing that another keeps or holds.
//
// It holds what it is given: redaction is the caller's.
package blobs
